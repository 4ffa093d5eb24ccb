"""What happens to a query at a stage.

1. Read the record. What can't be read goes to the dead-letter topic, and to the rejections topic
   so that the asker hears of it.
2. Ask the ledger. A query that has its outcome gets the same bytes again; another request under
   its query_id is rejected.
3. Judge deadline and cancellation, then run the stage: transient errors are tried again until the
   deadline, permanent ones become the failed answer.
4. Publish: the job for the next stage, or the outcome, which passes the ledger first.

The handler returns when the broker has confirmed everything, and only then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from ragstream.delivery.cancellation import Cancellations
from ragstream.delivery.deadletter import dead_letter
from ragstream.delivery.dispatcher import Lease
from ragstream.delivery.limit import FailureLimit
from ragstream.delivery.retry import Backoff, Gate, outages, patiently
from ragstream.domain.errors import (
    ConflictingRequest,
    DeadlineExceeded,
    DependencyUnavailable,
    InvalidEvent,
    LeaseRevoked,
    PermanentError,
    QueryCancelled,
    RagstreamError,
    TransientError,
)
from ragstream.domain.events import Answer, Job, Query, Rejection
from ragstream.domain.outcomes import failed_answer, with_timing
from ragstream.domain.ports import Clock, Marks, OutcomeLedger, Publisher
from ragstream.domain.records import InboundRecord, OutboundRecord, OutcomeKey, StoredOutcome
from ragstream.domain.topics import Topics
from ragstream.wire import Envelope, encode, event_id, readable_fields, record_key

__all__ = ["QueryHandler", "QueryStep", "Services"]

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Bytes of an answer event: what the topic takes, less room for headers.
LARGEST_ANSWER = 1_000_000
#: Characters of an id, and bytes of a key, that a rejection repeats, valid or not.
LONGEST_ID = 1000


@dataclass(frozen=True, slots=True)
class Services:
    """What every handler needs. ``replies``: publisher for ``reply_to`` copies, best effort;
    ``failure_limit``: processing failures within ``failure_period`` seconds that stop a stage."""

    topics: Topics
    ledger: OutcomeLedger
    publisher: Publisher
    marks: Marks
    cancellations: Cancellations
    clock: Clock
    backoff: Backoff
    replies: Publisher | None = None
    failure_limit: int = 100
    failure_period: float = 60.0


@dataclass(frozen=True, slots=True)
class QueryStep:
    """A stage between two topics. ``read`` raises ``InvalidEvent``; ``run`` comes to the job for
    ``target`` or to the query's outcome. ``concurrency``: calls of ``run`` at once."""

    stage: str
    source: str
    target: str
    read: Callable[[InboundRecord], tuple[Job, Envelope]]
    run: Callable[[Job], Awaitable[Job | Answer]]
    concurrency: int = 64


