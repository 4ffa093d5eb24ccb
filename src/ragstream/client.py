"""Asking from Python: publish a query, wait for its answer, follow its deltas.

    async with Client.connect("localhost:9092") as client:
        answer = await client.ask("What is the default of acks?")
        async for item in client.stream("And before 3.0?"):
            ...  # AnswerDelta, AnswerDelta, …, Answer

Errors: ``InvalidEvent`` for a question that can't be asked, ``QueryRejected`` for what the pipeline
did not accept, ``TimeoutError`` when no outcome came in time, ``DependencyUnavailable`` when the
bus is lost. A failed answer is an answer: look at ``answer.status``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ragstream.adapters.kafka import KafkaBus, KafkaConnection
from ragstream.domain.errors import (
    DependencyUnavailable,
    InvalidEvent,
    PermanentError,
    RagstreamError,
)
from ragstream.domain.events import Answer, AnswerDelta, Cancel, Query, Rejection
from ragstream.domain.ports import Bus
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.domain.topics import Topics
from ragstream.wire import decode, encode, event_id, fingerprint, record_key, validated

__all__ = ["Client", "QueryRejected"]

log = logging.getLogger(__name__)

#: Seconds beyond the query's deadline for its (failed) answer to arrive.
GRACE = 5.0


class QueryRejected(RagstreamError):
    """The pipeline did not accept the query; ``rejection`` says why."""

    code = "rejected"

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection


class Client:
    """Asks over a bus. Many questions may be under way at once."""

    def __init__(self, bus: Bus, *, prefix: str = "ragstream", tenant: str = "default") -> None:
        self._bus = bus
        self._topics = Topics(prefix)
        self._tenant = tenant
        self._waiting: dict[str, dict[str, _Waiter]] = {}  # by query_id, by tenant
        self._cancelling: set[asyncio.Task[None]] = set()
        self._lost: RagstreamError | None = None
        self._following: asyncio.Task[None] | None = None
        self._open = AsyncExitStack()

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        bootstrap_servers: str | KafkaConnection,
        *,
        prefix: str = "ragstream",
        tenant: str = "default",
    ) -> AsyncIterator[Client]:
        """A client on Kafka. Raises ``ConfigurationError`` where the topics do not exist."""
        connection = (
            bootstrap_servers
            if isinstance(bootstrap_servers, KafkaConnection)
            else KafkaConnection(bootstrap_servers)
        )
        bus = KafkaBus(connection)
        try:
            async with cls(bus, prefix=prefix, tenant=tenant) as client:
                yield client
        finally:
            await bus.aclose()

    async def __aenter__(self) -> Client:
        # Deltas first: where a bus hands over several topics at once, they should precede the end.
        topics = [self._topics.answer_deltas, self._topics.answers, self._topics.rejections]
        records = await self._open.enter_async_context(self._bus.tail(topics))
        self._following = asyncio.create_task(self._follow(records))
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._cancelling:
            _, late = await asyncio.wait(self._cancelling, timeout=GRACE)
            for task in late:
                task.cancel()
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        await self._open.aclose()

    async def ask(self, text: str, *, timeout: float = 60.0, **fields: Any) -> Answer:
        """The answer. ``timeout``: seconds, which is the query's deadline as well; ``fields``:
        further fields of ``Query``, such as ``conversation_id`` or ``filters``.

        Cancelling the awaiting task cancels the query.
        """
        stream = self.stream(text, timeout=timeout, **{"stream": False, **fields})
        async with aclosing(stream):
            async for item in stream:
                if isinstance(item, Answer):
                    return item
        raise RuntimeError("the stream ended without an answer")

    async def stream(
        self, text: str, *, timeout: float = 60.0, **fields: Any
    ) -> AsyncGenerator[AnswerDelta | Answer, None]:
        """Deltas as they come, the answer last. Leaving the loop early cancels the query.

        A delta with another ``attempt`` than the one before starts the text anew; ones of an
        older attempt are left out. The answer's own text is what counts.
        """
        query = self._query(text, timeout, fields)
        end = asyncio.get_running_loop().time() + timeout + GRACE
        waiter = self._wait_for(query)
        decided = False
        attempt = ""
        try:
            async with asyncio.timeout_at(end):
                await self._bus.publish([self._record(query)])
            while True:
                # Around the wait only: what the caller does meanwhile is not ours to interrupt.
                async with asyncio.timeout_at(end):
                    item = await waiter.inbox.get()
                if isinstance(item, AnswerDelta):
                    if item.attempt >= attempt:
                        attempt = item.attempt
                        yield item
                    continue
                decided = not isinstance(item, RagstreamError)
                if isinstance(item, Answer):
                    yield item
                    return
                raise QueryRejected(item) if isinstance(item, Rejection) else item
        except PermanentError:
            decided = True  # it was never published
            raise
        finally:
            self._forget(query)
            if not decided:
                self._cancel_soon(query)

    async def cancel(self, query_id: str, *, tenant: str | None = None) -> None:
        """Ask the pipeline to stop working on a query. Its outcome may already be decided."""
        cancel = Cancel(query_id=query_id, tenant=tenant or self._tenant)
        record = encode(
            cancel,
            topic=self._topics.control,
            key=record_key(cancel.tenant, cancel.query_id),
            id=event_id(cancel.tenant, cancel.query_id, "cancel"),
            time=datetime.now(UTC),
            subject=query_id,
        )
        await self._bus.publish([record])

    def _query(self, text: str, timeout: float, fields: dict[str, Any]) -> Query:
        if unknown := fields.keys() - Query.model_fields.keys():
            raise InvalidEvent("a query has no such field", field=min(unknown))
        deadline = datetime.now(UTC) + timedelta(seconds=timeout)
        given = {"query_id": str(uuid.uuid4()), "tenant": self._tenant, "deadline": deadline}
        return validated(Query, {**given, **fields, "text": text})

    def _wait_for(self, query: Query) -> _Waiter:
        if self._lost is not None:
            raise self._lost
        waiters = self._waiting.setdefault(query.query_id, {})
        if query.tenant in waiters:
            raise ValueError(f"query {query.query_id} is already under way")
        waiters[query.tenant] = waiter = _Waiter(fingerprint(query))
        return waiter

    def _forget(self, query: Query) -> None:
        waiters = self._waiting[query.query_id]
        del waiters[query.tenant]
        if not waiters:
            del self._waiting[query.query_id]

    def _cancel_soon(self, query: Query) -> None:
        """Nobody waits any more. In the background, since the caller may be in a hurry."""

        async def cancel() -> None:
            with suppress(RagstreamError):
                await self.cancel(query.query_id, tenant=query.tenant)

        task = asyncio.create_task(cancel())
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    def _record(self, query: Query) -> OutboundRecord:
        return encode(
            query,
            topic=self._topics.queries,
            key=record_key(query.tenant, query.ordering_key),
            id=event_id(query.tenant, query.query_id, "query"),
            time=datetime.now(UTC),
            subject=query.query_id,
            source="ragstream.client",
        )

    async def _follow(self, records: AsyncIterator[InboundRecord]) -> None:
        """Hand records to whoever waits for them."""
        try:
            async for record in records:
                self._deliver(record)
        except Exception as error:
            log.exception("lost the connection to the bus")
            self._lost = DependencyUnavailable("bus", str(error) or type(error).__name__)
            for waiters in self._waiting.values():
                for waiter in waiters.values():
                    waiter.inbox.put_nowait(self._lost)

    def _deliver(self, record: InboundRecord) -> None:
        types: dict[str, type[Answer | AnswerDelta | Rejection]] = {
            self._topics.answers: Answer,
            self._topics.answer_deltas: AnswerDelta,
            self._topics.rejections: Rejection,
        }
        # The subject is the query_id: most records are for others and need no parsing.
        subject = (record.header("ce_subject") or b"").decode(errors="replace")
        waiters = self._waiting.get(subject)
        if waiters is None:
            return
        try:
            event, _ = decode(record, types[record.topic])
        except InvalidEvent as error:
            log.warning("unreadable %s[%d]@%d: %s", *record.topic_partition, record.offset, error)
            return
        for tenant, waiter in waiters.items():
            if waiter.concerns(event, tenant):
                waiter.inbox.put_nowait(event)


@dataclass(slots=True)
class _Waiter:
    """Somebody who waits for what becomes of a query."""

    fingerprint: str
    inbox: asyncio.Queue[Answer | AnswerDelta | Rejection | RagstreamError] = field(
        default_factory=asyncio.Queue
    )

    def concerns(self, event: Answer | AnswerDelta | Rejection, tenant: str) -> bool:
        """Whether the event is of this query. A rejection says whose request and which one, as
        far as that could be read."""
        if isinstance(event, Rejection):
            return event.tenant in (None, tenant) and event.fingerprint in (None, self.fingerprint)
        return event.tenant == tenant
