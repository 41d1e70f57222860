"""Seeded bugs about who asks: who may do what, for whom code works, and what is told of it (R-35)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["ASKERS"]

CORE = "tests/core/test_principals.py"
AGENTS = "tests/agents/test_principals.py"
PERMISSIONS = "tests/server/test_permissions.py"

ASKERS = [
    Mutant(
        "core/accept.py",
        "    return (before.id if before is not None else None) == (now.id if now is not None else None)\n",
        "    return True\n",
        f"{CORE}::test_a_question_takes_nothing_away_from_another_principals",
        "a question is merged with somebody else's, and answered in one name",
    ),
    Mutant(
        "core/answers.py",
        "            principal=asker_of(state, node),\n",
        "            principal=command.principal,\n",
        f"{CORE}::test_an_answer_goes_on_for_who_asked_and_not_for_who_approved",
        "an answer goes on with the rights of whoever approved a call of it",
    ),
    Mutant(
        "core/continuations.py",
        "        principal=asker_of(state, node),\n",
        "        principal=None,\n",
        f"{CORE}::test_late_calls_run_for_who_asked",
        "a late call does not know for whom it runs",
    ),
    Mutant(
        "core/restore.py",
        "            approvals.append((CallId(row.key), restore_approval(row)))\n",
        "            pass\n",
        f"{AGENTS}::test_who_approved_is_known_to_the_process_that_runs_the_call",
        "a tool does not know who approved it once the process was restarted",
    ),
    Mutant(
        "runtime/turn_runner.py",
        "        act_for(self._principal)\n",
        "        act_for(None)\n",
        f"{AGENTS}::test_a_later_attempt_works_for_the_same",
        "an answer's own code works for nobody",
    ),
    Mutant(
        "runtime/job_runner.py",
        "        act_for(added.principal)\n",
        "        act_for(None)\n",
        f"{AGENTS}::test_a_job_works_for_who_put_it_aside_also_in_the_next_process",
        "a job works for nobody",
    ),
    Mutant(
        "server/permissions.py",
        "        if verdict is True:\n",
        "        if verdict:\n",
        f"{PERMISSIONS}::test_only_true_allows",
        "an `authorize` that forgets to compare allows everything",
    ),
    Mutant(
        "server/permissions.py",
        "        if self.is_expired:\n",
        "        if False:\n",
        f"{PERMISSIONS}::test_a_frame_of_an_expired_principal_is_refused_even_before_its_socket_is_closed",
        "what an expired client sends while its socket is being closed is done",
    ),
    Mutant(
        "server/admissions.py",
        "        self._open[principal.id].add(close)\n",
        "",
        f"{PERMISSIONS}::test_disconnecting_a_principal_closes_all_that_it_has_open_and_nothing_of_others",
        "a revoked client goes on reading",
    ),
    Mutant(
        "wire/sse.py",
        '    "principal": None,\n',
        "",
        f"{PERMISSIONS}::test_nothing_of_a_principal_reaches_clients_through_the_log",
        "everybody who may read a conversation reads the claims of all that asked in it",
    ),
]
