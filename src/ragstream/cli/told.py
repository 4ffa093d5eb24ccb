"""Errors in the words of somebody who runs commands."""

from __future__ import annotations

from ragstream.connection import hint
from ragstream.domain.errors import DependencyUnavailable, RagstreamError

__all__ = ["told"]

_ADDRESSES = {
    "kafka": "RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS",
    "redis": "RAGSTREAM_REDIS__URL",
    "postgres": "RAGSTREAM_POSTGRES__DSN",
    "qdrant": "RAGSTREAM_QDRANT__URL",
}


def told(error: RagstreamError) -> str:
    """The message; where a component of the stack is away, with the setting that leads to it and
    what may be wrong."""
    if isinstance(error, DependencyUnavailable) and error.dependency in _ADDRESSES:
        return f"{error} ({_ADDRESSES[error.dependency]}); {hint()}"
    return str(error)
