"""Route: accepts a query, looks for a cached answer, decides where to search and for what."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import orjson

from ragstream.domain.errors import (
    DependencyUnavailable,
    InvalidEvent,
    PermanentError,
    TransientError,
)
from ragstream.domain.events import (
    Answer,
    CacheHit,
    CacheMode,
    Job,
    Query,
    RequestedVersions,
    Routed,
    Routing,
    Turn,
)
from ragstream.domain.evidence import FIELD_NAME, FilterValue
from ragstream.domain.ports import (
    AnswerCache,
    Clock,
    CorpusGenerations,
    History,
    IntentClassifier,
    RouteDescription,
)
from ragstream.retrieval.versions import Product, boost, requested_releases, without_releases
from ragstream.stages.cachekey import own_key, shared_key
from ragstream.version import __version__

__all__ = ["Acceptance", "Route", "RoutePlan"]

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Job)

#: Payload fields that only the scope of the query decides about.
RESERVED_FILTERS = frozenset({"tenant", "access", "text", "documentId", "document_id"})
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """A route of the settings. ``candidates`` are retrieved, ``keep`` survive reranking;
    ``cache_ttl`` in seconds. A private route sees the user's own documents only."""

    name: str
    description: str
    collections: tuple[str, ...]
    private: bool = False
    candidates: int = 8
    keep: int = 6
    prefetch: int = 14
    decay: bool = False
    cache_ttl: float = 3600.0
    filters: Mapping[str, FilterValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The rules by which a query is accepted. Durations in seconds.

    ``reply_prefix``: prefix that a ``reply_to`` topic must have, None to allow none;
    ``own_prefix``: that of our topics, which it must not have.
    """

    routes: frozenset[str]
    default_deadline: float = 120.0
    longest_deadline: float = 600.0
    reply_prefix: str | None = None
    own_prefix: str = "ragstream."

    def accept(self, query: Query, *, at: datetime, generation: int, fingerprint: str) -> Job:
        """The job of a valid query. Raises ``InvalidEvent``.

        ``at`` is when the broker took the query, so that a redelivery has the same deadline.
        """
        if query.route is not None and query.route not in self.routes:
            known = ", ".join(sorted(self.routes))
            raise InvalidEvent(f"no such route: {query.route!r} (there are {known})", field="route")
        if reserved := RESERVED_FILTERS & query.filters.keys():
            raise InvalidEvent("may not be filtered on", field=f"filters.{min(reserved)}")
        for name in query.filters:
            if not FIELD_NAME.fullmatch(name):
                raise InvalidEvent("is not the name of a metadata field", field=f"filters.{name}")
        self._check_reply_to(query.reply_to)
        latest = at + timedelta(seconds=self.longest_deadline)
        wanted = query.deadline or at + timedelta(seconds=self.default_deadline)
        # A deadline in the past counts as now; one of the year 1 could not be written in UTC.
        wanted = max(wanted, at)
        return Job(
            query=query,
            generation=generation,
            fingerprint=fingerprint,
            accepted_at=at,
            deadline=min(wanted, latest).astimezone(UTC),
        )

    def renew(self, job: J, *, at: datetime, generation: int) -> J:
        """The job as another generation that begins ``at``: with as much time as it had, or the
        default if that is more, and no stage behind it."""
        had = (job.deadline - job.accepted_at).total_seconds()
        seconds = min(max(had, self.default_deadline), self.longest_deadline)
        return job.model_copy(
            update={
                "generation": generation,
                "accepted_at": at,
                "deadline": at + timedelta(seconds=seconds),
                "timings": (),
            }
        )

    def _check_reply_to(self, topic: str | None) -> None:
        if topic is None:
            return
        if self.reply_prefix is None:
            raise InvalidEvent("no topic is allowed here", field="reply_to")
        if topic.startswith(self.own_prefix):
            raise InvalidEvent("is one of our own topics", field="reply_to")
        if not topic.startswith(self.reply_prefix):
            raise InvalidEvent(f"must start with {self.reply_prefix!r}", field="reply_to")
        if not _TOPIC_NAME.fullmatch(topic):
            raise InvalidEvent("is not the name of a topic", field="reply_to")


class Route:
    """The stage.

    ``llm`` decides where one is configured, ``rules`` what it can't, then the default. ``model``
    and ``prompt_version`` are what will generate the answer, ``configuration`` stands for the
    settings that shape it: all are part of the cache key.
    """

    def __init__(
        self,
        plans: Sequence[RoutePlan],
        *,
        default: str,
        products: Sequence[Product],
        rules: IntentClassifier,
        llm: IntentClassifier | None,
        cache: AnswerCache | None,
        generations: CorpusGenerations,
        history: History,
        clock: Clock,
        model: str,
        prompt_version: str,
        configuration: str = "",
        history_turns: int = 10,
        intent_timeout: float = 5.0,
    ) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._default = default
        self._products = tuple(products)
        self._rules = rules
        self._llm = llm
        self._cache = cache
        self._generations = generations
        self._history = history
        self._clock = clock
        self._model = model
        self._prompt_version = prompt_version
        self._history_turns = history_turns
        self._intent_timeout = intent_timeout
        settings = [asdict(plan) for plan in plans] + [product.name for product in self._products]
        routing = [__version__, configuration, default, settings]
        self._digest = hashlib.sha256(
            orjson.dumps(routing, option=orjson.OPT_SORT_KEYS, default=str)
        ).hexdigest()
        self._descriptions = [RouteDescription(plan.name, plan.description) for plan in plans]

    async def __call__(self, job: Job) -> Routed | Answer:
        history = await self._turns(job.query)
        generation = await self._corpus_generation(job.tenant)
        key = self._cache_key(job, history, generation)
        if key is not None and (cached := await self._cached(job.query, key)) is not None:
            return self._from_cache(job, cached)
        name, decided_by = await self._intent(job)
        plan = self._plans[name]
        text = job.query.text
        product, releases = self._releases(text)
        routing = Routing(
            route=name,
            decided_by=decided_by,
            collections=plan.collections,
            search_text=boost(text, product, releases) if product else text,
            keyword_text=without_releases(text, product) if product else None,
            versions=RequestedVersions(product=product.name, releases=releases)
            if product
            else None,
            # The route's own last: a query may narrow what it sees, never widen it.
            filters={**job.query.filters, **plan.filters},
            history=history,
            private=plan.private,
            decay=plan.decay,
            candidates=max(plan.candidates, job.query.top_k or 0),
            keep=job.query.top_k or plan.keep,
            prefetch=max(plan.prefetch, job.query.top_k or 0),
            corpus_generation=generation or 0,
            cache_key=key,
            cache_ttl=plan.cache_ttl,
        )
        return Routed.model_validate({**_fields(job), "routing": routing})

    async def _turns(self, query: Query) -> tuple[Turn, ...]:
        if query.history is not None:
            return query.history[-self._history_turns :] if self._history_turns else ()
        if query.conversation_id is None or not self._history_turns:
            return ()
        return await self._history.turns(
            query.tenant, query.conversation_id, limit=self._history_turns, user_id=query.user_id
        )

    async def _corpus_generation(self, tenant: str) -> int | None:
        """None when it can't be told: the answer is then not cached."""
        try:
            return await self._generations.current(tenant)
        except DependencyUnavailable as error:
            log.info("not caching: %s", error)
            return None

    def _cache_key(self, job: Job, history: Sequence[Turn], generation: int | None) -> str | None:
        if self._cache is None or generation is None or job.query.cache is CacheMode.BYPASS:
            return None
        return shared_key(
            job.query,
            history=history,
            corpus_generation=generation,
            routing_digest=self._digest,
            model=self._model,
            prompt_version=self._prompt_version,
            asked_at=job.accepted_at,
        )

    async def _cached(self, query: Query, key: str) -> Answer | None:
        if self._cache is None or query.cache is not CacheMode.USE:
            return None
        if query.user_id is not None:
            own = await self._cache.get(query.tenant, own_key(key, query.user_id))
            if own is not None:
                return own
        return await self._cache.get(query.tenant, key)

    def _from_cache(self, job: Job, cached: Answer) -> Answer:
        query = job.query
        return cached.model_copy(
            update={
                "query_id": query.query_id,
                "tenant": query.tenant,
                "user_id": query.user_id,
                "conversation_id": query.conversation_id,
                "question": query.text,
                "cache": CacheHit.EXACT,
                "attempt": None,
                "usage": None,
                "generation": job.generation,
                "accepted_at": job.accepted_at,
                "completed_at": self._clock.now(),
                "timings": (),
            }
        )

    async def _intent(self, job: Job) -> tuple[str, str]:
        query = job.query
        if query.route is not None:
            return query.route, "query"
        if len(self._plans) == 1:
            return self._default, "default"
        if self._llm is not None:
            try:
                by_llm = await self._llm.classify(
                    query.text, self._descriptions, timeout=self._intent_timeout
                )
            except (TransientError, PermanentError) as error:
                # Rules or the default do as well: a query is not held up for its route.
                log.warning("intent by rules: %s", error)
            else:
                if by_llm is not None:
                    return by_llm, "llm"
        by_rule = await self._rules.classify(
            query.text, self._descriptions, timeout=self._intent_timeout
        )
        return (by_rule, "rules") if by_rule is not None else (self._default, "default")

    def _releases(self, text: str) -> tuple[Product | None, tuple[str, ...]]:
        """The first product that the question names a release of, and the releases."""
        for product in self._products:
            if releases := requested_releases(text, product):
                return product, releases
        return None, ()


def _fields(job: Job) -> dict[str, object]:
    """A job's fields as they are, unknown ones included."""
    return {**dict(job), **(job.model_extra or {})}
