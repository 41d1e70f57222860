"""Seeded bugs, and for each the test that must notice: those of the core here, those around it in `layers`.

Choose a cheap witness: a table test where one says it, a property where the property is what is being tested.
"""

from __future__ import annotations

from tests.mutants import layers
from tests.mutants.askers import ASKERS
from tests.mutants.background import BACKGROUND
from tests.mutants.bounds import BOUNDS
from tests.mutants.calls import CALLS
from tests.mutants.clients import CLIENTS
from tests.mutants.fields import FIELDS
from tests.mutants.handles import HANDLES
from tests.mutants.loading import LOADING
from tests.mutants.members import MEMBERS
from tests.mutants.mutant import Mutant
from tests.mutants.outside import OUTSIDE
from tests.mutants.runs import RUNS
from tests.mutants.streams import STREAMS
from tests.mutants.swift import SWIFT

INVARIANTS = "tests/core/test_invariants.py"
ACCEPT = "tests/core/test_accept.py"
AGREEMENT = "tests/core/test_agreement.py"
ANSWERS = "tests/core/test_answers.py"
POLICIES = "tests/core/test_policies.py"
PURITY = "tests/core/test_purity.py"
TRANSCRIPT = "tests/core/test_transcript.py"
TRANSITIONS = "tests/core/test_transitions.py"
TREE = "tests/core/test_tree.py"
TURNS = "tests/core/test_turns.py"

DYING = "tests/crash/test_tool_turns.py::test_dying_at_any_append_of_a_tool_turn_does_nothing_twice"
STEPS = "tests/agents/test_steps.py"
TURNED = "tests/runtime/test_turns.py"
USAGE = "tests/agents/test_think_usage.py"
JOBS = "tests/agents/test_jobs.py"

