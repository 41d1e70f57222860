"""The handshake of a link, without a link: two ends, and what an attacker may have recorded."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.cluster.handshake import NONCE_BYTES, Agreement, Handshake, LinkIdentity, LinkVersions
from everyword.cluster.link_frames import DATA, HELLO, PROOF, REFUSE
from everyword.errors import BadLinkFrame, EverywordError, LinkRefused, UsageError
from everyword.ids import Incarnation

OLD, NEW, OTHER = b"the old secret..", b"the new secret..", b"another secret.."
DIALER, LISTENER = Incarnation(3), Incarnation(8)

_nonces = itertools.count(1)


def nonce() -> bytes:
    return next(_nonces).to_bytes(NONCE_BYTES, "big")


def dialer(*secrets: bytes, expected: int = LISTENER, **more: Any) -> Handshake:
    identity = LinkIdentity(DIALER, secrets or (OLD,))
    return Handshake(identity, nonce(), is_dialer=True, expected=Incarnation(expected), **more)


def listener(*secrets: bytes, **more: Any) -> Handshake:
    return Handshake(LinkIdentity(LISTENER, secrets or (OLD,)), nonce(), is_dialer=False, **more)


def play(one: Handshake, other: Handshake) -> tuple[list[tuple[int, bytes]], list[EverywordError]]:
    """Let both ends talk until they are silent; return what was sent, and the errors."""
    sent, errors, waiting = [], [], [(other, frame) for frame in one.begin()]
    while waiting:
        to, frame = waiting.pop(0)
        sent.append(frame)
        back = other if to is one else one
        try:
            replies = to.received(*frame)
        except LinkRefused as exc:
            errors.append(exc)
            replies = to.refusal(exc)
        waiting += [(back, reply) for reply in replies]
    return sent, errors


def test_both_ends_agree_when_they_know_the_same_secret() -> None:
    one, other = dialer(), listener()
    sent, errors = play(one, other)
    assert errors == []
    assert [kind for kind, _ in sent] == [HELLO, HELLO, PROOF, PROOF]
    assert one.agreement == Agreement(LISTENER, 1)
    assert other.agreement == Agreement(DIALER, 1)


def test_another_secret_is_refused_and_both_ends_say_so() -> None:
    one, other = dialer(OTHER), listener()
    sent, errors = play(one, other)
    assert [kind for kind, _ in sent] == [HELLO, HELLO, PROOF, REFUSE]
    assert one.agreement is None and other.agreement is None
    texts = [str(error) for error in errors]
    assert texts[0].startswith("unable to link to node 3; its secret is another one.")
    assert texts[1].startswith("unable to link to node 8; its secret is another one.")


def test_a_listener_that_does_not_know_the_secret_is_refused() -> None:
    one, impostor = dialer(), listener(OTHER)
    (hello,) = one.begin()
    (answer,) = impostor.received(*hello)
    ((kind, proof),) = one.received(*answer)
    assert kind == PROOF
    with pytest.raises(LinkRefused, match="its secret is another one"):
        one.received(PROOF, impostor._proof(OTHER, False))
    assert one.agreement is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [((OLD,), (OLD, NEW)), ((OLD, NEW), (OLD, NEW)), ((NEW, OLD), (OLD, NEW)), ((NEW, OLD), (NEW,))],
)
def test_a_secret_is_changed_step_by_step_without_a_refusal(ours: tuple[bytes, ...], theirs: tuple[bytes, ...]) -> None:
    for one, other in ((dialer(*ours), listener(*theirs)), (dialer(*theirs), listener(*ours))):
        assert play(one, other)[1] == []
        assert one.agreement is not None and other.agreement is not None


def test_only_the_first_secret_proves() -> None:
    assert len(play(dialer(NEW, OLD), listener(OLD))[1]) == 2


def test_a_recorded_proof_is_worth_nothing_in_another_handshake() -> None:
    recorded, _ = play(dialer(), listener())
    hello, _, proof, _ = recorded
    other = listener()
    other.received(*hello)
    with pytest.raises(LinkRefused, match="its secret is another one"):
        other.received(*proof)


def test_a_proof_that_is_sent_back_is_worth_nothing() -> None:
    one = dialer()
    (hello,) = one.begin()
    ((_, proof),) = one.received(HELLO, listener().received(*hello)[0][1])
    with pytest.raises(LinkRefused, match="its secret is another one"):
        one.received(PROOF, proof)


def test_a_changed_hello_makes_the_proof_worthless() -> None:
    one, other = dialer(versions=LinkVersions(1, 2)), listener(versions=LinkVersions(1, 2))
    ((_, hello),) = one.begin()
    (answer,) = other.received(HELLO, hello.replace(b'"highest":2', b'"highest":1'))
    (proof,) = one.received(*answer)
    with pytest.raises(LinkRefused, match="its secret is another one"):
        other.received(*proof)


@given(st.tuples(st.integers(1, 5), st.integers(0, 3)), st.tuples(st.integers(1, 5), st.integers(0, 3)))
def test_the_highest_version_that_both_speak_is_taken(ours: tuple[int, int], theirs: tuple[int, int]) -> None:
    a, b = LinkVersions(ours[0], sum(ours)), LinkVersions(theirs[0], sum(theirs))
    one, other = dialer(versions=a), listener(versions=b)
    sent, errors = play(one, other)
    common = set(range(a.lowest, a.highest + 1)) & set(range(b.lowest, b.highest + 1))
    if common:
        assert errors == []
        assert one.agreement == Agreement(LISTENER, max(common))
        assert other.agreement == Agreement(DIALER, max(common))
    else:
        assert one.agreement is None and other.agreement is None
        assert f"it speaks versions {a.lowest} to {a.highest} of the link" in str(errors[0])
        assert "does not speak the versions of this release" in str(errors[1])


def test_another_incarnation_than_expected_is_refused_by_the_dialer() -> None:
    one, other = dialer(expected=7), listener()
    sent, errors = play(one, other)
    assert [kind for kind, _ in sent] == [HELLO, HELLO, REFUSE]
    assert str(errors[0]) == "unable to link to node 7; node 8 answers at its address"
    assert one.agreement is None and other.agreement is None


def test_a_listener_proves_nothing_to_a_dialer_that_has_not() -> None:
    other = listener()
    assert [kind for kind, _ in other.received(*dialer().begin()[0])] == [HELLO]
    assert other.begin() == []


@pytest.mark.parametrize("kind", [HELLO, PROOF, REFUSE])
@pytest.mark.parametrize("payload", [b"", b"[]", b"\xff", b'{"lowest":1}', b"null", b'{"reason":1}'])
def test_garbage_is_refused_by_both_roles(kind: int, payload: bytes) -> None:
    for end in (dialer(), listener()):
        with pytest.raises(BadLinkFrame):
            end.received(kind, payload)


def test_a_short_nonce_is_refused() -> None:
    weak = Handshake(LinkIdentity(DIALER, (OLD,)), b"short", is_dialer=True)
    with pytest.raises(BadLinkFrame, match="nonce"):
        listener().received(*weak.begin()[0])


def test_other_frames_have_no_place_before_both_agree() -> None:
    one, other = dialer(), listener()
    with pytest.raises(BadLinkFrame):
        other.received(DATA, b"")
    other.received(*one.begin()[0])
    with pytest.raises(BadLinkFrame):
        other.received(*one.begin()[0])  # a second HELLO


def test_a_short_secret_or_none_is_refused_at_once() -> None:
    for secrets in ((), (b"short",), (OLD, b"")):
        with pytest.raises(UsageError, match="a secret of at least 16 bytes"):
            LinkIdentity(DIALER, secrets)


def test_what_the_other_end_refuses_with_is_not_repeated() -> None:
    with pytest.raises(LinkRefused, match="for a reason that this release does not know") as refused:
        dialer().received(REFUSE, b'{"reason":"<script>"}')
    assert "<script>" not in str(refused.value)
    assert Handshake.refusal(refused.value) == []
