"""Seeded bugs of the commands for several nodes: workers, and copies into PostgreSQL."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, replace, returns
from tests.mutants.places import sql

__all__ = ["BUGS"]

SUPERVISOR = "tests/cli/test_supervisor.py"
COPY = "tests/cli/test_copy.py"

BUGS = [
    Bug(
        "WorkerSlot.replace",
        "a rolling restart never leaves the port without workers",
        always("await $new.until_ready()"),
        f"{SUPERVISOR}::test_a_rolling_restart_with_a_broken_app_leaves_the_workers_as_they_are",
        "an app that cannot start replaces the one that runs",
    ),
    Bug(
        "cli.supervisor:restart_delay",
        "a worker that cannot run is tried again within half a minute",
        replace("min($delay, LONGEST_DELAY)", "$delay"),
        f"{SUPERVISOR}::test_the_delay_doubles_up_to_half_a_minute",
        "an app that was repaired after an hour is not started for another hour",
    ),
    Bug(
        "cli.supervisor:_supervise",
        "no password in the arguments of a process",
        replace("['--log-format', $format]", "['--log-format', $format, '--store', str(chosen.store)]"),
        f"{SUPERVISOR}::test_the_password_of_the_store_is_in_no_argument_of_a_worker",
        "every user of the machine reads the password of the database",
    ),
    Bug(
        "Supervisor._stop",
        "a second signal ends everything at once",
        drop("self._exit_code = $code"),
        f"{SUPERVISOR}::test_a_second_signal_kills_what_does_not_stop",
        "workers were killed, and the command says that all is well",
    ),
    Bug(
        "agent_transfer:transfer_agent",
        "N-1",
        replace("max($found['epoch'], $given.epoch + 1)", "$found['epoch']"),
        f"{COPY}::test_the_copy_has_the_same_exports_and_the_next_epochs",
        "the owner of the file has an epoch that is valid in the database, too",
    ),
    Bug(
        "agent_transfer:transfer_agent",
        "retention deletes replaced states",
        drop("await $connection.execute($sql['note_replaced_states'], $key)"),
        f"{COPY}::test_states_that_were_replaced_are_deleted_from_the_copy_too",
        "states of copied agents stay for ever",
    ),
    Bug(
        "agent_transfer:_runs",
        "events keep their times",
        drop("$event.at != $run[0].at"),
        f"{COPY}::test_the_copy_has_the_same_exports_and_the_next_epochs",
        "events of the copy have the times of other events",
    ),
    Bug(
        "sql:replace_rows_3",
        "N-1",
        sql(
            "if not everyword.holds_lease_1(p_node, p_key, p_epoch, p_root, p_term) then return false; end if;",
            "",
        ),
        "tests/log/postgres/test_replaced_rows.py::test_an_owner_that_lost_its_lease_replaces_nothing",
        "a tool that has lost the agent overwrites the rows of the new owner",
    ),
    Bug(
        "Comparison.lack",
        "a copy that differs is reported",
        always("$event.kind in PRUNED"),
        "tests/cli/test_log_comparison.py::test_a_copy_without_an_event_or_with_another_one_differs",
        "a lost event is taken for one that retention has deleted",
    ),
    Bug(
        "log_comparison:compare_logs",
        "a copy that differs is reported",
        drop("$found.differ(...)", which="first"),
        f"{COPY}::test_a_copy_that_was_changed_is_found",
        "a copy without its last events passes for the whole log",
    ),
    Bug(
        "commands.copy:_compare_databases",
        "a copy that differs is reported",
        drop("compared[agent].differ(...)"),
        f"{COPY}::test_a_database_that_differs_is_reported",
        "a copy with a damaged SQL database passes for the same",
    ),
    Bug(
        "Comparison.is_same",
        "a copy that differs is reported",
        returns("True"),
        f"{COPY}::test_a_difference_that_appears_while_copying_is_reported",
        "the command says that both stores are the same when they are not",
    ),
]
