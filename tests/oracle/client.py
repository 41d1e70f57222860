"""The AI SDK itself, asked from Python: one Node process per test run answers batches of questions."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Self

import msgspec

__all__ = ["Oracle", "start_oracle"]

HERE = Path(__file__).parent


class Oracle:
    """A running Node process; every method takes a whole batch and waits for its answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def fold(self, version: int, cases: list[list[Any]], *, base: Any = None) -> list[dict[str, Any]]:
        """Return per case `{"message": …, "error": None | {"name", "type", "id", "at"}}`."""
        question = {"ask": "fold", "version": version, "base": base}
        answers: list[dict[str, Any]] = self._ask([{**question, "chunks": chunks} for chunks in cases])
        return answers

    def continue_fold(self, version: int, cases: list[tuple[Any, list[Any]]]) -> list[dict[str, Any]]:
        """Like `fold`, each case with the message that it continues."""
        question = {"ask": "fold", "version": version}
        answers: list[dict[str, Any]] = self._ask(
            [{**question, "base": base, "chunks": chunks} for base, chunks in cases]
        )
        return answers

    def rejected(self, version: int, cases: list[list[Any]]) -> list[list[int]]:
        """Return per case the indices of the chunks that the client's schema rejects."""
        answers: list[list[int]] = self._ask(
            [{"ask": "accept", "version": version, "chunks": chunks} for chunks in cases]
        )
        return answers

    def repair(self, version: int, texts: list[str]) -> list[dict[str, Any]]:
        """Return per text `{"value": …}`, or `{}` when nothing of it is readable."""
        answers: list[dict[str, Any]] = self._ask(
            [{"ask": "repair", "version": version, "text": text} for text in texts]
        )
        return answers

    def _ask(self, questions: list[dict[str, Any]]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(questions) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the oracle stopped; run `node tests/oracle/oracle.mjs` to see why"
        return msgspec.json.decode(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def start_oracle() -> Oracle:
    """Start the Node process, which reads questions until its input ends."""
    missing = [name for name in ("ai6", "ai7") if not (HERE / "node_modules" / name).is_dir()]
    assert not missing, "unable to ask the AI SDK; its packages are not installed: run `make setup`"
    return Oracle(subprocess.Popen(["node", "oracle.mjs"], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
