"""Photos that pages make and put into their questions."""

from __future__ import annotations

from typing import Any, Final

from tests.browser.conversation import Conversation
from tests.browser.stock_page import Tab
from tests.browser.use_chat_page import plain_tab

__all__ = ["ASK", "READ", "SIZE", "ask_with_photo", "files", "opened", "uploaded"]

SIZE: Final = 3_000_000
"""Bytes of a photo: in base64, nine of them are more than `Limits.frame`."""

MAKE: Final = """
() => {
window.photo = (number, size) => {
  const bytes = new Uint8Array(size).fill(number);
  bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return new Blob([bytes], { type: "image/png" });
};
window.asDataUrl = (blob) => new Promise((resolve) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.readAsDataURL(blob);
});
}
"""

ASK: Final = """
async ([number, size]) => {
  const url = await asDataUrl(photo(number, size));
  window.chat.sendMessage({ text: `photo ${number}`, files: [{ type: "file", mediaType: "image/png", url }] });
}
"""

UPLOAD: Final = """
async ([where, number, size]) => {
  const body = photo(number, size);
  const response = await fetch(`${where}/attachments?filename=photo.png`, { method: "POST", body });
  return { status: response.status, part: await response.json() };
}
"""

READ: Final = """
async (url) => {
  const response = await fetch(url);
  return [response.status, response.headers.get("content-type"), (await response.arrayBuffer()).byteLength];
}
"""


def files(messages: list[dict[str, Any]]) -> list[str]:
    """Return the URLs of all file parts."""
    return [part["url"] for message in messages for part in message["parts"] if part["type"] == "file"]


def opened(chat: Conversation, *, is_plain: bool = False) -> Tab:
    tab = plain_tab(chat) if is_plain else chat.tab()
    tab.run(MAKE)
    return tab


def uploaded(chat: Conversation, tab: Tab, number: int) -> dict[str, Any]:
    answer = tab.run(UPLOAD, [f"/agents/{chat.kind}/{chat.name}", number, SIZE])
    assert answer["status"] == 201
    part: dict[str, Any] = answer["part"]
    return part


def ask_with_photo(chat: Conversation, tab: Tab, number: int) -> None:
    """Ask a question with a photo as the page's hook needs it, and wait for the answer."""
    if tab.is_plain:
        part = uploaded(chat, tab, number)
        tab.call("sendMessage", {"text": f"photo {number}", "files": [part]})
    else:
        tab.run(ASK, [number, SIZE])
    tab.until_answer(f"You said: photo {number}", status="ready")
