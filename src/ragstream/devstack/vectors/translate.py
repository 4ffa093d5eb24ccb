"""Qdrant's REST models to the engine's types and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, cast

import numpy as np
import qdrant_edge as edge
from qdrant_client.http import models

__all__ = [
    "Unsupported",
    "VectorLayout",
    "collection_config",
    "dump_id",
    "dump_point",
    "field_schema",
    "index_type",
    "reject",
    "to_filter",
    "to_query_request",
    "with_payload",
]

DEFAULT_LIMIT = 10
DEFAULT_RRF_K = 2

_DISTANCES = {
    models.Distance.COSINE: edge.Distance.Cosine,
    models.Distance.DOT: edge.Distance.Dot,
    models.Distance.EUCLID: edge.Distance.Euclid,
    models.Distance.MANHATTAN: edge.Distance.Manhattan,
}


class Unsupported(ValueError):
    """The request uses a feature that this service does not translate."""

    def __init__(self, feature: object) -> None:
        name = feature if isinstance(feature, str) else type(feature).__name__
        super().__init__(f"{name} is not supported by the local vector store")


def reject(**features: object) -> None:
    """Raise ``Unsupported`` for the first of the features that is set."""
    for name, value in features.items():
        if value is not None:
            raise Unsupported(name)


# --- collections ---------------------------------------------------------------------------


def collection_config(request: models.CreateCollection) -> Any:
    """Configuration of a shard. No HNSW graph (``m=0``): see the package's docstring."""
    reject(quantization_config=request.quantization_config, sharding=request.sharding_method)
    return edge.EdgeConfig(
        vectors={name: _to_dense(params) for name, params in _dense_params(request).items()},
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(
                modifier=edge.Modifier.Idf if params.modifier == models.Modifier.IDF else None
            )
            for name, params in (request.sparse_vectors or {}).items()
        },
        hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000),
        max_search_threads=1,
    )


def _dense_params(request: models.CreateCollection) -> dict[str, models.VectorParams]:
    """Parameters of the dense vectors by name; the unnamed vector's name is empty."""
    dense = request.vectors or {}
    return {"": dense} if isinstance(dense, models.VectorParams) else dense


def _to_dense(params: models.VectorParams) -> Any:
    reject(
        multivector_config=params.multivector_config,
        quantization_config=params.quantization_config,
        datatype=params.datatype,
    )
    # Cold: pages are read when they are needed. The default would load 32 MiB per collection at
    # start, however empty it is.
    return edge.EdgeVectorParams(
        size=params.size, distance=_DISTANCES[params.distance], memory=edge.Memory.Cold
    )


def field_schema(schema: models.PayloadFieldSchema | None) -> Any:
    """Type of a payload index."""
    if schema is None:
        raise ValueError("field_schema is missing")
    if isinstance(schema, models.KeywordIndexParams):
        return edge.KeywordIndexParams(is_tenant=schema.is_tenant)
    name = schema.value if isinstance(schema, models.PayloadSchemaType) else schema.type.value
    return getattr(edge.PayloadSchemaType, name.capitalize())


def index_type(data_type: Any) -> str:
    """REST's name of the type of a payload index."""
    return str(data_type).rpartition(".")[2].lower()


