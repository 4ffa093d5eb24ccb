"""Answer: fit the evidence into a prompt, generate, cite, remember."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence

from ragstream.domain.errors import ContextDoesNotFit, DependencyUnavailable
from ragstream.domain.events import (
    Answer,
    AnswerDelta,
    AnswerStatus,
    Quality,
    Reranked,
    Usage,
)
from ragstream.domain.evidence import Document
from ragstream.domain.ports import (
    AnswerCache,
    Clock,
    CorpusGenerations,
    DeltaSink,
    Generator,
    Prompt,
    TokenCounter,
    VectorStore,
)
from ragstream.prompting.citations import citations, resolve_markers
from ragstream.prompting.quality import assess
from ragstream.prompting.render import assemble
from ragstream.stages.cachekey import own_key
from ragstream.stages.references import resolved

__all__ = ["AnswerQuestion", "Budget"]

log = logging.getLogger(__name__)

#: Seconds between two deltas at most while text is coming.
DELTA_INTERVAL = 0.035
NO_CONTEXT = "Nothing was found in the indexed documents that answers this question."


class Budget:
    """What the generating model gets to read: tokens of the whole prompt, number of documents,
    tokens of each. None: no limit of its own."""

    def __init__(
        self,
        prompt_tokens: int,
        *,
        max_documents: int | None = None,
        document_tokens: int | None = None,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.max_documents = max_documents
        self.document_tokens = document_tokens

    def limit(self, documents: Sequence[Document], counter: TokenCounter) -> list[Document]:
        """The documents within the limits of their number and size."""
        kept = list(documents[: self.max_documents])
        if self.document_tokens is None:
            return kept
        return [self._shortened(document, counter, self.document_tokens) for document in kept]

    @staticmethod
    def _shortened(document: Document, counter: TokenCounter, limit: int) -> Document:
        if document.metadata.authoritative:
            return document
        tokens = counter.encode(document.text)
        if len(tokens) <= limit:
            return document
        return document.model_copy(update={"text": counter.decode(tokens[:limit])})


class AnswerQuestion:
    """The stage. ``general_knowledge``: let the model answer without evidence, and label it."""

    def __init__(
        self,
        generator: Generator,
        *,
        counter: TokenCounter,
        budget: Budget,
        deltas: DeltaSink,
        cache: AnswerCache | None,
        generations: CorpusGenerations,
        store: VectorStore,
        clock: Clock,
        citation_limit: int = 3,
        general_knowledge: bool = False,
        timeout: float = 90.0,
    ) -> None:
        self._generator = generator
        self._counter = counter
        self._budget = budget
        self._deltas = deltas
        self._cache = cache
        self._generations = generations
        self._store = store
        self._clock = clock
        self._citation_limit = citation_limit
        self._general_knowledge = general_knowledge
        self._timeout = timeout

    async def __call__(self, job: Reranked) -> Answer:
        documents = await resolved(job.evidence.documents, self._store, job.tenant)
        # A route without collections answers without evidence by design.
        needs_evidence = bool(job.routing.collections) and not self._general_knowledge
        if not documents and needs_evidence:
            return self._no_context(job, None)
        # Counting the tokens of long documents takes a while.
        prompt = await asyncio.to_thread(self._prompt, job, documents)
        if not prompt.documents and needs_evidence:
            raise ContextDoesNotFit(
                f"none of {len(documents)} documents fits beside the question into "
                f"{self._budget.prompt_tokens} tokens"
            )
        stream = _Deltas(job, self._deltas, self._clock)
        remaining = max(0.001, (job.deadline - self._clock.now()).total_seconds())
        finish_reason: str | None = None
        usage: Usage | None = None
        pieces: list[str] = []
        async for piece in self._generator.generate(prompt, timeout=min(self._timeout, remaining)):
            if piece.text:
                pieces.append(piece.text)
                stream.add(piece.text)
            finish_reason = piece.finish_reason or finish_reason
            usage = piece.usage or usage
        stream.flush()
        if finish_reason == "no_answer":
            return self._no_context(job, prompt)
        answer = self._answered(job, prompt, "".join(pieces), stream, finish_reason, usage)
        await self._remember(job, prompt, answer)
        return answer

    def _prompt(self, job: Reranked, documents: Sequence[Document]) -> Prompt:
        prompt, _ = assemble(
            job.query.text,
            self._budget.limit(documents, self._counter),
            job.routing.history,
            counter=self._counter,
            budget=self._budget.prompt_tokens,
            mode=job.evidence.mode,
        )
        return prompt

    def _answered(
        self,
        job: Reranked,
        prompt: Prompt,
        text: str,
        stream: _Deltas,
        finish_reason: str | None,
        usage: Usage | None,
    ) -> Answer:
        referenced = resolve_markers(text, prompt.documents)
        if referenced.numbers:
            # All that the text refers to: a marker without its citation helps nobody.
            cited = citations(prompt.documents, only=frozenset(referenced.numbers))
        else:
            cited = citations(prompt.documents, limit=self._citation_limit)
        if referenced.invented:
            log.info("%s: %d invented citations removed", job.query_id, referenced.invented)
        degraded = job.degraded
        if not prompt.documents and job.routing.collections:
            degraded = (*degraded, "general-knowledge")
        return self._outcome(job, prompt, AnswerStatus.ANSWERED).model_copy(
            update={
                "text": referenced.text.strip(),
                "citations": cited,
                "finish_reason": finish_reason,
                "usage": usage,
                "attempt": stream.attempt if stream.emitted else None,
                "degraded": degraded,
            }
        )

    def _no_context(self, job: Reranked, prompt: Prompt | None) -> Answer:
        outcome = self._outcome(job, prompt, AnswerStatus.NO_CONTEXT)
        return outcome.model_copy(update={"text": NO_CONTEXT})

    def _outcome(self, job: Reranked, prompt: Prompt | None, status: AnswerStatus) -> Answer:
        query = job.query
        texts = [document.text for document in prompt.documents] if prompt else []
        return Answer(
            query_id=query.query_id,
            tenant=query.tenant,
            user_id=query.user_id,
            conversation_id=query.conversation_id,
            question=query.text,
            status=status,
            route=job.routing.route,
            model=self._generator.model if prompt else None,
            prompt_version=prompt.version if prompt else None,
            quality=assess(texts, job.evidence.mode) if prompt else Quality.NONE,
            degraded=job.degraded,
            generation=job.generation,
            accepted_at=job.accepted_at,
            completed_at=self._clock.now(),
        )

    async def _remember(self, job: Reranked, prompt: Prompt, answer: Answer) -> None:
        """Cache the answer, unless the corpus changed meanwhile or it is degraded."""
        routing = job.routing
        if self._cache is None or routing.cache_key is None or answer.degraded:
            return
        try:
            now = await self._generations.current(job.tenant)
        except DependencyUnavailable:
            return
        if not now == job.evidence.corpus_generation == routing.corpus_generation:
            return
        key = routing.cache_key
        if routing.private or any(document.private for document in prompt.documents):
            if job.query.user_id is None:
                return
            key = own_key(key, job.query.user_id)
        await self._cache.put(job.tenant, key, answer, ttl=routing.cache_ttl)


class _Deltas:
    """Pieces of text, published in batches."""

    def __init__(self, job: Reranked, sink: DeltaSink, clock: Clock) -> None:
        self._job = job
        self._sink = sink
        self._clock = clock
        self._waiting: list[str] = []
        self._sent_at = float("-inf")
        self._seq = 0
        # Sorts by time, so that a client can tell a newer attempt from an older one.
        self.attempt = f"{int(clock.now().timestamp() * 1000):013d}-{secrets.token_hex(4)}"

    @property
    def emitted(self) -> bool:
        return self._seq > 0

    def add(self, text: str) -> None:
        """The first piece goes at once, later ones at most an interval apart."""
        self._waiting.append(text)
        if self._clock.monotonic() - self._sent_at >= DELTA_INTERVAL:
            self.flush()

    def flush(self) -> None:
        if not self._waiting or not self._job.query.stream:
            return
        delta = AnswerDelta(
            query_id=self._job.query_id,
            tenant=self._job.tenant,
            attempt=self.attempt,
            seq=self._seq,
            text="".join(self._waiting),
        )
        self._waiting.clear()
        self._seq += 1
        self._sent_at = self._clock.monotonic()
        self._sink.emit(self._job.query, delta)
