"""Documents, chunks, filters and search requests: the vocabulary of retrieval.

Metadata keys on the wire and in the vector store are camelCase (``docVersion``), in Python
snake_case (``doc_version``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel

__all__ = [
    "FIELD_NAME",
    "Chunk",
    "Document",
    "FilterValue",
    "IndexedChunk",
    "Metadata",
    "Range",
    "Scope",
    "SearchHits",
    "SearchMode",
    "SearchRequest",
    "SparseVector",
    "VersionConstraint",
    "VersionRelation",
    "chunk_revision",
    "time_text",
]


def _as_text(value: object) -> object:
    """A version written as a bare number in YAML or JSON (``2.8``) is its text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


Text = Annotated[str, BeforeValidator(_as_text)]

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}.*)?")


def time_text(value: object) -> object:
    """A time is text: ``30`` or ``"2020"`` would be taken for seconds since 1970."""
    if isinstance(value, datetime) or (isinstance(value, str) and _TIME.fullmatch(value)):
        return value
    raise ValueError("must be an RFC 3339 time with its zone, such as 2026-01-10T00:00:00Z")


class Metadata(BaseModel):
    """What is known of a document or chunk. Unknown keys are kept and can be filtered on."""

    model_config = ConfigDict(
        frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )

    url: str | None = None
    title: str | None = None
    package: str | None = None
    hash: str | None = Field(None, description="SHA-256 of the chunk's text, hexadecimal")
    doc_set: str | None = None
    doc_path: str | None = None
    source_name: str | None = None
    source_kind: str | None = None
    product: str | None = Field(None, description="Versioned product, such as java or kafka")
    doc_version: Text | None = Field(None, description="Release of the product it describes")
    doc_type: str | None = None
    chunk_index: int | None = Field(None, ge=0)
    page_start: int | None = Field(None, ge=1)
    page_end: int | None = Field(None, ge=1)
    anchor: str | None = None
    headings: Annotated[tuple[str, ...], FailFast()] = Field(
        (), description="Headings above the chunk, outermost first"
    )
    published_at: datetime | None = None
    language: str | None = None
    authoritative: bool = Field(False, description="Kept before conversation history")


class VersionRelation(BaseModel):
    """How a document's release relates to what was asked: requested 22, evidence 21."""

    model_config = ConfigDict(frozen=True)

    product: str
    requested: tuple[str, ...]
    evidence: str
    exact: bool


class Document(BaseModel):
    """A piece of evidence: one chunk as it was found.

    ``score`` is the score by which the list it stands in is ordered (higher is better);
    comparable within one list only. ``text`` and ``metadata`` are empty when ``by_reference`` is
    set: the chunk is then read again from the store by ``collection`` and ``id``.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str = Field(description="Point id of the chunk (UUID)")
    document_id: str
    collection: str
    text: str
    score: float = 0.0
    private: bool = Field(False, description="Readable by named users only")
    by_reference: bool = False
    metadata: Metadata = Metadata()
    version: VersionRelation | None = None


Bound = StrictInt | StrictFloat | Annotated[datetime, BeforeValidator(time_text)]


class Range(BaseModel):
    """Closed or half-open range; at least one bound. Numbers or RFC 3339 times with zone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gte: Bound | None = None
    gt: Bound | None = None
    lte: Bound | None = None
    lt: Bound | None = None

    def model_post_init(self, _context: Any) -> None:
        bounds = [b for b in (self.gte, self.gt, self.lte, self.lt) if b is not None]
        if not bounds:
            raise ValueError("a range needs at least one of gte, gt, lte, lt")
        if len({isinstance(bound, datetime) for bound in bounds}) > 1:
            raise ValueError("a range is over numbers or over times, not both")
        for bound in bounds:
            if isinstance(bound, datetime) and bound.tzinfo is None:
                raise ValueError("a time needs its zone, such as 2026-01-10T00:00:00Z")


Scalar = StrictBool | StrictInt | StrictFloat | Annotated[str, Field(max_length=1024)]


