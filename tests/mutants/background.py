"""Seeded bugs of what an agent does besides its turns: fibers, jobs, its end, what its connections are told."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CORE = "tests/core/test_fibers.py"
FIBERS = "tests/agents/test_fibers.py"
DESTROY = "tests/agents/test_destroy.py"
STORE = "tests/log/test_destroy.py"
RUNS = "tests/runtime/test_job_runner.py"
SHUTDOWN = "tests/runtime/test_shutdown.py"
CRASHES = "tests/crash/test_every_job_append.py"
SCHEDULES = "tests/agents/test_schedules.py"
DRIVEN = "tests/server/test_server_driven.py"
STATE = "tests/agents/test_state.py"
KINDS = "tests/agents/test_kinds.py"

BACKGROUND = [
    # -- classes that change -----------------------------------------------------------------------------------
    Mutant(
        "runtime/stored_ids.py",
        "            found = stored[0] if stored else others[0]\n",
        "            found = others[0]\n",
        f"{KINDS}::test_an_agent_keeps_its_id_and_everything_that_it_stored_when_its_class_is_renamed",
        "a renamed class finds none of its agents",
    ),
    Mutant(
        "runtime/stored_ids.py",
        "        return databases is not None and bool(databases.has(agent))\n",
        "        return False\n",
        f"{KINDS}::test_what_has_only_a_database_or_only_a_state_is_found_too",
        "a renamed class loses the databases of agents that have no log",
    ),
    Mutant(
        "runtime/directory.py",
        "            self.stored_ids.forget(each)\n",
        "",
        f"{KINDS}::test_a_destroyed_agent_is_made_anew_under_the_present_kind",
        "a destroyed agent comes back under a kind that its class has no more",
    ),
    Mutant(
        "agents/state.py",
        "        return agent._upgraded(value)\n",
        "        return value\n",
        "tests/agents/test_state_models.py::"
        "test_a_stored_state_that_does_not_fit_is_upgraded_and_not_written_before_the_next_one",
        "a client is shown a state of the shape that the class had before",
    ),
    # -- the state ---------------------------------------------------------------------------------------------
    Mutant(
        "runtime/agent_runtime/state.py",
        "loaded.pending_states.newest(None if loaded.owner is reader else reader)",
        "loaded.pending_states.newest()",
        f"{STATE}::test_a_state_is_the_agents_own_at_once_and_everybody_elses_when_committed",
        "code outside of the agent reads a state that a crash could take back (I-3)",
    ),
    Mutant(
        "runtime/agent_runtime/state.py",
        "waiting if waiting is not None else loaded.reconciler.value",
        "loaded.reconciler.value",
        f"{STATE}::test_fifty_callers_at_once_lose_nothing[add]",
        "callers that read and set the state at the same time lose each other's changes",
    ),
    Mutant(
        "runtime/pending_states.py",
        " and not waiting.has_failed:\n",
        ":\n",
        "tests/runtime/test_pending_states.py::test_a_state_that_failed_is_not_read_from_that_moment_on",
        "a state is built on one that could not be committed",
    ),
    Mutant(
        "runtime/agent_runtime/state.py",
        "        loaded.users += 1",
        "        loaded.users += 0",
        f"{STATE}::test_an_agent_is_not_unloaded_before_its_states_are_committed",
        "a state that no code awaits is lost when its agent is unloaded",
    ),
    Mutant(
        "server/hosting.py",
        "            await self._loaded.pending_states.committed()  # the result may tell of states that are not yet\n",
        "",
        "tests/server/test_state.py::test_what_tells_of_a_state_leaves_behind_it[add_at_once-expected0]",
        "the result of a call tells of a state that is not committed (I-3)",
    ),
    # -- fibers ------------------------------------------------------------------------------------------------
    Mutant(
        "core/fibers.py",
        "    if fiber.attempt >= MOST_ATTEMPTS:",
        "    if fiber.attempt >= MOST_ATTEMPTS + 1000:",
        f"{FIBERS}::test_a_fiber_that_ends_every_process_is_set_aside",
        "a fiber that kills the process makes it crash for ever",
    ),
    Mutant(
        "core/fibers.py",
        "        state.fibers.pop(event.forgets, None)",
        "        pass",
        f"{CORE}::test_only_the_newest_ends_are_remembered_and_open_fibers_always",
        "ends of fibers pile up for ever",
    ),
    Mutant(
        "core/fibers.py",
        "    if fiber is None or fiber.outcome is not None:\n        return []",
        "    if fiber is None:\n        return []",
        f"{CORE}::test_rows_restore_to_what_the_log_folds_to_and_nothing_follows_an_end",
        "a fiber ends twice",
    ),
    Mutant(
        "core/fibers.py",
        "    fiber.outcome, fiber.detail, fiber.ended_at = kept.outcome, kept.detail, kept.ended_at",
        "    fiber.outcome, fiber.detail = kept.outcome, kept.detail",
        f"{CORE}::test_rows_restore_to_what_the_log_folds_to_and_nothing_follows_an_end",
        "a loaded fiber is not the one that was stored",
    ),
    Mutant(
        "core/wanted.py",
        "bool(jobs.run or fibers or ",
        "bool(jobs.run or ",
        f"{CORE}::test_an_open_fiber_wants_to_run_and_the_restart_scan_finds_it",
        "a fiber that a dead process left is found only when a client comes",
    ),
    Mutant(
        "runtime/fiber_runner.py",
        "            events = await self._actor.insist(RecoverFiber(fiber))\n",
        "            events = [FiberStarted(fiber, '', 2)]\n",
        f"{FIBERS}::test_a_fiber_that_ends_every_process_is_set_aside",
        "an attempt is not written down before it is made",
    ),
    Mutant(
        "runtime/fiber_runner.py",
        "            return await asyncio.shield(self.task)",
        "            return await self.task",
        f"{FIBERS}::test_a_fiber_goes_on_when_whoever_waits_for_it_is_cancelled",
        "a fiber dies with whoever waits for it",
    ),
    Mutant(
        "runtime/fiber_runner.py",
        "            recovery.is_adopted = True\n        try:",
        "            pass\n        try:",
        f"{FIBERS}::test_a_fiber_is_handed_back_with_its_checkpoint_and_goes_on_under_its_id[start_it]",
        "a fiber that was taken up ends as interrupted",
    ),
    # -- jobs --------------------------------------------------------------------------------------------------
    Mutant(
        "runtime/reconciler.py",
        "            if job not in state.jobs and not run.is_ending:",
        "            if False:",
        f"{RUNS}::test_cancelling_a_schedule_stops_the_run_that_it_has",
        "a cancelled job goes on running",
    ),
    Mutant(
        "runtime/reconciler.py",
        "            self._look_at(Millis(",
        "            (lambda at: None)(Millis(",
        f"{RUNS}::test_a_run_that_breaks_in_our_own_code_is_looked_at_again_by_time",
        "a job whose run broke waits for the next commit",
    ),
    Mutant(
        "core/jobs.py",
        "        job.ended = event.run\n",
        "",
        f"{DRIVEN}::test_a_job_that_failed_and_is_tried_again_asks_again",
        "a job that is tried again is given the answer that made it fail",
    ),
    Mutant(
        "agents/chat.py",
        "request_id if request_id is not None else next_request_of_job()",
        "request_id",
        f"{DRIVEN}::test_a_job_whose_process_stops_in_its_turn_asks_once_and_the_turn_goes_on",
        "a job whose process died asks its question twice",
    ),
    Mutant(
        "core/project.py",
        "        case JobAdded() | JobStarted() | JobEnded():\n            return [job_row(state, event.job)]",
        "        case JobAdded() | JobStarted():\n            return [job_row(state, event.job)]\n"
        "        case JobEnded():\n            return []",
        f"{CRASHES}::test_dying_at_any_append_loses_no_work_and_acknowledges_none_twice[0-after]",
        "a job that was acknowledged is done again by the next process",
    ),
    Mutant(
        "core/jobs.py",
        ', order="deterministic")',
        ")",
        "tests/core/test_jobs.py::test_a_repeating_job_that_says_the_same_is_added_once",
        "a payload whose members come in another order is scheduled twice",
    ),
    Mutant(
        "core/jobs.py",
        "if job.added.job != command.within or",
        "if True or",
        f"{SCHEDULES}::test_a_method_that_schedules_its_own_key_again_goes_on_for_ever",
        "a method that schedules itself again runs once and never again",
    ),
    Mutant(
        "core/jobs.py",
        "_added(each, number, due=found.due, is_declared=True)",
        "_added(each, number, is_declared=True)",
        f"{SCHEDULES}::test_code_that_scheduled_the_same_before_is_taken_over_at_its_time",
        "a schedule that a class begins to declare loses its time",
    ),
    Mutant(
        "runtime/declared_schedules.py",
        "    if not declared and not any(job.added.is_declared for job in state.jobs.values()):",
        "    if not declared:",
        f"{SCHEDULES}::test_a_class_that_declares_nothing_any_more_cancels_what_it_declared_and_nothing_else",
        "the last schedule that a class declared is never cancelled",
    ),
    Mutant(
        "core/jobs.py",
        "            job.attempts -= 1\n",
        "",
        "tests/agents/test_jobs.py::test_a_stop_in_good_order_is_no_failure_of_the_job",
        "every deployment counts as a failure of what it cuts off",
    ),
    Mutant(
        "runtime/job_runner.py",
        '        self._stopped = EndJob(self.job, found.run + 1, "stopped", found.due)\n',
        "",
        f"{RUNS}::test_a_run_whose_beginning_is_being_committed_at_a_shutdown_is_no_failure_of_the_job",
        "a deployment at the moment a job begins counts as its failure",
    ),
    Mutant(
        "runtime/reconciler.py",
        "            if self._actor.begun is not None:",
        "            if False:",
        f"{SHUTDOWN}::test_an_attempt_whose_beginning_is_being_committed_at_the_interruption_does_not_count[0]",
        "a deployment at the moment a turn begins counts as a crash",
    ),
    Mutant(
        "core/attempts.py",
        "min(self.counted, self.restarts + 1)",
        "1",
        "tests/core/test_attempts.py::test_progress_does_not_take_back_attempts_that_began_anew",
        "a turn that starts anew each time and dies behind its first step is tried a hundred times",
    ),
    # -- destroying ----------------------------------------------------------------------------------------------
    Mutant(
        "log/memory.py",
        "            fresh.epoch = Epoch(self._logs.pop(each).epoch + 1)",
        "            self._logs.pop(each)",
        f"{STORE}::test_the_name_is_that_of_a_new_agent_and_old_writers_are_fenced[memory]",
        "an old owner writes into the new agent's log",
    ),
    Mutant(
        "log/sqlite/transaction.py",
        "        self.write_pending()\n        first = children_prefix",
        "        first = children_prefix",
        f"{STORE}::test_what_the_same_transaction_brought_goes_too[sqlite]",
        "events of a destroyed agent come after its end",
    ),
    Mutant(
        "log/sqlite/transaction.py",
        "        self._must_carry = True",
        "        pass",
        f"{STORE}::test_arrivals_are_never_given_twice[sqlite]",
        "retention passes over events that took the place of deleted ones",
    ),
    Mutant(
        "runtime/directory.py",
        "        if state.is_destroyed:  # by a process that died before it was done with it",
        "        if False:",
        f"{DESTROY}::test_a_process_that_dies_on_the_way_has_destroyed_all_or_nothing[1-after]",
        "half of an agent is left by a process that died",
    ),
    Mutant(
        "runtime/directory.py",
        "            loaded.responder.retire(why)",
        "            pass",
        f"{DESTROY}::test_everything_that_an_agent_has_and_runs_is_gone_and_so_are_those_below_it",
        "what an agent's code does last is done to the new agent",
    ),
    Mutant(
        "runtime/turn_requests.py",
        "        except AgentGone:\n            raise",
        "        except ZeroDivisionError:\n            raise",
        f"{DESTROY}::test_who_waits_for_a_turn_is_told_and_the_new_agent_is_not_asked",
        "the new agent is asked what the old one was asked",
    ),
    Mutant(
        "runtime/actor.py",
        "                await asyncio.wait([self._last])",
        "                pass",
        "tests/server/test_destroy.py::test_a_call_that_destroys_its_agent_is_answered_and_then_every_socket_is_closed",
        "who destroys an agent by a call gets no answer",
    ),
    # -- connections ---------------------------------------------------------------------------------------------
    Mutant(
        "server/websocket.py",
        "        await self._send(last if self._is_told else [])",
        "        await self._send(last)",
        "tests/server/test_opt_out.py"
        "::test_a_connection_without_the_protocol_gets_only_what_the_agent_sends_and_what_it_asked_for",
        "a device that speaks no protocol is told of the state",
    ),
]
