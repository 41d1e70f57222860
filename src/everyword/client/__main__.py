"""`python -m everyword.client http://localhost:8787 chat user-42`: a chat in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from ..errors import EverywordError
from .chat import ChatClient
from .terminal import Terminal


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m everyword.client", description="Chat with an agent.")
    parser.add_argument("url", help="the server, such as http://localhost:8787")
    parser.add_argument("agent", nargs="?", default="chat", help="the agent's kind (default: chat)")
    parser.add_argument("name", nargs="?", default="default", help="the agent's name (default: default)")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="sent with every request")
    parser.add_argument("--query", action="append", default=[], metavar="NAME=VALUE", help="added to every URL")
    given = parser.parse_args(arguments)
    try:
        return asyncio.run(_chat(given))
    except EverywordError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


async def _chat(given: argparse.Namespace) -> int:
    headers, query = _pairs(given.header), _pairs(given.query)
    async with ChatClient(given.url, given.agent, given.name, headers=headers, query=query) as chat:
        return await Terminal(chat).run()


def _pairs(given: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (pair.partition("=") for pair in given)}


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # The thread that reads the terminal may block in a read forever, so do not wait for it.
    os._exit(status)
