"""The support desk as its users see it: a customer in one window, staff in another, with the commands of its README."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.architecture.test_docs_examples import blocks
from tests.browser.page_bundles import MODULES
from tests.browser.playground_tab import browsing
from tests.browser.server_app import listening
from tests.browser.test_tutorial import command, environment, kill, started
from tests.cli.kit import ROOT
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.crash]

expect.set_options(timeout=PATIENCE * 1000)

README = list(blocks((ROOT / "examples" / "support_desk" / "README.md").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example, its page built as the README says."""
    root = tmp_path_factory.mktemp("desk")
    folder = root / "examples" / "support_desk"
    ignored = shutil.ignore_patterns("node_modules", "main.js", "__pycache__")
    shutil.copytree(ROOT / "examples" / "support_desk", folder, ignore=ignored)
    (folder / "node_modules").symlink_to(MODULES)
    installs, _, builds = command(README, "pip install '.[server").split(" && ")
    assert installs == "pip install '.[server,webhooks]' fastapi"
    ran = subprocess.run(
        shlex.split(builds), cwd=root, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return root


@asynccontextmanager
async def serving(checkout: Path, port: int, pause: str = "0.02") -> AsyncIterator[Any]:
    """Run the desk as the README says, but on this port; its data is in the folder of the checkout."""
    settings = f"env DESK_URL=http://127.0.0.1:{port} DESK_DELAY=0 DESK_PAUSE={pause}"
    line = command(README, "uvicorn").replace("8787", str(port))
    async with started(f"{settings} {line}", checkout) as server:
        await server.until("Uvicorn running on")
        yield server


def free_port() -> int:
    listener = listening()
    port: int = listener.getsockname()[1]
    listener.close()
    return port


@pytest.fixture
def port(checkout: Path) -> int:
    for made in checkout.glob("support_desk.*"):
        shutil.rmtree(made) if made.is_dir() else made.unlink()
    return free_port()


async def sign_in(browser: Browser, port: int, name: str, **options: Any) -> Page:
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE * 1000)
    page = await context.new_page()
    await page.goto(f"http://127.0.0.1:{port}")
    await page.get_by_role("button", name=re.compile(f"^{name} ")).click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    return page


def entry(page: Page, title: str) -> Locator:
    return page.locator(".entry").filter(has_text=title)


async def ask(page: Page, text: str) -> None:
    await page.get_by_label("Your message").fill(text)
    await page.get_by_role("button", name="Send", exact=True).click()


async def test_a_customer_asks_staff_approves_and_the_answer_is_unread(checkout: Path, port: int) -> None:
    async with serving(checkout, port), browsing() as browser:
        ann, mia = await sign_in(browser, port, "Ann"), await sign_in(browser, port, "Mia", color_scheme="dark")
        await expect(mia.get_by_text("All done")).to_be_visible()
        await expect(ann.get_by_text("No conversations yet.")).to_be_visible()
        await ann.get_by_role("button", name="New conversation").first.click()
        await ann.get_by_role("button", name="I want a refund for order 1002").click()
        await expect(ann.get_by_text("Waiting for our staff")).to_be_visible()
        await expect(ann.get_by_role("button", name="Approve")).to_have_count(0)
        await expect(entry(ann, "Refund for order 1002")).to_contain_text("waiting for approval")

        # Staff looks at the conversation: both see each other.
        await expect(mia.get_by_text("high risk")).to_be_visible()
        await mia.get_by_role("button", name="open the conversation").click()
        await expect(mia.get_by_text("Ann is here")).to_be_visible()
        await expect(ann.get_by_text("Mia is here")).to_be_visible()
        await mia.get_by_role("button", name="Inbox (1)").click()
        await expect(ann.get_by_text("Mia is here")).to_have_count(0)

        # The customer leaves; the answer goes on without it, and is unread.
        await ann.get_by_role("button", name="New conversation").first.click()
        await mia.get_by_label("Reason").fill("was broken")
        await mia.get_by_role("button", name="Approve").click()
        await expect(mia.get_by_text("All done")).to_be_visible()
        refund = entry(ann, "Refund for order 1002")
        await expect(refund.get_by_label("1 unread")).to_be_visible()
        await expect(refund).to_contain_text("Done: I have paid 249.00 €")
        await refund.click()
        await expect(ann.get_by_text("The money is on its way to you.", exact=False)).to_have_count(2)
        await expect(refund.get_by_label("unread")).to_have_count(0)

        # What happened is on record, was mailed, and was told to the webhook.
        await mia.get_by_role("button", name="Record").click()
        await expect(mia.get_by_text(re.compile("approved by Mia.*was broken"))).to_be_visible()
        await mia.get_by_role("button", name="Mails").click()
        await expect(mia.get_by_text("Please approve: Pay back 249.00 €")).to_be_visible()
        await expect(mia.get_by_text("Webhook turn.ended")).to_be_visible()
        await ann.get_by_role("button", name="Mails").click()
        await expect(ann.locator(".cards").get_by_text("Refund for order 1002")).to_be_visible()


