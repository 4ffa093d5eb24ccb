"""Settings of the components around the pipeline, and of its delivery."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from ragstream.settings.types import (
    BaseUrl,
    Count,
    Duration,
    NonNegative,
    Optional,
    Section,
    Servers,
    Text,
    parse_duration,
    with_scheme,
)

__all__ = [
    "CacheSettings",
    "CollectionNames",
    "ConcurrencySettings",
    "DeliverySettings",
    "KafkaSettings",
    "PostgresSettings",
    "QdrantSettings",
    "RedisSettings",
    "WindowSettings",
    "WorkerSettings",
]


class KafkaSettings(Section):
    bootstrap_servers: Servers = Field(None, description="`host:port`, several separated by commas")
    prefix: Text = Field(
        "ragstream",
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="First part of every topic and consumer group",
    )
    partitions: Count | None = Field(
        None, description="Partitions of every topic; those of the declaration when not given"
    )
    replication: Count = Field(
        3, description="Replicas of each topic; 3 or more go with min.insync.replicas 2"
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
    )
    sasl_mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None, Optional
    ] = Field(None, description="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
    sasl_username: Annotated[str | None, Optional] = Field(None, description="SASL user")
    sasl_password: Annotated[SecretStr | None, Optional] = Field(None, description="SASL password")
    ssl_cafile: Annotated[str | None, Optional] = Field(
        None, description="PEM file of certificate authorities; the system's when not given"
    )
    client_id: Text = Field("ragstream", description="Name shown in the broker's logs and quotas")
    request_timeout: Duration = Field(10, description="Wait for one reply of the broker")
    publish_timeout: Duration = Field(
        30, description="Wait for confirmation; then the producer is replaced and the stage retried"
    )

    @field_validator("sasl_mechanism", "sasl_username", "sasl_password")
    @classmethod
    def _sasl_is_complete(cls, value: object, info: ValidationInfo) -> object:
        if value is None and str(info.data.get("security_protocol")).startswith("SASL"):
            raise ValueError("is required with SASL")
        return value


class RedisSettings(Section):
    url: Annotated[SecretStr | None, Optional, with_scheme("redis://", "rediss://", "unix://")] = (
        Field(None, description="`redis://`, `rediss://` or `unix://`; may hold a password")
    )
    prefix: Text = Field("ragstream", description="First part of every key")
    connect_timeout: Duration = Field(0.5, description="Time to open a connection")
    operation_timeout: Duration = Field(0.5, description="Time for one operation")
    max_connections: Count = Field(50, description="Size of the connection pool")


class PostgresSettings(Section):
    dsn: Annotated[SecretStr | None, Optional, with_scheme("postgresql://", "postgres://")] = Field(
        None, description="`postgresql://user:password@host:port/database`"
    )
    schema_name: Text = Field(
        "ragstream", pattern=r"^[a-z_][a-z0-9_]*$", description="Schema of our tables"
    )
    connect_timeout: Duration = Field(2, description="Time to open a connection")
    command_timeout: Duration = Field(5, description="Time for one statement")
    max_connections: Count = Field(10, description="Size of the connection pool")
    outcome_retention: Duration = Field(
        parse_duration("45d"),
        description="Outcomes are kept for it; longer than any topic they may come again from",
    )


class CollectionNames(Section):
    """Collection by kind of document. All distinct."""

    books: Text = Field("java-chat-qwen3-embedding-4b-2560-books", description="Books")
    docs: Text = Field("java-chat-qwen3-embedding-4b-2560-docs", description="Documentation")
    articles: Text = Field("java-chat-qwen3-embedding-4b-2560-articles", description="Articles")
    pdfs: Text = Field("java-chat-qwen3-embedding-4b-2560-pdfs", description="PDF files")
    news: Text = Field("java-chat-qwen3-embedding-4b-2560-news", description="News")

    @field_validator("docs", "articles", "pdfs", "news")
    @classmethod
    def _distinct(cls, value: str, info: ValidationInfo) -> str:
        for kind, name in info.data.items():
            if name == value:
                raise ValueError(f"must differ from the collection of {kind}")
        return value

    def by_kind(self) -> dict[str, str]:
        """Name of the collection by kind of document."""
        return {kind: getattr(self, kind) for kind in type(self).model_fields}


class QdrantSettings(Section):
    url: BaseUrl = Field(None, description="`http://` or `https://` address")
    api_key: Annotated[SecretStr | None, Optional] = Field(None, description="API key")
    prefer_grpc: bool = Field(True, description="gRPC instead of REST where both are there")
    dense_vector_name: Text = Field("dense", description="Named vector of dense embeddings")
    sparse_vector_name: Text = Field("bm25", description="Named vector of sparse term weights")
    prefetch_limit: Count = Field(
        14, description="Candidates of the dense and of the sparse side before they are fused"
    )
    rrf_k: Count = Field(60, description="k of reciprocal rank fusion: score = Σ 1 / (k + rank)")
    query_timeout: Duration = Field(10, description="Search of all collections together")
    ensure_payload_indexes: bool = Field(
        True, description="Create payload indexes for metadata filters at start"
    )
    ensure_collections: bool = Field(
        False, description="Create missing collections at start; otherwise they are only validated"
    )
    collections: CollectionNames = Field(default_factory=CollectionNames)

    @field_validator("sparse_vector_name")
    @classmethod
    def _two_names(cls, value: str, info: ValidationInfo) -> str:
        if value == info.data.get("dense_vector_name"):
            raise ValueError("must differ from the dense vector's name")
        return value


class WindowSettings(Section):
    records: Count = Field(
        128, description="Records of a stage under way at once; at least twice its concurrency"
    )
    per_partition: Count = Field(512, description="Records read beyond the committable offset")
    per_key: Count = Field(64, description="Records that wait behind one key")


class ConcurrencySettings(Section):
    """Calls of a stage's own work at once, in one process."""

    route: Count = Field(64, description="Queries routed at once")
    retrieve: Count = Field(64, description="Searches at once")
    rerank: Count = Field(32, description="Reranking calls at once")
    answer: Count = Field(32, description="Answers written at once")
    ingest: Count = Field(8, description="Documents indexed at once")
    history: Count = Field(16, description="Answers saved at once")


