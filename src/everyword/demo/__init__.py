"""The demo agent of `everyword dev`: answers from a script, word by word, without a model or an API key.

Killed in the middle of a sentence, it continues after the last committed word, because each attempt starts from the
stored message.
"""

from __future__ import annotations

from .agent import Demo

__all__ = ["Demo"]
