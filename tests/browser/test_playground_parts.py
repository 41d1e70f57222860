"""Every part of a message on the page, what can be done with it, and that nothing in it is more than text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import expect

from tests.browser.playground_server import running_playground
from tests.browser.playground_tab import Tab
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

MARKDOWN = """\
# Title

Some **bold**, *slanted*, ~~gone~~ and `code` words, a [link](https://example.org/a_(b)) and https://example.org/bare.
Two spaces  \nbreak a line; one newline does not.

- one
  - nested
- two

3. three
4. four

> quoted

| a | b |
|---|--:|
| 1 | 2 |

```python
x = "<b>not bold</b>"
```

---
"""

HOSTILE = """\
<img src=x onerror="window.owned = 1"> <script>window.owned = 1</script>

[click](javascript:window.owned=1) [data](data:text/html,<script>window.owned=1</script>) ![i](javascript:1)

```html" onmouseover="window.owned = 1
<svg onload="window.owned = 1">
```

| <img src=x onerror=window.owned=1> |
|---|
| **<i>x</i>** |
"""


async def play(tab: Tab, *items: Any) -> None:
    await tab.ask(json.dumps(items))


async def ended(tab: Tab) -> None:
    await expect(tab.answers.last.get_by_role("button", name="Regenerate")).to_be_enabled()


async def test_markdown_becomes_elements() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        await play(tab, MARKDOWN)
        await ended(tab)
        answer = tab.answers.last.locator(".md")
        await expect(answer.locator("h3")).to_have_text("Title")
        await expect(answer.locator("strong")).to_have_text("bold")
        await expect(answer.locator("em")).to_have_text("slanted")
        await expect(answer.locator("del")).to_have_text("gone")
        await expect(answer.locator("p > code")).to_have_text("code")
        links = answer.locator("a")
        addresses = await links.evaluate_all("links => links.map(link => link.href)")
        assert addresses == ["https://example.org/a_(b)", "https://example.org/bare"]
        assert await links.first.get_attribute("rel") == "noopener noreferrer"
        await expect(answer.locator("br")).to_have_count(1)
        await expect(answer.locator("ul > li > ul > li")).to_have_text("nested")
        assert await answer.locator("ol").get_attribute("start") == "3"
        await expect(answer.locator("blockquote")).to_have_text("quoted")
        await expect(answer.locator("tbody td.right")).to_have_text("2")
        await expect(answer.locator("pre code")).to_have_text('x = "<b>not bold</b>"')
        await expect(answer.locator("hr")).to_have_count(1)
        assert tab.problems == []


@pytest.mark.parametrize("where", [{"base_path": "/"}, {"mounted": True}, {"mounted": True, "base_path": "/"}])
async def test_the_page_finds_agents_at_the_root_and_in_another_application(where: dict[str, Any]) -> None:
    async with running_playground(**where) as playground:
        tab = await playground.open()
        await tab.ask("hello")
        await expect(tab.answers.locator(".text")).to_have_text(["You said: hello"])
        await expect(tab.page.locator("#conversations li")).to_contain_text(["hello"])
        await expect(tab.page.locator("#link")).to_have_text("live")
        assert tab.problems == []


async def test_nothing_that_is_said_is_more_than_text() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        source = {"type": "source-url", "sourceId": "s", "url": "javascript:window.owned=1", "title": "<b>title</b>"}
        file = {"type": "file", "mediaType": "image/png", "url": "javascript:window.owned=1"}
        data = {"type": "data-<img>", "data": {"<script>": "<img src=x onerror=window.owned=1>"}}
        call = {"type": "tool-input-available", "toolCallId": "c", "toolName": "<img>", "input": {"x": HOSTILE}}
        output = {"type": "tool-output-available", "toolCallId": "c", "output": HOSTILE}
        await play(tab, HOSTILE, source, file, data, call, output)
        await ended(tab)
        await tab.answers.last.locator(".tool summary").click()
        assert await tab.page.evaluate("window.owned") is None
        shown = tab.answers.last
        for tag in ("script", "img", "iframe", "b", "i"):
            await expect(shown.locator(tag)).to_have_count(0)
        addresses = await shown.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
        assert [address for address in addresses if address and "javascript" in address] == []
        await expect(shown).to_contain_text('<img src=x onerror="window.owned = 1">')


async def test_reasoning_data_files_sources_and_unknown_parts_are_shown() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        await play(
            tab,
            {"type": "reasoning-start", "id": "r"},
            {"type": "reasoning-delta", "id": "r", "delta": "because *so*"},
            {"wait": "thought"},
            {"type": "reasoning-end", "id": "r"},
            "Well: ",
            {"type": "data-progress", "id": "p", "data": {"done": 1, "total": 4}},
            {"type": "data-rows", "data": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]},
            {"type": "data-passing", "data": "a notice", "transient": True},
            {"wait": "data"},
            {"type": "data-progress", "id": "p", "data": {"done": 4, "total": 4}},
            {"type": "file", "mediaType": "image/png", "url": PIXEL},
            {"type": "file", "mediaType": "application/pdf", "url": "https://example.org/a.pdf"},
            {"type": "source-url", "sourceId": "s1", "url": "https://example.org/one", "title": "One"},
            {"type": "source-document", "sourceId": "s2", "mediaType": "text/plain", "title": "Two"},
        )
        shown = tab.answers.last
        thought = shown.locator("details.reasoning")
        await expect(thought.locator("summary")).to_have_text("Thinking")
        await expect(thought.locator("em")).to_be_visible()
        playground.gates["thought"].open()
        await expect(shown.locator(".data progress").first).to_have_js_property("value", 0.25)
        await expect(thought.locator("summary")).to_have_text("Thought")
        await expect(thought.locator("em")).to_be_hidden()
        await expect(tab.page.locator(".news")).to_contain_text("passing: a notice")
        playground.gates["data"].open()
        await ended(tab)
        await expect(tab.page.locator(".news li")).to_have_count(0)
        await expect(shown.locator(".data progress").first).to_have_js_property("value", 1)
        await expect(shown.locator(".data tbody tr")).to_have_text(["a1", "b2"])
        await expect(shown.locator(".picture img")).to_have_js_property("naturalWidth", 1)
        await expect(shown.locator("a.chip").first).to_have_attribute("href", "https://example.org/a.pdf")
        await expect(shown.locator(".sources .chip")).to_have_text(["Oneexample.org", "Twotext/plain"])
        assert tab.problems == []


async def test_tools_show_what_they_were_asked_what_came_of_it_and_that_they_run() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        begin = {"type": "tool-input-start", "toolCallId": "c0", "toolName": "slow"}
        delta = {"type": "tool-input-delta", "toolCallId": "c0", "inputTextDelta": '{"place": "har'}
        available = {
            "type": "tool-input-available",
            "toolCallId": "c0",
            "toolName": "slow",
            "input": {"place": "harbour"},
        }
        output = {"type": "tool-output-available", "toolCallId": "c0", "output": {"deg": 17}}
        await play(
            tab,
            begin,
            delta,
            {"wait": "input"},
            available,
            {"wait": "output"},
            output,
            {"call": "add", "one": 1, "other": 2},
        )
        first = tab.answers.last.locator(".tool").first
        await expect(first).to_have_attribute("data-state", "preparing")
        await expect(first.locator(".gist")).to_have_text("place: har")
        playground.gates["input"].open()
        await expect(first).to_have_attribute("data-state", "running")
        playground.gates["output"].open()
        await expect(first).to_have_attribute("data-state", "done")
        await first.locator("summary").click()
        await expect(first.locator("section")).to_contain_text(["harbour", "17"])
        second = tab.answers.last.locator(".tool").last
        await expect(second.locator(".name")).to_have_text("add")
        await expect(second).to_have_attribute("data-state", "done")
        await ended(tab)
        await play(tab, {"call": "stumble"})
        await expect(tab.answers).to_have_count(2)  # the last one is still the one before
        await expect(tab.answers.last.locator(".tool")).to_have_attribute("data-state", "failed")
        await expect(tab.answers.last.locator(".ending.error")).to_have_text("the tool stumbled")
        assert tab.problems == []


@pytest.mark.parametrize("word", ["Approve", "Deny"])
async def test_a_call_that_asks_is_answered_in_one_tab_and_settled_in_both(word: str) -> None:
    async with running_playground() as playground:
        one, two = await playground.open(), await playground.open()
        await play(one, "May I? ", {"call": "pay", "amount": 5}, "Thanks.")
        for tab in (one, two):
            await expect(tab.page.locator(".tool")).to_have_attribute("data-state", "needs approval")
        await two.page.get_by_role("button", name=word).click()
        for tab in (one, two):
            await expect(tab.page.locator(".ask")).to_be_hidden()
            state = {"Approve": "done", "Deny": "denied"}[word]
            await expect(tab.page.locator(".tool")).to_have_attribute("data-state", state)
        ending = {"Approve": "Thanks.", "Deny": "was not approved"}[word]
        for tab in (one, two):
            await expect(tab.answers.last).to_contain_text(ending)
            await expect(tab.answers).to_have_count(1)
            assert tab.problems == []


@pytest.mark.parametrize("word", ["Approve", "Deny"])
async def test_a_word_on_an_earlier_answer_changes_it_where_it_stands(word: str) -> None:
    async with running_playground() as playground:
        one, two = await playground.open(), await playground.open()
        await play(one, "May I? ", {"call": "pay", "amount": 7}, "Thanks.")
        await expect(two.page.locator(".ask")).to_be_visible()
        await play(one, "Something else.")
        for tab in (one, two):
            await expect(tab.answers.last).to_contain_text("Something else.")
        await two.page.get_by_role("button", name=word).click()
        for tab in (one, two):
            state = {"Approve": "done", "Deny": "denied"}[word]
            await expect(tab.answers.first.locator(".tool")).to_have_attribute("data-state", state)
            await expect(tab.page.locator(".ask")).to_be_hidden()
            await expect(tab.answers).to_have_count(2)
            await expect(tab.answers.last).to_contain_text("Something else.")
            assert tab.problems == []


async def test_the_page_answers_a_tool_that_is_its_own() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        await play(tab, "Which? ", {"call": "pick"}, "So be it.")
        card = tab.page.locator(".tool")
        await expect(card).to_have_attribute("data-state", "needs an answer")
        await tab.page.reload()
        await expect(card).to_have_attribute("data-state", "needs an answer")
        await tab.page.get_by_role("textbox", name="Result of pick").fill('{"fruit": "pear"}')
        await tab.page.get_by_role("button", name="Send the result").click()
        await expect(tab.answers.last).to_contain_text("So be it.")
        await card.locator("summary").click()
        await expect(card.locator("dl")).to_have_text("fruitpear")
        assert tab.problems == []


def event(kind: str, sequence: int, **more: Any) -> dict[str, Any]:
    told = {"kind": kind, "runId": "run-1", **more}
    return {"tell": {"type": "agent-tool-event", "parentToolCallId": "c1", "sequence": sequence, "event": told}}


async def test_an_agent_that_works_as_a_tool_has_a_card_in_its_call() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        chunks = [
            {"type": "start", "messageId": "m"},
            {"type": "text-start", "id": "t"},
            {"type": "text-delta", "id": "t", "delta": "looking **around**"},
        ]
        told = [event("chunk", place + 1, body=json.dumps(chunk)) for place, chunk in enumerate(chunks)]
        await play(
            tab,
            {"type": "tool-input-available", "toolCallId": "c1", "toolName": "scout", "input": {}},
            event("started", 0, agentType="scout", inputPreview="the bay", order=0, display={"name": "Scout"}),
            *told,
            told[2],
            event(
                "chunk",
                3,
                body=json.dumps({"type": "data-agent-progress", "data": {"fraction": 0.5, "message": "half"}}),
            ),
            {"wait": "run"},
            event("finished", 4, summary="all quiet"),
            {"type": "tool-output-available", "toolCallId": "c1", "output": "all quiet"},
        )
        run = tab.page.locator(".tool .run")
        await expect(run.locator(".name")).to_have_text("Scout")
        await expect(run.locator(".gist")).to_have_text("half")
        await expect(run).to_have_attribute("data-state", "running")
        await expect(run.locator(".said")).to_have_text("looking around")
        await expect(run.locator("progress")).to_have_js_property("value", 0.5)
        playground.gates["run"].open()
        await expect(run).to_have_attribute("data-state", "completed")
        assert tab.problems == []


async def test_answers_have_versions_questions_can_be_edited_and_every_tab_is_in_step() -> None:
    async with running_playground() as playground:
        one, two = await playground.open(), await playground.open()
        await one.ask("first")
        await ended(one)
        await one.answers.last.get_by_role("button", name="Regenerate").click()
        for tab in (one, two):
            await expect(tab.answers.last.locator(".count")).to_have_text("2 of 2")
        await ended(one)
        await one.answers.last.get_by_role("button", name="Regenerate").click()
        for tab in (one, two):
            await expect(tab.answers.last.locator(".count")).to_have_text("3 of 3")
            await expect(tab.answers).to_have_count(1)
        await two.answers.last.get_by_role("button", name="Previous version").click()
        for tab in (one, two):
            await expect(tab.answers.last.locator(".count")).to_have_text("2 of 3")
        await one.page.locator("li.user").hover()
        await one.page.get_by_role("button", name="Edit", exact=True).click()
        box = one.page.get_by_role("textbox", name="Edit your message")
        await expect(box).to_have_value("first")
        await box.fill("second")
        await box.press("Enter")
        for tab in (one, two):
            await expect(tab.questions.locator(".text")).to_have_text("second")
            await expect(tab.answers.last.locator(".text")).to_have_text("You said: second")
            await expect(tab.questions.locator(".count")).to_have_text("2 of 2")
        await one.page.reload()
        await expect(one.questions.locator(".count")).to_have_text("2 of 2")
        await one.page.get_by_role("button", name="Previous version").click()
        for tab in (one, two):
            await expect(tab.questions.locator(".text")).to_have_text("first")
            await expect(tab.answers.last.locator(".count")).to_have_text("3 of 3")
            assert tab.problems == []


async def test_an_answer_that_fails_without_a_word_says_so_and_can_be_tried_again() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        await play(tab, {"fail": "no luck"})
        await expect(tab.page.locator("#messages .ending.error")).to_have_text("no luck")
        await tab.page.reload()
        await expect(tab.page.locator("#messages .ending.error")).to_have_text("no luck")
        await tab.page.get_by_role("button", name="Try again").click()
        await expect(tab.page.locator("#messages .ending.error")).to_have_text("no luck")
        await expect(tab.questions).to_have_count(1)
        await tab.ask("something else")
        await expect(tab.answers.last).to_contain_text("You said: something else")
        assert tab.problems == []


@pytest.mark.parametrize("words", [[], ["half a sentence"]])
async def test_the_developer_reads_why_an_answer_failed_and_others_do_not(words: list[str]) -> None:
    safe = "Something went wrong while answering. Please try again."
    async with running_playground() as playground:
        tab = await playground.open()
        await play(tab, *words, {"break": "OPENAI_API_KEY is not set"})
        shown = tab.page.locator("#messages .ending.error")
        await expect(shown).to_have_text(f"{safe} ValueError: OPENAI_API_KEY is not set")
        await tab.page.reload()
        await expect(shown).to_have_text(f"{safe} ValueError: OPENAI_API_KEY is not set")
        assert tab.problems == []
    async with running_playground(bare=True) as playground:
        tab = await playground.open()
        await play(tab, *words, {"break": "OPENAI_API_KEY is not set"})
        await expect(tab.page.locator("#messages .ending.error")).to_have_text(safe)


async def test_clear_forgets_the_conversation_in_every_tab_also_while_it_is_answered() -> None:
    async with running_playground() as playground:
        one, two = await playground.open(), await playground.open()
        await play(one, "half a sen", {"wait": "never"}, "tence")
        for tab in (one, two):
            await expect(tab.answers).to_contain_text("half a sen")
        await two.clear()
        for tab in (one, two):
            await expect(tab.page.locator("#messages li")).to_have_count(0)
            await expect(tab.page.locator("#empty")).to_be_visible()
            await expect(tab.link).to_have_text("live")
        await one.ask("anew")
        for tab in (one, two):
            await expect(tab.answers).to_have_count(1)
            await expect(tab.answers).to_contain_text("You said: anew")
            assert tab.problems == []


async def test_a_file_that_is_attached_is_part_of_the_question() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        content = b'<svg xmlns="http://www.w3.org/2000/svg" width="3" height="2"/>'
        file = {"name": "flag.svg", "mimeType": "image/svg+xml", "buffer": content}
        await tab.page.locator("#files").set_input_files([file])  # type: ignore[list-item]
        await expect(tab.page.locator("#attached")).to_contain_text("flag.svg")
        await tab.ask("look")
        await expect(tab.questions.locator("img")).to_have_js_property("naturalWidth", 3)
        await expect(tab.page.locator("#attached")).to_be_hidden()
        await ended(tab)
        await tab.page.reload()
        await expect(tab.questions.locator("img")).to_have_js_property("naturalWidth", 3)
        assert tab.problems == []
