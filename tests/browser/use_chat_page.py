"""Tabs that show the AI SDK's own `useChat` with its default transport, on a conversation of a test."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from tests.browser.conversation import Conversation
from tests.browser.page_bundles import build
from tests.browser.stock_page import Tab
from tests.browser.tcp_proxy import Link

__all__ = ["plain_tab"]

_RESUMED = "performance.getEntriesByType('resource').some(each => each.name.endsWith('/stream'))"


async def _opened(chat: Conversation, url: str) -> Tab:
    # Inside the loop: listening to a page starts tasks.
    return Tab(chat.loop, await chat.context.new_page(), url)


def plain_tab(chat: Conversation, *, link: Link | None = None, **options: Any) -> Tab:
    """Open such a tab, through a link if one is given; waits until it has rendered, and knows what there is to resume.

    The hook asks for a stream to resume as soon as it is there. Told that there is none, it is `ready`, even if it was
    asked something meanwhile and that has failed.
    """
    build(chat.client, "use-chat-page")
    given = quote(json.dumps({"agent": chat.kind, "name": chat.name, **options}, ensure_ascii=False))
    port = link.port if link is not None else chat.server.port
    url = f"http://127.0.0.1:{port}/plain/{chat.client}/index.html?options={given}"
    tab = chat.loop.run(_opened(chat, url))
    tab.is_plain = True
    chat.tabs.append(tab)
    tab.reload()
    tab.until(f"c.status === 'streaming' || {_RESUMED}")
    return tab
