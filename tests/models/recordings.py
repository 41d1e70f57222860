"""Hand-made streams of the providers, event by event."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]


def chat(delta: Event | None = None, *, finish: str | None = None, usage: Event | None = None) -> Event:
    chunk: Event = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-x",
        "choices": [],
    }
    if delta is not None:
        chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return chunk | ({"usage": usage} if usage else {})


def chat_call(index: int, arguments: str, name: str | None = None, call: str | None = None) -> Event:
    function: Event = {"arguments": arguments} | ({"name": name} if name else {})
    begun: Event = {"id": call, "type": "function"} if call else {}
    return chat({"tool_calls": [{"index": index, "function": function, **begun}]})


CHAT_USAGE: Event = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}

CHAT_TEXT = [
    chat({"role": "assistant", "content": ""}),
    chat({"content": "Grüß"}),
    chat({"content": " Gott 🙂"}),
    chat({}, finish="stop"),
    chat(usage=CHAT_USAGE),
]
CHAT_REASONING = [
    chat({"role": "assistant", "reasoning_content": "let me"}),
    chat({"reasoning_content": " think"}),
    chat({"content": "four"}),
    chat({}, finish="stop"),
]
CHAT_REFUSAL = [chat({"role": "assistant", "refusal": "I can"}), chat({"refusal": "not."}), chat({}, finish="stop")]
CHAT_CALLS = [
    chat({"role": "assistant", "content": "Looking."}),
    chat_call(0, "", "weather", "call_a"),
    chat_call(0, '{"city": "Pa'),
    chat_call(1, "", "time", "call_b"),
    chat_call(0, 'ris"}'),
    chat_call(1, "{}"),
    chat({}, finish="tool_calls"),
]
CHAT_BROKEN_CALL = [chat_call(0, '{"city": "Pa', "weather", "call_a"), chat({}, finish="tool_calls")]

RESPONSE: Event = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-x", "output": []}
RESPONSE |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
RESPONSE_USAGE: Event = {
    "input_tokens": 10,
    "output_tokens": 5,
    "total_tokens": 15,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens_details": {"reasoning_tokens": 2},
}


def response(kind: str, **fields: Any) -> Event:
    return {"type": f"response.{kind}", "sequence_number": 0, **fields}


def item(moment: str, index: int, **fields: Any) -> Event:
    return response(f"output_item.{moment}", output_index=index, item=fields)


def completed(status: str = "completed", **fields: Any) -> Event:
    return response(status, response={**RESPONSE, "status": status, "usage": RESPONSE_USAGE, **fields})


CREATED = response("created", response={**RESPONSE, "status": "in_progress"})
CITATION: Event = {
    "type": "url_citation",
    "start_index": 0,
    "end_index": 4,
    "url": "https://example.org/a",
    "title": "A page",
}
TEXT_CONTENT: Event = {"type": "output_text", "text": "It is sunny.", "annotations": [CITATION]}


def said(index: int, name: str, *deltas: str, content: Event) -> list[Event]:
    place: Event = {"item_id": name, "output_index": index, "content_index": 0}
    return [
        item("added", index, type="message", id=name, role="assistant", status="in_progress", content=[]),
        response("content_part.added", part={"type": "output_text", "text": "", "annotations": []}, **place),
        *(response("output_text.delta", delta=delta, logprobs=[], **place) for delta in deltas),
        response("output_text.done", text=content["text"], logprobs=[], **place),
        response("content_part.done", part=content, **place),
        item("done", index, type="message", id=name, role="assistant", status="completed", content=[content]),
    ]


SUMMARY: list[Event] = [{"type": "summary_text", "text": "Think of Paris"}]
THOUGHT = [
    item("added", 0, type="reasoning", id="rs_1", summary=[]),
    response("reasoning_summary_part.added", item_id="rs_1", output_index=0, summary_index=0, part=SUMMARY[0]),
    response("reasoning_summary_text.delta", item_id="rs_1", output_index=0, summary_index=0, delta="Think of"),
    response("reasoning_summary_text.delta", item_id="rs_1", output_index=0, summary_index=0, delta=" Paris"),
    item("done", 0, type="reasoning", id="rs_1", summary=SUMMARY, encrypted_content="ENC"),
]
FUNCTION: Event = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather"}
RESPONSES_CALL = [
    CREATED,
    *THOUGHT,
    item("added", 1, **FUNCTION, arguments="", status="in_progress"),
    response("function_call_arguments.delta", item_id="fc_1", output_index=1, delta='{"city": "Pa'),
    response("function_call_arguments.delta", item_id="fc_1", output_index=1, delta='ris"}'),
    response(
        "function_call_arguments.done", item_id="fc_1", output_index=1, name="weather", arguments='{"city": "Paris"}'
    ),
    item("done", 1, **FUNCTION, arguments='{"city": "Paris"}', status="completed"),
    completed(),
]
SEARCH: Event = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
SEARCH |= {"action": {"type": "search", "query": "weather"}}
RESPONSES_SEARCH = [
    CREATED,
    item("added", 0, **{**SEARCH, "status": "in_progress"}),
    response("web_search_call.searching", item_id="ws_1", output_index=0),
    item("done", 0, **SEARCH),
    *said(1, "msg_1", "It is", " sunny.", content=TEXT_CONTENT),
    completed(),
]
CODE: Event = {"type": "code_interpreter_call", "id": "ci_1", "code": "print(1)", "container_id": "cn"}
IMAGE: Event = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGVsbG8="}
CODE_OUTPUTS: list[Event] = [{"type": "logs", "logs": "1"}]
RESPONSES_BUILT_IN = [
    CREATED,
    item("added", 0, **CODE, status="in_progress", outputs=None),
    item("done", 0, **CODE, status="completed", outputs=CODE_OUTPUTS),
    item("added", 1, type="image_generation_call", id="ig_1", status="in_progress", result=None),
    item("done", 1, **IMAGE),
    completed(),
]
RESPONSES_REFUSAL = [
    CREATED,
    item("added", 0, type="message", id="msg_1", role="assistant", status="in_progress", content=[]),
    response("refusal.delta", item_id="msg_1", output_index=0, content_index=0, delta="I cannot."),
    item(
        *("done", 0),
        type="message",
        id="msg_1",
        role="assistant",
        status="completed",
        content=[{"type": "refusal", "refusal": "I cannot."}],
    ),
    completed(),
]
RESPONSES_INCOMPLETE = [
    CREATED,
    *said(0, "msg_1", "It is", content={**TEXT_CONTENT, "text": "It is", "annotations": []}),
    completed("incomplete", incomplete_details={"reason": "max_output_tokens"}),
]


def block(index: int, start: Event, *deltas: Event) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def message(*blocks: list[Event], stop: str = "end_turn") -> list[Event]:
    usage: Event = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 4}
    begun: Event = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    begun |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    return [
        {"type": "message_start", "message": begun},
        {"type": "ping"},
        *(event for each in blocks for event in each),
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def text_delta(text: str) -> Event:
    return {"type": "text_delta", "text": text}


def input_delta(text: str) -> Event:
    return {"type": "input_json_delta", "partial_json": text}


TEXT_BLOCK: Event = {"type": "text", "text": ""}
CLAUDE_TEXT = message(block(0, TEXT_BLOCK, text_delta("Grüß"), text_delta(" Gott 🙂")))
CLAUDE_THINKING_CALL = message(
    block(
        *(0, {"type": "thinking", "thinking": "", "signature": ""}),
        *({"type": "thinking_delta", "thinking": "let me"}, {"type": "thinking_delta", "thinking": " think"}),
        {"type": "signature_delta", "signature": "SIG"},
    ),
    block(1, {"type": "redacted_thinking", "data": "REDACTED"}),
    block(2, TEXT_BLOCK, text_delta("Looking.")),
    block(
        *(3, {"type": "tool_use", "id": "toolu_a", "name": "weather", "input": {}}),
        *(input_delta(""), input_delta('{"city": "Pa'), input_delta('ris"}')),
    ),
    block(4, {"type": "tool_use", "id": "toolu_b", "name": "time", "input": {}}),
    stop="tool_use",
)
FOUND: Event = {"type": "web_search_result", "url": "https://example.org/a", "title": "A page"}
FOUND |= {"encrypted_content": "SECRET", "page_age": None}
SEARCH_RESULT: Event = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [FOUND]}
QUOTED: Event = {"type": "web_search_result_location", "url": "https://example.org/a", "title": "A page"}
QUOTED |= {"cited_text": "sunny", "encrypted_index": "IDX"}
CLAUDE_SEARCH = message(
    block(
        *(0, {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}),
        input_delta('{"query": "weather"}'),
    ),
    block(1, SEARCH_RESULT),
    block(2, TEXT_BLOCK, {"type": "citations_delta", "citation": QUOTED}, text_delta("It is sunny.")),
)
CLAUDE_REFUSAL = message(block(0, TEXT_BLOCK, text_delta("I")), stop="refusal")

CHAT = {
    "text": CHAT_TEXT,
    "reasoning": CHAT_REASONING,
    "refusal": CHAT_REFUSAL,
    "calls": CHAT_CALLS,
    "broken call": CHAT_BROKEN_CALL,
}
RESPONSES = {
    "call": RESPONSES_CALL,
    "search": RESPONSES_SEARCH,
    "built in": RESPONSES_BUILT_IN,
    "refusal": RESPONSES_REFUSAL,
    "incomplete": RESPONSES_INCOMPLETE,
}
CLAUDE = {
    "text": CLAUDE_TEXT,
    "thinking and calls": CLAUDE_THINKING_CALL,
    "search": CLAUDE_SEARCH,
    "refusal": CLAUDE_REFUSAL,
}
