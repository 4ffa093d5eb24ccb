"""The floor plan: topic in, stage, topic out.

queries → route → routed → retrieve → retrieved → rerank → reranked → answer → answers
documents → ingest → index-changes                               answers → history
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from ragstream.delivery.dispatcher import Lease, Window
from ragstream.delivery.effects import EffectHandler, EffectStep
from ragstream.delivery.limit import FailureLimit
from ragstream.delivery.queries import QueryHandler, QueryStep, Services
from ragstream.domain.errors import ConfigurationError
from ragstream.domain.events import (
    Answer,
    DocumentEvent,
    Event,
    Job,
    Query,
    Reranked,
    Retrieved,
    Routed,
)
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.domain.topics import Topics
from ragstream.stages.route import Acceptance
from ragstream.wire import Envelope, decode, fingerprint

__all__ = [
    "STAGES",
    "StageHandler",
    "StageUnit",
    "Stages",
    "build_units",
    "chosen_stages",
    "floor_plan",
]

E = TypeVar("E", bound=Event)
J = TypeVar("J", bound=Job)
Step = QueryStep | EffectStep[Any]

#: In the order of the floor plan.
STAGES = ("route", "retrieve", "rerank", "answer", "ingest", "history")


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages; one that this process does not run may be left out."""

    route: Callable[[Job], Awaitable[Job | Answer]] | None = None
    retrieve: Callable[[Routed], Awaitable[Job | Answer]] | None = None
    rerank: Callable[[Retrieved], Awaitable[Job | Answer]] | None = None
    answer: Callable[[Reranked], Awaitable[Job | Answer]] | None = None
    ingest: Callable[[DocumentEvent], Awaitable[Sequence[OutboundRecord]]] | None = None
    history: Callable[[Answer], Awaitable[Sequence[OutboundRecord]]] | None = None


class StageHandler(Protocol):
    """Handles a record and says how the stage is. ``paused``: why it waits, or None."""

    limit: FailureLimit

    @property
    def paused(self) -> str | None: ...

    async def __call__(self, record: InboundRecord, lease: Lease) -> None: ...


@dataclass(frozen=True, slots=True)
class StageUnit:
    """A stage as a runner sees it: what it reads, in which group, and what handles a record."""

    stage: str
    topic: str
    group: str
    handler: StageHandler
    window: Window = field(default_factory=Window)


def floor_plan(topics: Topics, stages: Stages, acceptance: Acceptance) -> list[Step]:
    """One line a step."""
    t, s = topics, stages
    return [
        *_query("route", t.queries, _accepted(acceptance), s.route, t.routed),
        *_query("retrieve", t.routed, _job(Routed, acceptance), s.retrieve, t.retrieved),
        *_query("rerank", t.retrieved, _job(Retrieved, acceptance), s.rerank, t.reranked),
        *_query("answer", t.reranked, _job(Reranked, acceptance), s.answer, t.answers),
        *_effect("ingest", t.documents, _open(DocumentEvent), s.ingest),
        *_effect("history", t.answers, _inner(Answer), s.history),
    ]


def chosen_stages(names: Collection[str]) -> tuple[str, ...]:
    """The named stages in the order of the floor plan, all of them if none is named.

    Raises ``ConfigurationError`` for a name that no stage has.
    """
    if unknown := set(names) - set(STAGES):
        raise ConfigurationError(
            f"no such stage: {', '.join(sorted(unknown))} (there are {', '.join(STAGES)})"
        )
    return tuple(stage for stage in STAGES if not names or stage in names)


def build_units(
    steps: Sequence[Step], services: Services, *, window: Window, only: Collection[str] = ()
) -> list[StageUnit]:
    """The steps as units for a runner; ``only``: names of the stages to run, all by default."""
    chosen = chosen_stages(only)
    units = []
    for step in steps:
        if step.stage not in chosen:
            continue
        handler: StageHandler = (
            QueryHandler(step, services)
            if isinstance(step, QueryStep)
            else EffectHandler(step, services)
        )
        group = services.topics.group(step.stage)
        # As many again as may work: those that are publishing leave no gap behind them.
        wide = replace(window, records=max(window.records, 2 * step.concurrency))
        units.append(StageUnit(step.stage, step.source, group, handler, wide))
    return units


def _query(
    stage: str,
    source: str,
    read: Callable[[InboundRecord], tuple[Job, Envelope]],
    run: Callable[[Any], Awaitable[Job | Answer]] | None,
    target: str,
) -> list[Step]:
    return [QueryStep(stage, source, target, read, run)] if run is not None else []


def _effect(
    stage: str,
    source: str,
    read: Callable[[InboundRecord], tuple[E, Envelope]],
    run: Callable[[E], Awaitable[Sequence[OutboundRecord]]] | None,
) -> list[Step]:
    return [EffectStep(stage, source, read, run)] if run is not None else []


def _accepted(acceptance: Acceptance) -> Callable[[InboundRecord], tuple[Job, Envelope]]:
    """Reads what anybody may publish, and accepts it."""

    def read(record: InboundRecord) -> tuple[Job, Envelope]:
        query, envelope = decode(record, Query, lenient=True)
        if envelope.replay_id is not None:  # its time may be over: it gets a new one
            query = query.model_copy(update={"deadline": None})
        job = acceptance.accept(
            query,
            at=datetime.fromtimestamp(record.timestamp, UTC),
            generation=envelope.generation,
            fingerprint=fingerprint(query),
        )
        return job, envelope

    return read


def _job(event: type[J], acceptance: Acceptance) -> Callable[[InboundRecord], tuple[J, Envelope]]:
    """Reads a query on its way; one that is replayed gets a new deadline."""

    def read(record: InboundRecord) -> tuple[J, Envelope]:
        job, envelope = decode(record, event)
        if envelope.replay_id is not None:
            at = datetime.fromtimestamp(record.timestamp, UTC)
            job = acceptance.renew(job, at=at, generation=envelope.generation)
        return job, envelope

    return read


def _inner(event: type[E]) -> Callable[[InboundRecord], tuple[E, Envelope]]:
    """Reads what our own stages publish."""
    return lambda record: decode(record, event)


def _open(event: type[E]) -> Callable[[InboundRecord], tuple[E, Envelope]]:
    """Reads what anybody may publish."""
    return lambda record: decode(record, event, lenient=True)
