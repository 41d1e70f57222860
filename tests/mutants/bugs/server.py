"""Seeded bugs of sockets, limits and answers over HTTP."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace, swap

__all__ = ["BUGS"]

BOUNDS = "tests/server/test_connection_limits.py"
GATHERING = "tests/server/test_uvicorn_websocket.py"
INCOMING = "tests/server/test_rate_limited_receive.py"
LIMITS = "tests/server/test_limits.py"
POSTED = "tests/server/test_posted_tool_answers.py"
SHARING = "tests/server/test_shared_slices.py"

BUGS = [
    Bug(
        "SharedSlices._shared",
        "I-11",
        replace("self._slices.get(...)", "None"),
        f"{SHARING}::test_clients_that_are_sent_the_same_hold_the_same_slices",
        "five hundred clients that resume a long answer take gigabytes",
    ),
    Bug(
        "MemoryBudget.hold",
        "I-11",
        replace("max", "min"),
        f"{SHARING}::test_never_more_is_held_than_the_limit",
        "a client with a small frame is closed for one with a large frame",
    ),
    Bug(
        "FrameScanner._read_header",
        "I-11",
        replace("self.announced > self._limit", "self._frame.payload > self._limit"),
        "tests/server/test_frame_scanner.py::test_fragments_are_cut_as_soon_as_they_are_too_large_together",
        "a message of any size is kept if it comes in fragments",
    ),
    Bug(
        "ReceiveLimits.problem",
        "I-11",
        never("$scanner.fragments > ..."),
        f"{BOUNDS}::test_a_flood_of_empty_frames_closes_its_socket_and_delays_no_other[0]",
        "empty fragments keep the server busy for as long as a client likes",
    ),
    Bug(
        "UvicornHttpProtocol._run_out",
        "I-11",
        drop("self.transport.abort()"),
        f"{BOUNDS}::test_a_request_whose_headers_do_not_come_is_closed",
        "connections that say nothing stay for ever",
    ),
    Bug(
        "ReaderLimit.check_principal",
        "I-11",
        replace(
            "self._by_principal[$principal] >= self._per_principal",
            "self._by_principal[$principal] > self._per_principal",
        ),
        f"{LIMITS}::test_readers_are_counted_per_principal_over_all_agents",
        "one user opens one connection more than allowed",
    ),
    Bug(
        "UvicornHttpProtocol.on_message_begin",
        "I-11",
        never("len(...) >= self.bounds.pipelined"),
        f"{BOUNDS}::test_some_requests_may_wait_for_the_one_before_but_not_any_number",
        "one connection fills the memory with requests that wait",
    ),
    Bug(
        "UvicornHttpProtocol.data_received",
        "I-11",
        never("self._has_headers and self._beside > self.bounds.header_bytes"),
        f"{BOUNDS}::test_what_comes_besides_a_body_in_chunks_is_bounded[a]",
        "trailers of a request fill the memory",
    ),
    Bug(
        "TrafficLimiter.wait_needed",
        "I-11",
        replace("$level >= $full", "$level > $full"),
        f"{LIMITS}::test_a_client_that_waits_for_the_given_delay_gets_through",
        "one more than the limit is let through",
    ),
    Bug(
        "RateLimitedFrames.__call__",
        "I-11",
        replace("_size(...)", "0"),
        f"{INCOMING}::test_the_local_principal_has_limits_too",
        "a client writes as much as it likes, if only in large frames",
    ),
    Bug(
        "RateLimitedBody._take",
        "I-11",
        replace("$wait > (MINUTE if self._is_begun else 0)", "$wait > 0 and (not self._is_begun)"),
        f"{INCOMING}::test_a_body_that_goes_on_and_on_is_cut_off",
        "a body without end is read without end",
    ),
    Bug(
        "ServerPages._metrics",
        "I-14",
        never("$metrics.allow is None"),
        "tests/server/test_observe_exporters.py::test_metrics_are_served_to_this_machine_only_by_default",
        "any client may read the metrics",
    ),
    Bug(
        "server:_missing",
        "R-1",
        replace("[$chunk for $part in tool_parts(...) for $chunk in _corrected(...)]", "[]"),
        f"{POSTED}::test_the_first_answer_wins_and_a_slower_client_gets_it",
        "a page that was slower shows its own answer for ever",
    ),
    Bug(
        "server:take_answers",
        "R-3",
        always("$who.goes_on"),
        f"{POSTED}::test_an_answer_that_comes_with_a_new_question_is_taken_and_the_question_is_answered",
        "an answer that comes with a question starts a turn besides the question's",
    ),
    Bug(
        "server:find_standing",
        "R-3",
        always("not $is_behind or $ended is None"),
        f"{POSTED}::test_the_first_answer_wins_and_a_slower_client_gets_it",
        "a page that was slower makes the model answer once more",
    ),
    Bug(
        "server:find_standing",
        "R-3",
        drop("$has_answers and $node is not None and (not may_continue(...))"),
        "tests/server/test_late_calls.py"
        "::test_a_word_posted_by_a_page_that_has_missed_the_next_answer_makes_no_branch[False]",
        "a late denial over HTTP branches the conversation",
    ),
    Bug(
        "server:standing_frames",
        "a client that joins a turn gets all of it",
        replace("BEFORE_ALL", "None"),
        f"{POSTED}::test_an_answer_during_the_continuation_streams_it_from_its_first_chunk",
        "a client that joins a continuation by posting loses its beginning",
    ),
    Bug(
        "ConnectionSender.send",
        "a client that misses frames is closed",
        drop("self.close(TRY_LATER, UNREAD)"),
        f"{BOUNDS}::test_a_socket_that_does_not_read_what_the_agent_sends_is_closed",
        "a client misses frames of the agent, and is not told",
    ),
    Bug(
        "SocketDelivery._deliver_events",
        "a connection without the protocol gets only what it asked for",
        always("self._has_protocol", which="last"),
        "tests/server/test_opt_out.py"
        "::test_a_connection_without_the_protocol_gets_only_what_the_agent_sends_and_what_it_asked_for",
        "a device that speaks no protocol is told of the state",
    ),
    Bug(
        "server:_header",
        "frames follow the WebSocket protocol",
        replace("$size < 126", "$size < 127"),
        f"{GATHERING}::test_frames_are_those_that_any_client_reads",
        "a frame of 126 bytes breaks its connection",
    ),
    Bug(
        "UvicornWebSocketProtocol.send",
        "frames follow the WebSocket protocol",
        never("$message['type'] == 'websocket.send'"),
        f"{INCOMING}::test_a_refusal_does_not_come_in_the_middle_of_a_message_that_is_sent_in_fragments",
        "a message begins between the fragments of another",
    ),
    Bug(
        "BufferingTransport.write_now",
        "frames follow the order of the log",
        swap("if self._kept: ...", "self._transport.write(...)"),
        f"{GATHERING}::test_what_is_written_now_comes_behind_what_was_kept_back",
        "a client gets the answer before the greeting",
    ),
    Bug(
        "BufferingTransport.close",
        "no frame is lost",
        drop("self.flush()"),
        f"{GATHERING}::test_what_was_kept_back_is_written_before_the_end",
        "the last frames are lost when a socket is closed",
    ),
    Bug(
        "UvicornWebSocketProtocol.write_frames",
        "no frame is lost",
        replace("return $texts", "return []"),
        f"{GATHERING}::test_frames_that_there_is_no_room_for_are_given_back",
        "a client that reads slowly misses chunks",
    ),
    Bug(
        "_Socket._until_closed",
        "what is over leaves no garbage",
        drop("del $reading, $writing, $over, $done"),
        "tests/server/test_garbage.py::test_a_turn_and_a_socket_that_are_over_leave_nothing_for_the_collector",
        "every socket that closes waits for the garbage collector, with all that it held",
    ),
]
