"""How a chunk lies in a vector store: its payload, and the names a filter may use.

The payload is the chunk's metadata under its camelCase names, and beside it ``text``,
``documentId``, ``tenant``, ``access`` (user ids; empty or absent: everyone of the tenant) and
``revision``, which tells whether the chunk has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragstream.domain.errors import InvalidEvent
from ragstream.domain.evidence import FIELD_NAME, Document, FilterValue, IndexedChunk, Metadata

__all__ = [
    "ACCESS",
    "DATETIME_FIELDS",
    "DOCUMENT_ID",
    "DOC_VERSION",
    "HASH",
    "KEYWORD_FIELDS",
    "PRODUCT",
    "REVISION",
    "TENANT",
    "TEXT",
    "to_document",
    "to_payload",
    "user_filters",
]

TEXT = "text"
DOCUMENT_ID = "documentId"
TENANT = "tenant"
ACCESS = "access"
HASH = "hash"
PRODUCT = "product"
REVISION = "revision"
DOC_VERSION = "docVersion"

#: Fields that get an index, because queries filter on them.
KEYWORD_FIELDS = (
    TENANT,
    ACCESS,
    DOCUMENT_ID,
    PRODUCT,
    DOC_VERSION,
    "docSet",
    "sourceKind",
    "url",
    HASH,
    "docType",
    "language",
)
DATETIME_FIELDS = ("publishedAt",)

_OWN_FIELDS = frozenset({TEXT, DOCUMENT_ID, TENANT, ACCESS, REVISION})
_CAMEL_CASE = {
    "document_id": DOCUMENT_ID,
    **{name: field.alias or name for name, field in Metadata.model_fields.items()},
}


def to_payload(chunk: IndexedChunk) -> dict[str, Any]:
    # Ours last: unknown metadata of a document must never replace its tenant or its readers.
    return {
        **chunk.chunk.metadata.model_dump(mode="json", by_alias=True, exclude_none=True),
        TEXT: chunk.chunk.text,
        DOCUMENT_ID: chunk.chunk.document_id,
        TENANT: chunk.tenant,
        ACCESS: list(chunk.access),
        REVISION: chunk.revision,
    }


def to_document(
    collection: str, point_id: str, payload: Mapping[str, Any], score: float = 0.0
) -> Document:
    """Raises ``ValueError`` if the payload was not written in this layout."""
    metadata = {name: value for name, value in payload.items() if name not in _OWN_FIELDS}
    return Document(
        id=point_id,
        document_id=payload.get(DOCUMENT_ID, point_id),
        collection=collection,
        text=payload.get(TEXT, ""),
        score=score,
        private=bool(payload.get(ACCESS)),
        metadata=Metadata.model_validate(metadata),
    )


def user_filters(filters: Mapping[str, FilterValue]) -> Iterator[tuple[str, FilterValue]]:
    """Payload key and value of each filter.

    Raises ``InvalidEvent`` for a name that can't be a field, and for ``tenant`` and ``access``,
    which the scope of the query decides.
    """
    for name, value in filters.items():
        key = _CAMEL_CASE.get(name, name)
        if key in (TENANT, ACCESS):
            raise InvalidEvent("is set by the query's scope", field=f"filters.{name}")
        if not FIELD_NAME.fullmatch(key):
            raise InvalidEvent("is not the name of a metadata field", field=f"filters.{name}")
        yield key, _as_release(value) if key == DOC_VERSION else value


def _as_release(value: FilterValue) -> FilterValue:
    """Releases are text in the store; ``21`` and ``2.8`` may come as numbers."""
    if isinstance(value, list):
        return [str(item) for item in value]
    return str(value) if isinstance(value, int | float) else value
