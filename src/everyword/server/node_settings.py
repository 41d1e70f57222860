"""How this process is found by other nodes that share its store."""

from __future__ import annotations

import os
import secrets
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..cluster.addresses import parse_address
from ..errors import UsageError
from ..ids import Incarnation

__all__ = ["NodeSettings"]

DEFAULT_LISTEN = "127.0.0.1:0"
ANY_HOST = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One node among several. The defaults are for several nodes on one machine.

    Each field can also be set in the environment: `EVERYWORD_NODE_NAME`, `_LISTEN`, `_ADDRESS`, `_SECRET` (several,
    separated by commas), `_LEASE`, `_TLS_CERT`, `_TLS_KEY`, `_TLS_CA`, `_GROUP`.
    """

    name: str | None = None
    """What people call the node; the host's name and the process id by default."""
    listen: str = DEFAULT_LISTEN
    """Where it takes links of other nodes: `host:port`, or `unix:/path`. Never give clients access to it. A path that
    ends with a slash is a folder, in which the node makes a socket with a name of its own."""
    address: str | None = None
    """Where other nodes reach it, if that is not where it listens: `host:port`. Needed with `0.0.0.0`."""
    secrets: Sequence[str] = ()
    """What nodes prove to each other that they know, 16 characters or more: the first one proves, all are accepted. By
    default a secret that the first node has put into the database: reading the database is then enough to be a node."""
    lease: float = 6.0
    """Seconds without a sign of life after which other nodes take over."""
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    """Files for TLS between nodes: both sides show the certificate, and accept those that the CA has signed."""
    group: str = ""
    """Nodes of one group answer `/healthz` and `/metrics` for each other. `everyword serve --workers` sets it."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> NodeSettings:
        """Read the settings from the environment.

        Raises:
            UsageError: a value cannot be used.
        """

        def given(name: str) -> str | None:
            return environment.get(f"EVERYWORD_NODE_{name}") or None

        lease = given("LEASE") or "6"
        try:
            seconds = float(lease)
        except ValueError:
            raise UsageError(f"unable to use EVERYWORD_NODE_LEASE={lease!r}; give seconds, such as 6") from None
        return cls(
            name=given("NAME"),
            listen=given("LISTEN") or DEFAULT_LISTEN,
            address=given("ADDRESS"),
            secrets=[each.strip() for each in (given("SECRET") or "").split(",") if each.strip()],
            lease=seconds,
            tls_cert=given("TLS_CERT"),
            tls_key=given("TLS_KEY"),
            tls_ca=given("TLS_CA"),
            group=given("GROUP") or "",
        )

    @property
    def socket_address(self) -> str:
        """Where to listen: `listen`, with a new name for the socket if that is a folder."""
        is_folder = self.listen.startswith(("unix:/", "/")) and self.listen.endswith("/")
        return f"{self.listen}{secrets.token_hex(4)}.sock" if is_folder else self.listen

    def for_worker(self, environment: Mapping[str, str] = os.environ) -> NodeSettings:
        """Return settings of the code for a process that `everyword serve --workers` has started.

        The supervisor gives every worker a name, a group and a place to listen in the environment. Settings in the code
        are the same for all workers: their name gets the worker's number.
        """
        group, name = environment.get("EVERYWORD_NODE_GROUP", ""), environment.get("EVERYWORD_NODE_NAME")
        if not group or self.group:
            return self
        listen = self.listen if self.listen != DEFAULT_LISTEN else environment.get("EVERYWORD_NODE_LISTEN", self.listen)
        numbered = f"{self.name}-{name.rpartition('-')[2]}" if self.name and name else name
        return replace(self, group=group, name=numbered, listen=listen)

    def checked_secrets(self) -> tuple[bytes, ...]:
        """Return the secrets; check them and the addresses before the node registers.

        Raises:
            UsageError: one of them cannot be used.
        """
        for address in (self.socket_address, self.address):
            if address is not None:
                parse_address(address)
        from ..cluster.handshake import LinkIdentity

        given = tuple(each.encode() for each in self.secrets)
        return LinkIdentity(Incarnation(0), given).secrets if given else ()

    def advertised(self, bound: str) -> str:
        """Return the address that other nodes are told; `bound` is where this one listens.

        Raises:
            UsageError: it listens at every address of this machine, and does not say at which it is reached.
        """
        if self.address is not None:
            return self.address
        if bound.rpartition(":")[0].strip("[]") in ANY_HOST:
            raise UsageError(
                f"unable to tell other nodes where this one is; it listens at {bound}. Set EVERYWORD_NODE_ADDRESS, "
                f"for instance to {socket.gethostname()}:{bound.rpartition(':')[2]}"
            )
        return bound

    def tls(self) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
        """Return the contexts of the listening and of the dialing side; None without TLS.

        Raises:
            UsageError: a file is missing or cannot be read.
        """
        if self.tls_cert is None and self.tls_key is None and self.tls_ca is None:
            return None
        if self.tls_cert is None or self.tls_key is None or self.tls_ca is None:
            raise UsageError(
                "unable to use TLS between nodes; EVERYWORD_NODE_TLS_CERT, _TLS_KEY and _TLS_CA are needed together"
            )
        try:
            listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.tls_ca)
            dialing = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.tls_ca)
            for context in (listening, dialing):
                context.load_cert_chain(self.tls_cert, self.tls_key)
        except OSError as exc:
            raise UsageError(f"unable to use TLS between nodes; {exc}. Check the three files") from exc
        listening.verify_mode = ssl.CERT_REQUIRED
        return listening, dialing
