"""The error tree.

    RagstreamError
    ├── ConfigurationError        settings, collections or topics are wrong; exit code 2
    ├── InvalidEvent              a record that no retry can mend: to the dead-letter topic
    │   └── ConflictingRequest    a known query_id with another request behind it
    ├── TransientError            may succeed when tried again (``retry_after`` in seconds, if told)
    │   └── DependencyUnavailable a component is down: the stage pauses and probes it
    ├── PermanentError            will fail again: the query gets its failed answer
    │   ├── DeadlineExceeded
    │   ├── QueryCancelled
    │   ├── ContextDoesNotFit     authoritative context larger than the token budget
    │   ├── RerankRejected        the reranking model's reply is not one strict JSON object
    │   └── GenerationFailed      content filter, no choices, a stream that broke off
    ├── PartialFailure            some collections failed; transient only if every cause is
    ├── LeaseRevoked              the partition moved away while its record was worked on
    └── StageStalled              a stage makes no progress: the process has to start anew

Every error has a stable ``code`` for machines; ``str(error)`` is for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

__all__ = [
    "ConfigurationError",
    "ConflictingRequest",
    "ContextDoesNotFit",
    "DeadlineExceeded",
    "DependencyUnavailable",
    "GenerationFailed",
    "InvalidEvent",
    "LeaseRevoked",
    "PartialFailure",
    "PermanentError",
    "QueryCancelled",
    "RagstreamError",
    "RerankRejected",
    "StageStalled",
    "TransientError",
]


class RagstreamError(Exception):
    """Base of all errors raised on purpose."""

    code: ClassVar[str] = "error"
    retryable: bool = False


class ConfigurationError(RagstreamError):
    """Something must be changed by an operator before this can work."""

    code = "configuration"


class InvalidEvent(RagstreamError):
    """A record that is not a valid event. ``field`` names the offending part, dotted.

    Both may quote what a stranger sent: they are shortened, and what can't be printed (control
    characters, lone surrogates) is escaped, so that they fit into any log, header and event.
    """

    code = "invalid_event"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        message = _printable(message, 2000)
        self.field = _printable(field, 200) if field else None
        super().__init__(f"{self.field}: {message}" if self.field else message)


class ConflictingRequest(InvalidEvent):
    """The query_id is already taken by a different request."""

    code = "conflicting_request"


class TransientError(RagstreamError):
    """Trying again may help. ``retry_after``: seconds the other side asked us to wait."""

    code = "transient"
    retryable = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DependencyUnavailable(TransientError):
    """A component (``redis``, ``postgres``, ``qdrant``, ``kafka``, ``llm``, …) can't be reached."""

    code = "dependency_unavailable"

    def __init__(self, dependency: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"{dependency}: {message}", retry_after=retry_after)
        self.dependency = dependency


class PermanentError(RagstreamError):
    """Trying again can't help."""

    code = "permanent"


class DeadlineExceeded(PermanentError):
    code = "deadline_exceeded"
    retryable = True  # a new query with a later deadline may well succeed


class QueryCancelled(PermanentError):
    code = "cancelled"


class ContextDoesNotFit(PermanentError):
    code = "context_does_not_fit"


class RerankRejected(PermanentError):
    code = "rerank_rejected"


class GenerationFailed(PermanentError):
    code = "generation_failed"

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class PartialFailure(RagstreamError):
    """Some collections could not be searched; ``causes`` maps each to its error."""

    code = "partial_failure"

    def __init__(self, causes: Mapping[str, BaseException]) -> None:
        listed = "; ".join(f"{name}: {cause}" for name, cause in causes.items())
        super().__init__(f"retrieval failed for {listed}")
        self.causes = dict(causes)
        self.retryable = all(isinstance(cause, TransientError) for cause in causes.values())


class LeaseRevoked(RagstreamError):
    """The work must stop: another worker owns this partition now."""

    code = "lease_revoked"


class StageStalled(RagstreamError):
    """Nothing comes to an end, and nothing says why."""

    code = "stage_stalled"


def _printable(text: str, limit: int) -> str:
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
