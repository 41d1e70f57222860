"""Lists over all agents, as handles know them."""

from __future__ import annotations

from ...log.lists import ApprovalQuery, ConversationQuery, ListedApproval, ListedConversation, SharedAgent
from ...rows import ApprovalRecord, ApprovalStatus, ConversationStatus, ConversationSummary, Participant, ShareRecord
from ...search_words import excerpt, query_words

__all__ = ["ApprovalQuery", "ApprovalRecord", "ApprovalStatus", "ConversationQuery", "ConversationStatus"]
__all__ += ["ConversationSummary", "ListedApproval", "ListedConversation", "Participant"]
__all__ += ["ShareRecord", "SharedAgent", "excerpt", "query_words"]
