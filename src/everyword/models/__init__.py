"""Adapters for model providers.

`from_*` converts the stream of a provider's SDK to chunks; `to_*` converts messages to the input of the SDK. No SDK is
needed to import this package.
"""

from __future__ import annotations

from .anthropic import from_anthropic
from .anthropic_messages import to_anthropic
from .errors import ModelFailure, classify, failure_of
from .openai import from_openai
from .openai_messages import to_openai, to_openai_responses
from .provider_stream import from_iterator
from .pydantic_ai_messages import deferred_results, from_pydantic_ai_messages, to_pydantic_ai
from .pydantic_ai_stream import from_pydantic_ai
from .tool_definitions import anthropic_tools, openai_responses_tools, openai_tools

__all__ = ["ModelFailure", "anthropic_tools", "classify", "deferred_results", "failure_of", "from_anthropic"]
__all__ += ["from_iterator", "from_openai", "from_pydantic_ai", "from_pydantic_ai_messages"]
__all__ += ["openai_responses_tools", "openai_tools", "to_anthropic", "to_openai", "to_openai_responses"]
__all__ += ["to_pydantic_ai"]
