"""The page that a link in a mail opens: the arguments are shown as they are."""

from __future__ import annotations

from everyword import Approval, Participant
from everyword.server.approval_page import approval_page


def test_an_argument_cannot_change_the_direction_of_what_is_shown() -> None:
    given = {"account": "\u202e4321\u2066 </pre><b>", "name": "عربي"}
    waits = Approval("i", "till", "ann", "ann", "pay", given, "waiting", 5.0, None)
    text = bytes(approval_page(waits, None).body).decode()
    assert "&quot;account&quot;: &quot;\\u202e4321\\u2066 &lt;/pre&gt;&lt;b&gt;&quot;" in text
    assert "&quot;name&quot;: &quot;عربي&quot;" in text


def test_a_summary_cannot_change_the_direction_of_what_is_shown() -> None:
    person = Participant("mallory", "\u202eyrollaM")
    waits = Approval(
        "i", "till", "ann", "ann", "pay", {}, "waiting", 5.0, person, summary="Pay \u202eBob\u202c 10052 €"
    )
    text = bytes(approval_page(waits, None).body).decode()
    assert "Pay \\u202eBob\\u202c 10052 €" in text
    assert "\\u202eyrollaM" in text


def test_arguments_of_many_levels_do_not_make_a_huge_page() -> None:
    given: list[object] = []
    for _ in range(500):
        given = [given, 1]
    waits = Approval("i", "till", "ann", "ann", "pay", {"given": given}, "waiting", 5.0, None)
    assert len(approval_page(waits, None).body) < 20_000
