from __future__ import annotations

from everyword.client.protocol.requests import Ended, Requests

QUESTION = {"id": "u1", "role": "user", "parts": []}


def test_a_request_is_open_until_its_first_ending() -> None:
    requests = Requests()
    requests.ask("r", QUESTION)
    assert list(requests.open) == ["r"]
    requests.end("r", Ended("completed"))
    requests.end("r", Ended("aborted"))
    requests.hear("r")
    assert list(requests.open) == []
    assert requests.known["r"].ending == Ended("completed")


def test_only_the_id_of_a_question_is_kept_after_the_end() -> None:
    requests = Requests()
    requests.ask("r", QUESTION)
    requests.end("r", Ended("completed"))
    assert (requests.known["r"].question, requests.known["r"].question_id) == (None, "u1")


def test_the_ends_of_open_requests_are_asked_for_once_per_connection() -> None:
    requests = Requests()
    requests.ask("b", QUESTION)
    requests.hear("a")
    requests.hear("heard again")
    requests.doubt_all()
    requests.hear("heard again")
    assert requests.take_doubted() == ["a", "b"]
    assert requests.take_doubted() == []
    requests.doubt_all()
    assert requests.take_doubted() == ["a", "b", "heard again"]


def test_an_answer_is_unsure_if_its_request_ended_unseen() -> None:
    requests = Requests()
    for request in ("seen", "unseen", "skipped"):
        requests.ask(request, QUESTION)
    requests.doubt_all()
    requests.hear("seen")
    requests.end("seen", Ended("completed"))
    requests.end("unseen", Ended("completed"))
    requests.end("skipped", Ended("skipped"))
    assert [each.id for each in requests.known.values() if each.is_unsure] == ["unseen"]
