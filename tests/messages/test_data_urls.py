"""`data:` URLs are read as a browser reads them, or not at all."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import pytest

from everyword.messages.attachments import decode_data_url

CONTENT = bytes(range(256)) + b"?>"
ENCODED = b64encode(CONTENT).decode()


@pytest.mark.parametrize(
    "url",
    [
        f"data:image/png;base64,{ENCODED}",
        f"DATA:image/png;BASE64,{ENCODED}",
        f"data:image/png; base64,{ENCODED}",
        f"data:;base64,{ENCODED}",
        f"data:text/plain;charset=x;base64,{ENCODED.rstrip('=')}",
        f"data:image/png;base64,{quote(ENCODED, safe='')}",
        f"data:image/png;base64,{ENCODED[:77]}\r\n{ENCODED[77:]}",
        f"data:application/octet-stream,{quote(CONTENT, safe='')}",
    ],
)
def test_every_form_of_a_data_url_has_its_content(url: str) -> None:
    assert decode_data_url(url) == CONTENT


@pytest.mark.parametrize("url", ["data:text/plain", "data:,", "data:;base64,", "data:;base64,A", "data:;base64,a!b?"])
def test_a_data_url_that_a_browser_refuses_has_no_content(url: str) -> None:
    assert decode_data_url(url) is None


def test_the_text_of_a_data_url_is_utf_8() -> None:
    assert decode_data_url("data:text/plain,für%20dich") == "für dich".encode()