AGENTS = [
    # -- calls of our own tools, jobs, state -------------------------------------------------------------------
    Mutant(
        "core/calls.py",
        "    if started is not None and (started == command.attempt or not command.is_idempotent):",
        "    if started is not None and started == command.attempt:",
        f"{DYING}[Think-one call-before]",
        "a tool's effect happens again after a crash",
    ),
    Mutant(
        "agents/steps.py",
        "            if (message is not None and is_waiting(message)) or",
        "            if (message is not None and any(map(is_open_approval, tool_parts(message)))) or",
        f"{DYING}[AIChatAgent-early-before]",
        "the model hears that an approved call was interrupted, and then it is made",
    ),
    Mutant(
        "agents/think_loop.py",
        "while not await self._is_done() and not await self._is_said():",
        "while not await self._is_done():",
        f"{USAGE}::test_a_process_that_died_behind_the_last_word_asks_nothing_again",
        "an answer that was complete is gone on with",
    ),
    Mutant(
        "core/answers.py",
        "        if tool_name(part) in rules.server_tools or command.call in running "
        "or asked == own_approval_id(command.call):",
        "        if command.call in running:",
        f"{STEPS}::test_a_client_tool_is_left_to_the_page_and_a_forged_result_of_ours_is_refused",
        "a client can invent the result of a server's tool",
    ),
    Mutant(
        "agents/steps.py",
        "        if not await self.call.start_call(call_id, name, tool.idempotent):",
        "        if False:",
        f"{STEPS}::test_a_call_is_in_the_log_before_its_effect_and_its_result_after_it",
        "a tool runs before anybody knows that it will",
    ),
    Mutant(
        "core/jobs.py",
        "    if job.is_started and job.attempts >= job.added.max_attempts:",
        "    if job.is_started and job.attempts >= job.added.max_attempts + 1000:",
        f"{JOBS}::test_a_job_that_kills_every_process_is_set_aside",
        "a job that kills the process makes it crash for ever",
    ),
    Mutant(
        "core/jobs.py",
        "                continue  # one after the other: the first is tried until it is done or given up",
        "                pass",
        f"{JOBS}::test_queued_jobs_run_one_after_the_other_in_order",
        "queued jobs overtake each other",
    ),
    Mutant(
        "wire/chat.py",
        "                return [] if self._turns.is_mine(event.origin) else [frames.state(bytes(event.state))]",
        "                return [frames.state(bytes(event.state))]",
        "tests/server/test_agents.py::test_a_state_goes_to_everybody_but_who_sent_it_and_to_the_hook",
        "who sets a state is told its own (R-21)",
    ),
    Mutant(
        "runtime/turn_runner.py",
        "        await self._actor.insist(Delay(self.turn, Attempt(recovery.attempt - 1), self._cause))\n",
        "",
        "tests/runtime/test_recovery.py::test_a_process_that_dies_while_a_turn_waits_leaves_it_recovering_for_the_next",
        "nobody knows that an answer is being recovered until it is",
    ),
    Mutant(
        "log/base.py",
        '    "attempt.delayed",\n',
        "",
        "tests/crash/test_delayed_attempts.py::test_dying_at_any_append_delays_no_attempt_twice_and_ends_the_turn_once",
        "a store does not give back that an attempt comes later",
    ),
    Mutant(
        "core/restore.py",
        "_Replayed = AttemptStarted | AttemptDelayed | AttemptInterrupted",
        "_Replayed = AttemptStarted | AttemptInterrupted",
        "tests/runtime/test_recovery.py::test_a_process_that_dies_while_a_turn_waits_leaves_it_recovering_for_the_next",
        "the next process does not know that an answer is being recovered",
    ),
    Mutant(
        "core/decide.py",
        "turn.attempt != command.attempt:\n        return []  # it has ended, or is about to, or the next",
        "False:\n        return []  # it has ended, or is about to, or the next",
        "tests/core/test_delays.py::test_who_is_late_with_it_delays_nothing_that_has_begun",
        "an answer that is being given is shown as being recovered to its end",
    ),
    Mutant(
        "core/decide.py",
        "return [] if turn.recovers_with == attempt else [AttemptDelayed",
        "return [] if False else [AttemptDelayed",
        "tests/core/test_delays.py::test_an_attempt_that_comes_later_is_announced_once_and_the_turn_recovers_until_it_speaks",
        "an agent that waits in small steps fills its log",
    ),
    Mutant(
        "core/evolve.py",
        "    if turn.recovers_with == event.attempt:\n",
        "    if turn.recovers_with:\n",
        "tests/core/test_delays.py::test_an_attempt_that_comes_later_is_announced_once_and_the_turn_recovers_until_it_speaks",
        "a late word of a failed attempt takes back that the answer is being recovered",
    ),
    Mutant(
        "runtime/reconciler.py",
        "if runner.told_at is None or now - runner.told_at >= LET_GO:",
        "if runner.told_at is None or now:",
        f"{TURNED}::test_what_an_answer_does_at_its_end_is_not_cut_off_by_a_stop_nor_by_what_comes_after_it",
        "whoever closes a connection when it is stopped is stopped again while it does",
    ),
    Mutant(
        "runtime/reconciler.py",
        "if runner.told_at is None or now - runner.told_at >= LET_GO:",
        "if runner.told_at is None:",
        f"{TURNED}::test_an_answer_that_goes_on_talking_after_a_stop_is_told_again_and_then_cut_off",
        "whoever overhears a stop stays until the server ends",
    ),
    Mutant(
        "runtime/turn_runner.py",
        "                if self.is_told:\n                    raise asyncio.CancelledError",
        "                if self.is_told and not left:\n                    raise asyncio.CancelledError",
        f"{TURNED}::test_an_answer_that_goes_on_talking_after_a_stop_is_told_again_and_then_cut_off",
        "an answer that nobody hears takes half of the processor for ever",
    ),
    Mutant(
        "agents/steps.py",
        "            try:\n                await items.aclose()\n            finally:\n",
        "            await items.aclose()\n            if True:\n",
        f"{STEPS}::test_who_leaves_a_step_in_the_middle_ends_it_and_its_calls_with_the_attempt",
        "a model that cannot be closed leaves its tools running",
    ),
    Mutant(
        "agents/turn.py",
        "            await self._box.aclose()",
        "            pass",
        f"{STEPS}::test_who_leaves_a_step_in_the_middle_ends_it_and_its_calls_with_the_attempt",
        "tools of a turn that has failed run on",
    ),
    Mutant(
        "runtime/turn_runner.py",
        "            await self._finish(Attempt(recovery.attempt - 1), Outcome.COMPLETED)\n            return None",
        "            return False",
        "tests/runtime/test_recovery.py::test_an_answer_that_was_said_to_its_end_is_only_ended",
        "an answer that was complete when the process died is given twice",
    ),
]

