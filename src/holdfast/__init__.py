"""AI chat agents that do not lose a word."""

__version__ = "0.1.0.dev0"
