"""An agent to try everything with: it answers from a script, word by word, and needs no model and no key.

It shows what the framework is for: killed in the middle of a sentence, it goes on behind the last word that was
committed, because it looks at what it has said already and not at what it remembers.
"""

from __future__ import annotations

from .agent import Demo

__all__ = ["Demo"]
