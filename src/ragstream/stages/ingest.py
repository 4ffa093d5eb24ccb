"""Ingest: documents into the index."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from ragstream.domain.errors import DependencyUnavailable, InvalidEvent
from ragstream.domain.events import DocumentAction, DocumentEvent, IndexChange
from ragstream.domain.evidence import Chunk, IndexedChunk, chunk_revision
from ragstream.domain.ports import (
    Clock,
    CorpusGenerations,
    DenseEncoder,
    SparseEncoder,
    VectorStore,
)
from ragstream.domain.records import OutboundRecord
from ragstream.wire import encode, event_id, record_key

__all__ = ["Ingest"]

log = logging.getLogger(__name__)

#: Document and collection → chunks.
Chunker = Callable[[DocumentEvent, str], Sequence[Chunk]]


class Ingest:
    """The stage. Idempotent: chunks that are stored as they are cost no embedding.

    ``collections``: kind of document → collection. New chunks are written before obsolete ones
    are removed, so that a document never disappears while it changes.
    """

    def __init__(
        self,
        store: VectorStore,
        *,
        chunk: Chunker,
        dense: DenseEncoder,
        sparse: SparseEncoder,
        generations: CorpusGenerations,
        clock: Clock,
        collections: Mapping[str, str],
        topic: str,
    ) -> None:
        self._store = store
        self._chunk = chunk
        self._dense = dense
        self._sparse = sparse
        self._generations = generations
        self._clock = clock
        self._collections = collections
        self._topic = topic

    async def __call__(self, event: DocumentEvent) -> Sequence[OutboundRecord]:
        collection = self._collections.get(event.kind)
        if collection is None:
            known = ", ".join(sorted(self._collections))
            raise InvalidEvent(f"no such kind: {event.kind!r} (there are {known})", field="kind")
        stored = await self._store.revisions(collection, event.tenant, event.document_id)
        chunks: Sequence[Chunk] = ()
        if event.action is DocumentAction.UPSERT:
            chunks = await asyncio.to_thread(self._chunk, event, collection)
        new = [
            chunk for chunk in chunks if stored.get(chunk.id) != chunk_revision(chunk, event.access)
        ]
        obsolete = sorted(stored.keys() - {chunk.id for chunk in chunks})
        if not new and not obsolete:
            return ()
        # Once before anything is written, so that work that breaks off leaves no cached answer of
        # the old text valid for good, and once after it, for answers made in between.
        generation = await self._generations.bump(event.tenant)
        if new:
            await self._store.upsert(collection, await self._encoded(new, event))
        if obsolete:
            await self._store.delete(collection, obsolete)
        try:
            generation = await self._generations.bump(event.tenant)
        except DependencyUnavailable as error:
            # Not again from the start: nothing would be found to differ, and no change be told.
            log.warning("%s: the corpus generation stays %d: %s", event.tenant, generation, error)
        change = IndexChange(
            tenant=event.tenant,
            corpus_generation=generation,
            document_id=event.document_id,
            collection=collection,
            added=len(new),
            removed=len(obsolete),
            unchanged=len(chunks) - len(new),
            changed_at=self._clock.now(),
        )
        return [self._record(change)]

    async def _encoded(self, chunks: Sequence[Chunk], event: DocumentEvent) -> list[IndexedChunk]:
        dense = await self._dense.encode_passages([chunk.embed_text for chunk in chunks])
        texts = [_keyword_text(chunk) for chunk in chunks]
        sparse = await asyncio.to_thread(lambda: list(map(self._sparse.encode_passage, texts)))
        return [
            IndexedChunk(chunk, vector, terms, event.tenant, event.access)
            for chunk, vector, terms in zip(chunks, dense, sparse, strict=True)
        ]

    def _record(self, change: IndexChange) -> OutboundRecord:
        return encode(
            change,
            topic=self._topic,
            key=record_key(change.tenant, change.document_id),
            id=event_id(
                change.tenant, change.collection, change.document_id, change.corpus_generation
            ),
            time=change.changed_at,
            subject=change.document_id,
        )


def _keyword_text(chunk: Chunk) -> str:
    """What the keyword side encodes: the title counts twice, since a term in it says more of what
    the document is about than one in its body (as field weights in BM25F do)."""
    title = chunk.metadata.title
    return f"{title}\n{chunk.embed_text}" if title else chunk.embed_text