class DeliverySettings(Section):
    window: WindowSettings = Field(default_factory=WindowSettings)
    concurrency: ConcurrencySettings = Field(default_factory=ConcurrencySettings)
    drain: Duration = Field(5, description="Time to finish records on shutdown or rebalance")
    max_deadline: Duration = Field(600, description="Longest that a query may ask for")
    default_deadline: Duration = Field(120, description="Deadline of queries that name none")
    retry_base: Duration = Field(0.1, description="First wait before trying again")
    retry_max: Duration = Field(5, description="Longest wait before trying again")
    dlt_limit: NonNegative = Field(
        100, description="Processing failures within `dlt_period` that stop a stage; 0: no limit"
    )
    dlt_period: Duration = Field(60, description="Period of `dlt_limit`")
    commit_interval: Duration = Field(1, description="Time between commits of offsets")
    start: Literal["none", "earliest", "latest"] = Field(
        "none", description="Where a group without offsets starts; none: it refuses to"
    )
    session_timeout: Duration = Field(10, description="Silence after which a worker is taken dead")
    instance_id: Annotated[str | None, Optional] = Field(
        None, description="Static membership: an id that stays the same over restarts"
    )
    reply_prefix: Annotated[str | None, Optional] = Field(
        None, description="Prefix that `reply_to` topics must have; none are allowed without it"
    )
    event_bytes: int = Field(
        800_000,
        ge=10_000,
        lt=900_000,
        description="Bytes of documents in an event; beyond it they go by reference",
    )

    @field_validator("default_deadline")
    @classmethod
    def _below_cap(cls, value: float, info: ValidationInfo) -> float:
        if value > info.data.get("max_deadline", value):
            raise ValueError("must not be more than max_deadline")
        return value

    @field_validator("retry_max")
    @classmethod
    def _not_below_base(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("retry_base", value):
            raise ValueError("must not be less than retry_base")
        return value


class CacheSettings(Section):
    enabled: bool = Field(True, description="Whether answers are cached")
    answer_ttl: Duration = Field(3600, description="Time that a cached answer is valid")


class WorkerSettings(Section):
    health_host: Text = Field("127.0.0.1", description="Address of the health endpoint")
    health_port: int = Field(8686, ge=0, le=65_535, description="Its port; 0: a free one")
    stall_timeout: Duration = Field(
        30, description="Standstill of the process after which it ends, to be started anew"
    )
