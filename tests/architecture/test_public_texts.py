"""The text of an exception leaves the process by `public_text` only; other uses of it are listed, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.tree import Module, parse_module, read_source

SERVING = {"agents", "core", "models", "runtime", "server"}
"""Packages that run the agent's own code or answer clients. The store and the command line speak to the operator."""

# module.function → why the text may be used there as it is.
KNOWN: dict[str, str] = {
    "agents.handles.values.encode_value": "it becomes the text of a UsageError, which is not public",
    "agents.setup_problems._problem": "the operator reads it, in the log and in `everyword doctor`",
    "agents.streams.stream_manager._answer": "it becomes `detail`, which stays in the log",
    "agents.tools.definition._step": "the model reads it only where the tool shows its errors",
    "agents.think.model.inferred_model": "it becomes the text of a UsageError, which is not public",
    "core.decide._finish": "it becomes `detail`, which stays in the log",
    "core.restore._check_body": "it becomes a log line",
    "core.restore._restore_kept": "it becomes a log line",
    "core.restore._restore_lists": "it becomes a log line",
    "core.restore.restore": "it becomes a log line",
    "models.step_writer.end_call": "the arguments are the model's own, and so is what is wrong with them",
    "runtime.erasures._step": "the operator reads it, in the report of an erasure",
    "runtime.method_calls._erase_here": "the operator reads it, in the report of an erasure",
    "server.app._run_lifespan": "the web server writes it to its log",
    "server.playground._respond": "the developer reads it, in `everyword dev` only",
}


def uses(module: Module) -> Iterator[str]:
    """Yield the functions that make a string of a caught exception, but to raise another one or to log it."""
    for scope in module.nodes():
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for handler in ast.walk(scope):
            if isinstance(handler, ast.ExceptHandler) and any(
                _is_text(node, handler.name) for part in handler.body for node in _walk(part)
            ):
                yield f"{module.name}.{scope.name}"


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _is_log(node)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def _is_log(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "log"
    )


def _is_text(node: ast.AST, name: str | None) -> bool:
    match node:
        case (
            ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=found)])
            | ast.FormattedValue(value=ast.Name(id=found))
        ):
            return found == name
        case _:
            return False


def test_texts_of_exceptions_leave_by_one_function() -> None:
    found = {use for module in read_source() if module.top in SERVING for use in uses(module)}
    assert found == KNOWN.keys()


def test_a_new_use_is_found() -> None:
    seeded = "def answer():\n    try:\n        work()\n    except Exception as exc:\n        return f'it said {exc}'\n"
    assert list(uses(parse_module(seeded, "server.seeded"))) == ["server.seeded.answer"]
    allowed = seeded.replace("return f'it said {exc}'", "log.info('%s', str(exc))\n        raise E(f'{exc}') from exc")
    assert list(uses(parse_module(allowed, "server.seeded"))) == []
