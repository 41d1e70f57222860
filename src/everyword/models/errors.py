"""Classify failures of model providers: the reason, a text for the developer and a text for users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from ..errors import ModelError

__all__ = [
    "FailureKind",
    "ModelFailure",
    "classify",
    "classify_error_report",
    "failure_of",
    "model_error",
    "stream_dropped",
]

FailureKind = Literal[
    "key", "quota", "model", "rate-limit", "overloaded", "timeout", "context-length", "refused", "request"
] | Literal["connection", "provider"]  # fmt: skip


class ModelFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a model did not answer.

    `text` tells the developer what happened and what to do; it may quote the provider and must not be sent to clients.
    `public_text` is safe to show. `retryable` is True if the same request may succeed later; `retry_after` is the
    provider's own value, in seconds.
    """

    kind: FailureKind
    text: str
    public_text: str
    retryable: bool
    provider: str = ""
    status: int | None = None
    retry_after: float | None = None


class _Row(msgspec.Struct, frozen=True):
    cure: str
    public_text: str
    retryable: bool


_BUSY: Final = "The model is busy right now. Please try again in a moment."
_DOWN: Final = "The model could not be reached. Please try again in a moment."
_SETUP: Final = "The assistant is not set up correctly. Please tell its operator."

_ROWS: Final[dict[FailureKind, _Row]] = {
    "key": _Row("check the API key and its permissions", _SETUP, False),
    "quota": _Row("the account has no credit left; check the plan and its billing", _SETUP, False),
    "model": _Row("check the model's name, and that this account may use it", _SETUP, False),
    "rate-limit": _Row("slow down, or ask the provider for a higher limit", _BUSY, True),
    "overloaded": _Row("the provider is overloaded; try again later", _BUSY, True),
    "timeout": _Row("try again, or give the client a longer timeout", "The model took too long to answer.", True),
    "context-length": _Row(
        "send less: prune old messages, or use a model with a larger context",
        "This conversation has become too long for the model.",
        False,
    ),
    "refused": _Row(
        "the provider's content policy stopped it; change the request",
        "The model declined to answer this.",
        False,
    ),
    "request": _Row("the provider does not accept this request; fix what it names", _SETUP, False),
    "connection": _Row("the connection to the provider broke; try again", _DOWN, True),
    "provider": _Row("the provider failed; try again, and look at its status page", _DOWN, True),
}

_OF_STATUS: Final[dict[int, FailureKind]] = {
    400: "request",
    401: "key",
    402: "quota",
    403: "key",
    404: "model",
    408: "timeout",
    409: "provider",
    413: "context-length",
    422: "request",
    429: "rate-limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

# Words in error codes and messages, the most specific first: a context that is too long has status 400.
_OF_WORDS: Final[tuple[tuple[str, FailureKind], ...]] = (
    ("context_length_exceeded", "context-length"),
    ("context window", "context-length"),
    ("maximum context length", "context-length"),
    ("prompt is too long", "context-length"),
    ("insufficient_quota", "quota"),
    ("credit balance", "quota"),
    ("billing", "quota"),
    ("content_policy", "refused"),
    ("content_filter", "refused"),
    ("content filter", "refused"),
    ("model_not_found", "model"),
    ("invalid_api_key", "key"),
    ("authentication_error", "key"),
    ("permission_error", "key"),
    ("rate_limit", "rate-limit"),
    ("overloaded", "overloaded"),
    ("not_found_error", "model"),
    ("request_too_large", "context-length"),
    ("invalid_request_error", "request"),
    ("invalid_prompt", "refused"),
    ("timeout", "timeout"),
    ("api_error", "provider"),
    ("server_error", "provider"),
)

_OF_CLASS: Final[tuple[tuple[str, FailureKind], ...]] = (
    ("ContextWindowExceeded", "context-length"),
    ("LengthFinishReason", "context-length"),
    ("ContentFilter", "refused"),
    ("QuotaExceeded", "quota"),
    ("RateLimit", "rate-limit"),
    ("Overloaded", "overloaded"),
    ("Authentication", "key"),
    ("Credentials", "key"),
    ("Timeout", "timeout"),
    ("TimedOut", "timeout"),
    ("Connection", "connection"),
    ("RemoteProtocolError", "connection"),
    ("ReadError", "connection"),
    ("WriteError", "connection"),
    ("CloseError", "connection"),
    ("ConnectError", "connection"),
)

_PROVIDERS: Final = {"openai": "openai", "anthropic": "anthropic", "pydantic_ai": "pydantic-ai"}
_TRANSPORTS: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "h11"})
# Most exceptions of Pydantic AI are about the caller's own code; these are about the model.
_OF_THE_MODEL: Final = frozenset({"ModelAPIError", "UnexpectedModelBehavior"})