# --- points --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorLayout:
    """Names of a collection's vectors; ``dense`` with the length of each.

    Points are checked against it before the engine sees them: the engine logs a write before it
    refuses it, and would apply the valid part of it when the log is replayed.
    """

    dense: Mapping[str, int]
    sparse: frozenset[str]

    @classmethod
    def of(cls, request: models.CreateCollection) -> VectorLayout:
        dense = {name: params.size for name, params in _dense_params(request).items()}
        return cls(dense, frozenset(request.sparse_vectors or ()))

    def to_point(self, point: models.PointStruct) -> Any:
        """The engine's point. Raises ``ValueError`` if a vector does not fit the collection."""
        vectors = point.vector if isinstance(point.vector, dict) else {"": point.vector}
        for name, vector in vectors.items():
            self._check(name, vector)
        named = {name: to_vector(vector) for name, vector in vectors.items()}
        return edge.Point(id=point.id, vector=named, payload=point.payload)

    def _check(self, name: str, vector: object) -> None:
        if name not in self.dense and name not in self.sparse:
            raise ValueError(f"Not existing vector name error: {name}")
        if isinstance(vector, models.SparseVector) != (name in self.sparse):
            kind = "sparse" if name in self.sparse else "dense"
            raise ValueError(f"Wrong vector type error: {name} is {kind}")
        if isinstance(vector, models.SparseVector):
            if len(vector.indices) != len(vector.values):
                raise ValueError("Validation error: must have as many indices as values")
            if len(set(vector.indices)) != len(vector.indices):
                raise ValueError("Validation error: indices must be unique")
        elif isinstance(vector, list) and len(vector) != self.dense[name]:
            raise ValueError(
                f"Vector dimension error: expected dim: {self.dense[name]}, got {len(vector)}"
            )


def to_vector(vector: object) -> Any:
    if isinstance(vector, models.SparseVector):
        return edge.SparseVector(vector.indices, vector.values)
    if isinstance(vector, list) and not (vector and isinstance(vector[0], list)):
        return vector
    raise Unsupported("multivector" if isinstance(vector, list) else vector)


def dump_point(point: Any, **fields: object) -> dict[str, Any]:
    """A point of a result as JSON-ready values."""
    dumped: dict[str, Any] = {"id": dump_id(point.id), **fields, "payload": point.payload}
    if point.vector is not None:
        dumped["vector"] = _dump_vector(point.vector)
    return dumped


def dump_id(point_id: object) -> int | str:
    return point_id if isinstance(point_id, int) else str(point_id)


def _dump_vector(vector: Any) -> Any:
    if isinstance(vector, dict):
        return {name: _dump_vector(value) for name, value in vector.items()}
    if isinstance(vector, edge.SparseVector):
        return {"indices": vector.indices, "values": vector.values}
    return vector


def with_payload(selector: models.WithPayloadInterface | None, *, default: bool) -> Any:
    if selector is None:
        return default
    if isinstance(selector, models.PayloadSelectorInclude):
        return selector.include
    if isinstance(selector, models.PayloadSelectorExclude):
        return edge.PayloadSelector.Exclude(selector.exclude)
    return selector


# --- queries -------------------------------------------------------------------------------


def to_query_request(request: models.QueryRequest) -> Any:
    reject(shard_key=request.shard_key, lookup_from=request.lookup_from)
    return edge.QueryRequest(
        limit=DEFAULT_LIMIT if request.limit is None else request.limit,
        offset=request.offset,
        query=_scoring(request.query, request.using),
        prefetches=[_prefetch(prefetch) for prefetch in _listed(request.prefetch)],
        with_vector=request.with_vector or False,
        with_payload=with_payload(request.with_payload, default=False),
        filter=to_filter(request.filter),
        score_threshold=request.score_threshold,
        params=_params(request.params),
    )


def _prefetch(prefetch: models.Prefetch) -> Any:
    reject(lookup_from=prefetch.lookup_from)
    return edge.Prefetch(
        limit=DEFAULT_LIMIT if prefetch.limit is None else prefetch.limit,
        query=_scoring(prefetch.query, prefetch.using),
        prefetches=[_prefetch(inner) for inner in _listed(prefetch.prefetch)],
        params=_params(prefetch.params),
        filter=to_filter(prefetch.filter),
        score_threshold=prefetch.score_threshold,
    )