async def test_a_photo_is_seen_by_staff_and_on_links_and_by_no_other_customer(checkout: Path, port: int) -> None:
    async with serving(checkout, port), browsing() as browser:
        ann = await sign_in(browser, port, "Ann", permissions=["clipboard-read", "clipboard-write"])
        mia = await sign_in(browser, port, "Mia")
        await ann.get_by_role("button", name="New conversation").first.click()
        box = ann.get_by_label("Photos")
        await box.set_input_files({"name": "lamp.png", "mimeType": "image/png", "buffer": b"no image"})
        await expect(ann.get_by_role("alert")).to_be_visible()
        await box.set_input_files({"name": "lamp.png", "mimeType": "image/png", "buffer": await ann.screenshot()})
        await expect(ann.get_by_role("button", name="Remove lamp.png")).to_be_visible()
        await expect(ann.get_by_role("alert")).to_have_count(0)
        await ask(ann, "It arrived broken")
        await expect(ann.locator("main").get_by_text("Thank you for the photo.")).to_be_visible()
        await entry(mia, "It arrived broken").click()
        photo = mia.get_by_role("img", name="lamp.png")
        await expect(photo).to_be_visible()
        await mia.wait_for_function("document.querySelector('.photo').naturalWidth > 100")
        where = f"http://127.0.0.1:{port}{await photo.get_attribute('src')}"
        assert (await mia.request.get(where)).status == 200
        bob = await sign_in(browser, port, "Bob")
        assert (await bob.request.get(where)).status == 403
        reader = await (await browser.new_context()).new_page()
        await reader.goto(await share(ann, "7"))
        await expect(reader.get_by_role("img", name="lamp.png")).not_to_have_js_property("naturalWidth", 0)
        await ann.get_by_label("With photos").uncheck()
        await reader.goto(await share(ann, "7"))
        await expect(reader.locator("main")).to_contain_text("Thank you for the photo.")
        assert await reader.get_by_role("img").count() == 0


async def test_a_shared_link_is_read_without_a_login_until_it_is_revoked(checkout: Path, port: int) -> None:
    async with serving(checkout, port), browsing() as browser:
        ann = await sign_in(browser, port, "Ann", permissions=["clipboard-read", "clipboard-write"])
        await ann.get_by_role("button", name="New conversation").first.click()
        await ask(ann, "What can you do?")
        await expect(ann.locator("main").get_by_text("will be here when you come back.")).to_be_visible()
        frozen, live = await share(ann, "7"), await share(ann, "30", live=True)
        assert frozen != live
        await ann.get_by_role("button", name="Close").click()
        await ask(ann, "Where is order 1003?")
        await expect(ann.locator("main").get_by_text("I have asked the carrier")).to_be_visible()

        context = await browser.new_context()
        copy, follower = await context.new_page(), await context.new_page()
        await copy.goto(frozen)
        await expect(copy.locator("main")).to_contain_text("will be here when you come back.")
        await expect(copy.locator("main")).not_to_contain_text("carrier")
        await follower.goto(live)
        await expect(follower.locator("main")).to_contain_text("I have asked the carrier")
        assert "Ann" not in await follower.locator("body").inner_text()

        await ann.get_by_role("button", name="Share…").click()
        links = ann.locator("dialog li")
        await expect(links).to_have_count(2)
        await expect(ann.get_by_label("Link", exact=True)).to_have_count(0)  # the address is shown once
        await links.filter(has_text="With new messages").get_by_role("button", name="Revoke").click()
        await expect(links).to_have_count(1)
        await expect(follower.get_by_role("status")).to_contain_text("it was revoked")
        await links.get_by_role("button", name="Revoke").click()
        await expect(links).to_have_count(0)
        closed = await copy.reload()
        assert closed is not None and closed.status == 404