def classify(error: BaseException, *, provider: str = "") -> ModelFailure | None:
    """Return the failure for an exception of a provider's SDK, or None if it is not one.

    Also None for the developer's own errors that pass through an SDK: from limits that they set or tools they wrote.
    """
    known = failure_of(error)
    if known is not None:
        return known
    roots = {each.__module__.partition(".")[0] for each in type(error).__mro__}
    library = next((name for module, name in _PROVIDERS.items() if module in roots), "")
    is_transport = bool(roots & _TRANSPORTS) or isinstance(error, (ConnectionError, TimeoutError))
    names = {each.__name__ for each in type(error).__mro__}
    if not (library or is_transport) or (library == "pydantic-ai" and not names & _OF_THE_MODEL):
        return None
    status = getattr(error, "status_code", None)
    status = status if isinstance(status, int) and status >= 400 else None
    kind = _of_report(getattr(error, "body", None)) or _of_report(str(error))
    named = next((each for word, each in _OF_CLASS if any(word in name for name in names)), None)
    if kind in (None, "request", "provider", "timeout"):
        kind = named or _of_status(status) or kind
    if kind is None:
        kind = "connection" if is_transport else "provider"
    return _failure(kind, str(error) or type(error).__name__, provider or library, status, _retry_after(error))


def classify_error_report(report: Any, *, provider: str) -> ModelFailure:
    """Return the failure for an error that was reported inside the stream: the provider's error object, or its text."""
    kind = _of_report(report) or "provider"
    return _failure(kind, _report_text(report), provider)


def stream_dropped(provider: str) -> ModelFailure:
    """Return the failure for a stream that ended before the model finished."""
    return _failure("connection", "the stream ended before the answer did", provider)


def model_error(failure: ModelFailure) -> ModelError:
    """Return the error to raise. Its text is public; `failure_of` returns the failure."""
    error = ModelError(failure.public_text, failure=failure, retryable=failure.retryable)
    error.add_note(failure.text)
    return error


def failure_of(error: BaseException) -> ModelFailure | None:
    """Return the failure of an error that an adapter raised, or None for any other error."""
    failure = error.failure if isinstance(error, ModelError) else None
    return failure if isinstance(failure, ModelFailure) else None


def _failure(
    kind: FailureKind,
    reason: str,
    provider: str,
    status: int | None = None,
    retry_after: float | None = None,
) -> ModelFailure:
    row = _ROWS[kind]
    named = f"{provider} model" if provider else "model"
    at = "" if status is None else f" (status {status})"
    return ModelFailure(
        kind=kind,
        text=f"unable to get an answer from the {named}{at}; {reason}; {row.cure}",
        public_text=row.public_text,
        retryable=row.retryable,
        provider=provider,
        status=status,
        retry_after=retry_after,
    )


def _of_status(status: int | None) -> FailureKind | None:
    if status is None:
        return None
    return _OF_STATUS.get(status) or ("provider" if status >= 500 else "request")


def _of_report(report: Any) -> FailureKind | None:
    text = " ".join(_words(report)).lower()
    return next((kind for word, kind in _OF_WORDS if word in text), None)


def _words(report: Any) -> Iterator[str]:
    if isinstance(report, str):
        yield report
    elif isinstance(report, Mapping):
        for name in ("error", "code", "type", "message"):
            yield from _words(report.get(name))


def _report_text(report: Any) -> str:
    if isinstance(report, Mapping):
        inner = report.get("error")
        if isinstance(inner, Mapping):
            return _report_text(inner)
        words = [str(report[name]) for name in ("code", "type", "message") if report.get(name)]
        return ": ".join(words) or "it reported an error without saying why"
    return str(report) if report else "it reported an error without saying why"


def _retry_after(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return float(headers[name]) * scale
        except (KeyError, ValueError, TypeError):
            continue
    return None