CORE = [
    # -- I-1: a turn ends once ---------------------------------------------------------------------------------
    Mutant(
        "core/decide.py",
        "    turn = state.open.get(command.turn)\n    if turn is None or turn.attempt != command.attempt:",
        "    turn = state.find(command.turn)\n    if turn is None or turn.attempt != command.attempt:",
        f"{INVARIANTS}::test_a_turn_ends_at_most_once_and_nothing_of_it_follows",
        "a turn can be finished a second time (I-1)",
    ),
    Mutant(
        "core/transitions.py",
        "    Status.ENDED: {HookDone: Status.ENDED},",
        "    Status.ENDED: {HookDone: Status.ENDED, Chunk: Status.ENDED},",
        f"{TRANSITIONS}::test_an_ended_turn_never_changes_its_status_again",
        "chunks may follow the end of their turn (I-1)",
    ),
    Mutant(
        "core/decide.py",
        "        elif turn.status is Status.RUNNING:\n            events.append(CancelRequested",
        "        else:\n            events.append(CancelRequested",
        f"{TURNS}::test_cancelling_twice_causes_nothing_more",
        "an impatient second click on stop breaks the agent (I-1)",
    ),
    # -- I-6: a request id is accepted once --------------------------------------------------------------------
    Mutant(
        "core/accept.py",
        "    if command.known or command.request in state.requests:\n        return []\n"
        "    _refuse_when_full(state, rules)\n    if not",
        "    if command.known:\n        return []\n    _refuse_when_full(state, rules)\n    if not",
        f"{INVARIANTS}::test_a_request_id_is_accepted_at_most_once",
        "a resent submit is answered twice (I-6)",
    ),
    Mutant(
        "core/accept.py",
        "    if command.known or command.request in state.requests:\n        return []\n"
        "    _refuse_when_full(state, rules)\n    if not",
        "    if command.request in state.requests:\n        return []\n    _refuse_when_full(state, rules)\n    if not",
        f"{ACCEPT}::test_a_request_that_only_the_store_remembers_causes_nothing",
        "a submit resent after a long time is answered twice (I-6)",
    ),
    Mutant(
        "core/restore.py",
        "    state.requests[row.request] = row.turn",
        "    state.requests.setdefault(row.request, row.turn) if row.ended_at is None else None",
        f"{INVARIANTS}::test_restoring_the_rows_gives_the_state_that_folding_the_log_gives",
        "a restarted process forgets which requests it answered (I-6, I-9)",
    ),
    # -- I-7: stale attempts cannot speak ----------------------------------------------------------------------
    Mutant(
        "core/decide.py",
        "    if turn is None or turn.attempt != command.attempt:",
        "    if turn is None or turn.attempt < command.attempt:",
        f"{INVARIANTS}::test_a_stale_attempt_cannot_speak",
        "a runner that was given up goes on writing (I-7)",
    ),
    Mutant(
        "core/decide.py",
        "    if turn.status is Status.ACCEPTED:\n        raise StaleAttempt",
        "    if turn.status is Status.ENDED:\n        raise StaleAttempt",
        f"{TURNS}::test_nobody_writes_to_a_turn_that_has_not_begun",
        "chunks are written before an attempt has begun (I-7)",
    ),
    # -- I-9: rows are projections -----------------------------------------------------------------------------
    Mutant(
        "core/project.py",
        "            return [*_messages(state, [event.node]), *approval_rows(state, event)]",
        "            return approval_rows(state, event)",
        f"{ANSWERS}::test_the_draft_shows_the_answer_as_soon_as_it_is_given",
        "an answer given is not in the table (I-9)",
    ),
    Mutant(
        "core/project.py",
        "            return [*_messages(state, [*nodes, turn.node]), turn_row(turn), agent_row(state)]",
        "            return [*_messages(state, [*nodes, turn.node]), agent_row(state)]",
        f"{AGREEMENT}::test_the_rows_written_bit_by_bit_are_those_that_the_state_implies",
        "a restarted process waits for messages that it has (I-9)",
    ),
    Mutant(
        "core/project.py",
        "        case LeafMoved():\n            return [agent_row(state)]",
        "        case LeafMoved():\n            return []",
        f"{TREE}::test_moving_the_leaf_is_all_that_showing_a_branch_changes",
        "a restarted process shows another branch (I-9)",
    ),
    Mutant(
        "core/decide.py",
        "            events.append(CancelRequested(turn.id, by=command.by))",
        '            turn.reason = "cancelled"\n            events.append(CancelRequested(turn.id, by=command.by))',
        f"{INVARIANTS}::test_rebuilding_the_rows_from_the_log_gives_the_rows_that_were_written_live",
        "deciding changes the state behind the log's back (I-9)",
    ),
    Mutant(
        "core/decide.py",
        "            events.append(CancelRequested(turn.id, by=command.by))",
        '            turn.reason = "cancelled"\n            events.append(CancelRequested(turn.id, by=command.by))',
        f"{INVARIANTS}::test_the_state_is_a_fold_of_the_log",
        "the state is more than a fold of the log (I-9)",
    ),
    # -- I-10: pruning is invisible ----------------------------------------------------------------------------
    Mutant(
        "core/prune.py",
        "    return prunable and isinstance(event, Chunk | StateSet)",
        "    return prunable",
        f"{INVARIANTS}::test_pruning_is_invisible_to_a_reader_at_any_cursor",
        "retention takes messages and endings along (I-10)",
    ),
    Mutant(
        "core/decide.py",
        "    saved = turn.fold is not None and not turn.fold.is_empty",
        "    saved = turn.fold is not None and not turn.fold.is_empty and turn.status is Status.RUNNING",
        f"{INVARIANTS}::test_pruning_is_invisible_to_a_reader_at_any_cursor",
        "what a cancelled turn said lives in its chunks only (I-10)",
    ),
    Mutant(
        "core/prune.py",
        "    return kind is not TurnKind.RSM and ended_at",
        "    return ended_at",
        f"{INVARIANTS}::test_a_bare_stream_is_never_pruned",
        "retention empties bare streams (I-10)",
    ),
    Mutant(
        "core/prune.py",
        "ended_at is not None and ended_at < before",
        "(ended_at or 0) < before",
        f"{TRANSCRIPT}::test_only_chunks_of_old_ended_answers_may_go",
        "retention takes chunks of a turn that still runs (I-10)",
    ),
    Mutant(
        "core/prune.py",
        "    return replaced_at is not None and replaced_at < before",
        "    return replaced_at is None or replaced_at < before",
        f"{INVARIANTS}::test_pruning_is_invisible_to_a_reader_at_any_cursor",
        "retention takes the last state (I-10)",
    ),
    # -- I-12: every turn ends, or can go on -------------------------------------------------------------------
    Mutant(
        "core/attempts.py",
        "    if tries.counted >= rules.max_attempts:",
        "    if tries.counted >= rules.max_attempts + 1000:",
        f"{TURNS}::test_attempts_are_bounded_and_the_turn_then_ends_with_an_error_that_may_be_shown",
        "a turn that kills its process is tried for ever (I-12)",
    ),
    Mutant(
        "core/wanted.py",
        "        if start is None or start <= now:",
        "        if start is None:",
        f"{INVARIANTS}::test_from_any_crash_point_every_turn_ends_or_waits_for_a_person",
        "a turn with a start time is never started (I-12)",
    ),
    Mutant(
        "core/evolve.py",
        "    turn.accepted = replace(turn.accepted, deferred=False, parent=last, message_ids=ids)",
        "    turn.accepted = replace(turn.accepted, deferred=not ids, parent=last, message_ids=ids)",
        f"{ACCEPT}::test_a_deferred_turn_with_nothing_new_to_say_begins_all_the_same",
        "a deferred turn without news waits for ever (I-12)",
    ),
    Mutant(
        "core/accept.py",
        "    # With nothing new to place it still says",
        "    if not placed:\n        return []\n    # With nothing new to place it still says",
        f"{AGREEMENT}::test_what_is_wanted_can_be_done",
        "the runtime tries in vain to begin a deferred turn (I-12)",
    ),
    # -- properties that are nobody's invariant by number ------------------------------------------------------
    Mutant(
        "core/decide.py",
        "    attempt = Attempt(turn.attempt + 1)\n    cause",
        "    attempt = turn.attempt = Attempt(turn.attempt + 1)\n    cause",
        f"{PURITY}::test_neither_decide_nor_wanted_changes_the_state",
        "an attempt is counted although its commit failed",
    ),
    Mutant(
        "core/wanted.py",
        "    hooks = tuple(sorted(state.hooks_due))\n",
        "    hooks = tuple(sorted(state.hooks_due))\n    state.hooks_due.clear()\n",
        f"{PURITY}::test_neither_decide_nor_wanted_changes_the_state",
        "a hook that was wanted once is not wanted again",
    ),
    Mutant(
        "core/tree.py",
        "            self._path = self._path_to(self._leaf)\n",
        "            self._path = self._path_to(self._leaf)\n            self._revision += 1\n",
        f"{PURITY}::test_reading_a_tree_changes_nothing_that_can_be_read",
        "a transcript is rendered again because a reader looked at the tree",
    ),
    Mutant(
        "core/evolve.py",
        "    for placed in messages:\n        state.tree.add(",
        "    for placed in messages[-1:]:\n        state.tree.add(",
        f"{INVARIANTS}::test_nothing_said_is_lost_unless_somebody_removed_it",
        "of several questions only the last is kept",
    ),
    Mutant(
        "core/tree.py",
        "        return tuple(self.ancestors(leaf))[::-1]\n",
        "        return tuple(node for node in self.ancestors(leaf) if self._nodes[node].shown)[::-1]\n",
        f"{INVARIANTS}::test_the_active_path_is_a_path",
        "the path has holes where answers are still to come",
    ),
    Mutant(
        "core/decide.py",
        "return state.current if state.current is not turn else None",
        "return state.current if state.current is not turn and state.current.attempt > 1 else None",
        f"{INVARIANTS}::test_at_most_one_chat_turn_runs_and_indexes_have_no_gap",
        "two turns of one agent run side by side",
    ),
    Mutant(
        "core/evolve.py",
        "    base = state.tree.nodes[turn.node].body if turn.extends and turn.node in state.tree.nodes else None",
        "    base = None",
        f"{INVARIANTS}::test_a_message_ends_as_what_its_chunks_fold_to",
        "a continuation overwrites the message that it extends",
    ),
    Mutant(
        "core/accept.py",
        "_mergeable_tail(state, overlapping, command) if _brings_news(state, command) else []",
        "_mergeable_tail(state, overlapping, command)",
        f"{POLICIES}::test_an_edit_under_the_merge_policy_is_a_branch_and_merges_with_nothing",
        "merging an edit shows one message id twice",
    ),
    Mutant(
        "core/accept.py",
        '        if message["role"] != "user" or message["id"] in known:',
        '        if message["role"] != "user":',
        f"{AGREEMENT}::test_no_message_id_is_shown_twice",
        "a resent question is asked a second time (R-4)",
    ),
    Mutant(
        "core/accept.py",
        "    placed = _chain(state, new, state.tree.leaf, stamp, rules)",
        "    placed = _chain(state, new, None, stamp, rules)",
        f"{AGREEMENT}::test_only_clearing_removing_and_branching_hide_what_was_shown",
        "messages stored without a turn hide the whole conversation",
    ),
    Mutant(
        "core/transcript.py",
        "                    self.messages.pop(node, None)",
        "                    self.messages.get(node, None)",
        f"{AGREEMENT}::test_what_an_observer_saw_of_the_log_is_what_is_kept",
        "an observer goes on showing what was removed",
    ),
    # -- accepting (R-4, R-6, R-7, R-10) -----------------------------------------------------------------------
    Mutant(
        "core/accept.py",
        '        if message["role"] != "user" or message["id"] in known:',
        '        if message["id"] in known:',
        f"{ACCEPT}::test_a_forged_answer_before_the_question_is_not_taken",
        "a client can put words into the model's mouth (R-6)",
    ),
    Mutant(
        "core/accept.py",
        "    return _Plan(node, [])\n",
        "    return _Plan(state.leaf, [])\n",
        f"{ACCEPT}::test_a_proper_prefix_branches_there_whatever_the_trigger_says",
        "regenerating answers the old answer (R-4)",
    ),
    Mutant(
        "core/accept.py",
        "        return _Plan(place.parent, _chain(state, [last], place.parent, stamp, rules))",
        "        return _Plan(node, _chain(state, [last], node, stamp, rules))",
        f"{ACCEPT}::test_an_edited_question_branches_beside_the_old_one_under_the_same_id",
        "an edited question follows the old one (R-4)",
    ),
    Mutant(
        "core/accept.py",
        "            and node not in written\n",
        "",
        f"{ACCEPT}::test_a_message_that_an_open_turn_writes_is_not_replaced_under_its_feet",
        "an edit meets a message that is being written",
    ),
    Mutant(
        "core/accept.py",
        'and accepted.trigger == "submit-message" and bool(accepted.messages)',
        "and bool(accepted.messages or accepted.message_ids)",
        f"{POLICIES}::test_a_waiting_regeneration_is_never_superseded",
        "a waiting regeneration is thrown away (R-7)",
    ),
    Mutant(
        "core/accept.py",
        "        if not _supersedable(turn) or turn.node != below or not _is_askers(turn, command):",
        "        if not _supersedable(turn) or not _is_askers(turn, command):",
        f"{POLICIES}::test_merging_hides_nothing_that_was_put_behind_the_waiting_question",
        "merging hides what was said in between (R-7)",
    ),
    Mutant(
        "core/accept.py",
        '    return [accepted, TurnEnded(turn, Outcome.SKIPPED, reason="dropped")]',
        "    return [accepted]",
        f"{POLICIES}::test_a_dropped_question_is_accepted_and_skipped_in_one_batch_and_leaves_no_trace_in_the_tree",
        "a dropped question waits for an answer for ever (R-7)",
    ),
    # -- answers (R-1, R-2, R-3) -------------------------------------------------------------------------------
    Mutant(
        "core/answers.py",
        "enumerate(answer_chunks(command.call, command.answer), turn.chunks)",
        "enumerate(answer_chunks(command.call, command.answer))",
        f"{ANSWERS}::test_a_result_for_a_streaming_call_is_an_answer_and_a_chunk_in_one_batch",
        "two chunks of a request have the same index (R-1)",
    ),
    Mutant(
        "core/evolve.py",
        "    turn.fold.answer(event.call, answer)\n",
        "",
        f"{ANSWERS}::test_the_first_answer_to_a_streaming_call_wins",
        "an approval is asked for, given and asked for again (R-1)",
    ),
    Mutant(
        "core/evolve.py",
        "if node is not None and node.draft is not None and turn.fold is not None:",
        "if node is not None and node.draft is not None:",
        f"{ANSWERS}::test_a_cancelled_continuation_leaves_the_draft_of_the_streaming_message_alone",
        "a question to a person vanishes from the page (R-2)",
    ),
    Mutant(
        "core/continuations.py",
        "turn.is_continuation and turn.status is Status.ACCEPTED",
        "turn.is_continuation",
        f"{ANSWERS}::test_a_continuation_that_has_begun_is_not_retargeted_but_followed_by_another",
        "an answer during a continuation is never gone on with (R-3)",
    ),
    Mutant(
        "core/continuations.py",
        "    return body is None or not is_mid_batch(UIMessage.decode(body))",
        "    return True",
        f"{ANSWERS}::test_the_continuation_of_a_whole_batch_waits_for_the_whole_batch",
        "the model goes on with half of its results (R-3)",
    ),
    # -- turns (R-9, R-17, R-23, R-25, R-28) -------------------------------------------------------------------
    Mutant(
        "core/decide.py",
        "    return [*left, *_closing(turn, Attempt(turn.attempt)), AttemptStarted(turn.id, attempt, cause)]",
        "    return [*left, AttemptStarted(turn.id, attempt, cause)]",
        f"{TURNS}::test_the_next_attempt_first_closes_what_the_dead_one_left_open",
        "a text part stays open for ever after a crash (R-17)",
    ),
    Mutant(
        "core/decide.py",
        "        Outcome.ABORTED if aborted else command.outcome,",
        "        command.outcome,",
        f"{TURNS}::test_whatever_the_runner_says_a_cancelled_turn_ends_aborted",
        "a cancelled turn is called completed",
    ),
    Mutant(
        "core/decide.py",
        "        if other is not turn:\n",
        "        if other is not None:\n",
        f"{TURNS}::test_the_cap_is_kept_exactly_once_nothing_is_open",
        "more messages are kept than the cap allows (R-6)",
    ),
    Mutant(
        "core/decide.py",
        "    for turn in state.open.values():\n        if turn.status is Status.ACCEPTED:",
        "    for turn in state.chat_turns():\n        if turn.accepted.deferred:\n            continue\n"
        "        if turn.status is Status.ACCEPTED:",
        f"{TURNS}::test_clearing_aborts_the_running_turn_without_a_message_and_skips_those_that_wait",
        "a turn of a cleared conversation comes back (R-9)",
    ),
    Mutant(
        "core/decide.py",
        "    return rules.has_response_hook and turn.accepted.kind.is_chat",
        "    return rules.has_response_hook and turn.attempt > 0",
        f"{TURNS}::test_the_hook_is_due_for_every_ending_but_skipped",
        "nobody hears of turns that ended before they began (R-28)",
    ),
]

ALL = [
    *ASKERS,
    *HANDLES,
    *FIELDS,
    *CORE,
    *LOADING,
    *AGENTS,
    *layers.MESSAGES,
    *layers.CODEC,
    *layers.WIRE,
    *layers.RUNTIME,
    *layers.LOG,
    *BACKGROUND,
    *STREAMS,
    *SWIFT,
    *BOUNDS,
    *OUTSIDE,
    *RUNS,
    *CLIENTS,
    *CALLS,
    *MEMBERS,
]
