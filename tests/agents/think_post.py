"""An agent that thinks, in a process that can be killed. Arguments: the log, the file of effects, and how it lives.

In a life of `hang` the tool has its effect and never answers; in one of `work` it answers, and the model repeats what
it was told of the first call. It says `did send` after an effect and `settled` when nothing is open.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from holdfast.agents import responder_for
from holdfast.agents.think import Think
from holdfast.agents.tools import tool
from holdfast.ids import AgentId
from holdfast.log.sqlite.store import SqliteLog
from holdfast.runtime.directory import Directory, Settings
from holdfast.runtime.port import Port

AGENT = AgentId("post/ann")
LIFETIME = 60.0
"""Seconds after which a forgotten process goes by itself."""


async def _model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    told = [part.content for message in messages for part in message.parts if part.part_kind == "tool-return"]
    if told:
        yield f"I was told: {told[0]}"
    else:
        yield {0: DeltaToolCall(name="send", json_args='{"text": "hello"}', tool_call_id="k1")}


class Post(Think):
    """Sends letters."""

    model = FunctionModel(stream_function=_model)
    effects: ClassVar[Path]
    hangs: ClassVar[bool]

    @tool
    async def send(self, text: str) -> str:
        with self.effects.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
        _report("did send")
        if self.hangs:
            await asyncio.Event().wait()
        return "sent"


def _report(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def live(path: str) -> None:
    directory: Directory
    directory = Directory(
        SqliteLog(path), lambda agent: responder_for(Post, Port(directory, agent)), settings=Settings(grace=0.0)
    )
    async with asyncio.timeout(LIFETIME), directory:
        post = Post(Port(directory, AGENT))
        await post.submit_messages("write to her", idempotency_key="k")
        await post._port.wait_until_idle()
        _report("settled")
        await asyncio.Event().wait()


if __name__ == "__main__":
    log, file, how = sys.argv[1:]
    Post.effects, Post.hangs = Path(file), how == "hang"
    asyncio.run(live(log))
