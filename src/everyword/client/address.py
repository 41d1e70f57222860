"""The address of an agent, for its WebSocket and for HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from ..errors import UsageError

__all__ = ["AgentAddress"]

_SCHEMES = {"http": "http", "ws": "http", "https": "https", "wss": "https"}


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """The address of one agent of a server. `agent` is the name of its class, or that name in kebab case."""

    url: str
    agent: str
    name: str
    base_path: str = "/agents"

    def __post_init__(self) -> None:
        if not self.agent or not self.name:
            raise UsageError("unable to connect; give the agent's kind and name, as in agent='chat', name='user-42'")
        self._root()

    def http(self, resource: str) -> str:
        """Return the URL of one of the agent's resources, such as `get-messages`."""
        return f"{self._root()}/{resource}"

    def socket(self, query: Mapping[str, str]) -> str:
        """Return the URL of the agent's WebSocket."""
        return f"ws{self._root().removeprefix('http')}?{urlencode(query)}"

    def _root(self) -> str:
        url = self.url if "://" in self.url else f"http://{self.url}"
        split = urlsplit(url)
        scheme = _SCHEMES.get(split.scheme)
        if scheme is None or not split.netloc:
            raise UsageError(f"unable to connect to {self.url!r}; give a URL such as http://localhost:8787")
        place = "/".join(piece.strip("/") for piece in (split.path, self.base_path) if piece.strip("/"))
        kind = quote(_kebab(self.agent), safe="")
        return "/".join(
            piece for piece in (f"{scheme}://{split.netloc}", place, kind, quote(self.name, safe="")) if piece
        )


def _kebab(name: str) -> str:
    """Return the name of a class as URLs have it: `ChatAgent` becomes `chat-agent`."""
    if name.isupper():
        return name.lower().replace("_", "-")
    dashed = "".join(f"-{letter.lower()}" if "A" <= letter <= "Z" else letter for letter in name)
    return dashed.removeprefix("-").replace("_", "-").removesuffix("-")