def _scoring(query: models.QueryInterface | None, using: str | None) -> Any:
    match query:
        case None:
            return None
        case models.FusionQuery(fusion=models.Fusion.DBSF):
            return edge.Fusion.Dbsf()
        case models.FusionQuery():
            return edge.Fusion.Rrf(k=DEFAULT_RRF_K)
        case models.RrfQuery(rrf=rrf):
            return edge.Fusion.Rrf(k=DEFAULT_RRF_K if rrf.k is None else rrf.k, weights=rrf.weights)
        case models.NearestQuery(nearest=nearest):
            reject(mmr=query.mmr)
            return edge.Query.Nearest(to_vector(nearest), using=using)
        case list() | models.SparseVector():
            return edge.Query.Nearest(to_vector(query), using=using)
    raise Unsupported(query)


def _params(params: models.SearchParams | None) -> Any:
    if params is None:
        return None
    reject(quantization=params.quantization, acorn=params.acorn)
    idf = None
    if isinstance(params.idf, models.IdfCorpusParams):
        idf = edge.IdfParams(corpus=to_filter(params.idf.corpus))
    return edge.SearchParams(
        hnsw_ef=params.hnsw_ef,
        exact=bool(params.exact),
        indexed_only=bool(params.indexed_only),
        idf=idf,
    )


# --- filters -------------------------------------------------------------------------------


def to_filter(query_filter: models.Filter | None) -> Any:
    if query_filter is None:
        return None
    at_least = query_filter.min_should
    return edge.Filter(
        must=_conditions(query_filter.must),
        should=_conditions(query_filter.should),
        must_not=_conditions(query_filter.must_not),
        min_should=None
        if at_least is None
        else edge.MinShould(_conditions(at_least.conditions), at_least.min_count),
    )


def _conditions(conditions: Any) -> Any:
    return None if conditions is None else [_condition(one) for one in _listed(conditions)]


def _condition(condition: models.Condition) -> Any:
    match condition:
        case models.FieldCondition():
            return _field_condition(condition)
        case models.IsEmptyCondition():
            return edge.IsEmptyCondition(condition.is_empty.key)
        case models.IsNullCondition():
            return edge.IsNullCondition(condition.is_null.key)
        case models.HasIdCondition():
            return edge.HasIdCondition(set(condition.has_id))
        case models.HasVectorCondition():
            return edge.HasVectorCondition(condition.has_vector)
        case models.NestedCondition():
            return edge.NestedCondition(condition.nested.key, to_filter(condition.nested.filter))
        case models.Filter():
            return to_filter(condition)
    raise Unsupported(condition)


def _field_condition(condition: models.FieldCondition) -> Any:
    reject(
        geo_bounding_box=condition.geo_bounding_box,
        geo_radius=condition.geo_radius,
        geo_polygon=condition.geo_polygon,
    )
    count = condition.values_count
    return edge.FieldCondition(
        key=condition.key,
        match=_match(condition.match),
        range=_range(condition.range),
        values_count=None if count is None else edge.ValuesCount(**count.model_dump()),
        is_empty=condition.is_empty,
        is_null=condition.is_null,
    )


def _match(match: models.Match | None) -> Any:
    match match:
        case None:
            return None
        case models.MatchValue(value=bool(value)):
            # The binding takes a Python bool for the integer that it also is; NumPy's is not one.
            return edge.MatchValue(cast(bool, np.bool_(value)))
        case models.MatchValue(value=value):
            return edge.MatchValue(value)
        case models.MatchAny():
            return edge.MatchAny(match.any)
        case models.MatchExcept():
            return edge.MatchExcept(match.except_)
        case models.MatchText(text=text):
            return edge.MatchText(text)
    raise Unsupported(match)


def _range(bounds: models.RangeInterface | None) -> Any:
    if bounds is None:
        return None
    if isinstance(bounds, models.Range):
        return edge.RangeFloat(**bounds.model_dump())
    return edge.RangeDateTime(**{name: _rfc3339(value) for name, value in bounds})


def _rfc3339(value: datetime | date | None) -> str | None:
    return None if value is None else value.isoformat()


def _listed(value: Any) -> Iterable[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)
