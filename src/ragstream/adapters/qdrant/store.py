"""Hybrid search over Qdrant collections: dense and sparse vectors, fused by the server."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Self, TypeVar

import httpx
from qdrant_client import AsyncQdrantClient, models

from ragstream.adapters.payload import (
    DOC_VERSION,
    DOCUMENT_ID,
    PRODUCT,
    REVISION,
    TENANT,
    to_document,
    to_payload,
)
from ragstream.adapters.qdrant.failures import FAILURES, to_domain, translated
from ragstream.adapters.qdrant.filters import equals, search_filter
from ragstream.adapters.qdrant.schema import ensure_collections
from ragstream.domain.errors import PartialFailure, RagstreamError
from ragstream.domain.evidence import (
    Document,
    IndexedChunk,
    SearchHits,
    SearchRequest,
)
from ragstream.domain.ports import CollectionSpec, DocumentRef

__all__ = ["QdrantVectorStore"]

UPSERT_BATCH = 64
SCROLL_PAGE = 256
MAX_RELEASES = 1_000
#: For REST. Left to itself the client keeps no connection to this machine open. A Qdrant server
#: closes idle ones after five seconds; we close them first.
CONNECTIONS = httpx.Limits(max_keepalive_connections=32, keepalive_expiry=4.0)

T = TypeVar("T")


class QdrantVectorStore:
    """``VectorStore`` on a Qdrant server.

    ``dense_name`` and ``sparse_name`` are the vector names of collections that ``ensure`` was not
    told of. ``timeout``: seconds for everything but ``search``, which has its own.
    """

    def __init__(
        self,
        client: AsyncQdrantClient,
        *,
        timeout: float = 10.0,
        dense_name: str = "dense",
        sparse_name: str = "bm25",
    ) -> None:
        self._client = client
        self._timeout = timeout
        self._default_names = (dense_name, sparse_name)
        self._names: dict[str, tuple[str, str]] = {}

    @classmethod
    def connect(
        cls,
        url: str,
        api_key: str | None = None,
        timeout: float = 10.0,
        prefer_grpc: bool = False,
    ) -> Self:
        """A store with a client of its own; nothing is sent yet. ``timeout``: seconds a call."""
        client = AsyncQdrantClient(
            url=url,
            api_key=api_key,
            timeout=math.ceil(timeout),
            prefer_grpc=prefer_grpc,
            check_compatibility=False,  # it would block on the network here
            limits=CONNECTIONS,
        )
        return cls(client, timeout=timeout)

    async def close(self) -> None:
        await self._client.close()

    async def ensure(
        self, specs: Sequence[CollectionSpec], *, create: bool, payload_indexes: bool
    ) -> None:
        with translated():
            await ensure_collections(
                self._client, specs, create=create, payload_indexes=payload_indexes
            )
        self._names.update({spec.name: (spec.dense_name, spec.sparse_name) for spec in specs})

    async def search(self, request: SearchRequest) -> SearchHits:
        condition = search_filter(request)
        if request.dense is None and not request.sparse:
            return SearchHits(request.mode, dict.fromkeys(request.collections, ()))

        async def search_one(collection: str) -> tuple[Document, ...]:
            response = await self._client.query_points(
                collection,
                prefetch=self._prefetches(collection, request, condition),
                query=models.RrfQuery(rrf=models.Rrf(k=request.rrf_k)),
                query_filter=condition,
                limit=request.limit,
                with_payload=True,
                timeout=max(1, math.ceil(request.timeout)),
            )
            return tuple(
                to_document(collection, str(point.id), point.payload or {}, point.score)
                for point in response.points
            )

        found = await _each(request.collections, search_one, request.timeout)
        return SearchHits(request.mode, found)

    def _prefetches(
        self, collection: str, request: SearchRequest, condition: models.Filter
    ) -> list[models.Prefetch]:
        dense_name, sparse_name = self._names.get(collection, self._default_names)
        sides: list[tuple[str, list[float] | models.SparseVector]] = []
        if request.dense is not None:
            sides.append((dense_name, list(request.dense)))
        if request.sparse:
            sides.append((sparse_name, _sparse(request.sparse.indices, request.sparse.values)))
        return [
            models.Prefetch(query=vector, using=name, filter=condition, limit=request.prefetch)
            for name, vector in sides
        ]

    async def upsert(self, collection: str, chunks: Sequence[IndexedChunk]) -> None:
        dense_name, sparse_name = self._names.get(collection, self._default_names)
        for start in range(0, len(chunks), UPSERT_BATCH):
            points = []
            for chunk in chunks[start : start + UPSERT_BATCH]:
                vectors: dict[str, models.Vector] = {dense_name: list(chunk.dense)}
                if chunk.sparse:
                    vectors[sparse_name] = _sparse(chunk.sparse.indices, chunk.sparse.values)
                points.append(
                    models.PointStruct(id=chunk.chunk.id, vector=vectors, payload=to_payload(chunk))
                )
            with translated():
                await self._client.upsert(collection, points, wait=True)

    async def revisions(self, collection: str, tenant: str, document_id: str) -> Mapping[str, str]:
        condition = models.Filter(must=[equals(TENANT, tenant), equals(DOCUMENT_ID, document_id)])
        found: dict[str, str] = {}
        offset = None
        with translated():
            while True:
                points, offset = await self._client.scroll(
                    collection,
                    scroll_filter=condition,
                    limit=SCROLL_PAGE,
                    offset=offset,
                    with_payload=[REVISION],
                )
                for point in points:
                    found[str(point.id)] = str((point.payload or {}).get(REVISION))
                if offset is None:
                    return found

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        if ids:
            with translated():
                await self._client.delete(
                    collection, models.PointIdsList(points=list(ids)), wait=True
                )

    async def releases(
        self, collections: Sequence[str], tenant: str, product: str
    ) -> frozenset[str]:
        condition = models.Filter(must=[equals(TENANT, tenant), equals(PRODUCT, product)])

        async def releases_of(collection: str) -> set[str]:
            response = await self._client.facet(
                collection, DOC_VERSION, facet_filter=condition, limit=MAX_RELEASES, exact=True
            )
            return {str(hit.value) for hit in response.hits}

        found = await _each(collections, releases_of, self._timeout)
        return frozenset().union(*found.values())

    async def fetch(
        self, refs: Sequence[DocumentRef], tenant: str
    ) -> Mapping[DocumentRef, Document]:
        wanted: dict[str, list[str]] = {}
        for ref in refs:
            wanted.setdefault(ref.collection, []).append(ref.id)

        async def fetch_from(collection: str) -> list[Document]:
            ids = wanted[collection]
            # Scrolled, not retrieved by id: the tenant is part of the question to the server.
            points, _ = await self._client.scroll(
                collection,
                scroll_filter=models.Filter(
                    must=[models.HasIdCondition(has_id=list(ids)), equals(TENANT, tenant)]
                ),
                limit=len(ids),
                with_payload=True,
            )
            return [to_document(collection, str(point.id), point.payload or {}) for point in points]

        found = await _each(wanted, fetch_from, self._timeout)
        documents = {(doc.collection, doc.id): doc for docs in found.values() for doc in docs}
        return {
            ref: documents[ref.collection, ref.id]
            for ref in refs
            if (ref.collection, ref.id) in documents
        }

    async def count(self, collection: str, tenant: str | None = None) -> int:
        condition = None if tenant is None else models.Filter(must=[equals(TENANT, tenant)])
        with translated():
            counted = await self._client.count(collection, count_filter=condition, exact=True)
        return counted.count

    async def ping(self) -> None:
        with translated():
            await self._client.get_collections()


async def _each(
    collections: Iterable[str], call: Callable[[str], Awaitable[T]], timeout: float
) -> dict[str, T]:
    """Call for every collection at once, all under one deadline.

    Raises ``PartialFailure`` naming each collection that failed.
    """
    deadline = asyncio.get_running_loop().time() + timeout

    async def attempt(collection: str) -> T | RagstreamError:
        try:
            async with asyncio.timeout_at(deadline):
                return await call(collection)
        except FAILURES as error:
            return to_domain(error)

    names = list(dict.fromkeys(collections))
    results = dict(zip(names, await asyncio.gather(*map(attempt, names)), strict=True))
    causes = {name: got for name, got in results.items() if isinstance(got, RagstreamError)}
    if causes:
        raise PartialFailure(causes)
    return {name: got for name, got in results.items() if not isinstance(got, RagstreamError)}


def _sparse(indices: Sequence[int], values: Sequence[float]) -> models.SparseVector:
    return models.SparseVector(indices=list(indices), values=list(values))
