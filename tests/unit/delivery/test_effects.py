"""What happens to a record whose stage has an effect, on the in-memory bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import orjson
import pytest

from ragstream.adapters.memory import MemoryBus
from ragstream.adapters.memory_state import MemoryLedger, MemoryMarks
from ragstream.delivery.cancellation import Cancellations
from ragstream.delivery.deadletter import DEAD_LETTER_PREFIX
from ragstream.delivery.dispatcher import Lease
from ragstream.delivery.effects import EffectHandler, EffectStep
from ragstream.delivery.queries import Services
from ragstream.delivery.retry import Backoff
from ragstream.domain.errors import (
    DependencyUnavailable,
    InvalidEvent,
    LeaseRevoked,
    PartialFailure,
    PermanentError,
    TransientError,
)
from ragstream.domain.events import DocumentEvent
from ragstream.domain.records import InboundRecord, OutboundRecord, TopicPartition
from ragstream.domain.topics import Topics
from ragstream.wire import decode
from tests.support.stages import NOW, SetClock

TOPICS = Topics("test")
DOWN = DependencyUnavailable("qdrant", "refused")


class Outage(MemoryBus):
    """A bus that fails as often as it is told to before it takes anything."""

    def __init__(self) -> None:
        super().__init__(TOPICS.all())
        self.failures: list[Exception] = []

    async def publish(self, records: Sequence[OutboundRecord]) -> None:
        if self.failures:
            raise self.failures.pop(0)
        await super().publish(records)


class Bench:
    """The ingest step. Each call raises the next of ``errors``, or has its effect."""

    def __init__(
        self, *errors: BaseException, concurrency: int = 16, failure_limit: int = 100
    ) -> None:
        self.bus = Outage()
        self.errors = list(errors)
        self.calls = 0
        self.effects: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.outputs = 1
        self.run = self.work
        self.lease = Lease(TopicPartition(TOPICS.documents, 0))
        services = Services(
            topics=TOPICS,
            ledger=MemoryLedger(),
            publisher=self.bus,
            marks=MemoryMarks(),
            cancellations=Cancellations(),
            clock=SetClock(),
            backoff=Backoff(base=0.0001, limit=0.0002),
            failure_limit=failure_limit,
        )
        step = EffectStep(
            "ingest", TOPICS.documents, _read, lambda event: self.run(event), concurrency
        )
        self.handler = EffectHandler(step, services)

    async def work(self, event: DocumentEvent) -> Sequence[OutboundRecord]:
        self.calls += 1
        self.meanwhile()
        if self.errors:
            raise self.errors.pop(0)
        self.effects.append(event.document_id)
        return [OutboundRecord(TOPICS.index_changes, b"k", b"changed")] * self.outputs

    async def handle(self, value: bytes | None = b'{"document_id": "d", "text": "t"}') -> None:
        headers = (("x-origin", b"crawler"),)
        record = InboundRecord(TOPICS.documents, 0, 42, NOW.timestamp(), b"k", value, headers)
        await self.handler(record, self.lease)

    def told(self) -> list[bytes | None]:
        return [record.value for record in self.bus.records(TOPICS.index_changes)]

    def dead(self) -> list[InboundRecord]:
        return self.bus.records(TOPICS.dlt(TOPICS.documents))

    def letter(self) -> dict[str, str]:
        """What the one dead letter says."""
        (record,) = self.dead()
        return {
            name.removeprefix(DEAD_LETTER_PREFIX): value.decode() for name, value in record.headers
        }


def _read(record: InboundRecord) -> tuple[DocumentEvent, object]:
    return decode(record, DocumentEvent, lenient=True)


async def test_the_effect_comes_about_and_is_told() -> None:
    bench = Bench()
    await bench.handle()
    assert (bench.effects, bench.told(), bench.dead()) == (["d"], [b"changed"], [])
    bench.outputs = 0
    await bench.handle()
    assert (bench.effects, bench.told()) == (["d", "d"], [b"changed"])


@pytest.mark.parametrize(
    "error",
    [
        TransientError("busy"),
        DOWN,
        PartialFailure({"docs": DOWN, "news": TransientError("busy")}),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_may_succeed_is_tried_again_without_end(error: Exception) -> None:
    bench = Bench(*[error] * 20)
    await bench.handle()
    assert (bench.calls, bench.effects, bench.told(), bench.dead()) == (21, ["d"], [b"changed"], [])
    assert bench.handler.paused is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PermanentError("refused"), "permanent"),
        (InvalidEvent("no such kind", field="kind"), "invalid_event"),
        (PartialFailure({"docs": DOWN, "news": PermanentError("gone")}), "partial_failure"),
        (KeyError("defect"), "internal"),
    ],
)
async def test_what_will_not_succeed_is_a_dead_letter_at_once(error: Exception, code: str) -> None:
    bench = Bench(error)
    await bench.handle()
    assert (bench.calls, bench.effects, bench.told()) == (1, [], [])
    (record,) = bench.dead()
    assert (record.key, record.value) == (b"k", b'{"document_id": "d", "text": "t"}')
    said = bench.letter()
    assert said["x-origin"] == "crawler"
    assert (said["topic"], said["partition"], said["offset"]) == (TOPICS.documents, "0", "42")
    assert (said["stage"], said["exception.code"]) == ("ingest", code)
    assert said["exception.message"] == str(error)


@pytest.mark.parametrize(
    "value", [None, b"", b"\xff", b"[]", b"{}", b'{"document_id": "d"}', b"\x00\x00\x00\x00\x01"]
)
async def test_what_can_not_be_read_is_a_dead_letter(value: bytes | None) -> None:
    bench = Bench()
    await bench.handle(value)
    assert bench.calls == 0
    assert [record.value for record in bench.dead()] == [value]
    assert bench.letter()["exception.code"] == "invalid_event"


async def test_one_bad_record_does_not_stop_the_next() -> None:
    bench = Bench(RuntimeError("defect"))
    await bench.handle()
    await bench.handle()
    assert (bench.effects, len(bench.dead())) == (["d"], 1)


@pytest.mark.parametrize("errors", [[], [PermanentError("refused")]], ids=["output", "dead letter"])
async def test_publishing_is_repeated_and_the_effect_is_not(errors: list[Exception]) -> None:
    bench = Bench(*errors)
    bench.bus.failures = [DependencyUnavailable("kafka", "no confirmation")] * 3
    await bench.handle()
    assert bench.calls == 1
    assert (len(bench.told()), len(bench.dead())) == ((0, 1) if errors else (1, 0))


async def test_a_publish_that_is_refused_is_never_taken_for_done() -> None:
    bench = Bench()
    bench.bus.failures = [PermanentError("too large")]
    with pytest.raises(PermanentError):
        await bench.handle()


# --- partitions that move away -------------------------------------------------------------


@pytest.mark.parametrize("errors", [[], [DOWN], [TransientError("busy")], [PermanentError("no")]])
async def test_nothing_is_published_for_a_partition_that_moved_away(
    errors: list[Exception],
) -> None:
    bench = Bench(*errors)

    def move_away() -> None:
        bench.lease.held = False

    bench.meanwhile = move_away
    with pytest.raises(LeaseRevoked):
        await bench.handle()
    assert bench.calls == 1
    assert (bench.told(), bench.dead()) == ([], [])


async def test_nothing_is_begun_for_a_partition_that_moved_away() -> None:
    bench = Bench()
    bench.lease.held = False
    with pytest.raises(LeaseRevoked):
        await bench.handle()
    assert bench.calls == 0


async def test_what_is_cancelled_is_not_done_and_no_dead_letter() -> None:
    bench = Bench(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await bench.handle()
    assert (bench.told(), bench.dead()) == ([], [])


# --- pausing -------------------------------------------------------------------------------


async def test_the_stage_says_what_it_waits_for() -> None:
    bench = Bench(DOWN, DOWN)
    seen: list[str | None] = []
    bench.meanwhile = lambda: seen.append(bench.handler.paused)
    await bench.handle()
    assert seen == [None, str(DOWN), str(DOWN)]
    assert bench.handler.paused is None


async def test_while_a_dependency_is_down_one_record_probes_it() -> None:
    bench = Bench(*[DOWN] * 9)
    probes, most = 0, 0

    async def run(event: DocumentEvent) -> Sequence[OutboundRecord]:
        nonlocal probes, most
        probing = bench.handler.paused is not None
        probes += probing
        most = max(most, probes)
        await asyncio.sleep(0)
        probes -= probing
        return await bench.work(event)

    bench.run = run
    await asyncio.gather(*(bench.handle() for _ in range(4)))
    assert most == 1
    assert len(bench.effects) == 4


async def test_no_more_run_at_once_than_allowed() -> None:
    bench = Bench(concurrency=2)
    running, most = 0, 0

    async def run(event: DocumentEvent) -> Sequence[OutboundRecord]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await bench.work(event)

    bench.run = run
    documents = [orjson.dumps({"document_id": str(n), "text": "t"}) for n in range(6)]
    await asyncio.gather(*map(bench.handle, documents))
    assert most == 2
    assert len(bench.told()) == 6


async def test_a_stage_that_keeps_failing_stops_until_it_is_cleared() -> None:
    bench = Bench(*[PermanentError("refused")] * 2, failure_limit=1)
    for _ in range(9):
        await bench.handle(b"rubbish")  # whoever publishes it can't stop the stage
    await bench.handle()
    assert bench.handler.paused is None
    await bench.handle()
    assert "ragstream dlt resume ingest" in (bench.handler.paused or "")
    waiting = asyncio.create_task(bench.handle())
    for _ in range(5):
        await asyncio.sleep(0)
    assert (bench.calls, waiting.done()) == (2, False)
    bench.handler.limit.resume()
    await waiting
    assert (bench.effects, bench.handler.paused) == (["d"], None)
