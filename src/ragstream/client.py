"""Asking from Python: publish a query, wait for its answer, follow its deltas.

    async with Client.connect("localhost:9092") as client:
        answer = await client.ask("What is the default of acks?")
        async for item in client.stream("And before 3.0?"):
            ...  # AnswerDelta, AnswerDelta, …, Answer

Errors: ``QueryRejected`` for what the pipeline did not accept, ``TimeoutError`` when no outcome
came in time. A failed answer is an answer: look at ``answer.status``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from ragstream.adapters.kafka import KafkaBus, KafkaConnection
from ragstream.domain.errors import InvalidEvent, RagstreamError
from ragstream.domain.events import Answer, AnswerDelta, Cancel, Event, Query, Rejection
from ragstream.domain.ports import Bus
from ragstream.domain.records import InboundRecord, OutboundRecord
from ragstream.domain.topics import Topics
from ragstream.wire import decode, encode, event_id, record_key

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
        self._waiting: dict[tuple[str, str], asyncio.Queue[Event | BaseException]] = {}
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
        async for item in self.stream(text, timeout=timeout, **{"stream": False, **fields}):
            if isinstance(item, Answer):
                return item
        raise RuntimeError("the stream ended without an answer")

    async def stream(
        self, text: str, *, timeout: float = 60.0, **fields: Any
    ) -> AsyncIterator[AnswerDelta | Answer]:
        """Deltas as they come, the answer last.

        A delta with another ``attempt`` than the one before starts the text anew; ones of an
        older attempt are left out. The answer's own text is what counts.
        """
        query = self._query(text, timeout, fields)
        key = (query.tenant, query.query_id)
        if key in self._waiting:
            raise ValueError(f"query {query.query_id} is already under way")
        inbox: asyncio.Queue[Event | BaseException] = asyncio.Queue()
        self._waiting[key] = inbox
        finished = False
        attempt = ""
        try:
            await self._bus.publish([self._record(query)])
            async with asyncio.timeout(timeout + GRACE):
                while True:
                    item = await inbox.get()
                    if isinstance(item, Answer):
                        finished = True
                        yield item
                        return
                    if isinstance(item, AnswerDelta) and item.attempt >= attempt:
                        attempt = item.attempt
                        yield item
                    elif isinstance(item, Rejection):
                        finished = True
                        raise QueryRejected(item)
                    elif isinstance(item, BaseException):
                        raise item
        finally:
            del self._waiting[key]
            if not finished:
                with suppress(RagstreamError):
                    await asyncio.shield(self.cancel(query.query_id, tenant=query.tenant))

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
        return Query.model_validate(
            {
                "query_id": str(uuid.uuid4()),
                "tenant": self._tenant,
                "deadline": datetime.now(UTC) + timedelta(seconds=timeout),
                **fields,
                "text": text,
            }
        )

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
            for inbox in self._waiting.values():
                inbox.put_nowait(error)

    def _deliver(self, record: InboundRecord) -> None:
        types: dict[str, type[Answer | AnswerDelta | Rejection]] = {
            self._topics.answers: Answer,
            self._topics.answer_deltas: AnswerDelta,
            self._topics.rejections: Rejection,
        }
        # The subject is the query_id: most records are for others and need no parsing.
        subject = (record.header("ce_subject") or b"").decode(errors="replace")
        inboxes = [inbox for (_, id), inbox in self._waiting.items() if id == subject]
        if not inboxes:
            return
        try:
            event, _ = decode(record, types[record.topic])
        except InvalidEvent as error:
            log.warning("unreadable %s[%d]@%d: %s", *record.topic_partition, record.offset, error)
            return
        if isinstance(event, Rejection):
            for inbox in inboxes:
                inbox.put_nowait(event)
        elif (event.tenant, subject) in self._waiting:
            self._waiting[event.tenant, subject].put_nowait(event)
