"""The page's own fold, asked in Node: the same message as ours, for whatever a good server may send."""

from __future__ import annotations

import subprocess
from random import Random
from typing import Any

import msgspec

from everyword.client.protocol.chat import ChatProtocol
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from everyword.messages.partial_json import UNREADABLE, parse_partial_json
from everyword.web.page import FOLDER
from tests.messages.sequences import json_value, legal_sequence

BATCH = 400

FOLD = """
import { Fold } from "./fold.js";
export const answer = ({ base, chunks }) => {
  const fold = new Fold(base);
  for (const chunk of chunks) fold.apply(chunk);
  return fold.message;
};
"""

PARTIAL = """
import { readPartial } from "./partial-json.js";
export const answer = (text) => { const value = readPartial(text); return value === undefined ? [] : [value]; };
"""


def in_node(module: str, questions: list[Any]) -> Any:
    """Answer every question by the module's `answer`, beside the page's own files."""
    program = f"""{module.replace("export ", "")}
    let text = "";
    for await (const piece of process.stdin.setEncoding("utf8")) text += piece;
    process.stdout.write(JSON.stringify(JSON.parse(text).map(answer)));
    """.replace('from "./', f'from "{FOLDER.as_uri()}/')
    # Node takes the page's files for modules when it is told so; they have no package.json beside them.
    command = ["node", "--experimental-default-type=module", "--input-type=module", "--eval", program]
    done = subprocess.run(command, input=msgspec.json.encode(questions), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.json.decode(done.stdout)


def ours(chunks: list[Any], base: dict[str, Any] | None = None) -> dict[str, Any]:
    fold = MessageFold(base["id"] if base else "", base=UIMessage.from_dict(base) if base else None)
    for chunk in chunks:
        fold.apply(chunk)
    return plain(fold.message().to_dict())


def plain(value: Any) -> Any:
    """As JSON has it: a whole number is a whole number, however it was written."""
    return msgspec.json.decode(msgspec.json.encode(value))


def test_a_good_servers_chunks_fold_on_the_page_as_they_do_here() -> None:
    rng = Random("legal on the page")
    cases = [legal_sequence(rng, tidy=True, newer=index % 2 == 1) for index in range(BATCH)]
    theirs = in_node(FOLD, [{"base": None, "chunks": chunks} for chunks in cases])
    for chunks, message in zip(cases, theirs, strict=True):
        assert message == ours(chunks), chunks


def test_an_answer_cut_anywhere_folds_on_the_page_as_it_does_here() -> None:
    rng = Random("cut on the page")
    whole = [legal_sequence(rng, tidy=True) for _ in range(BATCH)]
    cases = [chunks[: rng.randrange(1, len(chunks) + 1)] for chunks in whole]
    theirs = in_node(FOLD, [{"base": None, "chunks": chunks} for chunks in cases])
    for chunks, message in zip(cases, theirs, strict=True):
        assert message == ours(chunks), chunks


def test_a_message_is_continued_on_the_page_as_it_is_here() -> None:
    rng = Random("continued on the page")
    cases = []
    for _ in range(BATCH):
        base = ours(legal_sequence(rng, tidy=True))
        chunks = [chunk for chunk in legal_sequence(rng, tidy=True) if chunk["type"] != "start"]
        cases.append({"base": base, "chunks": chunks})
    for case, message in zip(cases, in_node(FOLD, cases), strict=True):
        assert message == ours(case["chunks"], case["base"]), case


RARE = [
    [
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "thrown away"},
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "x"},
        {"type": "reset-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "kept"},
    ],
    [
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": 1},
        {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "a", "reason": "dear"},
        {"type": "tool-approval-response", "approvalId": "a", "approved": True, "reason": "go"},
        {"type": "tool-output-error", "toolCallId": "c", "errorText": "no"},
    ],
    [
        {"type": "tool-input-error", "toolCallId": "c", "toolName": "x", "input": "{bad", "errorText": "no"},
        {"type": "tool-output-error", "toolCallId": "c", "errorText": "still no"},
    ],
]


def test_what_is_rare_folds_on_the_page_as_it_does_here() -> None:
    for chunks, message in zip(RARE, in_node(FOLD, [{"base": None, "chunks": chunks} for chunks in RARE]), strict=True):
        assert message == ours(chunks), chunks


def test_half_written_json_reads_on_the_page_as_it_does_here() -> None:
    rng = Random("partial on the page")
    texts = []
    for _ in range(BATCH):
        text = msgspec.json.encode(json_value(rng, 3)).decode()
        texts.append(text[: rng.randrange(len(text) + 1)])
    for text, read in zip(texts, in_node(PARTIAL, texts), strict=True):
        expected = parse_partial_json(text)
        assert read == ([] if expected is UNREADABLE else [plain(expected)]), text


CLEARED = """
import { Chat } from "./protocol.js";
export const answer = (frames) => {
  const chat = new Chat();
  chat.connected();
  chat.clear();
  const mark = chat.clearing;
  for (const frame of frames) chat.take(frame);
  chat.take({ type: "rpc", id: mark, success: false, error: "" });
  return chat.messages.map(({ id }) => id);
};
"""


def test_what_comes_while_a_clear_is_on_its_way_ends_on_the_page_as_it_does_here() -> None:
    empty, full, clear = (
        {"type": "cf_agent_chat_messages", "messages": []},
        {"type": "cf_agent_chat_messages", "messages": [{"id": "u", "role": "user", "parts": []}]},
        {"type": "cf_agent_chat_clear"},
    )
    ways: list[list[Any]] = [[], [full, empty], [empty, full], [empty, full, clear], [empty, clear, full], [clear]]

    def here(frames: list[Any]) -> list[str]:
        protocol = ChatProtocol()
        mark = protocol.clear()
        for frame in frames:
            protocol.receive(frame)
        protocol.receive({"type": "rpc", "id": mark})
        return [message["id"] for message in protocol.messages]

    assert [here(frames) for frames in ways] == [[], [], ["u"], [], ["u"], []]
    assert in_node(CLEARED, ways) == [here(frames) for frames in ways]
