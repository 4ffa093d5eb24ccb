"""Exit codes that scripts can use."""

from __future__ import annotations

from ragstream.domain.errors import (
    ConfigurationError,
    DependencyUnavailable,
    InvalidEvent,
    PartialFailure,
    RagstreamError,
)

__all__ = ["FAILED", "NOTHING_FOUND", "NO_ANSWER", "UNREACHABLE", "WRONG", "exit_code"]

FAILED = 1
WRONG = 2
UNREACHABLE = 3
NO_ANSWER = 4
NOTHING_FOUND = 5


def exit_code(error: BaseException) -> int | None:
    """The code for an error made on purpose, None for any other."""
    if isinstance(error, ConfigurationError | InvalidEvent):
        return WRONG
    if isinstance(error, DependencyUnavailable):
        return UNREACHABLE
    if isinstance(error, PartialFailure) and error.retryable:
        return UNREACHABLE
    if isinstance(error, RagstreamError):
        return FAILED
    return None
