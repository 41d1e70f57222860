"""Seeded bugs of shared links and exported conversations."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import never, replace

__all__ = ["BUGS"]

PAGES = "tests/server/test_shared_pages.py"
FILES = "tests/server/test_shared_files.py"
SHARES = "tests/core/test_shares.py"

BUGS = [
    Bug(
        "core:decide_share",
        "R-42",
        never("sum(not $each.is_over($now) for $each in $state.shares.values()) >= MOST_SHARES"),
        f"{SHARES}::test_the_number_of_links_is_limited_expired_ones_do_not_count",
        "a conversation has any number of links",
    ),
    Bug(
        "server:read_view",
        "R-42",
        never("not $shared.share.frozen", "only"),
        f"{PAGES}::test_a_live_link_shows_the_branch_that_clients_see",
        "a live link shows what a frozen one does",
    ),
    Bug(
        "server:_file_url",
        "R-42",
        replace("$url if data_image($url) is not None or $is_elsewhere else None", "$url"),
        f"{PAGES}::test_the_link_says_what_else_is_shown",
        "the URL of a file tells readers the name of the agent",
    ),
    Bug(
        "server:_problem",
        "R-42",
        never("$shared.share.is_over($now)"),
        f"{PAGES}::test_a_link_that_expires_closes_open_pages",
        "an expired link still works",
    ),
    Bug(
        "server:SharedPages.file",
        "R-42",
        never("not await self._visible.shows($store, $view, $sha256, $now)"),
        f"{FILES}::test_only_files_that_the_page_shows_are_served",
        "a link serves photos of messages that it does not show",
    ),
    Bug(
        "server:_changes_no_files",
        "R-42",
        replace("$stored.kind == 'chunk' and not find_references($stored.body)", "True"),
        f"{FILES}::test_the_photo_of_a_removed_message_is_not_served",
        "a link serves the photo of a message that was removed",
    ),
    Bug(
        "transcripts:_without_html",
        "R-42",
        replace('_ENTITY.sub("&amp;", $line).replace("<", "&lt;")', '_ENTITY.sub("&amp;", $line)'),
        "tests/transcripts/test_markdown.py::test_a_text_keeps_its_own_markdown_inside_a_quote",
        "an exported conversation runs a script in a viewer that is not careful",
    ),
]
