"""Retrieval-augmented question answering that lives on an event bus.

    from ragstream import Client

The topics are the API: see ``topics/asyncapi.yaml``. ``ragstream.domain.events`` has the events,
``ragstream.pipeline`` the floor plan, ``ragstream.app`` the composition.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragstream.version import __version__

if TYPE_CHECKING:
    from ragstream.client import Client, QueryRejected
    from ragstream.domain.events import Answer, AnswerDelta, AnswerStatus, Citation, Query
    from ragstream.domain.topics import Topics

__all__ = [
    "Answer",
    "AnswerDelta",
    "AnswerStatus",
    "Citation",
    "Client",
    "Query",
    "QueryRejected",
    "Topics",
    "__version__",
]

_HOMES = {
    "Client": "ragstream.client",
    "QueryRejected": "ragstream.client",
    "Topics": "ragstream.domain.topics",
}


def __getattr__(name: str) -> Any:
    # Late, so that a part of the package that needs none of this starts quickly.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "ragstream.domain.events")), name)
