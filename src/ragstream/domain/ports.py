"""What the stages and the delivery need from outside, as protocols.

Every adapter of a port, the in-memory ones included, passes the same suite in ``tests/ports``.
All methods raise ``DependencyUnavailable`` when the component can't be reached, other
``TransientError`` when trying again may help, and ``PermanentError`` when it can't.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from ragstream.domain.events import Answer, AnswerDelta, Query, Turn, Usage
from ragstream.domain.evidence import (
    Document,
    IndexedChunk,
    SearchHits,
    SearchRequest,
    SparseVector,
)
from ragstream.domain.records import (
    InboundRecord,
    OutboundRecord,
    OutcomeKey,
    Replay,
    StoredOutcome,
)

__all__ = [
    "AnswerCache",
    "Bus",
    "ChatMessage",
    "Clock",
    "CollectionSpec",
    "CorpusGenerations",
    "DeltaSink",
    "DenseEncoder",
    "DocumentRef",
    "GeneratedPiece",
    "Generator",
    "History",
    "IntentClassifier",
    "Marked",
    "Marks",
    "OutcomeLedger",
    "Prompt",
    "Publisher",
    "Ranking",
    "Replays",
    "Reranker",
    "RouteDescription",
    "SparseEncoder",
    "StageStops",
    "TokenCounter",
    "VectorStore",
]


class Clock(Protocol):
    def now(self) -> datetime:
        """The present, with zone UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...


class Publisher(Protocol):
    """Publishes records."""

    async def publish(self, records: Sequence[OutboundRecord]) -> None:
        """Return when the bus has confirmed every record.

        Raises ``DependencyUnavailable`` when it has not in time (the records may still arrive),
        ``PermanentError`` for a record that it will never take.
        """
        ...


class Bus(Publisher, Protocol):
    """What a client of the pipeline needs."""

    def tail(
        self, topics: Sequence[str]
    ) -> AbstractAsyncContextManager[AsyncIterator[InboundRecord]]:
        """Everything published to the topics from now on. On entering, "now" has been fixed:
        nothing published afterwards is missed."""
        ...


class DeltaSink(Protocol):
    """Where pieces of an answer go while it is being written. Best effort."""

    def emit(self, query: Query, delta: AnswerDelta) -> None:
        """Never blocks and never raises."""
        ...


# --- encoding ------------------------------------------------------------------------------


class DenseEncoder(Protocol):
    """Text to dense vectors. ``dimensions`` is the length of each."""

    @property
    def dimensions(self) -> int: ...

    @property
    def model(self) -> str: ...

    async def encode_query(self, text: str) -> tuple[float, ...]: ...

    async def encode_passages(self, texts: Sequence[str]) -> list[tuple[float, ...]]: ...


class SparseEncoder(Protocol):
    """Text to term weights. Pure computation."""

    def encode_query(self, text: str) -> SparseVector: ...

    def encode_passage(self, text: str) -> SparseVector: ...


class TokenCounter(Protocol):
    """Tokens of the model in use."""

    def count(self, text: str) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


# --- vector store --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """What a collection must be: ``dimensions`` of the dense vector (cosine), vector names, and
    whether the server applies inverse document frequency to the sparse one."""

    name: str
    dimensions: int
    dense_name: str = "dense"
    sparse_name: str = "bm25"
    idf: bool = True


@dataclass(frozen=True, slots=True)
class DocumentRef:
    collection: str
    id: str


class VectorStore(Protocol):
    async def ensure(
        self, specs: Sequence[CollectionSpec], *, create: bool, payload_indexes: bool
    ) -> None:
        """Validate the collections, creating missing ones if asked.

        Raises ``ConfigurationError`` that lists everything that is wrong.
        """
        ...

    async def search(self, request: SearchRequest) -> SearchHits:
        """Hybrid search of every collection at once.

        Raises ``PartialFailure`` naming each collection that failed.
        """
        ...

    async def upsert(self, collection: str, chunks: Sequence[IndexedChunk]) -> None:
        """Write the chunks; return when they can be searched."""
        ...

    async def revisions(self, collection: str, tenant: str, document_id: str) -> Mapping[str, str]:
        """Point id → ``IndexedChunk.revision`` of what is stored of a document."""
        ...

    async def delete(self, collection: str, ids: Sequence[str]) -> None: ...

    async def releases(
        self, collections: Sequence[str], tenant: str, product: str
    ) -> frozenset[str]:
        """Releases of a product that are indexed for a tenant."""
        ...

    async def fetch(
        self, refs: Sequence[DocumentRef], tenant: str
    ) -> Mapping[DocumentRef, Document]:
        """Chunks by reference; what is gone is left out."""
        ...

    async def count(self, collection: str, tenant: str | None = None) -> int: ...

    async def ping(self) -> None: ...


# --- models --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RouteDescription:
    name: str
    description: str


class IntentClassifier(Protocol):
    async def classify(
        self, text: str, routes: Sequence[RouteDescription], *, timeout: float
    ) -> str | None:
        """Name of one of the routes, or None when it can't tell."""
        ...