async def share(page: Page, days: str, *, live: bool = False) -> str:
    """Create a link in the dialog, copy it, and return what was copied."""
    if not await page.locator("dialog").count():
        await page.get_by_role("button", name="Share…").click()
    await page.get_by_label("New messages, too" if live else "The conversation as it is now").check()
    await page.get_by_label("The link works for").select_option(days)
    shown = page.locator("dialog li")
    before = await shown.count()
    await page.get_by_role("button", name="Create a link").click()
    await expect(shown).to_have_count(before + 1)
    await page.get_by_role("button", name="Copy").click()
    await expect(page.get_by_text("Copied.")).to_be_visible()
    copied: str = await page.evaluate("navigator.clipboard.readText()")
    assert copied == await page.get_by_label("Link", exact=True).input_value()
    return copied


async def test_a_customer_downloads_and_deletes_its_data_and_no_other_is_touched(checkout: Path, port: int) -> None:
    async with serving(checkout, port), browsing() as browser:
        ann, bob, mia = [await sign_in(browser, port, name) for name in ("Ann", "Bob", "Mia")]
        for page, text in ((ann, "What can you do for a zebra?"), (bob, "Where is order 1003?")):
            await page.get_by_role("button", name="New conversation").first.click()
            await ask(page, text)
        await expect(entry(mia, "zebra")).to_be_visible()
        await expect(entry(mia, "Delivery of order 1003")).to_be_visible()
        other = await ann.context.new_page()
        await other.goto(ann.url)
        await expect(entry(other, "zebra")).to_be_visible()

        await ann.get_by_role("button", name="Ann ▾").click()
        async with ann.expect_download() as started_download:
            await ann.get_by_role("link", name="Download my data").click()
        download = await started_download.value
        assert download.suggested_filename == "ann.zip"
        with ZipFile(await download.path()) as archive:
            assert b"zebra" in archive.read("conversations/0001/messages.jsonl")

        if not await ann.get_by_role("button", name="Delete my data…").is_visible():
            await ann.get_by_role("button", name="Ann ▾").click()
        await ann.get_by_role("button", name="Delete my data…").click()
        yes = ann.locator("dialog").get_by_role("button", name="Delete my data")
        await yes.click()
        await expect(ann.get_by_role("alert")).to_contain_text("Type Ann")
        await ann.get_by_label("Type Ann to go on").fill("Ann")
        await yes.click()
        await expect(ann.get_by_role("heading", name="Your data was deleted")).to_be_visible()
        await expect(ann.get_by_text("We deleted 1 conversation")).to_be_visible()
        mark = re.search("erased-[0-9a-f]+", await ann.locator("main").inner_text())
        assert mark is not None
        await expect(other.get_by_role("heading", name="Support desk")).to_be_visible()  # its other tab is signed out

        await expect(entry(mia, "zebra")).to_have_count(0)
        await expect(entry(mia, "Delivery of order 1003")).to_be_visible()
        await mia.get_by_role("button", name="Record").click()
        await expect(mia.get_by_label("Deleted data")).to_contain_text(mark[0])
        await expect(entry(bob, "Delivery of order 1003")).to_be_visible()
        await bob.reload()
        await expect(entry(bob, "Delivery of order 1003")).to_be_visible()

        await ann.get_by_role("button", name="Done").click()
        await ann.get_by_role("button", name=re.compile("^Ann ")).click()
        await expect(ann.get_by_text("No conversations yet.")).to_be_visible()


