"""Models of an agent's state: encoding and decoding a state, and the model in the type argument of a class."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from functools import lru_cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import BadInput, UsageError
from ...messages.json_values import encode_json, plain_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["named_model", "state_from_json", "state_to_json"]


def state_to_json(model: Any, state: Any) -> bytes:
    """Return a state as JSON, as it is stored.

    Raises:
        BadInput: it has no JSON form.
    """
    if model is not None and isinstance(state, model) and not _is_struct(model):
        # No warnings for values that do not fit the model: reading the state back reports them.
        state = _adapter(model).dump_python(state, mode="json", warnings="none")
    return encode_json(plain_json(state))


def state_from_json(model: Any, value: bytes) -> Any:
    """Return a stored state, as an instance of the model if there is one.

    Raises:
        BadInput: it does not fit the model.
    """
    if model is None:
        return msgspec.json.decode(value)
    # The errors do not include the value: a client may read the text, and the state may be private to the agent.
    if _is_struct(model):
        try:
            return msgspec.json.decode(value, type=model)
        except msgspec.ValidationError as exc:
            raise _misfit(model, str(exc)) from None
    from pydantic import ValidationError

    try:
        return _adapter(model).validate_json(value)
    except ValidationError as exc:
        first = exc.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise _misfit(model, f"{place}: {first['msg']}") from None


def _is_struct(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, msgspec.Struct)


def _misfit(model: Any, why: str) -> BadInput:
    return BadInput(f"unable to take the state; it does not fit {model.__name__}, {why}")


@lru_cache(maxsize=256)
def _adapter(model: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(model)


# -- the type argument of a class ------------------------------------------------------------------------------------


def named_model(cls: Any, root: Any) -> type[Any] | None:
    """Return the model in the type argument of a class: `Cart` of `Agent[Cart]` and `Agent[Cart | None]`.

    None if the class itself has no type argument, or it is not a model. `root` is the class with the type variable.

    Raises:
        UsageError: the type does not allow None, but there is no initial state.
    """
    found = _argument(cls, root)
    types = typing.get_args(found) if typing.get_origin(found) in (typing.Union, UnionType) else (found,)
    models = [each for each in types if each is not NoneType]
    if len(models) != 1 or not isinstance(models[0], type) or not _is_model(models[0]):
        return None
    name = models[0].__name__
    if len(types) == 1 and inspect.getattr_static(cls, "initial_state", None) is None:
        raise UsageError(
            f"unable to make {cls.__name__}; its state is a {name}, but None until one is set. Give the class an "
            f"`initial_state`, or let its type allow for None: [{name} | None]"
        )
    return models[0]


def _argument(cls: Any, root: Any) -> Any:
    """Return the type argument of a class for the type variable of `root`: a type, or a type variable of the class."""
    if cls is root:
        return root.__parameters__[0]
    for base in vars(cls).get("__orig_bases__", ()):
        origin: Any = typing.get_origin(base)
        if not isinstance(origin, type) or not issubclass(origin, root):
            continue
        inner, generic = _argument(origin, root), typing.cast(Any, origin)
        return dict(zip(generic.__parameters__, typing.get_args(base), strict=False)).get(inner, inner)
    return None


def _is_model(found: type[Any]) -> bool:
    # Pydantic models are recognised by a method: importing Pydantic takes longer than importing all of everyword.
    return dataclasses.is_dataclass(found) or _is_struct(found) or hasattr(found, "model_json_schema")
