"""Publishing a record again on purpose: a dead letter to the topic that it came from, a stored
event to the stage that reads it.

Key, value and headers stay as they were. Added are the id of the replay (the place of the record
that is repeated), how often it was tried, and the generation: a replayed query is a further
generation of it, with an outcome of its own. The same replay a second time is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragstream.delivery.deadletter import DEAD_LETTER_PREFIX
from ragstream.domain.errors import ConflictingRequest
from ragstream.domain.events import Query
from ragstream.domain.ports import Publisher, Replays
from ragstream.domain.records import InboundRecord, OutboundRecord, last_header
from ragstream.wire import (
    REPLAY_ATTEMPT,
    REPLAY_GENERATION,
    REPLAY_ID,
    REPLAY_PREFIX,
    readable_fields,
)

__all__ = ["Letter", "Replayed", "Replayer", "query_of", "repeated", "stored_place"]


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a dead-letter topic, and what its headers tell.

    ``topic``, ``partition``, ``offset``: where the record stood that could not be processed.
    ``error``: class of the error; ``code``: its stable name.
    """

    record: InboundRecord
    topic: str
    partition: int
    offset: int
    stage: str
    error: str
    code: str
    message: str
    attempt: int
    tenant: str
    query_id: str | None

    @classmethod
    def read(cls, record: InboundRecord) -> Letter:
        """Never fails: what is missing in a record that somebody else wrote is left empty."""

        def fact(name: str) -> str:
            return (record.header(DEAD_LETTER_PREFIX + name) or b"").decode(errors="replace")

        tenant, query_id = query_of(record)
        place = fact("topic"), fact("partition"), fact("offset")
        known = bool(place[0]) and place[1].isdigit() and place[2].isdigit()
        return cls(
            record,
            topic=place[0] if known else record.topic.removesuffix(".dlt"),
            partition=int(place[1]) if known else record.partition,
            offset=int(place[2]) if known else record.offset,
            stage=fact("stage"),
            error=fact("exception.class.name").rpartition(".")[2],
            code=fact("exception.code"),
            message=fact("exception.message"),
            attempt=_attempt(record),
            tenant=tenant,
            query_id=query_id,
        )

    @property
    def replay_id(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def hindrance(self) -> str | None:
        """Why it can't be replayed, or None."""
        if self.record.header(DEAD_LETTER_PREFIX + "value.sha256") is not None:
            return "its value was too large to be kept"
        if self.code == ConflictingRequest.code:
            return "another request has its query_id: publish it under a new one"
        return None


@dataclass(slots=True)
class Replayed:
    """How many records were published, and how many had been before."""

    published: int = 0
    already: int = 0

    def __str__(self) -> str:
        return f"{self.published} published, {self.already} had been before"


class Replayer:
    """Publishes records again, each once."""

    def __init__(self, publisher: Publisher, replays: Replays) -> None:
        self._publisher = publisher
        self._replays = replays
        self.done = Replayed()

    async def replay(self, record: InboundRecord, *, topic: str, replay_id: str) -> bool:
        """Publish the record to ``topic`` unless this replay was done before; whether it was
        published."""
        tenant, query_id = query_of(record)
        # What names no query is no generation of one: its own id keeps it apart.
        begun = await self._replays.begin(
            replay_id, tenant, query_id or replay_id, above=_generation(record)
        )
        if begun.finished:
            self.done.already += 1
            return False
        await self._publisher.publish(
            [repeated(record, topic=topic, replay_id=replay_id, generation=begun.generation)]
        )
        await self._replays.finish(replay_id)
        self.done.published += 1
        return True


def stored_place(record: InboundRecord) -> str:
    """Where a record stands, which is the id of its replay: topic/partition/offset."""
    return f"{record.topic}/{record.partition}/{record.offset}"


def repeated(
    record: InboundRecord, *, topic: str, replay_id: str, generation: int
) -> OutboundRecord:
    """The record to publish. The partition is left to the key, as it was at first."""
    kept = tuple(
        (name, value)
        for name, value in record.headers
        if not name.startswith((DEAD_LETTER_PREFIX, REPLAY_PREFIX))
    )
    added = (
        (REPLAY_ID, replay_id.encode()),
        (REPLAY_GENERATION, str(generation).encode()),
        (REPLAY_ATTEMPT, str(_attempt(record) + 1).encode()),
    )
    return OutboundRecord(topic, record.key, record.value, (*kept, *added))


def query_of(record: InboundRecord) -> tuple[str, str | None]:
    """Tenant and query_id of a query, or of an event of an inner topic, as far as they can be
    read."""
    fields = readable_fields(record.value)
    if isinstance(fields.get("query"), dict):
        fields = fields["query"]
    tenant = fields.get("tenant", Query.model_fields["tenant"].default)
    query_id = fields.get("query_id")
    return _readable(tenant) or "", _readable(query_id)


def _readable(name: object) -> str | None:
    return name if isinstance(name, str) and name.isprintable() else None


def _attempt(record: InboundRecord) -> int:
    return _number(record.headers, REPLAY_ATTEMPT)


def _generation(record: InboundRecord) -> int:
    """The generation that the record is of."""
    return max(_number(record.headers, REPLAY_GENERATION), _number(record.headers, "ce_generation"))


def _number(headers: Sequence[tuple[str, bytes]], name: str) -> int:
    value = last_header(headers, name) or b""
    return int(value) if value.isdigit() and len(value) <= 6 else 0