async def test_a_sidebar_follows_renames_archives_and_deletions_in_every_tab(checkout: Path, port: int) -> None:
    async with serving(checkout, port, pause="1"), browsing() as browser:
        ann = await sign_in(browser, port, "Ann")
        await ann.get_by_role("button", name="New conversation").first.click()
        await ask(ann, "What can you do?")
        second = await ann.context.new_page()
        await second.goto(ann.url)
        await second.get_by_role("button", name="Stop").click()
        for tab in (ann, second):
            await expect(tab.get_by_role("button", name="Stop")).to_have_count(0)

        await ann.get_by_role("button", name="Rename").click()
        await ann.get_by_label("Title").fill("Help")
        await ann.locator("dialog").get_by_role("button", name="Rename").click()
        await expect(second.locator("main header")).to_contain_text("Help")

        await ann.locator("main header").get_by_role("button", name="Archive").click()
        await expect(entry(ann, "Help")).to_have_count(0)
        await expect(entry(second, "Help")).to_have_count(0)
        await ann.get_by_role("button", name="Archived").click()
        await entry(ann, "Help").click()
        await ask(ann, "Where is order 1003?")  # a new message brings it back
        await expect(entry(second, "Help")).to_be_visible()

        # Deleted while it answers: both tabs leave it, and it stays away.
        await ann.get_by_role("button", name="Delete").click()
        await ann.locator("dialog").get_by_role("button", name="Cancel").click()
        await expect(entry(second, "Help")).to_be_visible()
        await ann.get_by_role("button", name="Delete").click()
        await ann.locator("dialog").get_by_role("button", name="Delete").click()
        for tab in (ann, second):
            await expect(tab.get_by_text("Hello Ann")).to_be_visible()
            await expect(tab.locator(".entry")).to_have_count(0)
        await second.reload()
        await expect(second.get_by_text("No conversations yet.")).to_be_visible()


async def test_an_answer_goes_on_after_a_kill_and_the_second_answer_is_told_so(checkout: Path, port: int) -> None:
    async with browsing() as browser:
        async with serving(checkout, port, pause="0.1") as server:
            bob = await sign_in(browser, port, "Bob", viewport={"width": 390, "height": 760})
            await bob.get_by_role("button", name="New conversation").first.click()
            await ask(bob, "What can you do?")
            await expect(bob.get_by_text("I can look orders up")).to_be_visible()
            await kill(server)
            await expect(bob.get_by_text("The server is away").last).to_be_visible()
        async with serving(checkout, port):
            await expect(bob.get_by_text("will be here when you come back.")).to_be_visible()
            await expect(bob.get_by_text("The server is away")).to_have_count(0)
            width = await bob.evaluate("document.documentElement.scrollWidth")
            assert width == 390
            await ask(bob, "I want a refund for order 1003")
            mia, sam = await sign_in(browser, port, "Mia"), await sign_in(browser, port, "Sam")
            for staff in (mia, sam):
                await expect(staff.get_by_role("button", name="Approve")).to_be_visible()
            # Mia answers after Sam's click, and before its request is sent.
            await sam.route("**/agents/approvals/*", lambda route: hold(route, mia))
            await sam.get_by_role("button", name="Approve").click()
            await expect(sam.get_by_role("alert")).to_contain_text("Mia denied this call before.")
            await expect(bob.locator("main").get_by_text("I am sorry, this was not approved.")).to_be_visible()


async def test_a_conversation_that_is_opened_while_the_server_is_away_comes_with_it(checkout: Path, port: int) -> None:
    async with browsing() as browser:
        async with serving(checkout, port) as server:
            ann = await sign_in(browser, port, "Ann", viewport={"width": 390, "height": 760})
            for question in ("What can you do?", "Where is order 1003?"):
                await ann.get_by_role("button", name="New conversation").first.click()
                await ask(ann, question)
                await expect(
                    ann.locator("main").get_by_text(re.compile("here when you come back|asked the carrier"))
                ).to_be_visible()
                await ann.get_by_role("button", name="Back").click()
            await kill(server)
            await entry(ann, "What can you do?").click()
            await expect(ann.locator("main").get_by_text("The server is away")).to_be_visible()
        async with serving(checkout, port):
            await expect(ann.locator("main").get_by_text("will be here when you come back.")).to_be_visible()
            await expect(ann.get_by_text("The server is away")).to_have_count(0)


async def test_an_answer_that_went_on_after_a_kill_is_one_paragraph(checkout: Path, port: int) -> None:
    async with browsing() as browser:
        async with serving(checkout, port, pause="0.1") as server:
            ann = await sign_in(browser, port, "Ann")
            await ann.get_by_role("button", name="New conversation").first.click()
            await ask(ann, "What can you do?")
            await expect(ann.locator("main").get_by_text("I can look orders up")).to_be_visible()
            await kill(server)
        async with serving(checkout, port):
            answer = ann.locator("main li[data-role=assistant]")
            await expect(answer).to_contain_text("will be here when you come back.")
            await expect(answer.locator("p")).to_have_count(1)


