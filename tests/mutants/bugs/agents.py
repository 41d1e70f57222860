"""Seeded bugs of the agent classes: state, handles, streams, members."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace

__all__ = ["BUGS"]

HANDLE_LIFETIMES = "tests/agents/handles/test_lifetimes.py"
MEMBERS = "tests/agents/test_class_members.py"
STATE_MODELS = "tests/agents/state/test_models.py"
STREAM_MANAGER_FOLD = "tests/agents/streams/test_stream_manager_fold.py"

BUGS = [
    Bug(
        "ChatHandle.save_messages",
        "I-6",
        always("$request_id is not None"),
        f"{HANDLE_LIFETIMES}::test_a_job_that_runs_again_asks_another_agent_once",
        "a job that is run again asks another agent twice",
    ),
    Bug(
        "AIChatAgent.save_messages",
        "I-6",
        replace("$request if $request is not None else next_request_of_job()", "$request"),
        "tests/server/test_server_driven.py::test_a_job_whose_process_stops_in_its_turn_asks_once_and_the_turn_goes_on",
        "a job whose process died asks its question twice",
    ),
    Bug(
        "ChatResponder.on_exhausted",
        "R-17",
        replace("replace($recovery, ...)", "$recovery"),
        "tests/agents/test_recovery.py::test_a_turn_that_kills_every_process_is_given_up_once_and_the_hook_hears_of_it",
        "a turn that is given up looks like one that may go on",
    ),
    Bug(
        "_AttemptWriter._cut",
        "R-20",
        drop("self._restarts += 1"),
        f"{STREAM_MANAGER_FOLD}::test_a_client_that_saw_any_part_ends_with_the_text_of_the_last_attempt",
        "an old history brings back what was taken back",
    ),
    Bug(
        "_AttemptWriter.finish",
        "R-20",
        replace("self._cut(...) if self._inherited else []", "[]"),
        f"{STREAM_MANAGER_FOLD}::test_a_client_that_saw_any_part_ends_with_the_text_of_the_last_attempt",
        "chunks of a dead attempt beyond the answer's end stay",
    ),
    Bug(
        "ResumableStreamManager.generate_response_callback",
        "R-20",
        drop("self._try_to_sync()", which="last"),
        "tests/agents/streams/test_stream_manager_sockets.py"
        "::test_the_state_that_names_a_stream_comes_before_its_first_chunk_and_the_message_after_its_end",
        "clients never get the message of a stream that has ended",
    ),
    Bug(
        "agents:_prepared",
        "R-35",
        drop("act_for(...)"),
        f"{HANDLE_LIFETIMES}::test_a_call_has_the_principal_of_its_caller",
        "a call from one agent to another loses the principal",
    ),
    Bug(
        "agents:_post_when_loaded",
        "a destroyed agent changes nothing",
        drop("$states = $agent._runtime.state"),
        f"{HANDLE_LIFETIMES}::test_a_call_of_an_agent_that_is_destroyed_meanwhile_says_so",
        "a state of a destroyed agent becomes that of the new one",
    ),
    Bug(
        "agents:_argument",
        "a state is checked against its type",
        replace("$arguments.get($inner, $inner)", "$arguments.get(None, $inner)"),
        f"{STATE_MODELS}::test_the_type_argument_is_the_model_of_the_state",
        "a state is not checked against the type that its class names",
    ),
    Bug(
        "agents:shown_state",
        "a stored state is upgraded before it is shown",
        replace("$agent._upgraded($value)", "$value"),
        f"{STATE_MODELS}::test_a_stored_state_that_does_not_fit_is_upgraded_and_not_written_before_the_next_one",
        "a client is shown a state of the shape that the class had before",
    ),
    Bug(
        "agents:_prepared",
        "agents that call each other never wait in a circle",
        drop("set_waiting_agents(...)"),
        f"{HANDLE_LIFETIMES}::test_a_turn_that_would_wait_for_itself_through_another_agent_is_refused",
        "a turn waits for one of the same agent, which waits for it",
    ),
    Bug(
        "agents:check_members",
        "members of the framework are not replaced by accident",
        replace("cls.__mro__[$place + 1:]", "base.__mro__"),
        f"{MEMBERS}::test_a_member_of_another_base_is_refused_if_it_hides_one",
        "a mixin replaces a method that the framework needs",
    ),
    Bug(
        "agents:_members_of",
        "members of the framework are not replaced by accident",
        drop("*inspect.get_annotations(...)"),
        f"{MEMBERS}::test_a_member_that_hides_one_of_the_framework_is_refused",
        "a class attribute has the name of one that only instances of ours have",
    ),
    Bug(
        "agents:_check_member",
        "members of the framework are not replaced by accident",
        never("$name in PLAIN_HOOKS and inspect.iscoroutinefunction(...)"),
        f"{MEMBERS}::test_a_member_that_hides_one_of_the_framework_is_refused",
        "a validator that is async refuses nothing",
    ),
]
