"""Seeded bugs of the link between nodes."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace, returns

__all__ = ["BUGS"]

CALLS = "tests/cluster/test_calls.py"
FRAMES = "tests/cluster/test_link_frames.py"
HANDSHAKE = "tests/cluster/test_handshake.py"
LINKS = "tests/cluster/test_links.py"
RELAY = "tests/cluster/test_asgi_relay.py"
STREAMS = "tests/cluster/test_streams.py"
PARITY = f"{RELAY}::test_a_relayed_application_and_its_clients_notice_no_difference"

BUGS = [
    Bug(
        "FrameParser.feed",
        "memory is bounded",
        never("$length > self.limit"),
        f"{FRAMES}::test_a_payload_that_is_too_long_is_refused_by_its_header",
        "a peer announces four gigabytes, and they are waited for",
    ),
    Bug(
        "Handshake._proved",
        "only nodes that know the secret are let in",
        never("not any(...)"),
        f"{HANDSHAKE}::test_another_secret_is_refused_and_both_ends_say_so",
        "any process is taken for a node",
    ),
    Bug(
        "Handshake._proof",
        "only nodes that know the secret are let in",
        drop("*hellos"),
        f"{HANDSHAKE}::test_a_recorded_proof_is_worth_nothing_in_another_handshake",
        "a recorded handshake can be played again",
    ),
    Bug(
        "Handshake._proof",
        "only nodes that know the secret are let in",
        replace('b"dialer" if $whose else b"listener"', 'b"dialer"'),
        f"{HANDSHAKE}::test_a_proof_that_is_sent_back_is_worth_nothing",
        "a listener proves itself with the proof of the dialer",
    ),
    Bug(
        "Handshake._greeted",
        "a link leads to an incarnation",
        never("self._expected is not None and ..."),
        f"{LINKS}::test_another_incarnation_at_the_address_is_refused",
        "clients are relayed to a node that started again and owns nothing",
    ),
    Bug(
        "LinkStream._put",
        "I-11",
        never("$cost > self._credit"),
        f"{STREAMS}::test_a_slow_reader_holds_the_writer_and_memory_is_bounded",
        "a client that does not read fills the memory of its edge",
    ),
    Bug(
        "LinkStream.record_came",
        "I-11",
        never("self._unread > WINDOW"),
        f"{STREAMS}::test_a_peer_that_sends_more_than_it_was_granted_is_cut",
        "a node with a bug fills the memory of another",
    ),
    Bug(
        "LinkStream._take",
        "a stream goes on when its reader does",
        drop("self._writer.put(...)"),
        f"{STREAMS}::test_credit_comes_back_for_what_a_sink_takes",
        "every socket stands still after 256 KiB",
    ),
    Bug(
        "LinkStream.write",
        "the parts of a message stay together",
        drop("not self._senders.is_busy"),
        f"{STREAMS}::test_the_records_of_one_message_stay_together",
        "a chunk is written into the middle of a long frame",
    ),
    Bug(
        "_Senders.is_busy",
        "the parts of a message stay together",
        returns("self._lock.locked()"),
        f"{STREAMS}::test_the_records_of_one_message_stay_together",
        "a chunk overtakes a frame that has waited for the one before",
    ),
    Bug(
        "LinkStream._break",
        "what has arrived is delivered",
        always("not self.ended.done()"),
        f"{STREAMS}::test_a_finished_stream_is_read_to_its_end_after_the_link_is_lost",
        "the end of an answer is lost when its owner stops",
    ),
    Bug(
        "FrameWriter.has_room",
        "memory is bounded",
        returns("True"),
        f"{STREAMS}::test_a_link_that_is_stuck_holds_its_writers_and_memory_is_bounded",
        "a network that stands still fills the memory of the owner",
    ),
    Bug(
        "FrameWriter.put",
        "what is written in one iteration is one system call",
        replace("self._size += $more", "self._size += $more\nself.flush()"),
        f"{STREAMS}::test_what_is_written_in_one_iteration_is_one_system_call",
        "each chunk of each socket costs the owner a system call",
    ),
    Bug(
        "SilenceWatch._check",
        "a silent peer is noticed",
        drop("self._on_silence()"),
        f"{LINKS}::test_a_silent_peer_is_noticed_by_both_ends",
        "watchers of a node that was cut off hang for as long as TCP likes",
    ),
    Bug(
        "Links.drop",
        "a link leads to an incarnation",
        drop("$link.abort(...)"),
        f"{LINKS}::test_a_dropped_node_is_cut_off_though_its_connection_looks_fine",
        "watchers of a paused owner hang until it wakes",
    ),
    Bug(
        "GoneNodes.__contains__",
        "a link leads to an incarnation",
        returns("False"),
        f"{LINKS}::test_the_owner_drops_an_edge_that_is_gone_and_takes_it_no_more",
        "a node that is gone dials again, and its clients are served twice",
    ),
    Bug(
        "NodeLink.ready",
        "callers share one dial",
        replace("asyncio.shield(self._settled)", "self._settled"),
        f"{LINKS}::test_a_caller_that_gives_up_does_not_end_the_dial_of_others",
        "a client that leaves ends the requests of others",
    ),
    Bug(
        "NodeLink._count_unproven",
        "strangers are bounded",
        never("self._unproven_bytes > ..."),
        f"{LINKS}::test_bytes_before_the_proof_are_limited",
        "a stranger keeps a node busy",
    ),
    Bug(
        "LinkServer._accept",
        "strangers are bounded",
        never("len(self._unproven) > ..."),
        f"{LINKS}::test_only_so_many_strangers_may_wait",
        "connections of strangers use up the files of the process",
    ),
    Bug(
        "CallServer.serve",
        "a call that was given up is cancelled",
        drop("$stream.broken.add_done_callback(...)"),
        f"{CALLS}::test_a_cancelled_call_is_cancelled_at_the_other_node",
        "calls run on for callers that are gone",
    ),
    Bug(
        "cluster:write_failure",
        "texts of exceptions stay in the process",
        replace("public_text($exc, FAILED)", "str($exc)"),
        f"{CALLS}::test_any_other_error_is_logged_there_and_its_text_stays_there",
        "clients read the details of a failure",
    ),
    Bug(
        "cluster:header_of",
        "a relayed request looks as it did at the edge",
        drop("raw_path=..."),
        f"{PARITY}[echo_over_http]",
        "names with an escaped slash are cut",
    ),
    Bug(
        "_RelayedSocket.receive",
        "a relayed request looks as it did at the edge",
        replace("close_of(...)", "Close(1006)"),
        f"{PARITY}[echo_over_a_socket]",
        "hooks are told that a client vanished that said goodbye",
    ),
    Bug(
        "_RelayedSocket.receive",
        "one client does not hold up others",
        never("self._received >= ..."),
        f"{RELAY}::test_messages_that_come_at_once_leave_others_a_turn",
        "calls of a client are refused because they came in one packet",
    ),
    Bug(
        "_Relay._until_over",
        "a client that does not read holds nothing",
        replace("timeout=...", "timeout=None"),
        f"{RELAY}::test_a_client_that_does_not_read_is_closed_when_the_owner_says_so",
        "clients that do not read keep their sockets for ever",
    ),
    Bug(
        "_SocketRelay._owner_lost",
        "a lost owner is told to clients",
        replace("COME_BACK", "1008"),
        f"{RELAY}::test_a_socket_is_closed_with_1012_when_its_owner_is_lost[True]",
        "clients of a node that is gone give up",
    ),
    Bug(
        "_HttpRelay._owner_lost",
        "a lost owner is told to clients",
        replace("503", "500"),
        f"{RELAY}::test_a_request_gets_503_when_its_owner_is_lost_before_the_response",
        "clients do not know that they may try again",
    ),
]