async def test_links_to_conversations_of_others_and_to_none_say_so(checkout: Path, port: int) -> None:
    async with serving(checkout, port), browsing() as browser:
        bob = await sign_in(browser, port, "Bob")
        await bob.get_by_role("button", name="New conversation").first.click()
        await ask(bob, "Where is order 1003?")
        await expect(bob.locator("main").get_by_text("I have asked the carrier")).to_be_visible()
        ann, mia = await sign_in(browser, port, "Ann"), await sign_in(browser, port, "Mia")
        await ann.goto(bob.url)
        await expect(ann.get_by_role("heading", name="You cannot see this conversation")).to_be_visible()
        await expect(ann.get_by_label("Your message")).to_have_count(0)
        await mia.goto(bob.url)
        await expect(mia.locator("main").get_by_text("I have asked the carrier")).to_be_visible()
        await mia.goto(f"{bob.url}-not")
        await expect(mia.get_by_role("heading", name="There is no such conversation")).to_be_visible()
        await ann.goto(f"http://127.0.0.1:{port}/#/c/%")
        await ann.reload()
        await expect(ann.get_by_text("Hello Ann")).to_be_visible()


async def test_conversations_that_are_on_no_page_yet_are_loaded_and_opened(checkout: Path, port: int) -> None:
    async with serving(checkout, port, pause="0"), browsing() as browser:
        ann = await sign_in(browser, port, "Ann")
        for number in range(60):
            text = "I want a refund for order 1002" if number == 0 else f"hello {number}"
            message = {"id": f"q{number}", "role": "user", "parts": [{"type": "text", "text": text}]}
            path = f"http://127.0.0.1:{port}/agents/support/ann-{number}/chat"
            assert (await ann.request.post(path, data={"messages": [message]})).ok
        mia = await sign_in(browser, port, "Mia")
        await expect(mia.locator(".entry")).to_have_count(50)
        await mia.goto(f"http://127.0.0.1:{port}/#/c/ann-0")  # as in a mail
        await expect(mia.locator("main").get_by_role("button", name="Approve")).to_be_visible()
        await ann.reload()
        await ann.get_by_role("button", name="Older conversations").click()
        await expect(ann.locator(".entry")).to_have_count(60)
        await expect(ann.get_by_role("button", name="Older conversations")).to_have_count(0)


async def test_photos_that_are_refused_are_named_and_the_others_are_added(checkout: Path, port: int) -> None:
    async with serving(checkout, port), browsing() as browser:
        ann = await sign_in(browser, port, "Ann")
        await ann.get_by_role("button", name="New conversation").first.click()
        await expect(ann.get_by_label("Your message")).to_be_focused()
        text = {"name": "list.txt", "mimeType": "text/plain", "buffer": b"a list"}
        photo = {"name": "lamp.png", "mimeType": "image/png", "buffer": await ann.screenshot()}
        await ann.get_by_label("Photos").set_input_files([text, photo])
        await expect(ann.get_by_role("button", name="Remove lamp.png")).to_be_visible()
        await expect(ann.get_by_role("alert")).to_have_text(
            "“list.txt” was not added: it is not a picture that can be shown."
        )
        await ask(ann, "It arrived broken")
        await expect(ann.get_by_role("img", name="lamp.png")).to_be_visible()
        await expect(ann.get_by_role("alert")).to_have_count(0)


async def test_pictures_from_elsewhere_are_not_loaded(checkout: Path, port: int) -> None:
    async with serving(checkout, port), browsing() as browser:
        ann, mia = await sign_in(browser, port, "Ann"), await sign_in(browser, port, "Mia")
        asked: list[str] = []
        mia.on("request", lambda request: asked.append(request.url))
        photo = {"type": "file", "mediaType": "image/png", "url": "http://127.0.0.1:1/seen.png", "filename": "seen.png"}
        message = {"id": "q1", "role": "user", "parts": [photo, {"type": "text", "text": "Look at this"}]}
        sent = await ann.request.post(
            f"http://127.0.0.1:{port}/agents/support/ann-1/chat", data={"messages": [message]}
        )
        assert sent.ok, await sent.text()
        await entry(mia, "Look at this").click()
        await expect(mia.get_by_text("seen.png (not shown)")).to_be_visible()
        assert not [url for url in asked if "seen.png" in url]


async def hold(route: Any, first: Page) -> None:
    """Let the request through after another user has answered."""
    await first.get_by_role("button", name="Decline").click()
    await expect(first.get_by_text("All done")).to_be_visible()
    await route.continue_()
