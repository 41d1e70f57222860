"""Seeded bugs of agent classes: names that are taken, and what their type arguments say."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MEMBERS"]

HIDDEN = "tests/agents/test_members.py"
MODELS = "tests/agents/test_state_models.py"

MEMBERS = [
    Mutant(
        "agents/members.py",
        "        below = [each for each in cls.__mro__[place + 1 :] if is_framework_class(each)]",
        "        below = [each for each in base.__mro__ if is_framework_class(each)]",
        f"{HIDDEN}::test_a_member_of_another_base_is_refused_if_it_hides_one",
        "a mixin replaces a method that the framework needs",
    ),
    Mutant(
        "agents/members.py",
        "(*vars(cls), *inspect.get_annotations(cls))",
        "(*vars(cls),)",
        f"{HIDDEN}::test_a_member_that_hides_one_of_the_framework_is_refused",
        "a class attribute has the name of one that only instances of ours have",
    ),
    Mutant(
        "agents/members.py",
        "if name in PLAIN_HOOKS and inspect.iscoroutinefunction(_function(value)):",
        "if False:",
        f"{HIDDEN}::test_a_member_that_hides_one_of_the_framework_is_refused",
        "a validator that is async refuses nothing",
    ),
    Mutant(
        "agents/state_models.py",
        ".get(inner, inner)",
        ".get(None, inner)",
        f"{MODELS}::test_the_type_argument_is_the_model_of_the_state",
        "a state is not checked against the type that its class names",
    ),
    Mutant(
        "agents/chat.py",
        "replace(recovery, exhausted=True)",
        "recovery",
        "tests/agents/test_recovery.py::test_a_turn_that_kills_every_process_is_given_up_once_and_the_hook_hears_of_it",
        "a turn that is given up looks like one that may go on",
    ),
]
