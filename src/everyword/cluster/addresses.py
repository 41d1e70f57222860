"""Addresses of links: `host:port`, `[::1]:port`, or the path of a Unix socket (`unix:/run/node.sock`)."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import UsageError

__all__ = ["LinkAddress", "parse_address"]


class LinkAddress(NamedTuple):
    """Where a node listens: a host and a port, or a path."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> LinkAddress:
    """Read an address.

    Raises:
        UsageError: it is none.
    """
    if text.startswith(("unix:/", "/")):
        return LinkAddress(path=text.removeprefix("unix:"))
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"unable to use {text!r} as the address of a link; write host:port or unix:/path")
    return LinkAddress(host.removeprefix("[").removesuffix("]"), int(port))
