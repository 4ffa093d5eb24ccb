"""The events on the topics: the contract. Everything here is immutable.

Readers ignore and forward fields they do not know, so extra fields are kept.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sized
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from ragstream.domain.evidence import (
    Document,
    FilterValue,
    Metadata,
    SearchMode,
    VersionRelation,
    time_text,
)

__all__ = [
    "EVENT_TYPES",
    "Answer",
    "AnswerDelta",
    "AnswerStatus",
    "CacheHit",
    "CacheMode",
    "Cancel",
    "Citation",
    "DocumentAction",
    "DocumentEvent",
    "Event",
    "Evidence",
    "Failure",
    "IndexChange",
    "Job",
    "Quality",
    "Query",
    "Rejection",
    "RequestedVersions",
    "Reranked",
    "Retrieved",
    "Role",
    "Routed",
    "Routing",
    "SentenceSupport",
    "StageTiming",
    "Turn",
    "Usage",
]

MAX_TEXT = 16_384
Identifier = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")
]
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]


def _at_most(limit: int) -> BeforeValidator:
    """Counts before anything in it is looked at: of a million bad items none is worth a word."""

    def check(value: object) -> object:
        if isinstance(value, Sized) and len(value) > limit:
            raise ValueError(f"has {len(value)} items, more than {limit}")
        return value

    return BeforeValidator(check)


class Event(BaseModel):
    """Base of what a topic carries."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


class Turn(Event):
    """One message of a conversation."""

    role: Role
    text: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=MAX_TEXT)]


class CacheMode(StrEnum):
    USE = "use"
    BYPASS = "bypass"  # neither read nor written
    REFRESH = "refresh"  # not read, but written


class Query(Event):
    """A question. Only ``query_id`` and ``text`` are required."""

    query_id: Identifier = Field(description="Chosen by the asker; unique within the tenant")
    text: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=MAX_TEXT)]
    tenant: Identifier = "default"
    user_id: Identifier | None = None
    conversation_id: Identifier | None = None
    previous_query_id: Identifier | None = None
    history: Annotated[tuple[Turn, ...] | None, _at_most(100)] = Field(
        None, max_length=100, description="Earlier turns, oldest first; authoritative when given"
    )
    filters: Annotated[dict[Name, FilterValue], _at_most(32)] = Field(
        {}, max_length=32, description="Metadata field: value, list of values, or range"
    )
    top_k: StrictInt | None = Field(None, ge=1, le=100, description="Documents to keep")
    route: Name | None = Field(None, description="Skips intent detection")
    deadline: Annotated[AwareDatetime, BeforeValidator(time_text)] | None = Field(
        None, description="RFC 3339 with zone"
    )
    cache: CacheMode = CacheMode.USE
    stream: StrictBool = Field(True, description="Whether to publish answer deltas")
    reply_to: Name | None = Field(None, description="Another topic that gets the answer as well")
    reply_partition: StrictInt | None = Field(None, ge=0)

    @field_validator("text")
    @classmethod
    def _says_something(cls, text: str) -> str:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("holds a lone surrogate") from None
        if "\x00" in text:
            raise ValueError("holds a NUL character")
        visible = (c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Zs", "Zl", "Zp"))
        if next(visible, None) is None:
            raise ValueError("has no visible character")
        return text

    @model_validator(mode="after")
    def _reply_partition_needs_reply_to(self) -> Self:
        if self.reply_partition is not None and self.reply_to is None:
            raise ValueError("reply_partition needs reply_to")
        return self

    @property
    def ordering_key(self) -> str:
        """Records with the same one are worked on in order."""
        return self.conversation_id or self.query_id


class StageTiming(Event):
    """Milliseconds. ``queued_ms``: from the record's append to the stage's start."""

    stage: str
    queued_ms: float = Field(ge=0)
    work_ms: float = Field(ge=0)


class Job(Event):
    """An accepted query on its way. Base of what the inner topics carry."""

    query: Query
    generation: int = Field(0, ge=0, description="0 is the first; each replay raises it")
    fingerprint: str = Field(description="SHA-256 of the request; tells two requests apart")
    accepted_at: AwareDatetime
    deadline: AwareDatetime
    timings: tuple[StageTiming, ...] = ()
    degraded: tuple[str, ...] = Field((), description="Opt-in degradations that were used")

    @property
    def tenant(self) -> str:
        return self.query.tenant

    @property
    def query_id(self) -> str:
        return self.query.query_id


class RequestedVersions(Event):
    """Releases that the question names, in order of mention."""

    product: str
    releases: tuple[str, ...]


class Routing(Event):
    """What route decided."""

    route: str
    decided_by: Literal["query", "rules", "llm", "default"]
    collections: tuple[str, ...]
    search_text: str = Field(description="The text that is encoded: boosted when it names releases")
    versions: RequestedVersions | None = None
    keyword_text: str | None = Field(
        None,
        description="What the keyword side encodes once a filter holds the search to the releases",
    )
    filters: dict[str, FilterValue] = {}
    history: tuple[Turn, ...] = Field((), description="Earlier turns in use, oldest first")
    private: bool = Field(False, description="Answers are never shared between users")
    decay: bool = Field(False, description="Newer documents first, other things being equal")
    candidates: int = Field(8, ge=1)
    keep: int = Field(6, ge=1)
    prefetch: int = Field(14, ge=1)
    corpus_generation: int = Field(0, ge=0)
    cache_key: str | None = Field(
        None, description="Key of the shared cache entry; None when the answer is not cacheable"
    )
    cache_ttl: float = Field(3600, gt=0, description="Seconds that a cached answer is valid")


class Routed(Job):
    """routed.v1"""

    routing: Routing


class Evidence(Event):
    """Documents, best first, and how they were found."""

    documents: tuple[Document, ...] = ()
    mode: SearchMode = SearchMode.HYBRID
    corpus_generation: int = Field(0, ge=0, description="Noted before the search")
    considered: int = Field(0, ge=0, description="Hits before dedupe and cut")
    encoder: str | None = Field(None, description="Dense model that encoded the query")
    ranked_by: str = Field("fusion", description="fusion, or the reranking model")


class Retrieved(Routed):
    """retrieved.v1"""

    evidence: Evidence


class Reranked(Routed):
    """reranked.v1"""

    evidence: Evidence


class AnswerStatus(StrEnum):
    ANSWERED = "answered"
    NO_CONTEXT = "no_context"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CacheHit(StrEnum):
    EXACT = "exact"
    SEMANTIC = "semantic"


class Quality(StrEnum):
    NONE = "NONE"
    KEYWORD_SEARCH = "KEYWORD_SEARCH"
    HIGH_QUALITY = "HIGH_QUALITY"
    MIXED_QUALITY = "MIXED_QUALITY"


class Citation(Event):
    """A retained document that the answer refers to as ``[number]``."""

    number: int = Field(ge=1)
    document_id: str
    chunk_id: str
    title: str | None = None
    url: str | None = None
    anchor: str | None = None
    snippet: str = Field(max_length=500)
    score: float = 0.0
    metadata: Metadata = Metadata()
    version: VersionRelation | None = None


class SentenceSupport(Event):
    """How far the evidence supports a sentence of the answer, 0 to 1."""

    sentence: str
    score: float = Field(ge=0, le=1)
    citations: tuple[int, ...] = ()


class Usage(Event):
    """Tokens, as the model's side counted them."""

    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)


