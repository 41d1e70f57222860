"""What tabs say of themselves: which lines of the console are complaints."""

from __future__ import annotations

import re

from tests.browser.conversation import Conversation

CLOSED = "WebSocket is closed before the connection is established"
CONNECT = "address => { window.held = new WebSocket(address); }"


def test_a_socket_that_the_page_closes_while_it_connects_is_a_complaint(chat: Conversation) -> None:
    silent = chat.link()
    silent.freeze()
    tab = chat.tab()
    tab.run(CONNECT, f"ws://127.0.0.1:{silent.port}/")
    tab.run("() => window.held.close()")
    tab.until_complaint(CLOSED)
    assert [line for line in tab.unexpected if re.search(CLOSED, line)] == tab.complaints
    tab.expect_complaints(CLOSED)
    assert tab.unexpected == []


def test_a_reload_while_a_socket_connects_is_no_complaint(chat: Conversation) -> None:
    silent = chat.link()
    silent.freeze()
    tab = chat.tab()
    tab.run(CONNECT, f"ws://127.0.0.1:{silent.port}/")
    assert tab.run("() => window.held.readyState === WebSocket.CONNECTING")
    tab.reload()
    tab.until_connected()
    tab.ask(["Hello."])
    tab.until_answer("Hello.", status="ready")
    assert tab.complaints == []
