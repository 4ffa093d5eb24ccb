"""Settings → adapters."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI
from pydantic import SecretStr

from ragstream.adapters import memory_state, openai, postgres, redis
from ragstream.adapters.embedding_cache import CachedEncoder
from ragstream.adapters.kafka import KafkaDeltas, KafkaPublisher
from ragstream.adapters.kafka_replies import KafkaReplies
from ragstream.adapters.memory import MemoryBus, MemoryDeltas
from ragstream.adapters.memory_vectors import MemoryVectorStore
from ragstream.adapters.qdrant import QdrantVectorStore
from ragstream.connection import kafka_connection, open_database
from ragstream.domain.errors import ConfigurationError
from ragstream.domain.ports import (
    AnswerCache,
    CollectionSpec,
    CorpusGenerations,
    DeltaSink,
    DenseEncoder,
    History,
    Marks,
    OutcomeLedger,
    Publisher,
    SparseEncoder,
    StageStops,
    VectorStore,
)
from ragstream.domain.topics import Topics
from ragstream.retrieval.analysis import ANALYZERS
from ragstream.retrieval.sparse import Bm25Encoder, TfEncoder
from ragstream.settings import Settings

__all__ = [
    "Adapters",
    "build_dense",
    "build_store",
    "collection_specs",
    "open_adapters",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Adapters:
    """One of each port. ``database`` and ``llm`` are None where nothing of theirs is configured;
    ``chat_model`` is the name of the model behind ``llm``."""

    publisher: Publisher
    deltas: DeltaSink
    cache: AnswerCache
    generations: CorpusGenerations
    marks: Marks
    ledger: OutcomeLedger
    history: History
    stops: StageStops
    database: postgres.Database | None
    store: VectorStore
    dense: DenseEncoder
    sparse: SparseEncoder
    llm: AsyncOpenAI | None
    chat_model: str | None
    replies: Publisher | None = None


def collection_specs(settings: Settings) -> list[CollectionSpec]:
    """What each collection must be."""
    qdrant = settings.qdrant
    return [
        CollectionSpec(
            name,
            settings.embeddings.dimensions,
            qdrant.dense_vector_name,
            qdrant.sparse_vector_name,
        )
        for name in qdrant.collections.by_kind().values()
    ]


async def open_adapters(
    settings: Settings, topics: Topics, bus: MemoryBus | None, stack: AsyncExitStack
) -> Adapters:
    publisher: Publisher
    replies: Publisher | None = None
    deltas: DeltaSink
    if bus is not None:
        publisher, deltas = bus, MemoryDeltas(bus, topics.answer_deltas)
    else:
        _require_all(settings)
        connection = kafka_connection(settings)
        kafka = KafkaPublisher(connection, timeout=settings.kafka.publish_timeout)
        stack.push_async_callback(kafka.aclose)
        await kafka.start()
        publisher, deltas = kafka, KafkaDeltas(kafka, topics.answer_deltas)
        if settings.delivery.reply_prefix is not None:
            replies = own = KafkaReplies(connection)
            stack.push_async_callback(own.aclose)
    llm = _llm(settings, stack)
    dense = build_dense(settings, stack)
    return Adapters(
        publisher=publisher,
        deltas=deltas,
        replies=replies,
        **_caches(settings, stack),
        **_records(settings, stack),
        store=build_store(settings, stack),
        dense=dense,
        sparse=_sparse(settings),
        llm=llm,
        chat_model=await _chat_model(settings, llm),
    )


def _require_all(settings: Settings) -> None:
    addresses = {
        "RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "RAGSTREAM_REDIS__URL": settings.redis.url,
        "RAGSTREAM_POSTGRES__DSN": settings.postgres.dsn,
        "RAGSTREAM_QDRANT__URL": settings.qdrant.url,
    }
    if missing := [name for name, value in addresses.items() if value is None]:
        raise ConfigurationError(
            f"not set: {', '.join(missing)} (`ragstream dev` starts all of them)"
        )


def _caches(settings: Settings, stack: AsyncExitStack) -> dict[str, Any]:
    if settings.redis.url is None:
        return {
            "cache": memory_state.MemoryAnswerCache(),
            "generations": memory_state.MemoryCorpusGenerations(),
            "marks": memory_state.MemoryMarks(),
        }
    connection = redis.connect(
        settings.redis.url.get_secret_value(),
        prefix=settings.redis.prefix,
        connect_timeout=settings.redis.connect_timeout,
        operation_timeout=settings.redis.operation_timeout,
        max_connections=settings.redis.max_connections,
    )
    stack.push_async_callback(connection.aclose)
    return {
        "cache": redis.RedisAnswerCache(connection),
        "generations": redis.RedisCorpusGenerations(connection),
        "marks": redis.RedisMarks(connection),
    }


def _records(settings: Settings, stack: AsyncExitStack) -> dict[str, Any]:
    if settings.postgres.dsn is None:
        return {
            "ledger": memory_state.MemoryLedger(),
            "history": memory_state.MemoryHistory(),
            "stops": memory_state.MemoryStops(),
            "database": None,
        }
    database = open_database(settings, stack)
    return {
        "ledger": postgres.PostgresLedger(database),
        "history": postgres.PostgresHistory(database),
        "stops": postgres.PostgresStops(database),
        "database": database,
    }


def build_store(settings: Settings, stack: AsyncExitStack) -> VectorStore:
    qdrant = settings.qdrant
    if qdrant.url is None:
        return MemoryVectorStore()
    store = QdrantVectorStore.connect(
        qdrant.url,
        api_key=_secret(qdrant.api_key),
        timeout=qdrant.query_timeout,
        prefer_grpc=qdrant.prefer_grpc,
    )
    stack.push_async_callback(store.close)
    return store


def _llm(settings: Settings, stack: AsyncExitStack) -> AsyncOpenAI | None:
    llm = settings.llm
    if not llm.configured or llm.base_url is None:
        return None
    client = openai.connect(
        llm.base_url,
        _secret(llm.api_key),
        connect_timeout=llm.connect_timeout,
        read_timeout=llm.total_timeout,
    )
    stack.push_async_callback(client.close)
    return client


async def _chat_model(settings: Settings, llm: AsyncOpenAI | None) -> str | None:
    if llm is None or settings.llm.model is not None:
        return settings.llm.model
    model = await openai.first_model(llm)
    log.info("chat model: %s, the first that %s lists", model, settings.llm.base_url)
    return model


def build_dense(settings: Settings, stack: AsyncExitStack) -> DenseEncoder:
    embeddings = settings.embeddings
    if embeddings.provider == "onnx":
        from ragstream.adapters.onnx import OnnxMiniLM  # numpy and the model only where needed

        encoder = OnnxMiniLM()
        if encoder.dimensions != embeddings.dimensions:
            raise ConfigurationError(
                f"RAGSTREAM_EMBEDDINGS__DIMENSIONS: {encoder.model} has {encoder.dimensions}, "
                f"not {embeddings.dimensions}"
            )
        return CachedEncoder(encoder)
    if embeddings.base_url is None:
        raise ConfigurationError("RAGSTREAM_EMBEDDINGS__BASE_URL is not set")
    client = openai.connect(embeddings.base_url, _secret(embeddings.api_key))
    stack.push_async_callback(client.close)
    return CachedEncoder(
        openai.OpenAIEmbeddings(
            client,
            embeddings.model,
            embeddings.dimensions,
            batch_size=embeddings.batch_size,
            query_prefix=embeddings.query_prefix,
            passage_prefix=embeddings.passage_prefix,
            query_headers=_plain(embeddings.query_headers),
            passage_headers=_plain(embeddings.ingest_headers),
            query_timeout=embeddings.query_timeout,
            passage_timeout=embeddings.ingest_timeout,
        )
    )


def _sparse(settings: Settings) -> SparseEncoder:
    analyzer = ANALYZERS[settings.sparse.analyzer]
    if settings.sparse.weights == "tf":
        return TfEncoder(analyzer)
    return Bm25Encoder(analyzer, average_length=settings.sparse.average_length)


def _secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value() if value is not None else None


def _plain(headers: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in headers.items()}
