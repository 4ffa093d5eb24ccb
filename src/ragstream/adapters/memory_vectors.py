"""A vector store inside the process.

For tests, and for embedding the pipeline in a program. It scans everything, so its answers are
exact; what a hit is and how it is scored is Qdrant's. Nothing survives the process.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ragstream.adapters.payload import (
    ACCESS,
    DOC_VERSION,
    DOCUMENT_ID,
    PRODUCT,
    REVISION,
    TENANT,
    to_document,
    to_payload,
    user_filters,
)
from ragstream.domain.errors import (
    ConfigurationError,
    DependencyUnavailable,
    PartialFailure,
    PermanentError,
    RagstreamError,
)
from ragstream.domain.evidence import (
    Document,
    FilterValue,
    IndexedChunk,
    Range,
    SearchHits,
    SearchRequest,
    SparseVector,
    VersionConstraint,
)
from ragstream.domain.ports import CollectionSpec, DocumentRef
from ragstream.retrieval.fusion import rrf_score

__all__ = ["MemoryVectorStore"]

Vector = NDArray[np.float32]
Payload = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Point:
    payload: Payload
    dense: Vector  # of length 1
    sparse: Mapping[int, float]


@dataclass(slots=True)
class _Collection:
    spec: CollectionSpec
    points: dict[str, _Point] = field(default_factory=dict)


class MemoryVectorStore:
    """``VectorStore`` over dictionaries. ``ensure`` with ``create=True`` makes its collections."""

    def __init__(self) -> None:
        self._collections: dict[str, _Collection] = {}

    async def close(self) -> None:
        """Nothing to close."""

    async def ensure(
        self, specs: Sequence[CollectionSpec], *, create: bool, payload_indexes: bool
    ) -> None:
        problems: list[str] = []
        for spec in specs:
            known = self._collections.get(spec.name)
            if known is None and create:
                self._collections[spec.name] = _Collection(spec)
            elif known is None:
                problems.append(f"{spec.name}: does not exist")
            else:
                problems.extend(f"{spec.name}: {what}" for what in _differences(spec, known.spec))
        if problems:
            listed = "\n- ".join(problems)
            raise ConfigurationError(f"collections are not as configured:\n- {listed}")

    async def search(self, request: SearchRequest) -> SearchHits:
        filters = list(user_filters(request.filters))  # two may be on one field
        found: dict[str, tuple[Document, ...]] = {}
        causes: dict[str, RagstreamError] = {}
        for name in request.collections:
            if request.timeout <= 0:
                causes[name] = DependencyUnavailable("memory", "no answer in time")
                continue
            try:
                found[name] = _search(self._collection(name), request, filters)
            except PermanentError as error:
                causes[name] = error
        if causes:
            raise PartialFailure(causes)
        return SearchHits(request.mode, found)

    async def upsert(self, collection: str, chunks: Sequence[IndexedChunk]) -> None:
        known = self._collection(collection)
        points = {_point_id(chunk.chunk.id): _to_point(chunk, known.spec) for chunk in chunks}
        known.points.update(points)

    async def revisions(self, collection: str, tenant: str, document_id: str) -> Mapping[str, str]:
        return {
            point_id: str(point.payload[REVISION])
            for point_id, point in self._collection(collection).points.items()
            if point.payload[TENANT] == tenant and point.payload[DOCUMENT_ID] == document_id
        }

    async def delete(self, collection: str, ids: Sequence[str]) -> None:
        points = self._collection(collection).points
        for point_id in ids:
            points.pop(_point_id(point_id), None)

    async def releases(
        self, collections: Sequence[str], tenant: str, product: str
    ) -> frozenset[str]:
        self._require(collections)
        return frozenset(
            point.payload[DOC_VERSION]
            for collection in collections
            for point in self._collection(collection).points.values()
            if point.payload[TENANT] == tenant
            and point.payload.get(PRODUCT) == product
            and point.payload.get(DOC_VERSION) is not None
        )

    async def fetch(
        self, refs: Sequence[DocumentRef], tenant: str
    ) -> Mapping[DocumentRef, Document]:
        self._require(ref.collection for ref in refs)
        found = {}
        for ref in refs:
            point = self._collection(ref.collection).points.get(ref.id)
            if point is not None and point.payload[TENANT] == tenant:
                found[ref] = to_document(ref.collection, ref.id, point.payload)
        return found

    async def count(self, collection: str, tenant: str | None = None) -> int:
        points = self._collection(collection).points.values()
        return sum(tenant is None or point.payload[TENANT] == tenant for point in points)

    async def ping(self) -> None:
        """Always there."""

    def _collection(self, name: str) -> _Collection:
        try:
            return self._collections[name]
        except KeyError:
            raise PermanentError(f"collection {name!r} does not exist") from None

    def _require(self, names: Iterable[str]) -> None:
        causes = {
            name: PermanentError(f"collection {name!r} does not exist")
            for name in names
            if name not in self._collections
        }
        if causes:
            raise PartialFailure(causes)


# --- points --------------------------------------------------------------------------------


def _differences(wanted: CollectionSpec, found: CollectionSpec) -> Iterator[str]:
    if wanted.dense_name != found.dense_name:
        yield f"no dense vector {wanted.dense_name!r} (has {found.dense_name!r})"
    elif wanted.dimensions != found.dimensions:
        yield f"{wanted.dense_name!r} has {found.dimensions} dimensions, not {wanted.dimensions}"
    if wanted.sparse_name != found.sparse_name:
        yield f"no sparse vector {wanted.sparse_name!r} (has {found.sparse_name!r})"
    elif wanted.idf != found.idf:
        verb = "lacks" if wanted.idf else "must not have"
        yield f"{wanted.sparse_name!r} {verb} the idf modifier"


def _point_id(chunk_id: str) -> str:
    try:
        return str(UUID(chunk_id))
    except ValueError:
        raise PermanentError(f"point id {chunk_id!r} is not a UUID") from None


def _to_point(chunk: IndexedChunk, spec: CollectionSpec) -> _Point:
    sparse = dict(zip(chunk.sparse.indices, chunk.sparse.values, strict=True))
    return _Point(to_payload(chunk), _unit(chunk.dense, spec.dimensions), sparse)


def _unit(values: Sequence[float], dimensions: int) -> Vector:
    if len(values) != dimensions:
        raise PermanentError(f"expected {dimensions} dimensions, got {len(values)}")
    vector = np.asarray(values, dtype=np.float32)
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


# --- search --------------------------------------------------------------------------------


def _search(
    collection: _Collection, request: SearchRequest, filters: Sequence[tuple[str, FilterValue]]
) -> tuple[Document, ...]:
    visible = {
        point_id: point
        for point_id, point in collection.points.items()
        if _is_visible(point.payload, request, filters)
    }
    rankings: list[list[str]] = []
    if request.dense is not None:
        query = _unit(request.dense, collection.spec.dimensions)
        similarity = {name: float(point.dense @ query) for name, point in visible.items()}
        rankings.append(_best(similarity, request.prefetch))
    if request.sparse:
        weights = _query_weights(request.sparse, collection)
        overlap = {
            name: math.fsum(weights[index] * point.sparse[index] for index in shared)
            for name, point in visible.items()
            if (shared := weights.keys() & point.sparse.keys())
        }
        rankings.append(_best(overlap, request.prefetch))
    ranks = [{name: rank for rank, name in enumerate(ranking)} for ranking in rankings]
    fused = {
        name: rrf_score(request.rrf_k, [ranking.get(name) for ranking in ranks])
        for ranking in ranks
        for name in ranking
    }
    return tuple(
        to_document(collection.spec.name, name, visible[name].payload, fused[name])
        for name in _best(fused, request.limit)
    )


def _best(scores: Mapping[str, float], limit: int) -> list[str]:
    return sorted(scores, key=lambda name: -scores[name])[:limit]


def _query_weights(query: SparseVector, collection: _Collection) -> dict[int, float]:
    """Query weights times Qdrant's inverse document frequency, ln(1 + (N - n + 0.5) / (n + 0.5)),
    over all N points of the collection that have a sparse vector, n of them with the term."""
    weights = dict(zip(query.indices, query.values, strict=True))
    if not collection.spec.idf:
        return weights
    terms = [point.sparse for point in collection.points.values() if point.sparse]
    having = {index: sum(index in sparse for sparse in terms) for index in weights}
    return {
        index: weight * math.log1p((len(terms) - having[index] + 0.5) / (having[index] + 0.5))
        for index, weight in weights.items()
    }


# --- filters -------------------------------------------------------------------------------


def _is_visible(
    payload: Payload, request: SearchRequest, filters: Sequence[tuple[str, FilterValue]]
) -> bool:
    access = payload[ACCESS]
    named = request.scope.user_id in access
    if payload[TENANT] != request.scope.tenant:
        return False
    if not (named or (not access and not request.private_only)):
        return False
    if not all(_matches(list(_values(payload, key)), value) for key, value in filters):
        return False
    return request.versions is None or _is_released(payload, request.versions)


def _is_released(payload: Payload, versions: VersionConstraint) -> bool:
    release = payload.get(DOC_VERSION)
    if release is None:
        return versions.keep_unversioned
    return payload.get(PRODUCT) == versions.product and release in versions.releases


def _values(payload: Any, key: str) -> Iterator[Any]:
    """What lies at a dotted key; the items one by one where it is a list."""
    head, _, rest = key.partition(".")
    value = payload.get(head) if isinstance(payload, Mapping) else None
    if rest:
        yield from _values(value, rest)
    elif isinstance(value, list):
        yield from value
    elif value is not None:
        yield value


def _matches(found: Sequence[Any], wanted: FilterValue) -> bool:
    match wanted:
        case Range():
            return any(_in_range(value, wanted) for value in found)
        case list():
            return any(_matches(found, one) for one in wanted)
        case float():
            return any(_is_number(value) and value == wanted for value in found)
    return any(type(value) is type(wanted) and value == wanted for value in found)


def _in_range(value: Any, bounds: Range) -> bool:
    given = [(name, bound) for name, bound in bounds if bound is not None]
    if any(isinstance(bound, datetime) for _, bound in given):
        value = _to_time(value)
    elif not _is_number(value):
        value = None
    return value is not None and all(_holds(name, value, bound) for name, bound in given)


def _holds(relation: str, value: Any, bound: Any) -> bool:
    match relation:
        case "gte":
            return bool(value >= bound)
        case "gt":
            return bool(value > bound)
        case "lte":
            return bool(value <= bound)
    return bool(value < bound)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _to_time(value: object) -> datetime | None:
    """A stored time; without a zone it is UTC, as Qdrant has it."""
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
