"""The list of conversations and the inbox of approvals on the playground's page, in a real browser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from everyword import ConversationOptions
from everyword.server import Connecting, Principal
from tests.browser.playground_server import PlaygroundServer, running_playground
from tests.browser.playground_tab import Tab
from tests.next_millisecond import next_millisecond
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)

PAY = json.dumps(["May I? ", {"call": "pay", "amount": 5}, "Thanks."])


def rows(tab: Tab) -> Locator:
    return tab.page.locator("#conversations li")


def row(tab: Tab, text: str) -> Locator:
    return rows(tab).filter(has_text=text)


def link(tab: Tab, text: str) -> Locator:
    return row(tab, text).locator("a")


async def choose(tab: Tab, text: str, act: str) -> None:
    """Choose from the menu of a conversation."""
    await row(tab, text).hover()
    await row(tab, text).get_by_role("button").click()
    await tab.page.get_by_role("menuitem", name=act).click()


async def said(playground: PlaygroundServer, name: str, text: str) -> None:
    await next_millisecond(playground.app)
    await playground.agent(name).save_messages(text)


async def by_query(request: Any) -> Principal | None:
    who = request.query_params.get("as")
    return Principal(who, name=who.title()) if who else None


async def test_each_state_of_a_conversation_has_its_mark_and_its_words_and_titles_are_stable() -> None:
    async with running_playground() as playground:
        tab = await playground.open("?name=idle")
        await tab.ask("the first question")
        await expect(link(tab, "the first question")).to_have_attribute("data-state", "idle")
        await tab.ask("another one")
        await expect(link(tab, "You said: another one").locator(".title")).to_have_text("the first question")
        await tab.page.get_by_role("button", name="New conversation").click()
        await tab.ask(json.dumps([{"fail": "no luck"}]))
        await expect(link(tab, "no luck")).to_have_attribute("data-state", "failed")
        await tab.page.get_by_role("button", name="New conversation").click()
        await tab.ask(PAY)
        await expect(link(tab, "May I")).to_have_attribute("data-state", "waiting")
        await tab.page.get_by_role("button", name="New conversation").click()
        await tab.ask(json.dumps(["slow", {"wait": "end"}]))
        states = ["running", "waiting", "failed", "idle"]
        for place, state in enumerate(states):
            await expect(rows(tab).nth(place).locator("a")).to_have_attribute("data-state", state)
        await expect(rows(tab).locator(".word")).to_have_text(["answering", "waiting for approval", "failed", ""])
        looks = "dots => dots.map(dot => { const s = getComputedStyle(dot); return s.backgroundColor + s.rotate; })"
        assert len(set(await rows(tab).locator(".dot").evaluate_all(looks))) == len(states)
        await expect(tab.page.locator("#title")).to_contain_text("slow")
        assert tab.problems == []


async def test_texts_from_right_to_left_begin_on_the_right() -> None:
    async with running_playground() as playground:
        tab = await playground.open("?name=here")
        await tab.box.fill("שלום 1003?\nand this")
        await tab.box.press("Enter")
        await expect(tab.answers).to_contain_text("You said: שלום")
        for title in (tab.page.locator("#title"), link(tab, "שלום").locator(".title")):
            await expect(title).to_contain_text("שלום")
            await expect(title).to_have_css("direction", "rtl")  # too long a title loses its end
        begins = """text => {
            const box = text.getBoundingClientRect(), node = text.firstChild, range = document.createRange();
            return [0, node.data.indexOf("and")].map(at => {
                range.setStart(node, at), range.setEnd(node, at + 1);
                const { left, right } = range.getBoundingClientRect();
                return box.right - right < left - box.left ? "right" : "left";
            });
        }"""
        assert await tab.questions.locator(".text").evaluate(begins) == ["right", "left"]
        assert tab.problems == []


async def test_an_answer_that_nobody_looked_at_is_unread_until_it_is_opened() -> None:
    async with running_playground() as playground:
        tab = await playground.open("?name=here")
        await tab.ask("hello")
        await expect(tab.answers).to_contain_text("You said: hello")
        await said(playground, "there", "elsewhere")
        await expect(row(tab, "elsewhere").locator(".unread")).to_contain_text("2 unread")
        await link(tab, "elsewhere").click()
        await expect(tab.answers).to_contain_text("You said: elsewhere")
        await link(tab, "hello").click()
        await expect(row(tab, "elsewhere").locator(".unread")).to_be_hidden()
        await tab.page.reload()
        await expect(rows(tab)).to_have_count(2)
        await expect(tab.page.locator(".unread:visible")).to_have_count(0)
        assert tab.problems == []


async def test_a_conversation_is_renamed_archived_brought_back_and_deleted_in_every_tab() -> None:
    async with running_playground() as playground:
        await said(playground, "one", "the first")
        await said(playground, "two", "the second")
        one, two = await playground.open("?name=one"), await playground.open("?name=two")
        methods: list[str] = []
        one.page.on("request", lambda request: methods.append(request.method))
        await choose(one, "the first", "Rename")
        box = one.page.get_by_role("textbox", name="Title")
        await expect(box).to_have_value("the first")
        await box.fill("not this")
        await box.press("Escape")
        await choose(one, "the first", "Rename")
        await box.fill("A better title")
        await box.press("Enter")
        for tab in (one, two):
            await expect(rows(tab).locator(".title")).to_have_text(["the second", "A better title"])
        await expect(one.page.locator("#title")).to_have_text("A better title")
        assert methods.count("PATCH") == 1  # Escape had sent nothing

        await choose(two, "A better title", "Archive")
        for tab in (one, two):
            await expect(rows(tab).locator(".title")).to_have_text(["the second"])
            await tab.page.get_by_role("button", name="Archived", exact=True).click()
            await expect(rows(tab).locator(".title")).to_have_text(["A better title"])
        await expect(one.page.get_by_role("button", name="Archived: bring back")).to_be_visible()
        await choose(two, "A better title", "Bring back")
        for tab in (one, two):
            await expect(tab.page.locator("#no-conversations")).to_have_text("Nothing is archived.")
            await tab.page.get_by_role("button", name="Back to conversations").click()
            await expect(rows(tab)).to_have_count(2)
        await expect(one.page.locator("#bring-back")).to_be_hidden()

        await choose(two, "A better title", "Delete")
        dialog = two.page.get_by_role("alertdialog", name="Delete this conversation?")
        await expect(dialog).to_contain_text("“A better title”")
        await dialog.get_by_role("button", name="Cancel").click()
        await choose(two, "A better title", "Delete")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(rows(two).locator(".title")).to_have_text(["the second"])
        await expect(two.page.locator("#toast")).to_have_text("Deleted: “A better title”.")
        await expect(rows(one).locator(".title")).to_have_text(["New conversation", "the second"])
        await expect(one.page.locator("#toast")).to_contain_text("This conversation was deleted")
        await expect(one.page.locator("#messages li")).to_have_count(0)
        assert [one.problems, two.problems] == [[], []]


async def test_keys_keep_their_place_when_conversations_leave_or_move() -> None:
    async with running_playground() as playground:
        for name in ("one", "two", "three"):
            await said(playground, name, f"the {name}")
        tab = await playground.open("?name=three")
        await expect(rows(tab)).to_have_count(3)
        await row(tab, "the two").get_by_role("button").press("Enter")
        await tab.page.keyboard.press("ArrowDown")
        await tab.page.keyboard.press("Enter")  # Archive
        await expect(rows(tab).locator(".title")).to_have_text(["the three", "the one"])
        await expect(link(tab, "the one")).to_be_focused()
        await row(tab, "the three").get_by_role("button").press("Enter")
        await tab.page.keyboard.press("ArrowUp")
        await tab.page.keyboard.press("Enter")  # Delete
        await tab.page.get_by_role("alertdialog").get_by_role("button", name="Delete").press("Enter")
        await expect(tab.page.locator("#toast")).to_have_text("Deleted: “the three”.")
        await expect(rows(tab).locator(".title")).to_have_text(["New conversation", "the one"])
        await expect(link(tab, "New conversation")).to_be_focused()
        await tab.page.keyboard.press("Tab")
        await expect(link(tab, "the one")).to_be_focused()
        await said(playground, "zero", "the zero")
        await said(playground, "one", "the one again")  # moves the row
        await expect(rows(tab).locator(".title")).to_have_text(["New conversation", "the one", "the zero"])
        await expect(link(tab, "the one")).to_be_focused()
        assert tab.problems == []


async def test_on_a_phone_what_is_said_of_the_list_lies_over_it_and_keys_stay_in_it() -> None:
    async with running_playground() as playground:
        for name in ("one", "two"):
            await said(playground, name, f"the {name}")
        tab = await playground.open("?name=two", viewport={"width": 390, "height": 780})
        await tab.page.get_by_role("button", name="Conversations").click()
        await choose(tab, "the one", "Archive")
        await expect(rows(tab).locator(".title")).to_have_text(["the two"])
        await tab.page.get_by_role("button", name="Undo").click()
        await expect(rows(tab).locator(".title")).to_have_text(["the two", "the one"])
        await tab.page.get_by_role("button", name="Theme").focus()
        await tab.page.keyboard.press("Tab")
        await tab.page.keyboard.press("Tab")
        is_outside = "document.getElementById('stage').contains(document.activeElement)"
        assert not await tab.page.evaluate(is_outside)
        assert tab.problems == []


@pytest.mark.parametrize("has_search", [False, True])
async def test_older_conversations_are_loaded_by_page_and_found(has_search: bool) -> None:
    options = ConversationOptions(search=has_search)
    async with running_playground(conversations=options) as playground:
        for number in range(60):
            await said(playground, f"c{number}", f"question {number:02}")
        tab = await playground.open("?name=c59")
        await expect(rows(tab)).to_have_count(50)
        search = tab.page.get_by_role("searchbox", name="Search conversations")
        await search.fill("question 03")  # not loaded yet
        await expect(rows(tab)).to_have_count(1 if has_search else 0)
        await search.fill("question")
        await expect(rows(tab)).to_have_count(50)
        await search.press("Escape")
        await tab.page.get_by_role("button", name="Load more").click()
        await expect(rows(tab)).to_have_count(60)
        await expect(rows(tab).last.locator(".title")).to_have_text("question 00")
        await expect(tab.page.get_by_role("button", name="Load more")).to_be_hidden()
        await search.fill("QUESTION 1")
        await expect(rows(tab)).to_have_count(10)
        await search.fill("nothing like it")
        await expect(tab.page.locator("#no-conversations")).to_contain_text("nothing like it")
        await search.fill("said")  # a word of the answers
        await expect(rows(tab)).to_have_count(50 if has_search else 60)
        await search.press("Escape")
        await expect(rows(tab)).to_have_count(60)
        assert [each for each in tab.problems if "400" not in each] == []


async def test_an_argument_of_an_approval_cannot_change_the_direction_of_what_is_shown() -> None:
    async with running_playground() as playground:
        tab = await playground.open("?name=till")
        await tab.ask(json.dumps([{"call": "pay", "amount": 5, "note": "\u202ebob"}]))
        await tab.page.get_by_role("button", name="Approvals").click()
        for place in (tab.page.locator(".tool"), tab.page.locator("#inbox-list li")):
            await expect(place.locator(".summary")).to_have_text("Pay 5 from the till for \\u202ebob.")
            await expect(place.locator(".arguments")).to_contain_text("\\u202ebob")


async def test_an_approval_is_counted_shown_once_and_answered_in_the_inbox() -> None:
    async with running_playground() as playground:
        asker, other = await playground.open("?name=till"), await playground.open("?name=else")
        await other.page.locator("#open-inbox").click()
        await expect(other.page.locator("#inbox")).to_contain_text("No call waits for an approval.")
        await other.page.keyboard.press("Escape")
        await asker.ask(PAY)
        card = asker.page.locator(".tool")
        await expect(card).to_contain_text("Pay 5 from the till.")
        shown = await card.inner_text()
        facts = ("Allow this call?", "pay\n", "Pay 5 from the till.", "risk: high", "amount")
        assert {fact: shown.count(fact) for fact in facts} == dict.fromkeys(facts, 1), shown
        for tab in (asker, other):
            await expect(tab.page.locator("#inbox-count")).to_have_text("1 waiting")
        await other.page.get_by_role("button", name="Approvals").click()
        entry = other.page.locator("#inbox-list li")
        for fact in ("pay", "Pay 5 from the till.", "risk: high", "amount", "expires in", "May I?", "by local"):
            await expect(entry).to_contain_text(fact)
        await entry.get_by_role("button", name="Open conversation").click()
        await expect(other.page.locator(".tool")).to_have_attribute("data-state", "needs approval")
        await other.page.get_by_role("button", name="Approvals").click()
        await entry.get_by_role("button", name="Approve").click()
        await expect(other.page.locator("#inbox-list li")).to_have_count(0)
        for tab in (asker, other):
            await expect(tab.page.locator("#inbox-count")).to_be_hidden()
            await expect(tab.answers.last).to_contain_text("Thanks.")
            await expect(tab.page.locator(".tool")).to_have_attribute("data-state", "done")
            assert tab.problems == []


async def test_of_two_answers_on_the_page_behind_a_link_the_first_counts() -> None:
    async with running_playground() as playground:
        await said(playground, "till", PAY)
        (approval,) = (await playground.app.approvals.list()).approvals
        tab = await playground.open("?name=till")
        first, late = [await tab.page.context.new_page() for _ in range(2)]
        for page in (first, late):
            await page.goto(f"{playground.url}/approvals/{approval.id}")
            await expect(page.get_by_role("heading")).to_have_text("Allow this call?")
        await first.get_by_role("button", name="Approve").click()
        await expect(first.get_by_role("heading")).to_have_text("You approved this call")
        await late.get_by_role("button", name="Deny").click()
        await expect(late.get_by_role("heading")).to_have_text("Your answer does not count")
        await expect(late.get_by_role("status")).to_have_text("Local approved this call before.")
        for page in (first, late):
            await expect(page.get_by_role("button")).to_have_count(0)
        await expect(tab.page.locator(".tool")).to_have_attribute("data-state", "done")
        assert tab.problems == []


async def test_a_double_click_answers_one_call_and_keys_keep_their_place() -> None:
    async with running_playground() as playground:
        for name in ("one", "two", "three"):
            await said(playground, name, PAY)
        tab = await playground.open("?name=else")
        await tab.page.get_by_role("button", name="Approvals").click()
        entries = tab.page.locator("#inbox-list li")
        await expect(entries).to_have_count(3)
        sent: list[str] = []
        tab.page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
        place = await entries.first.get_by_role("button", name="Approve").bounding_box()
        assert place
        await tab.page.mouse.click(place["x"] + 5, place["y"] + 5)
        await expect(entries).to_have_count(2)  # now the next call is at this place
        await tab.page.mouse.down(click_count=2)
        await tab.page.mouse.up(click_count=2)
        await entries.last.get_by_role("button", name="Deny").press("Enter")
        await expect(tab.page.get_by_role("heading", name="Waiting for approval")).to_be_focused()
        await expect(entries).to_have_count(1)
        assert len([url for url in sent if "/approvals/" in url]) == 2
        assert tab.problems == []


async def test_clear_asks_first() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        await tab.ask("hello")
        await expect(tab.answers).to_contain_text("You said: hello")
        await tab.page.get_by_role("button", name="Clear").click()
        await tab.page.keyboard.press("Escape")
        await expect(tab.page.locator("#confirm")).to_be_hidden()
        await tab.page.get_by_role("button", name="Clear").click()
        await tab.page.get_by_role("button", name="Cancel").click()
        await expect(tab.answers).to_contain_text("You said: hello")
        await tab.clear()
        await expect(tab.page.locator("#messages li")).to_have_count(0)
        assert tab.problems == []


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("words", [[], ["half a sentence"]])
async def test_a_late_client_reads_the_same_error(words: list[str], bare: bool) -> None:
    async with running_playground(bare=bare) as playground:
        tab = await playground.open()
        await tab.ask(json.dumps([*words, {"fail": "no luck"}]))
        await expect(tab.page.locator("#messages .ending.error")).to_have_text("no luck")
        await tab.page.get_by_role("button", name="What would a late client see?").click()
        await expect(tab.page.locator("#verdict")).to_have_attribute("data-state", "equal")
        await expect(tab.page.locator("#verdict")).to_contain_text("and the same error")
        for side in ("here", "there"):
            await expect(tab.page.locator(f"#{side} .ending.error")).to_have_text("no luck")
            await expect(tab.page.locator(f"#{side}-status")).to_have_text("Newest turn: failed")
        await tab.page.keyboard.press("Escape")
        await tab.ask("again")
        await expect(tab.answers.last).to_contain_text("You said: again")
        await tab.page.get_by_role("button", name="What would a late client see?").click()
        await expect(tab.page.locator("#verdict")).to_contain_text("to the last letter.")
        assert tab.problems == []


async def test_the_page_shows_what_a_person_may_see_and_who_else_is_there() -> None:
    def authorize(principal: Principal, action: str, kind: str, name: str) -> bool:
        if action in ("manage", "delete"):
            return principal.id == "ann"
        return name == "shared" or name.startswith(principal.id)

    async with running_playground(authenticate=by_query, authorize=authorize) as playground:
        for name in ("shared", "ann-1", "bob-1"):
            await said(playground, name, f"in {name}")
        ann = await playground.open("?name=shared&as=ann")
        await expect(ann.page.locator("#present")).to_be_hidden()
        await expect(rows(ann).locator(".title")).to_have_text(["in ann-1", "in shared"])
        bob = await playground.open("?name=shared&as=bob")
        await expect(rows(bob).locator(".title")).to_have_text(["in bob-1", "in shared"])
        for tab in (ann, bob):
            await expect(tab.page.get_by_role("img", name="Connected: Ann, Bob")).to_be_visible()
        await choose(bob, "in shared", "Archive")
        await expect(bob.page.locator("#toast")).to_contain_text("unable to manage")
        await expect(rows(bob)).to_have_count(2)
        await bob.page.goto("about:blank")
        await expect(ann.page.locator("#present")).to_be_hidden()
        assert ann.problems == []


async def test_the_page_alone_lists_the_conversations_of_its_user() -> None:
    def authorize(principal: Principal, action: str, kind: str, name: str) -> bool:
        return True

    hooks = {"authenticate": by_query, "authorize": authorize}
    async with running_playground(bare=True, lists="", **hooks) as playground:
        ann, bob = await playground.open("?name=a&as=ann"), await playground.open("?name=b&as=bob")
        for tab, text in ((ann, "of ann"), (bob, "of bob")):
            await tab.ask(text)
            await expect(tab.answers).to_contain_text(f"You said: {text}")
        for tab, text in ((ann, "of ann"), (bob, "of bob")):
            await expect(rows(tab).locator(".title")).to_have_text([text])
            assert tab.problems == []


async def test_an_app_that_cannot_tell_whose_conversations_to_list_has_the_list_of_the_feed() -> None:
    async def authorize(connecting: Connecting) -> Principal:
        return Principal("ann")

    async with running_playground(authorize=authorize) as playground:
        tab = await playground.open()
        await tab.ask("hello")
        await expect(rows(tab).locator(".title")).to_have_text(["hello"])
        await expect(tab.page.locator("#open-inbox")).to_be_hidden()
        await expect(row(tab, "hello").locator("button")).to_be_hidden()
        await expect(tab.page.get_by_role("button", name="Archived")).to_be_hidden()
