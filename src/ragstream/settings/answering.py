"""Settings of retrieval, models and answers."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from ragstream.domain.evidence import FilterValue
from ragstream.retrieval.versions import Product, product
from ragstream.settings.types import (
    BaseUrl,
    Count,
    Duration,
    Listed,
    Names,
    NonNegative,
    Optional,
    Ratio,
    Section,
    Text,
)

__all__ = [
    "EmbeddingsSettings",
    "LlmSettings",
    "ModelBudget",
    "ProductSettings",
    "PromptBudget",
    "RagSettings",
    "RerankSettings",
    "RouteLimits",
    "RouteSettings",
    "SparseSettings",
]

Kind = Literal["books", "docs", "articles", "pdfs", "news"]


class ModelBudget(Section):
    """What a generating model gets to read."""

    prompt_tokens: Count | None = Field(
        None, description="Tokens of the whole prompt; `rag.prompt_tokens` when not given"
    )
    max_documents: Count | None = Field(None, description="Most documents; no limit when not given")
    document_tokens: Count | None = Field(
        None, description="Tokens of one document; no limit when not given"
    )


class PromptBudget(NamedTuple):
    """Tokens of a prompt, most documents in it, tokens of each; None is no limit."""

    prompt_tokens: int
    max_documents: int | None
    document_tokens: int | None


class RagSettings(Section):
    search_top_k: Count = Field(8, description="Candidates of hybrid search before reranking")
    search_return_k: Count = Field(6, description="Documents that the model gets after reranking")
    reranker_timeout: Duration = Field(8, lt=20, description="Reranking call; less than 20s")
    search_citations: NonNegative = Field(3, description="Citations in an answer")
    search_mmr_lambda: Ratio = Field(
        0.5, description="Maximal marginal relevance: 1 is relevance only, 0 diversity only"
    )
    chunk_max_tokens: Count = Field(900, description="Largest chunk of a document")
    chunk_overlap_tokens: NonNegative = Field(
        150, description="Tokens that neighbouring chunks share"
    )
    on_no_evidence: Literal["refuse", "general_knowledge"] = Field(
        "refuse", description="Without evidence: status no_context, or a labelled answer without it"
    )
    prompt_tokens: Count = Field(100_000, description="Token budget of the prompt")
    models: dict[str, ModelBudget] = Field(
        {}, description="Budgets of particular models, by name or pattern such as `gpt-5.4*`"
    )
    history_turns: NonNegative = Field(10, description="Earlier turns of a conversation in use")

    @field_validator("search_return_k")
    @classmethod
    def _at_most_top_k(cls, value: int, info: ValidationInfo) -> int:
        if value > info.data.get("search_top_k", value):
            raise ValueError("must not be more than search_top_k")
        return value

    @field_validator("chunk_overlap_tokens")
    @classmethod
    def _less_than_a_chunk(cls, value: int, info: ValidationInfo) -> int:
        if value >= info.data.get("chunk_max_tokens", value + 1):
            raise ValueError("must be less than chunk_max_tokens")
        return value

    def budget(self, model: str | None) -> PromptBudget:
        """What a generating model gets to read.

        The longest matching pattern counts; a provider's name in front (``openai/…``) is ignored.
        """
        name = (model or "").rpartition("/")[2].lower()
        matching = [pattern for pattern in self.models if fnmatchcase(name, pattern.lower())]
        found = self.models[max(matching, key=len)] if matching else ModelBudget()
        return PromptBudget(
            found.prompt_tokens or self.prompt_tokens, found.max_documents, found.document_tokens
        )


class EmbeddingsSettings(Section):
    provider: Literal["onnx", "openai"] = Field(
        "openai", description="onnx (built in) or openai (any compatible endpoint)"
    )
    model: Text = Field(
        "qwen/qwen3-embedding-4b", description="Embedding model; independent of the chat model"
    )
    dimensions: Count = Field(2560, description="Length of a vector; must be what the model gives")
    base_url: BaseUrl = Field(
        None, description="Endpoint of provider openai; OPENAI_BASE_URL when not given"
    )
    api_key: Annotated[SecretStr | None, Optional] = Field(
        None, description="Its key; OPENAI_API_KEY goes with OPENAI_BASE_URL only"
    )
    query_prefix: str = Field("", description="What the model wants before a question")
    passage_prefix: str = Field("", description="What the model wants before a document")
    query_headers: dict[str, SecretStr] = Field(
        {}, description="Extra HTTP headers of requests for questions"
    )
    ingest_headers: dict[str, SecretStr] = Field(
        {}, description="Extra HTTP headers of requests for documents"
    )
    batch_size: Count = Field(64, description="Texts per request")
    query_timeout: Duration = Field(5, description="Request for a question")
    ingest_timeout: Duration = Field(30, description="Request for documents")


class LlmSettings(Section):
    base_url: BaseUrl = Field(
        None, description="Chat endpoint; also OPENAI_BASE_URL. Without one answers are extractive"
    )
    api_key: Annotated[SecretStr | None, Optional] = Field(
        None, description="Its key; also OPENAI_API_KEY"
    )
    model: Annotated[str | None, Optional] = Field(
        None,
        description="Chat model; also OPENAI_MODEL. The first that the endpoint lists by default",
    )
    temperature: Annotated[float | None, Optional] = Field(
        0.2, ge=0, le=2, description="Sampling temperature of answers; blank: the endpoint's own"
    )
    connect_timeout: Duration = Field(2, description="Time to open a connection")
    first_token_timeout: Duration = Field(20, description="Wait for the first piece of an answer")
    total_timeout: Duration = Field(90, description="Time for a whole answer")
    max_output_tokens: Count = Field(2048, description="Longest answer")

    @property
    def configured(self) -> bool:
        """Whether there is a chat model to call."""
        return self.base_url is not None


class RerankSettings(Section):
    provider: Literal["auto", "fusion", "llm"] = Field(
        "auto", description="auto: llm where a chat model is configured, otherwise fusion"
    )


class SparseSettings(Section):
    weights: Literal["bm25", "tf"] = Field("bm25", description="bm25, or tf: raw term counts")
    analyzer: Literal["default", "standard"] = Field(
        "default", description="default: stemmed, Chinese, Japanese and Korean as bigrams; standard"
    )
    average_length: Count = Field(160, description="Terms of an average chunk, for bm25")


class RouteLimits(NamedTuple):
    """``candidates`` are searched, ``prefetch`` on each side; ``keep`` survive reranking."""

    candidates: int
    keep: int
    prefetch: int


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return pattern


class RouteSettings(Section):
    name: Text = Field(pattern=r"^[A-Z][A-Z0-9_]*$", description="Upper case")
    enabled: bool = Field(True, description="Whether the route exists")
    description: Text = Field(description="What it is for, in words for the intent model")
    collections: Annotated[tuple[Kind, ...], Listed] = Field(
        (), description="Kinds of documents to search; none: answers without retrieval"
    )
    private: bool = Field(
        False, description="The user's own documents only; answers are never shared"
    )
    candidates: Count | None = Field(None, description="`rag.search_top_k` when not given")
    keep: Count | None = Field(None, description="`rag.search_return_k` when not given")
    prefetch: Count | None = Field(None, description="`qdrant.prefetch_limit` when not given")
    cache_ttl: Duration | None = Field(None, description="`cache.answer_ttl` when not given")
    patterns: tuple[str, ...] = Field((), description="Regular expressions; one that is found wins")
    decay: bool = Field(False, description="Newer documents first, other things being equal")
    filters: dict[str, FilterValue] = Field({}, description="Metadata that documents must have")

    @field_validator("patterns")
    @classmethod
    def _patterns_compile(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_compiles, value))

    @field_validator("keep")
    @classmethod
    def _at_most_candidates(cls, value: int | None, info: ValidationInfo) -> int | None:
        candidates = info.data.get("candidates")
        if value is not None and candidates is not None and value > candidates:
            raise ValueError("must not be more than candidates")
        return value


class ProductSettings(Section):
    """A product with releases that questions name."""

    name: Text = Field(description="As in `product` of the documents' metadata")
    enabled: bool = Field(True, description="Whether its releases are looked for")
    aliases: Names = Field((), description="Other names")
    pattern: Annotated[str | None, Optional] = Field(
        None, description="Regular expression of a mention instead; the release in group `release`"
    )
    boost: Annotated[str | None, Optional] = Field(
        None, description="Words put before a question for each release, `{v}` in its place"
    )
    dotted: bool = Field(True, description="Releases look like 3.7; otherwise like 21")
    plausible: tuple[NonNegative, NonNegative] = Field(
        (0, 99), description="Lowest and highest major that a further number (21 vs 17) may mean"
    )
    legacy_prefix: str = Field("", description="Dropped from a release, such as the 1. of Java 1.8")

    @field_validator("pattern")
    @classmethod
    def _finds_a_release(cls, value: str | None) -> str | None:
        if value is not None and "release" not in re.compile(_compiles(value)).groupindex:
            raise ValueError("has no group named release: (?P<release>…)")
        return value

    @field_validator("boost")
    @classmethod
    def _has_a_place(cls, value: str | None) -> str | None:
        if value is not None and "{v}" not in value:
            raise ValueError("has no {v} for the release")
        return value

    @field_validator("plausible")
    @classmethod
    def _ascends(cls, value: tuple[int, int]) -> tuple[int, int]:
        if value[0] > value[1]:
            raise ValueError("the lowest is more than the highest")
        return value

    def build(self) -> Product:
        """The product as version detection takes it."""
        built = product(
            self.name,
            self.aliases,
            boost=self.boost,
            dotted=self.dotted,
            plausible=self.plausible,
            legacy_prefix=self.legacy_prefix,
        )
        if self.pattern is None:
            return built
        return replace(built, mention=re.compile(self.pattern, re.IGNORECASE))
