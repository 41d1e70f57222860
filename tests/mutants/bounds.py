"""Bugs that let one client take what is everybody's."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

__all__ = ["BOUNDS"]

SOCKETS: Final = "tests/server/test_bounds.py"
FRAMING: Final = "tests/server/test_framing.py"
SHARING: Final = "tests/server/test_sharing.py"

BOUNDS = [
    Mutant(
        "server/sharing.py",
        "        known = self._slices.get(parts)\n",
        "        known = None\n",
        f"{SHARING}::test_clients_that_are_sent_the_same_hold_the_same_slices",
        "five hundred clients that resume a long answer take gigabytes",
    ),
    Mutant(
        "server/budgets.py",
        "max(reversed(self._held)",
        "min(reversed(self._held)",
        f"{SHARING}::test_never_more_is_held_than_the_limit",
        "a client with a small frame is closed for one with a large frame",
    ),
    Mutant(
        "server/framing.py",
        "elif self.announced > self._limit:",
        "elif self._payload > self._limit:",
        f"{FRAMING}::test_fragments_are_cut_as_soon_as_they_are_too_large_together",
        "a message of any size is kept if it comes in fragments",
    ),
    Mutant(
        "server/gathering.py",
        "        if walker.fragments > self.bounds.fragments + walker.announced // 1024:\n",
        "        if walker.fragments > self.bounds.fragments + walker.announced:\n"
        "            pass\n"
        "        if False:\n",
        f"{SOCKETS}::test_a_flood_of_empty_frames_closes_the_socket_and_nobody_else_waits[0]",
        "empty fragments keep the server busy for as long as a client likes",
    ),
    Mutant(
        "server/deadlines.py",
        "is_closing():\n            self.transport.abort()\n",
        "is_closing():\n            pass\n",
        f"{SOCKETS}::test_a_request_whose_headers_do_not_come_is_closed",
        "connections that say nothing stay for ever",
    ),
    Mutant(
        "server/websocket.py",
        "            except MailboxFull:\n                close(TRY_LATER, UNREAD)\n",
        "            except MailboxFull:\n                pass\n",
        f"{SOCKETS}::test_a_socket_that_does_not_read_what_the_agent_sends_is_closed",
        "a client misses what the agent sends, and is not told",
    ),
    Mutant(
        "server/limits.py",
        "        if self._used[principal] >= self._per_principal:\n",
        "        if self._used[principal] > self._per_principal:\n",
        "tests/server/test_limits.py::test_seats_are_counted_per_principal_over_all_agents",
        "one user opens one connection more than allowed",
    ),
    Mutant(
        "server/http.py",
        "    seat.enter_context(service.seats.seat(caller.agent, caller.principal.id))\n",
        "",
        "tests/server/test_http.py::test_of_many_readers_that_come_at_once_no_more_get_in_than_there_are_seats[events]",
        "of readers that come at once, any number gets in",
    ),
    Mutant(
        "server/deadlines.py",
        "        if len(self.pipeline) >= self.bounds.pipelined:\n",
        "        if False:\n",
        f"{SOCKETS}::test_some_requests_may_wait_for_the_one_before_but_not_any_number",
        "one connection fills the memory with requests that wait",
    ),
    Mutant(
        "server/deadlines.py",
        "        elif self._has_headers and self._beside > self.bounds.header_bytes:\n",
        "        elif False:\n",
        f"{SOCKETS}::test_what_comes_besides_a_body_in_chunks_is_bounded[a]",
        "trailers of a request fill the memory",
    ),
    Mutant(
        "server/gathering.py",
        '        if message["type"] == "websocket.send":\n',
        "        if False:\n",
        "tests/server/test_incoming.py"
        "::test_a_refusal_does_not_come_in_the_middle_of_a_message_that_is_sent_in_fragments",
        "a message begins between the fragments of another",
    ),
]
