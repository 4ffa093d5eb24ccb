"""Settings and adapters → stages."""

from __future__ import annotations

from ragstream.adapters import openai
from ragstream.adapters.clock import SystemClock
from ragstream.adapters.extractive import ExtractiveGenerator
from ragstream.adapters.rules import FusionOrder, RuleClassifier
from ragstream.adapters.tokens import TiktokenCounter
from ragstream.app.adapters import Adapters
from ragstream.domain.events import DocumentEvent
from ragstream.domain.evidence import Chunk
from ragstream.domain.ports import Generator, IntentClassifier, Reranker
from ragstream.domain.topics import Topics
from ragstream.pipeline import Stages
from ragstream.prompting.render import prompt_version
from ragstream.retrieval.analysis import ANALYZERS
from ragstream.retrieval.chunking import chunk_document
from ragstream.settings import Settings
from ragstream.stages.answer import AnswerQuestion, Budget
from ragstream.stages.history import RecordHistory
from ragstream.stages.ingest import Chunker, Ingest
from ragstream.stages.rerank import Rerank
from ragstream.stages.retrieve import Retrieve
from ragstream.stages.route import Acceptance, Route, RoutePlan

__all__ = ["build_acceptance", "build_stages"]


def build_acceptance(settings: Settings) -> Acceptance:
    delivery = settings.delivery
    return Acceptance(
        frozenset(route.name for route in settings.enabled_routes()),
        default_deadline=delivery.default_deadline,
        longest_deadline=delivery.max_deadline,
        reply_prefix=delivery.reply_prefix,
        own_prefix=f"{settings.kafka.prefix}.",
    )


def _plans(settings: Settings) -> list[RoutePlan]:
    plans = []
    for route in settings.enabled_routes():
        limits = settings.limits(route)
        plans.append(
            RoutePlan(
                route.name,
                route.description,
                settings.collections_of(route),
                private=route.private,
                candidates=limits.candidates,
                keep=limits.keep,
                prefetch=limits.prefetch,
                decay=route.decay,
                cache_ttl=route.cache_ttl or settings.cache.answer_ttl,
                filters=route.filters,
            )
        )
    return plans


def _shaping_answers(settings: Settings) -> str:
    """The settings on which answers depend, as text without secrets."""
    sections = {"rag", "qdrant", "embeddings", "llm", "rerank", "sparse", "products", "routes"}
    return settings.model_dump_json(include=sections)


def build_stages(settings: Settings, topics: Topics, adapters: Adapters) -> Stages:
    clock = SystemClock()
    counter = TiktokenCounter()
    cache = adapters.cache if settings.cache.enabled else None
    generator: Generator
    reranker: Reranker = FusionOrder()
    intent: IntentClassifier | None = None
    if adapters.llm is not None and adapters.chat_model is not None:
        model = adapters.chat_model
        generator = openai.OpenAIGenerator(
            adapters.llm,
            model,
            temperature=settings.llm.temperature,
            first_piece_timeout=settings.llm.first_token_timeout,
            extra_body={"max_tokens": settings.llm.max_output_tokens},
        )
        intent = openai.OpenAIIntentClassifier(adapters.llm, model)
        if settings.reranks_with_llm:
            reranker = openai.OpenAIReranker(adapters.llm, model)
    else:
        analyzer = ANALYZERS[settings.sparse.analyzer]
        embedded = settings.embeddings.provider == "onnx"
        generator = ExtractiveGenerator(analyzer, adapters.dense if embedded else None)
    budget = settings.rag.budget(adapters.chat_model)
    return Stages(
        route=Route(
            _plans(settings),
            default=settings.default_route,
            products=settings.versioned_products(),
            rules=RuleClassifier({r.name: r.patterns for r in settings.enabled_routes()}),
            llm=intent,
            cache=cache,
            generations=adapters.generations,
            history=adapters.history,
            clock=clock,
            model=generator.model,
            prompt_version=prompt_version(),
            configuration=_shaping_answers(settings),
            history_turns=settings.rag.history_turns,
        ),
        retrieve=Retrieve(
            adapters.store,
            dense=adapters.dense,
            sparse=adapters.sparse,
            generations=adapters.generations,
            timeout=settings.qdrant.query_timeout,
            rrf_k=settings.qdrant.rrf_k,
            byte_budget=settings.delivery.event_bytes,
        ),
        rerank=Rerank(
            reranker,
            adapters.store,
            clock=clock,
            timeout=settings.rag.reranker_timeout,
            byte_budget=settings.delivery.event_bytes,
        ),
        answer=AnswerQuestion(
            generator,
            counter=counter,
            budget=Budget(
                budget.prompt_tokens or settings.rag.prompt_tokens,
                max_documents=budget.max_documents,
                document_tokens=budget.document_tokens,
            ),
            deltas=adapters.deltas,
            cache=cache,
            generations=adapters.generations,
            store=adapters.store,
            clock=clock,
            citation_limit=settings.rag.search_citations,
            general_knowledge=settings.rag.on_no_evidence == "general_knowledge"
            and adapters.llm is not None,
            timeout=settings.llm.total_timeout,
        ),
        ingest=Ingest(
            adapters.store,
            chunk=_chunker(settings, counter),
            dense=adapters.dense,
            sparse=adapters.sparse,
            generations=adapters.generations,
            clock=clock,
            collections=settings.qdrant.collections.by_kind(),
            topic=topics.index_changes,
        ),
        history=RecordHistory(adapters.history),
    )


def _chunker(settings: Settings, counter: TiktokenCounter) -> Chunker:
    rag = settings.rag

    def chunk(event: DocumentEvent, collection: str) -> list[Chunk]:
        return chunk_document(
            event.text,
            document_id=event.document_id,
            tenant=event.tenant,
            collection=collection,
            counter=counter,
            media_type=event.media_type,
            metadata=event.metadata,
            max_tokens=rag.chunk_max_tokens,
            overlap=rag.chunk_overlap_tokens,
        )

    return chunk
