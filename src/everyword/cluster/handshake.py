"""How the two ends of a link agree: versions, incarnations, and a proof that both know the secret.

    dialer                                    listener
    HELLO versions, incarnation, nonce  →
                                        ←     HELLO versions, incarnation, nonce
    PROOF hmac(secret, both HELLOs)     →
                                        ←     PROOF hmac(secret, both HELLOs), or REFUSE

A proof is bound to its role and to both HELLOs, so it is worth nothing in another handshake, or sent back. The listener
proves nothing to a dialer that has not proved itself. The handshake does not encrypt: use TLS where others can read or
change what is sent between the nodes.

Pure: the caller brings the nonce, and sends what the methods return.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from ..errors import BadLinkFrame, LinkRefused, UsageError
from ..ids import Incarnation
from .link_frames import HELLO, PROOF, REFUSE

__all__ = ["NONCE_BYTES", "VERSIONS", "Agreement", "Handshake", "LinkIdentity", "LinkVersions"]

NONCE_BYTES: Final = 32

SHORTEST_SECRET: Final = 16
"""Bytes. A listener that is an impostor learns a proof, and could find a short secret by trying."""


class LinkVersions(NamedTuple):
    """The versions of the protocol that a release speaks."""

    lowest: int
    highest: int


VERSIONS: Final = LinkVersions(1, 1)

Sent = list[tuple[int, bytes]]
"""Kinds and payloads of frames to send."""


@dataclass
class LinkIdentity:
    """What a node says about itself, and the secrets that it accepts. Read at every handshake, so it may be changed.

    The first secret proves; all of them are accepted. To change the secret of running nodes, add the new one as the
    second everywhere, then make it the first everywhere, then take the old one away.
    """

    incarnation: Incarnation
    secrets: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not self.secrets or any(len(secret) < SHORTEST_SECRET for secret in self.secrets):
            raise UsageError(f"unable to link nodes; they need a secret of at least {SHORTEST_SECRET} bytes")


class Agreement(NamedTuple):
    """What a handshake has established."""

    peer: Incarnation
    version: int


class _Hello(msgspec.Struct, frozen=True):
    lowest: int
    highest: int
    incarnation: int
    nonce: bytes


class _Refusal(msgspec.Struct, frozen=True):
    reason: str


_read_hello: Final = msgspec.json.Decoder(_Hello).decode
_read_refusal: Final = msgspec.json.Decoder(_Refusal).decode


class Handshake:
    """One end of one handshake. `agreement` is set when this end is done.

    `expected` is the incarnation that a dialer wants to reach.
    """

    def __init__(
        self,
        identity: LinkIdentity,
        nonce: bytes,
        *,
        is_dialer: bool,
        expected: Incarnation | None = None,
        versions: LinkVersions = VERSIONS,
    ) -> None:
        self._secrets, self._is_dialer, self._expected, self._versions = identity.secrets, is_dialer, expected, versions
        self._own = msgspec.json.encode(_Hello(*versions, identity.incarnation, nonce))
        self._theirs: bytes | None = None
        self._agreed: Agreement | None = None
        """What the HELLOs say; it counts once the other end has proved itself."""
        self.agreement: Agreement | None = None

    @property
    def claimed(self) -> Incarnation | None:
        """What the other end calls itself, proved or not; None if it has not said."""
        return self._agreed.peer if self._agreed is not None else None

    def begin(self) -> Sent:
        """Return what is sent before anything is received: the HELLO of the dialer."""
        return [(HELLO, self._own)] if self._is_dialer else []

    def received(self, kind: int, payload: bytes) -> Sent:
        """Take a frame of the other end; return what is sent now.

        Raises:
            LinkRefused: the ends do not agree. Send what `refusal` returns, then close.
            BadLinkFrame: the frame has no place here.
        """
        try:
            if kind == REFUSE:
                raise self._refused(_read_refusal(payload).reason)
            if kind == HELLO and self._theirs is None:
                return self._greeted(payload)
            if kind == PROOF and self._agreed is not None and self.agreement is None:
                return self._proved(payload)
        except msgspec.MsgspecError:
            raise BadLinkFrame("unable to link; the other end does not speak the protocol of links") from None
        raise BadLinkFrame("unable to link; the other end sent a frame before both ends agreed")

    def _greeted(self, payload: bytes) -> Sent:
        theirs = _read_hello(payload)
        version = min(self._versions.highest, theirs.highest)
        if len(theirs.nonce) < NONCE_BYTES:
            raise BadLinkFrame("unable to link; the nonce of the other end is too short")
        self._theirs, self._agreed = payload, Agreement(Incarnation(theirs.incarnation), version)
        if version < max(self._versions.lowest, theirs.lowest):
            raise LinkRefused(self._version_text(theirs), reason="version")
        if self._expected is not None and self._expected != theirs.incarnation:
            raise LinkRefused(self._incarnation_text(), reason="incarnation")
        return [(PROOF, self._proof(self._secrets[0], self._is_dialer))] if self._is_dialer else [(HELLO, self._own)]

    def _proved(self, payload: bytes) -> Sent:
        expected = [self._proof(secret, not self._is_dialer) for secret in self._secrets]
        if not any(hmac.compare_digest(payload, each) for each in expected):
            raise LinkRefused(self._secret_text(), reason="secret")
        self.agreement = self._agreed
        return [] if self._is_dialer else [(PROOF, self._proof(self._secrets[0], False))]

    def _proof(self, secret: bytes, of_dialer: bool) -> bytes:
        assert self._theirs is not None
        hellos = (self._own, self._theirs) if self._is_dialer else (self._theirs, self._own)
        role = b"dialer" if of_dialer else b"listener"
        parts = (b"everyword link", role, *hellos)
        return hmac.digest(secret, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")

    @staticmethod
    def refusal(refused: LinkRefused) -> Sent:
        """Return what the other end is told; nothing if it refused itself."""
        return [(REFUSE, msgspec.json.encode(_Refusal(refused.reason)))] if refused.reason else []

    # -- refusals -----------------------------------------------------------------------------------------------

    def _refused(self, reason: str) -> LinkRefused:
        """Return why the other end refused. The sentence is ours: the other end may be anything."""
        if reason == "secret":
            return LinkRefused(self._secret_text())
        if reason == "version":
            return LinkRefused(f"unable to link to {self._peer}; it does not speak the versions of this release")
        if reason == "incarnation":
            return LinkRefused(f"unable to link to {self._peer}; it meant another life of this node")
        return LinkRefused(f"unable to link to {self._peer}; it refused, for a reason that this release does not know")

    @property
    def _peer(self) -> str:
        known = self._agreed.peer if self._agreed is not None else self._expected
        return f"node {known}" if known is not None else "the other node"

    def _secret_text(self) -> str:
        return (
            f"unable to link to {self._peer}; its secret is another one. "
            "Give all nodes the same secret, and both while it is changed."
        )

    def _version_text(self, theirs: _Hello) -> str:
        ours = self._versions
        return (
            f"unable to link to {self._peer}; it speaks versions {theirs.lowest} to {theirs.highest} of the link, "
            f"this node {ours.lowest} to {ours.highest}. Upgrade the older one."
        )

    def _incarnation_text(self) -> str:
        assert self._agreed is not None
        return f"unable to link to node {self._expected}; node {self._agreed.peer} answers at its address"
