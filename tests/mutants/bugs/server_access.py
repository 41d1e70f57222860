"""Seeded bugs of authentication and access control."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import drop, never, replace

__all__ = ["BUGS"]

ACCESS = "tests/server/test_access_policy.py"
PERMISSIONS = "tests/server/test_permissions.py"
READ_ONLY = "tests/server/test_read_only.py"

BUGS = [
    Bug(
        "ConnectionHooks._call",
        "I-3",
        drop("$states.committed()"),
        "tests/server/test_state.py::test_what_tells_of_a_state_leaves_behind_it[add_at_once-expected0]",
        "the result of a call tells of a state that is not committed",
    ),
    Bug(
        "server:seated",
        "I-11",
        drop("$seat.enter_context(...)"),
        "tests/server/test_http.py::test_of_many_readers_that_come_at_once_no_more_get_in_than_there_are_seats[events]",
        "any number of readers that come at once gets in",
    ),
    Bug(
        "Permit.decide",
        "I-14",
        replace("$verdict is True", "$verdict"),
        f"{PERMISSIONS}::test_only_true_allows",
        "an `authorize` that forgets to compare allows everything",
    ),
    Bug(
        "Permit.decide",
        "I-14",
        never("self.is_expired"),
        f"{PERMISSIONS}::test_a_frame_of_an_expired_principal_is_refused_even_before_its_socket_is_closed",
        "a frame that an expired client sends while its socket is being closed is obeyed",
    ),
    Bug(
        "OpenConnections.admit",
        "I-14",
        drop("self._open[$principal.id].add(...)"),
        f"{PERMISSIONS}::test_disconnecting_a_principal_closes_all_that_it_has_open_and_nothing_of_others",
        "a revoked client goes on reading",
    ),
    Bug(
        "Permissions._checked",
        "I-14",
        replace("Reject(UNCHECKED, ...)", "Principal(str(verdict))"),
        "tests/server/test_every_entry_point.py::test_only_a_principal_comes_in_over_http",
        "an `authorize` that returns a name lets every client in",
    ),
    Bug(
        "AccessPolicy.without_credentials",
        "I-14",
        drop("not _is_added_by_browser(...)"),
        f"{ACCESS}::test_no_code_sees_the_cookies_of_a_page_that_only_the_star_lets_in",
        "a page of any site acts with its visitors' cookies",
    ),
    Bug(
        "server:why_not_local",
        "I-14",
        drop("$name.startswith(...)"),
        f"{ACCESS}::test_without_authorize_other_clients_are_refused_with_a_hint",
        "clients of a proxy seem to be on this machine",
    ),
    Bug(
        "ConnectionHooks.heard",
        "I-14",
        never("self.connection.is_readonly and (not self._agent.read_only_may_send)"),
        f"{READ_ONLY}::test_frames_of_its_own_reach_the_agent_only_where_the_agent_allows_it",
        "a client that may only watch reaches the agent's own code",
    ),
    Bug(
        "server:_refuse_change",
        "I-14",
        replace("$method not in SAFE_METHODS", "$method == 'POST'"),
        f"{READ_ONLY}::test_a_read_only_request_changes_nothing_at_any_path",
        "a client that may only watch deletes with DELETE",
    ),
    Bug(
        "Admission.enter",
        "I-14",
        never("$loads and $permit.principal.read_only and not await can_be_watched(...)"),
        f"{READ_ONLY}::test_a_read_only_client_makes_and_loads_no_agent",
        "a client that may only watch fills the memory with agents",
    ),
    Bug(
        "server:_closed",
        "I-14",
        replace("$verdict is True", "$verdict"),
        "tests/server/test_sub_agent_access.py::test_a_refused_client_gets_the_same_verdict_over_http_and_the_socket",
        "an `authorize` that does not say no lets clients in",
    ),
]