@dataclass(frozen=True, slots=True)
class Ranking:
    """``order``: 0-based indices into the candidates, most relevant first, possibly fewer than
    the candidates. ``scores``: parallel to ``order``, 0 to 1, or empty when the ranker has none."""

    order: tuple[int, ...]
    scores: tuple[float, ...] = ()
    ranked_by: str = "fusion"


class Reranker(Protocol):
    async def rerank(
        self, query: str, documents: Sequence[Document], *, keep: int, timeout: float
    ) -> Ranking: ...


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: str  # system, user or assistant
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything a generator may use. ``messages`` is the rendered form for a chat model;
    ``documents`` are the retained ones in ``[CTX n]`` order, n starting at 1."""

    question: str
    messages: tuple[ChatMessage, ...]
    documents: tuple[Document, ...]
    version: str
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class GeneratedPiece:
    """A piece of text, or (last) how it ended."""

    text: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None


@runtime_checkable
class Generator(Protocol):
    @property
    def model(self) -> str: ...

    def generate(self, prompt: Prompt, *, timeout: float) -> AsyncIterator[GeneratedPiece]:
        """Stream the answer. The last piece has a finish reason.

        A finish reason of ``no_answer`` says that the documents do not answer the question.
        Raises ``GenerationFailed`` for a content filter, no choices, or a broken stream.
        """
        ...


# --- caches, ledger, history ---------------------------------------------------------------


class AnswerCache(Protocol):
    """Finished answers. Never decides anything: when it can't be reached it answers None."""

    async def get(self, tenant: str, key: str) -> Answer | None: ...

    async def put(self, tenant: str, key: str, answer: Answer, *, ttl: float) -> None: ...


class CorpusGenerations(Protocol):
    """A counter per tenant that grows with every change of its documents."""

    async def current(self, tenant: str) -> int: ...

    async def bump(self, tenant: str) -> int: ...


class Marked(NamedTuple):
    """What is known of an input: its output is confirmed, its query was cancelled."""

    done: bool = False
    cancelled: bool = False


class Marks(Protocol):
    """Which inputs of a stage have their output confirmed, by an id that is the same for every
    copy of the input, and which queries were cancelled. Best effort: fails open, so that a lost
    mark costs a repeat, or a cancellation that goes unheard."""

    async def look(self, id: str, tenant: str, query_id: str) -> Marked:
        """Both at once: a stage looks at every input."""
        ...

    async def done(self, id: str) -> None: ...

    async def cancel(self, tenant: str, query_id: str, *, ttl: float) -> None:
        """``ttl``: seconds that it is remembered. A mark may precede its query."""
        ...


class OutcomeLedger(Protocol):
    """The one place that decides what a query's outcome is."""

    async def find(self, key: OutcomeKey) -> StoredOutcome | None: ...

    async def record(self, key: OutcomeKey, outcome: StoredOutcome) -> StoredOutcome:
        """Insert if absent; return what is stored, which may be another's."""
        ...


class Replays(Protocol):
    """Which record was replayed as which generation of its query."""

    async def begin(self, replay_id: str, tenant: str, query_id: str, *, above: int = 0) -> Replay:
        """The replay of a record: the one that was begun before, or a new one whose generation
        is higher than ``above`` and any that the query has had."""
        ...

    async def finish(self, replay_id: str) -> None:
        """The broker has confirmed it: the same replay again is none."""
        ...


class StageStops(Protocol):
    """Stages that failed too often and stay stopped until an operator clears them."""

    async def stop(self, stage: str, reason: str) -> None:
        """Stop a stage; the first reason stays."""
        ...

    async def stopped(self) -> dict[str, str]:
        """Reason by stopped stage."""
        ...

    async def clear(self, stage: str) -> bool:
        """Whether the stage was stopped."""
        ...


class History(Protocol):
    async def save(self, answer: Answer) -> None:
        """Insert or replace by (tenant, query_id); the highest generation wins."""
        ...

    async def turns(
        self, tenant: str, conversation_id: str, *, limit: int, user_id: str | None = None
    ) -> tuple[Turn, ...]:
        """Latest turns of a conversation, oldest first. Answered queries only."""
        ...

    async def is_terminal(self, tenant: str, query_id: str) -> bool: ...
