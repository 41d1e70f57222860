"""Handles: how other code calls an agent, and how the agent answers these calls."""

from __future__ import annotations

from .app_handle import AppHandle
from .chat_handle import ChatHandle
from .handle import Handle, make_handle
from .operations import ConnectionRecord

__all__ = ["AppHandle", "ChatHandle", "ConnectionRecord", "Handle", "make_handle"]
