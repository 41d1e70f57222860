"""Seeded bugs of loaded agents: actor, mailbox, readers, calls, states, directory."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, before, drop, never, replace

__all__ = ["BUGS"]

ACTOR = "tests/runtime/test_actor.py"
BAD_SITUATIONS = "tests/runtime/test_bad_situations.py"
DESTROY = "tests/agents/test_destroy.py"
HANDLES = "tests/agents/handles/test_handle.py"
HANDLE_LIFETIMES = "tests/agents/handles/test_lifetimes.py"
KINDS = "tests/agents/test_kinds.py"
MAILBOX = "tests/runtime/test_mailbox.py"
COMMIT_LOOP = "tests/runtime/test_commit_loop.py"
READERS = "tests/runtime/test_readers.py"
STATE = "tests/agents/state/test_shared_state.py"

BUGS = [
    Bug(
        "ConnectionOutbox.poll",
        "B5",
        drop("self.direct[0][0] <= self._subscription.cursor"),
        f"{READERS}::test_a_direct_frame_never_overtakes_what_was_committed_before_it",
        "an answer overtakes the event that it followed",
    ),
    Bug(
        "_Answer._run",
        "I-3",
        drop("$states.committed()"),
        f"{HANDLES}::test_a_result_is_given_out_when_its_states_are_committed",
        "a caller knows of a state that a crash takes back",
    ),
    Bug(
        "Actor._decide",
        "I-3",
        before("self._under_way, self.receipt = $decided, None", "self.tail.publish($decided.committed)"),
        f"{BAD_SITUATIONS}::test_a_full_disk_loses_nothing_that_was_seen_and_the_turn_goes_on_when_there_is_space",
        "clients see what a crash takes back",
    ),
    Bug(
        "Actor._decide",
        "R-22",
        replace("max(self._clock.now(), self._last_at)", "self._clock.now()"),
        f"{ACTOR}::test_the_times_of_an_agent_never_go_back_whatever_the_clocks_of_its_owners_say",
        "the times of a log go back when a node with another clock takes over",
    ),
    Bug(
        "StateAccess.read",
        "I-3",
        drop("None if $loaded.owner is $reader else $reader"),
        f"{STATE}::test_a_state_is_visible_to_the_agent_at_once_and_to_others_when_committed",
        "code outside of the agent reads a state that a crash could take back",
    ),
    Bug(
        "Mailbox.offer",
        "I-7",
        drop("$waiting.attempt == $attempt"),
        f"{MAILBOX}::test_chunks_never_pass_what_came_between_them",
        "chunks of a new attempt are taken for those of the old one",
    ),
    Bug(
        "Tail.after",
        "I-11",
        replace("if $skip < 0: ...", "$skip = max($skip, 0)"),
        f"{READERS}::test_a_tail_forgets_the_oldest_and_says_so",
        "a slow reader skips what memory has forgotten",
    ),
    Bug(
        "Tail._hand_out",
        "I-11",
        replace("$has_been_read = False", "$has_been_read = len(self._readers) > 1"),
        f"{READERS}::test_a_tail_keeps_only_what_a_reader_has_not_read",
        "one quick reader makes the slow ones go to the disk",
    ),
    Bug(
        "Actor._decide",
        "I-12",
        always("$decided.work is None"),
        "tests/runtime/test_lifetimes.py::test_open_turns_are_picked_up_at_start_although_no_client_is_there",
        "an open turn is forgotten until a client connects",
    ),
    Bug(
        "runtime:_begin",
        "R-3",
        always("type(...) is AttemptStarted"),
        "tests/agents/test_late_calls.py::test_a_question_runs_what_was_approved_without_going_on[AIChatAgent]",
        "a question runs before the calls that it has to wait for",
    ),
    Bug(
        "StateAccess.read",
        "R-21",
        never("$waiting is not None"),
        f"{STATE}::test_fifty_callers_at_once_lose_nothing[add]",
        "callers that read and set the state at the same time lose each other's changes",
    ),
    Bug(
        "PendingStates.newest",
        "R-21",
        drop("not $waiting.has_failed"),
        "tests/runtime/test_pending_states.py::test_a_state_that_failed_is_not_read_from_that_moment_on",
        "a state is built on one that could not be committed",
    ),
    Bug(
        "StateAccess.put",
        "R-21",
        drop("$loaded.users += 1"),
        f"{STATE}::test_an_agent_is_not_unloaded_before_its_states_are_committed",
        "a state that no code awaits is lost when its agent is unloaded",
    ),
    Bug(
        "Mailbox.offer",
        "R-26",
        never("len(...) >= self._most_chunks"),
        f"{MAILBOX}::test_there_is_room_for_so_many_chunks_and_then_again_when_some_were_taken",
        "a runner that is faster than the disk fills the memory",
    ),
    Bug(
        "MethodCalls.call_here",
        "R-27",
        drop("$was_lost = $call.is_repeatable"),
        f"{HANDLE_LIFETIMES}::test_a_question_is_answered_though_its_agent_is_lost_meanwhile",
        "a question fails because the store had to be tried twice",
    ),
    Bug(
        "Directory.usable",
        "R-27",
        drop("$found.actor.tail.closed"),
        f"{BAD_SITUATIONS}::test_asking_while_the_disk_is_full_is_refused_with_the_reason_and_asking_again_works",
        "a client is handed an actor that has just died",
    ),
    Bug(
        "Actor._decide",
        "R-27",
        replace("BaseException", "Exception"),
        f"{ACTOR}::test_an_actor_that_was_cut_short_in_a_decision_is_gone_and_nothing_of_it_is_written",
        "an agent goes on from questions that were never written",
    ),
    Bug(
        "runtime:describe_failure",
        "R-29",
        replace("f'The call of {$method} failed.'", "str(exc)"),
        f"{HANDLES}::test_errors_of_ours_keep_class_and_text_and_others_stay_in_the_log",
        "the text of any exception reaches callers, which may show it",
    ),
    Bug(
        "StoredIds.find",
        "R-34",
        replace("$stored[0] if $stored else $others[0]", "$others[0]"),
        f"{KINDS}::test_an_agent_keeps_its_id_and_everything_that_it_stored_when_its_class_is_renamed",
        "a renamed class finds none of its agents",
    ),
    Bug(
        "StoredIds.is_stored",
        "R-34",
        never("$databases is not None and await $databases.has(...)"),
        f"{KINDS}::test_what_has_only_a_database_or_only_a_state_is_found_too",
        "a renamed class loses the databases of agents that have no log",
    ),
    Bug(
        "Directory._erase",
        "R-34",
        drop("self.stored_ids.forget(...)"),
        f"{KINDS}::test_a_destroyed_agent_is_made_anew_under_the_present_kind",
        "a destroyed agent comes back under a kind that its class has no more",
    ),
    Bug(
        "Directory._dismiss",
        "a destroyed agent changes nothing",
        drop("$loaded.responder.retire(...)"),
        f"{DESTROY}::test_everything_that_an_agent_has_and_runs_is_gone_and_so_are_those_below_it",
        "the last writes of a destroyed agent's code go to the new agent",
    ),
    Bug(
        "runtime:_post_and_wait",
        "a destroyed agent changes nothing",
        replace("AgentGone", "ZeroDivisionError"),
        f"{DESTROY}::test_a_caller_that_waits_for_a_turn_gets_an_error_not_the_new_agent",
        "a command for the old agent is given to the new one",
    ),
    Bug(
        "_Feed._run",
        "a generator ends with its reader",
        drop("break"),
        f"{HANDLES}::test_a_reader_that_leaves_closes_the_generator",
        "a generator without a reader goes on for ever",
    ),
    Bug(
        "CommitLoop._tick",
        "a stopped task stops no commit",
        drop("self.schedule(...)"),
        f"{COMMIT_LOOP}::test_the_others_go_on_if_the_process_is_stopped_in_the_middle_of_a_tick[decide]",
        "agents that had mail when the process was stopped never look at it",
    ),
    Bug(
        "Tail._hand_out",
        "a subscriber gets every event once, in order",
        replace("not $stand_in($committed)", "$stand_in($committed) is None"),
        f"{READERS}::test_a_sink_that_gave_up_gets_nothing_until_the_reader_waits_again",
        "a client that fell behind is sent nothing any more",
    ),
    Bug(
        "Tail._hand_out",
        "a subscriber gets every event once, in order",
        drop("self._readers[$reader] = None"),
        f"{READERS}::test_a_sink_that_gave_up_gets_nothing_until_the_reader_waits_again",
        "chunks overtake those that a slow socket had no room for",
    ),
    Bug(
        "Tail.publish",
        "a subscriber gets every event once, in order",
        replace("$has_been_read = False", "$has_been_read = True"),
        f"{READERS}::test_a_reader_is_handed_everything_even_if_the_process_was_stopped_while_others_were_told",
        "a slow client is sent the same chunk for ever while the server shuts down",
    ),
    Bug(
        "runtime:_spawn",
        "agents that call each other never wait in a circle",
        replace("$call.starting", "frozenset()"),
        f"{HANDLE_LIFETIMES}::test_agents_that_call_each_other_and_themselves_do_not_wait_for_ever",
        "an agent that another one uses as it starts waits for its own start",
    ),
    Bug(
        "SubAgentsAccess.at",
        "an id is the path of its agent",
        replace("sub_agent_id(...)", "self._agent"),
        "tests/agents/test_sub_agents.py::test_a_turn_asks_a_sub_agent_and_each_has_its_own_conversation",
        "a sub-agent's conversation is taken for its parent's",
    ),
    Bug(
        "Directory._activate",
        "destroying takes everything",
        never("state.is_destroyed"),
        f"{DESTROY}::test_a_process_that_dies_on_the_way_has_destroyed_all_or_nothing[1-after]",
        "half of an agent is left by a process that died",
    ),
    Bug(
        "_Life.until_over",
        "every command is answered",
        drop("await asyncio.wait([self.last_task])"),
        "tests/server/test_destroy.py::test_a_call_that_destroys_its_agent_is_answered_and_then_every_socket_is_closed",
        "a client that destroys an agent by a call gets no answer",
    ),
    Bug(
        "Actor.committed",
        "every command is answered",
        replace("not self._mailbox.is_empty", "self._mailbox.is_over"),
        f"{ACTOR}::test_what_is_asked_during_a_commit_is_decided_together_behind_it",
        "a command that comes while the disk is busy is never answered",
    ),
    Bug(
        "Actor._leave",
        "every command is answered",
        drop("self._refuse(...)"),
        f"{ACTOR}::test_a_caller_of_an_actor_cancelled_during_a_commit_gets_an_error",
        "a command to an agent that is being unloaded waits for ever",
    ),
    Bug(
        "runtime:_publish",
        "spans are nested as calls are",
        replace("$actor.context.run($actor.committed, $receipt)", "$actor.committed($receipt)"),
        f"{COMMIT_LOOP}::test_each_actor_works_in_its_own_context[at once]",
        "an answer is a span of the request that happened to ask first",
    ),
    Bug(
        "CommitLoop._commit",
        "a stopped task stops no commit",
        drop("$receipt.then($actor.committed, ...)"),
        f"{COMMIT_LOOP}::test_the_others_go_on_if_the_process_is_stopped_in_the_middle_of_a_tick[publish]",
        "agents whose batches are committed with the one that stops the process are never served again",
    ),
    Bug(
        "runtime:_publish",
        "I-3",
        always("$receipt.is_done"),
        f"{COMMIT_LOOP}::test_nothing_is_visible_before_its_receipt_and_receipts_come_in_any_order",
        "clients see what a store with network latency has not committed yet",
    ),
    Bug(
        "Actor.decide",
        "I-3",
        drop("self._under_way is not None"),
        f"{COMMIT_LOOP}::test_a_query_that_posts_does_not_let_the_actor_decide_while_a_batch_is_under_way",
        "the receipt of one batch publishes the next one, which is not committed",
    ),
]