def _one_reason(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """One message, where a union would list what is wrong with each of its members."""
    parts: Iterable[object] = value if isinstance(value, list) else [value]
    for part in value.values() if isinstance(value, dict) else parts:
        if type(part) is int and not -(2**63) <= part < 2**63:  # else it would become a float
            raise ValueError("holds an integer outside 64 bits with a sign")
    try:
        return validate(value)
    except ValidationError:
        raise ValueError(_reason(value)) from None


def _reason(value: object) -> str:
    if isinstance(value, list):
        return "must be a list of 1 to 256 strings, numbers or booleans"
    if not isinstance(value, dict):
        return "must be a string of at most 1024 characters, a number, a boolean, a list or a range"
    if unknown := value.keys() - Range.model_fields.keys():
        return f"a range has gte, gt, lte or lt, not {min(map(str, unknown))[:100]!r}"
    try:
        Range.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if not first["loc"]:
            return first["msg"].removeprefix("Value error, ")
        return f"{first['loc'][0]} must be a number or a time such as 2026-01-10T00:00:00Z"
    return "is not a range"


#: What a filter may be on: a metadata field, dotted where it lies inside another.
FIELD_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")
#: One value, any of several, or a range.
FilterValue = Annotated[
    Scalar | Annotated[list[Scalar], Field(min_length=1, max_length=256)] | Range,
    WrapValidator(_one_reason),
]


@dataclass(frozen=True, slots=True)
class VersionConstraint:
    """Releases of one product to search; ``keep_unversioned`` keeps documents without one."""

    product: str
    releases: tuple[str, ...]
    keep_unversioned: bool = True


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose documents may be seen. Enforced in the query to the store."""

    tenant: str
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Indices are unsigned 32-bit, ascending and unique; one value for each."""

    indices: tuple[int, ...]
    values: tuple[float, ...]

    def __bool__(self) -> bool:
        return bool(self.indices)


class SearchMode(StrEnum):
    HYBRID = "hybrid"
    DENSE_ONLY = "dense-only"
    SPARSE_ONLY = "sparse-only"


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One hybrid query over several collections.

    ``dense``: query embedding, or None for keyword search only. An empty ``sparse`` leaves that
    side out. ``limit``: hits per collection; ``prefetch``: candidates per side before fusion.
    ``timeout``: seconds, shared by all collections.
    """

    collections: tuple[str, ...]
    scope: Scope
    dense: tuple[float, ...] | None
    sparse: SparseVector
    limit: int
    prefetch: int
    timeout: float
    rrf_k: int = 60
    filters: Mapping[str, FilterValue] = field(default_factory=dict)
    versions: VersionConstraint | None = None
    private_only: bool = False

    @property
    def mode(self) -> SearchMode:
        if self.dense is None:
            return SearchMode.SPARSE_ONLY
        return SearchMode.HYBRID if self.sparse else SearchMode.DENSE_ONLY


@dataclass(frozen=True, slots=True)
class SearchHits:
    """Hits of each collection, best first, in the order the collections were asked."""

    mode: SearchMode
    by_collection: Mapping[str, tuple[Document, ...]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document before encoding. ``text`` is what is shown and cited;
    ``embed_text`` (title and headings in front) is what is encoded."""

    id: str
    document_id: str
    index: int
    text: str
    embed_text: str
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk with its vectors, ready for the store.

    ``access``: user ids that may read it; empty means everyone of the tenant.
    """

    chunk: Chunk
    dense: tuple[float, ...]
    sparse: SparseVector
    tenant: str
    access: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        """What ``VectorStore.revisions`` tells of this chunk once it is stored."""
        return chunk_revision(self.chunk, self.access)


def chunk_revision(chunk: Chunk, access: Iterable[str]) -> str:
    """SHA-256, hexadecimal, of all that is stored of a chunk but its tenant: the content (by its
    hash), the other metadata, and who may read it."""
    metadata = chunk.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    stored = json.dumps([metadata, sorted(set(access))], sort_keys=True)
    return hashlib.sha256(stored.encode()).hexdigest()