class QueryHandler:
    """Handles the records of one ``QueryStep``."""

    def __init__(self, step: QueryStep, services: Services) -> None:
        self._step = step
        self._services = services
        self._slots = asyncio.Semaphore(step.concurrency)
        self.work_gate = Gate(services.backoff, step.stage)
        self.ledger_gate = Gate(services.backoff, step.stage)
        self.publish_gate = Gate(services.backoff, step.stage)
        self.limit = FailureLimit(
            step.stage, limit=services.failure_limit, period=services.failure_period
        )

    @property
    def paused(self) -> str | None:
        """Why the stage waits, or None."""
        waits = (self.limit, self.work_gate, self.ledger_gate, self.publish_gate)
        return next((wait.reason for wait in waits if wait.reason), None)

    async def __call__(self, record: InboundRecord, lease: Lease) -> None:
        try:
            job, envelope = self._step.read(record)
        except InvalidEvent as error:
            await self._reject(record, error, lease)
            return
        except Exception as error:  # a defect of ours: it must not stop what comes after
            log.exception("%s can't read %s", self._step.stage, record.topic)
            await self._dead_letter(record, error, lease)
            return
        try:
            await self._handle(record, job, envelope, lease)
        except ConflictingRequest as error:
            await self._reject(record, error, lease, job)
        except LeaseRevoked:
            raise
        except Exception as error:
            log.exception("%s can't process %s", self._step.stage, job.query_id)
            await self._fail(record, job, error, lease)

    async def _handle(
        self, record: InboundRecord, job: Job, envelope: Envelope, lease: Lease
    ) -> None:
        services = self._services
        key = OutcomeKey(job.tenant, job.query_id, job.generation)
        # Of the request, not of its id alone: another one under this id is no repeat. On the first
        # hop of the record too: who asks again, in a record of its own, is answered again.
        asked = self._step.source == services.topics.queries
        place = (*record.topic_partition, record.offset) if asked else ()
        mark = event_id(*key, job.fingerprint, self._step.stage, *place, "done")
        marked = await services.marks.look(mark, job.tenant, job.query_id)
        if marked.done:
            return  # its output is confirmed: a repeat would only multiply
        stored = await self._ledger(lambda: services.ledger.find(key), lease)
        if stored is not None:
            await self._publish_outcome(job, stored, lease)
            await services.marks.done(mark)
            return
        result = await self._work(record, job, lease, cancelled=marked.cancelled)
        if not isinstance(result, Answer):
            try:
                await self._publish([self._next_record(result, envelope)], lease)
            except PermanentError as error:  # larger than the broker takes
                result = failed_answer(job, error, stage=self._step.stage, now=services.clock.now())
        if isinstance(result, Answer):
            await self._conclude(job, result, envelope, lease)
        await services.marks.done(mark)

    async def _work(
        self, record: InboundRecord, job: Job, lease: Lease, *, cancelled: bool
    ) -> Job | Answer:
        """Run the stage until it succeeds, fails for good, or time is up."""
        clock = self._services.clock
        stage = self._step.stage
        queued = clock.now().timestamp() - record.timestamp
        started = clock.monotonic()
        try:
            if cancelled:
                raise QueryCancelled("cancelled by the asker")
            with self._services.cancellations.watch(job.tenant, job.query_id):
                result = await self._attempts(job, lease)
        except LeaseRevoked:
            raise
        except RagstreamError as error:
            result = failed_answer(job, error, stage=stage, now=clock.now())
        except _Defect as defect:
            await self._dead_letter(record, defect.cause, lease)
            self.limit.count(defect.cause)
            result = failed_answer(job, defect.cause, stage=stage, now=clock.now())
        worked = clock.monotonic() - started
        return result.model_copy(
            update={"timings": with_timing(job, stage, queued=queued, worked=worked)}
        )

    async def _attempts(self, job: Job, lease: Lease) -> Job | Answer:
        attempt = 0
        last: Exception | None = None
        while True:
            remaining = (job.deadline - self._services.clock.now()).total_seconds()
            if remaining <= 0:
                raise _too_late(self._why_late(last))
            try:
                async with asyncio.timeout(remaining) as limit:
                    # In this order: what waits for a slot has not passed the gate yet.
                    async with self._slots, self.work_gate.passage():
                        await self.limit.passage()
                        lease.check()
                        with outages():
                            result = await self._step.run(job)
                if self._slots.locked():
                    # The next one begins its call before this one is concluded.
                    await asyncio.sleep(0)
                return result
            except TimeoutError as error:
                if not limit.expired():
                    raise _Defect(error) from error
                raise _too_late(self._why_late(last)) from None
            except TransientError as error:
                last = error
                if not isinstance(error, DependencyUnavailable):
                    delay = self._services.backoff.delay(attempt, error.retry_after)
                    left = (job.deadline - self._services.clock.now()).total_seconds()
                    await asyncio.sleep(max(0.0, min(delay, left)))
                attempt += 1
            except RagstreamError:
                raise
            except Exception as error:
                raise _Defect(error) from error

    def _why_late(self, last: Exception | None) -> object:
        return self.limit.reason or last or self.work_gate.reason

    async def _conclude(self, job: Job, answer: Answer, envelope: Envelope, lease: Lease) -> None:
        """Store the outcome unless there is one, and publish what is stored."""
        record = self._outcome_record(job, answer, envelope)
        if (size := len(record.value or b"")) > LARGEST_ANSWER:
            # Before it is stored: afterwards it could be neither published nor replaced.
            error = PermanentError(f"the answer has {size} bytes, more than {LARGEST_ANSWER}")
            answer = failed_answer(job, error, stage=self._step.stage, now=answer.completed_at)
            record = self._outcome_record(job, answer, envelope)
        key = OutcomeKey(job.tenant, job.query_id, job.generation)
        mine = StoredOutcome(job.fingerprint, record)
        stored = await self._ledger(lambda: self._services.ledger.record(key, mine), lease)
        await self._publish_outcome(job, stored, lease)

    def _outcome_record(self, job: Job, answer: Answer, envelope: Envelope) -> OutboundRecord:
        return encode(
            answer,
            topic=self._services.topics.answers,
            key=record_key(job.tenant, job.query.ordering_key),
            id=event_id(job.tenant, job.query_id, job.generation, "answer"),
            time=answer.completed_at,
            subject=job.query_id,
            generation=job.generation,
            carried=envelope.carried,
        )

    async def _publish_outcome(self, job: Job, stored: StoredOutcome, lease: Lease) -> None:
        if stored.fingerprint != job.fingerprint:
            raise ConflictingRequest(
                "another request was made under this query_id", field="query_id"
            )
        await self._publish([stored.record], lease)
        query = job.query
        if query.reply_to and self._services.replies:
            copy = replace(stored.record, topic=query.reply_to, partition=query.reply_partition)
            try:
                await self._services.replies.publish([copy])
            except Exception as error:  # whatever it is: the outcome itself is published
                log.warning("no copy of %s to %s: %s", query.query_id, query.reply_to, error)

    def _next_record(self, job: Job, envelope: Envelope) -> OutboundRecord:
        return encode(
            job,
            topic=self._step.target,
            key=record_key(job.tenant, job.query.ordering_key),
            id=event_id(job.tenant, job.query_id, job.generation, self._step.stage),
            time=self._services.clock.now(),
            subject=job.query_id,
            generation=job.generation,
            carried=envelope.carried,
        )

    async def _fail(self, record: InboundRecord, job: Job, error: Exception, lease: Lease) -> None:
        """What the stage itself did not raise: the dead-letter topic, and an answer all the same,
        without the headers that came along in case they are what is wrong."""
        await self._dead_letter(record, error, lease)
        self.limit.count(error)
        now = self._services.clock.now()
        answer = failed_answer(job, error, stage=self._step.stage, now=now)
        try:
            await self._conclude(job, answer, Envelope(), lease)
        except LeaseRevoked:
            raise
        except Exception:
            log.exception("%s has no outcome for %s", self._step.stage, job.query_id)

    async def _reject(
        self,
        record: InboundRecord,
        error: InvalidEvent,
        lease: Lease,
        job: Job | None = None,
    ) -> None:
        topics = self._services.topics
        records = [dead_letter(record, error, stage=self._step.stage, topic=self._dlt)]
        asker = _Asker(job.query_id, job.tenant) if job else _asker(record)
        if asker is not None:
            rejection = Rejection(
                query_id=asker.query_id,
                tenant=asker.tenant,
                fingerprint=job.fingerprint if job else None,
                message=str(error),
                code=error.code,
                field=error.field,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )
            place = (record.topic, record.partition, record.offset)
            records.append(
                encode(
                    rejection,
                    topic=topics.rejections,
                    key=(record.key or b"")[:LONGEST_ID] or None,
                    id=event_id(*place, "rejection"),
                    time=self._services.clock.now(),
                    subject=asker.query_id,
                )
            )
        log.warning("rejected %s[%d]@%d: %s", *record.topic_partition, record.offset, error)
        await self._publish(records, lease)

    async def _dead_letter(self, record: InboundRecord, error: BaseException, lease: Lease) -> None:
        letter = dead_letter(record, error, stage=self._step.stage, topic=self._dlt)
        await self._publish([letter], lease)

    @property
    def _dlt(self) -> str:
        return self._services.topics.dlt(self._step.source)

    async def _publish(self, records: list[OutboundRecord], lease: Lease) -> None:
        await patiently(
            lambda: self._services.publisher.publish(records),
            lease=lease,
            backoff=self._services.backoff,
            gate=self.publish_gate,
        )

    async def _ledger(self, call: Callable[[], Awaitable[T]], lease: Lease) -> T:
        return await patiently(
            call, lease=lease, backoff=self._services.backoff, gate=self.ledger_gate
        )


class _Defect(Exception):
    """A stage raised something that nobody meant to raise."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _too_late(reason: object) -> DeadlineExceeded:
    return DeadlineExceeded(f"the deadline passed ({reason})" if reason else "the deadline passed")


class _Asker(NamedTuple):
    """Whom a rejection concerns."""

    query_id: str | None
    tenant: str | None


def _asker(record: InboundRecord) -> _Asker | None:
    """Who asked what is not a valid query. None if neither an id nor a reply address can be made
    out: nobody could be told."""
    fields = readable_fields(record.value)
    query_id = _identifier(fields.get("query_id"))
    if query_id is None and not isinstance(fields.get("reply_to"), str):
        return None
    return _Asker(query_id, _identifier(fields.get("tenant", Query.model_fields["tenant"].default)))


def _identifier(value: object) -> str | None:
    """An id as its owner would look for it, valid or not."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**64:
        return str(value)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID:
        return None
    broken = any(c == "\ufffd" or "\ud800" <= c <= "\udfff" for c in value)
    return None if broken else value
