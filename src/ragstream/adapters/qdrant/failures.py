"""What the client raises, in the terms of the domain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc  # type: ignore[import-untyped]  # ships no types
import httpx
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from ragstream.domain.errors import DependencyUnavailable, PermanentError, RagstreamError

__all__ = ["FAILURES", "is_conflict", "is_missing", "to_domain", "translated"]

#: ValueError: an unusable argument or response, and every error of the client's local mode.
FAILURES = (
    ApiException,
    ResourceExhaustedResponse,
    grpc.RpcError,
    httpx.HTTPError,
    TimeoutError,
    ValueError,
)

_TRANSIENT_HTTP = frozenset({408, 425, 429})
_TRANSIENT_GRPC = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)


@contextmanager
def translated() -> Iterator[None]:
    """Raise the domain's error for the client's."""
    try:
        yield
    except FAILURES as error:
        raise to_domain(error) from error


def to_domain(error: BaseException) -> RagstreamError:
    match error:
        case ResourceExhaustedResponse():
            return DependencyUnavailable("qdrant", str(error), retry_after=error.retry_after_s)
        case UnexpectedResponse():
            return _from_status(error)
        case ResponseHandlingException(source=source):
            return to_domain(source)
        case TimeoutError():
            return DependencyUnavailable("qdrant", "no answer in time")
        case httpx.HTTPError():
            return DependencyUnavailable("qdrant", f"{type(error).__name__} {error}".strip())
        case grpc.RpcError():
            message = f"{error.code().name} {error.details()}"
            if error.code() in _TRANSIENT_GRPC:
                return DependencyUnavailable("qdrant", message)
            return PermanentError(f"qdrant: {message}")
    return PermanentError(f"qdrant: {error}")


def is_missing(error: BaseException) -> bool:
    """Whether the collection is not there."""
    match error:
        case UnexpectedResponse():
            return error.status_code == 404
        case grpc.RpcError():
            return bool(error.code() == grpc.StatusCode.NOT_FOUND)
        case ValueError():
            return str(error).endswith("not found")
    return False


def is_conflict(error: BaseException) -> bool:
    """Whether someone else created the collection first."""
    match error:
        case UnexpectedResponse():
            return error.status_code == 409 or b"already exists" in error.content
        case grpc.RpcError():
            return bool(error.code() == grpc.StatusCode.ALREADY_EXISTS)
    return False


def _from_status(error: UnexpectedResponse) -> RagstreamError:
    status = error.status_code or 500
    message = f"HTTP {status} {_told(error)}".strip()
    if status >= 500 or status in _TRANSIENT_HTTP:
        return DependencyUnavailable(
            "qdrant", message, retry_after=_seconds(error.headers.get("Retry-After"))
        )
    return PermanentError(f"qdrant: {message}")


def _told(error: UnexpectedResponse) -> str:
    try:
        return str(error.structured()["status"]["error"])
    except (ValueError, KeyError, TypeError):
        return error.reason_phrase


def _seconds(retry_after: str | None) -> float | None:
    """Qdrant sends whole seconds; an HTTP date of some proxy is not worth parsing."""
    return float(retry_after) if retry_after and retry_after.isdecimal() else None
