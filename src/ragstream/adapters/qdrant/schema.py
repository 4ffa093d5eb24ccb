"""What a collection must look like, and creating what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from qdrant_client import AsyncQdrantClient, models

from ragstream.adapters.payload import DATETIME_FIELDS, KEYWORD_FIELDS, TENANT
from ragstream.adapters.qdrant.failures import FAILURES, is_conflict, is_missing
from ragstream.domain.errors import ConfigurationError
from ragstream.domain.ports import CollectionSpec

__all__ = ["ensure_collections"]


async def ensure_collections(
    client: AsyncQdrantClient,
    specs: Sequence[CollectionSpec],
    *,
    create: bool,
    payload_indexes: bool,
) -> None:
    """Raises ``ConfigurationError`` with every problem of every collection."""
    problems: list[str] = []
    for spec in specs:
        info = await _find(client, spec.name)
        if info is None and create:
            await _create(client, spec)
            info = await _find(client, spec.name)
        if info is None:
            problems.append(f"{spec.name}: does not exist")
            continue
        found = [*_vector_problems(spec, info.config.params), *_index_problems(info)]
        problems.extend(f"{spec.name}: {problem}" for problem in found)
        if payload_indexes and not found:
            await _create_indexes(client, spec.name, info)
    if problems:
        raise ConfigurationError("collections are not as configured:\n- " + "\n- ".join(problems))


async def _find(client: AsyncQdrantClient, collection: str) -> models.CollectionInfo | None:
    try:
        return await client.get_collection(collection)
    except FAILURES as error:
        if is_missing(error):
            return None
        raise


async def _create(client: AsyncQdrantClient, spec: CollectionSpec) -> None:
    dense = models.VectorParams(size=spec.dimensions, distance=models.Distance.COSINE)
    sparse = models.SparseVectorParams(modifier=models.Modifier.IDF if spec.idf else None)
    try:
        await client.create_collection(
            spec.name,
            vectors_config={spec.dense_name: dense},
            sparse_vectors_config={spec.sparse_name: sparse},
        )
    except FAILURES as error:
        if not is_conflict(error):  # another worker was faster
            raise


def _vector_problems(spec: CollectionSpec, params: models.CollectionParams) -> list[str]:
    problems = []
    vectors = params.vectors
    if vectors is None or isinstance(vectors, models.VectorParams):
        vectors = {} if vectors is None else {"": vectors}
    dense = vectors.get(spec.dense_name)
    if dense is None:
        problems.append(f"no dense vector {spec.dense_name!r} ({_names(vectors)})")
    else:
        if dense.size != spec.dimensions:
            problems.append(
                f"{spec.dense_name!r} has {dense.size} dimensions, not {spec.dimensions}"
            )
        if dense.distance != models.Distance.COSINE:
            problems.append(f"{spec.dense_name!r} has distance {dense.distance.value}, not Cosine")
    sparse_vectors = params.sparse_vectors or {}
    sparse = sparse_vectors.get(spec.sparse_name)
    if sparse is None:
        problems.append(f"no sparse vector {spec.sparse_name!r} ({_names(sparse_vectors)})")
    elif (sparse.modifier == models.Modifier.IDF) != spec.idf:
        verb = "lacks" if spec.idf else "must not have"
        problems.append(f"{spec.sparse_name!r} {verb} the idf modifier")
    return problems


def _names(vectors: dict[str, models.VectorParams] | dict[str, models.SparseVectorParams]) -> str:
    return "has " + (", ".join(repr(name) for name in sorted(vectors)) or "none")


def _wanted_indexes() -> dict[str, models.PayloadSchemaType]:
    return {
        **dict.fromkeys(KEYWORD_FIELDS, models.PayloadSchemaType.KEYWORD),
        **dict.fromkeys(DATETIME_FIELDS, models.PayloadSchemaType.DATETIME),
    }


def _index_problems(info: models.CollectionInfo) -> list[str]:
    return [
        f"field {field!r} is indexed as {info.payload_schema[field].data_type.value}, "
        f"not {wanted.value}"
        for field, wanted in _wanted_indexes().items()
        if field in info.payload_schema and info.payload_schema[field].data_type != wanted
    ]


async def _create_indexes(
    client: AsyncQdrantClient, collection: str, info: models.CollectionInfo
) -> None:
    for field, wanted in _wanted_indexes().items():
        if field not in info.payload_schema:
            # is_tenant lets the server lay out a tenant's points together.
            schema: models.PayloadFieldSchema = (
                models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
                if field == TENANT
                else wanted
            )
            await client.create_payload_index(collection, field, schema, wait=True)
