"""What the stages' tests share: a clock that is set, an encoder of words, an index in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from ragstream.adapters.memory_state import MemoryCorpusGenerations
from ragstream.adapters.memory_vectors import MemoryVectorStore
from ragstream.adapters.tokens import TiktokenCounter
from ragstream.domain.errors import DependencyUnavailable
from ragstream.domain.events import (
    DocumentEvent,
    Evidence,
    IndexChange,
    Job,
    Query,
    Reranked,
    Retrieved,
    Routed,
    Routing,
)
from ragstream.domain.evidence import Chunk, Document, Metadata
from ragstream.domain.ports import CollectionSpec, GeneratedPiece, Prompt, Ranking
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.retrieval.chunking import chunk_document
from ragstream.retrieval.sparse import Bm25Encoder
from ragstream.stages.ingest import Ingest
from ragstream.testing.defaults import embed
from ragstream.wire import decode

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
COLLECTIONS = {"docs": "docs", "articles": "articles", "news": "news"}
COUNTER = TiktokenCounter()


class SetClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class WordEncoder:
    """Texts with words in common lie close together. ``encoded``: the passages, in order."""

    dimensions = 64
    model = "words"

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.queries: list[str] = []
        self.down = False

    async def encode_query(self, text: str) -> tuple[float, ...]:
        self.queries.append(text)
        return tuple(embed(text, self.dimensions))

    async def encode_passages(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        if self.down:
            raise DependencyUnavailable("embeddings", "refused")
        self.encoded += texts
        return [tuple(embed(text, self.dimensions)) for text in texts]


class Generations(MemoryCorpusGenerations):
    """Corpus generations that can't be reached while ``down``."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False

    async def current(self, tenant: str) -> int:
        self._reach()
        return await super().current(tenant)

    async def bump(self, tenant: str) -> int:
        self._reach()
        return await super().bump(tenant)

    def _reach(self) -> None:
        if self.down:
            raise DependencyUnavailable("redis", "refused")


class Told:
    """A reranker and a generator that do as they are told, and remember what they were given."""

    model = "told"

    def __init__(self, *pieces: str, finish: str = "stop", order: Sequence[int] = ()) -> None:
        self.pieces = pieces
        self.finish = finish
        self.order = tuple(order)
        self.scores: tuple[float, ...] = ()
        self.prompts: list[Prompt] = []
        self.candidates: list[Document] = []
        self.timeout = 0.0

    async def generate(self, prompt: Prompt, *, timeout: float) -> AsyncIterator[GeneratedPiece]:
        self.prompts.append(prompt)
        self.timeout = timeout
        for piece in self.pieces:
            yield GeneratedPiece(text=piece)
        yield GeneratedPiece(finish_reason=self.finish)

    async def rerank(
        self, query: str, documents: Sequence[Document], *, keep: int, timeout: float
    ) -> Ranking:
        self.candidates = list(documents)
        self.timeout = timeout
        return Ranking(self.order, self.scores, "told")


class Library:
    """An index in memory with the collections of ``COLLECTIONS``, and the stage that fills it."""

    def __init__(self, store: MemoryVectorStore | None = None) -> None:
        self.store = store or MemoryVectorStore()
        self.dense = WordEncoder()
        self.sparse = Bm25Encoder()
        self.generations = Generations()
        self.ingest = Ingest(
            self.store,
            chunk=_chunks,
            dense=self.dense,
            sparse=self.sparse,
            generations=self.generations,
            clock=SetClock(),
            collections=COLLECTIONS,
            topic="test.index-changes.v1",
        )

    @classmethod
    async def open(cls, store: MemoryVectorStore | None = None) -> Library:
        library = cls(store)
        specs = [CollectionSpec(name, WordEncoder.dimensions) for name in COLLECTIONS.values()]
        await library.store.ensure(specs, create=True, payload_indexes=False)
        return library

    async def add(self, *documents: DocumentEvent) -> list[IndexChange]:
        """Index the documents; the changes that are told."""
        records = [record for one in documents for record in await self.ingest(one)]
        return [decode(inbound(record), IndexChange)[0] for record in records]


def _chunks(event: DocumentEvent, collection: str) -> list[Chunk]:
    return chunk_document(
        event.text,
        document_id=event.document_id,
        tenant=event.tenant,
        collection=collection,
        counter=COUNTER,
        media_type=event.media_type,
        metadata=event.metadata,
        max_tokens=40,
        overlap=5,
    )


def inbound(record: OutboundRecord) -> InboundRecord:
    """The record as its reader gets it."""
    return InboundRecord(
        record.topic, 0, 0, NOW.timestamp(), record.key, record.value, record.headers
    )


def source(document_id: str, text: str, **fields: object) -> DocumentEvent:
    """A document to index. Fields that an event does not have are its metadata."""
    own = {name: fields.pop(name) for name in DocumentEvent.model_fields if name in fields}
    return DocumentEvent.model_validate(
        {"document_id": document_id, "text": text, "metadata": fields, **own}
    )


def evidence(name: str, text: str = "", **fields: object) -> Document:
    """A document as it was found. Fields that it does not have are its metadata."""
    own = {field: fields.pop(field) for field in Document.model_fields if field in fields}
    return Document.model_validate(
        {
            "id": name,
            "document_id": name,
            "collection": "docs",
            "text": text or f"What {name} says.",
            "metadata": Metadata.model_validate(fields),
            **own,
        }
    )


def job(text: str = "What is acks?", **fields: object) -> Job:
    """An accepted query. Fields that a job does not have are the query's."""
    own = {name: fields.pop(name) for name in Job.model_fields if name in fields}
    return Job.model_validate(
        {
            "query": Query.model_validate({"query_id": "q", "text": text, **fields}),
            "fingerprint": "f",
            "accepted_at": NOW,
            "deadline": NOW + timedelta(seconds=120),
            **own,
        }
    )


def routed(text: str = "What is acks?", **fields: object) -> Routed:
    """A job with its route. Fields that neither job nor query have are the routing's."""
    routing = {name: fields.pop(name) for name in Routing.model_fields if name in fields}
    given = {
        "route": "DOCS",
        "decided_by": "default",
        "collections": ("docs",),
        "search_text": text,
        **routing,
    }
    return Routed.model_validate({**dict(job(text, **fields)), "routing": given})


def retrieved(*documents: Document, **fields: object) -> Retrieved:
    """A job with its candidates."""
    return Retrieved.model_validate(_with_evidence(documents, fields))


def reranked(*documents: Document, **fields: object) -> Reranked:
    """A job with the documents that were kept."""
    return Reranked.model_validate(_with_evidence(documents, fields))


def _with_evidence(documents: Sequence[Document], fields: dict[str, object]) -> dict[str, object]:
    own = {name: fields.pop(name) for name in ("mode", "noted") if name in fields}
    noted = own.pop("noted", fields.get("corpus_generation", 0))
    found = Evidence.model_validate({"documents": documents, "corpus_generation": noted, **own})
    return {**dict(routed(**fields)), "evidence": found}  # type: ignore[arg-type]


def names(documents: Sequence[Document]) -> list[str]:
    return [document.document_id for document in documents]