class Failure(Event):
    """Why there is no answer."""

    message: str
    code: str
    retryable: bool
    stage: str


class Answer(Event):
    """answers.v1: the one outcome of a query."""

    query_id: Identifier
    tenant: Identifier = "default"
    user_id: Identifier | None = None
    conversation_id: Identifier | None = None
    question: str
    status: AnswerStatus
    text: str = ""
    citations: tuple[Citation, ...] = ()
    route: str | None = None
    cache: CacheHit | None = None
    model: str | None = Field(None, description="Generating model; `extractive` when none wrote it")
    prompt_version: str | None = None
    quality: Quality = Quality.NONE
    degraded: tuple[str, ...] = ()
    support: tuple[SentenceSupport, ...] = ()
    usage: Usage | None = None
    finish_reason: str | None = None
    attempt: str | None = Field(None, description="The attempt whose deltas make up this text")
    generation: int = Field(0, ge=0)
    accepted_at: AwareDatetime
    completed_at: AwareDatetime
    timings: tuple[StageTiming, ...] = ()
    failure: Failure | None = None

    @model_validator(mode="after")
    def _failure_fits_status(self) -> Self:
        if (self.failure is not None) != (self.status is AnswerStatus.FAILED):
            raise ValueError("failure is set exactly when status is failed")
        return self


class AnswerDelta(Event):
    """answer-deltas.v1: best effort. A newer ``attempt`` (they sort by time) starts over."""

    query_id: Identifier
    tenant: Identifier = "default"
    attempt: str
    seq: int = Field(ge=0)
    text: str


class Cancel(Event):
    """control.v1"""

    action: Literal["cancel"] = "cancel"
    query_id: Identifier
    tenant: Identifier = "default"


class Rejection(Event):
    """rejections.v1: a query that was not accepted."""

    query_id: str | None = None
    tenant: str | None = None
    fingerprint: str | None = Field(
        None, description="SHA-256 of the request; other requests may have the same query_id"
    )
    message: str
    code: str
    field: str | None = None
    topic: str
    partition: int
    offset: int


class DocumentAction(StrEnum):
    UPSERT = "upsert"
    DELETE = "delete"


class DocumentEvent(Event):
    """documents.v1: a document to index, or to remove."""

    document_id: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=1024)]
    action: DocumentAction = DocumentAction.UPSERT
    tenant: Identifier = "default"
    access: Annotated[tuple[Identifier, ...], FailFast()] = Field(
        (), description="Users who may read it; empty: all"
    )
    kind: Name = Field("docs", description="Which collection: books, docs, articles, pdfs, news")
    media_type: Literal["text/plain", "text/markdown", "text/html"] = "text/plain"
    text: str = ""
    metadata: Metadata = Metadata()

    @model_validator(mode="after")
    def _upsert_needs_text(self) -> Self:
        if self.action is DocumentAction.UPSERT and not self.text.strip():
            raise ValueError("text is empty")
        return self


class IndexChange(Event):
    """index-changes.v1: the tenant's corpus is now at ``corpus_generation``."""

    tenant: Identifier = "default"
    corpus_generation: int = Field(ge=0)
    document_id: str
    collection: str
    added: int = Field(0, ge=0, description="Chunks written")
    removed: int = Field(0, ge=0, description="Chunks removed")
    unchanged: int = Field(0, ge=0, description="Chunks that were there already")
    changed_at: datetime


#: Every event by its name, which is also the last part of its CloudEvents type.
EVENT_TYPES: dict[str, type[Event]] = {
    cls.__name__: cls
    for cls in (
        Query,
        Routed,
        Retrieved,
        Reranked,
        Answer,
        AnswerDelta,
        Cancel,
        Rejection,
        DocumentEvent,
        IndexChange,
    )
}
