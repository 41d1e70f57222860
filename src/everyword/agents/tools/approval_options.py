"""What `@tool` says about its approvals: who may give them, what the person reads, and how long a call waits."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from ...errors import UsageError
from ...runtime.api import ApprovalDetails
from ..durations import Duration, to_millis, to_seconds

__all__ = ["NO_OPTIONS", "ApprovalOptions"]

log = logging.getLogger("everyword.agents")

LONGEST_SUMMARY: Final = 500


@dataclass(frozen=True, slots=True)
class ApprovalOptions:
    """The options of `@tool` that are about approvals."""

    approvers: Sequence[str] | None = None
    summary: str | Callable[..., str] | None = None
    risk: str | None = None
    timeout: Duration | None = None

    def checked(self, name: str, *, needs_approval: bool) -> ApprovalOptions:
        """Return the options, with a tuple of approvers.

        Raises:
            UsageError: an option has a wrong type, the timeout is not positive, the list of approvers is empty, or the
                tool has approvers and needs no approval.
        """
        approvers: object = () if self.approvers is None else self.approvers
        if isinstance(approvers, str) or not isinstance(approvers, Sequence):
            raise _wrong(name, "approvers", "a list of ids and roles")
        if not all(isinstance(each, str) for each in approvers):
            raise _wrong(name, "approvers", "a list of ids and roles")
        if self.approvers is not None and not approvers:
            raise UsageError(
                f"unable to make the tool {name!r}; its list of approvers is empty. Leave it out if every principal "
                "that may answer calls may approve this one"
            )
        if approvers and not needs_approval:
            raise UsageError(
                f"unable to make the tool {name!r}; it has approvers, and would run without asking them. Give "
                "needs_approval, too: True, or a function of the arguments"
            )
        summary: object = self.summary
        if summary is not None and not isinstance(summary, str) and not callable(summary):
            raise _wrong(name, "approval_summary", "text, or a function that returns it")
        risk: object = self.risk
        if risk is not None and not isinstance(risk, str):
            raise _wrong(name, "approval_risk", "text")
        timeout: object = self.timeout
        if timeout is not None:
            if isinstance(timeout, bool) or not isinstance(timeout, int | float | timedelta):
                raise _wrong(name, "approval_timeout", "a number of seconds, or a timedelta")
            if not 0 < to_seconds(timeout) < 10**9:
                raise _wrong(name, "approval_timeout", "a positive number of seconds")
        return ApprovalOptions(tuple(approvers) or None, self.summary, self.risk, self.timeout)

    def details(self, call: str, tool: str, arguments: Mapping[str, Any]) -> ApprovalDetails:
        """Return the details of a request to approve a call with these arguments."""
        return ApprovalDetails(
            call,
            tool,
            summary=self._summary(tool, arguments),
            risk=self.risk,
            approvers=self.approvers or (),
            expires_after=None if self.timeout is None else to_millis(self.timeout),
        )

    def _summary(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        if not callable(self.summary):
            return self.summary
        try:
            wanted = inspect.signature(self.summary).parameters
            takes_all = any(each.kind is each.VAR_KEYWORD for each in wanted.values())
            text = self.summary(**{key: value for key, value in arguments.items() if takes_all or key in wanted})
        except Exception:
            log.exception("tool %s: approval_summary raised; the request has no summary", tool)
            return None
        return str(text)[:LONGEST_SUMMARY].encode(errors="replace").decode()


def _wrong(name: str, option: str, wanted: str) -> UsageError:
    return UsageError(f"unable to make the tool {name!r}; {option} must be {wanted}")


NO_OPTIONS: Final = ApprovalOptions()
