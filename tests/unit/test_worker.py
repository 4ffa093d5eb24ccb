"""The Faust side of a worker, as far as it goes without a broker."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import CommitFailedError, ConsumerStoppedError, KafkaConnectionError
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth
from faust.types import TP

from ragstream.adapters.kafka import KafkaConnection, inbound
from ragstream.delivery.dispatcher import Lease, Window
from ragstream.domain.records import InboundRecord, TopicPartition
from ragstream.pipeline import StageUnit
from ragstream.worker import FaustRunner, _Consumer

CONNECTION = KafkaConnection("one:9092, two:9092")
P0, P1 = TopicPartition("t.queries.v1", 0), TopicPartition("t.queries.v1", 1)
Work = Callable[[InboundRecord], Awaitable[None]]


class Consumer:
    """What the worker asks of Faust's consumer."""

    def __init__(self) -> None:
        self.commits: list[dict[TP, int]] = []
        self.takes_commits = True
        self.paused: set[TP] = set()
        self._thread = SimpleNamespace(heard_at=time.monotonic())

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        self.commits.append(dict(offsets))
        return self.takes_commits

    def on_buffer_full(self, tp: TP) -> None:
        self.paused.add(tp)

    def on_buffer_drop(self, tp: TP) -> None:
        self.paused.discard(tp)


class Handler:
    """Remembers the records; ``work`` is done for each."""

    paused = None

    def __init__(self, work: Work | None = None) -> None:
        self.work = work
        self.records: list[InboundRecord] = []

    async def __call__(self, record: InboundRecord, lease: Lease) -> None:
        self.records.append(record)
        if self.work is not None:
            await self.work(record)


class Bench:
    """A worker of one stage, whose partitions are handed out by the test."""

    def __init__(self, work: Work | None = None, *, window: Window | None = None) -> None:
        self.handler = Handler(work)
        unit = StageUnit("route", P0.topic, "t.route", self.handler, window or Window())
        self.runner = FaustRunner(CONNECTION, [unit], drain=0.01)
        (self.app,) = self.runner._apps
        self.consumer = self.app.consumer = Consumer()
        self.dispatcher = self.runner.dispatchers["route"]

    def read(self, offset: int, *, partition: int = 0) -> None:
        """A record comes."""
        self.dispatcher.feed(inbound(fetched(offset, partition=partition)))

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.handler.records]


class Fetching(_Consumer):
    """Faust's consumer with the batches that it comes to fetch. A batch may be an error, or
    something to do before its records are looked at."""

    def __init__(self, bench: Bench, *batches: Any) -> None:
        self.app = bench.app
        self.flow_active = True
        self.seeks = 0
        self.failing_seeks = 0
        self._read_offset = defaultdict(lambda: None)
        self._stopped = asyncio.Event()
        self._batches = list(batches)

    should_stop = property(lambda self: self._stopped.is_set())
    consumer_stopped_errors = (ConsumerStoppedError,)

    async def _wait_next_records(self, timeout: float) -> Any:
        await asyncio.sleep(0)
        batch = self._batches.pop(0)
        if not self._batches:
            self._stopped.set()
        if isinstance(batch, Exception):
            raise batch
        return batch(self) if callable(batch) else batch, None

    async def perform_seek(self) -> None:
        self.seeks += 1
        if self.seeks <= self.failing_seeks:
            raise KafkaConnectionError()

    async def run(self) -> None:
        await self._drain_messages(SimpleNamespace(_stopped=asyncio.Event()))


def fetched(offset: int, *, partition: int = 0, **fields: Any) -> SimpleNamespace:
    given = {"key": None, "value": b"v", "headers": (), "timestamp": 12_500, **fields}
    return SimpleNamespace(topic=P0.topic, partition=partition, offset=offset, **given)


def batch(*messages: SimpleNamespace) -> dict[TP, list[SimpleNamespace]]:
    found: dict[TP, list[SimpleNamespace]] = {}
    for message in messages:
        found.setdefault(TP(message.topic, message.partition), []).append(message)
    return found


async def test_records_reach_the_handler_as_they_are() -> None:
    bench = Bench()
    bench.dispatcher.assign([P0])
    seven = fetched(7, key=b"k", value=None, headers=[("h", b"1"), ("h", b"2")])
    await Fetching(bench, batch(seven, fetched(8)), None, None).run()
    await bench.settle()
    assert bench.handler.records == [
        InboundRecord(P0.topic, 0, 7, 12.5, b"k", None, (("h", b"1"), ("h", b"2"))),
        InboundRecord(P0.topic, 0, 8, 12.5, None, b"v", ()),
    ]


async def test_what_comes_twice_or_is_not_ours_is_left_out() -> None:
    bench = Bench()
    bench.dispatcher.assign([P0])
    first = batch(fetched(5), fetched(7), fetched(3, partition=1))
    await Fetching(bench, first, batch(fetched(5), fetched(6), fetched(8)), None).run()
    await bench.settle()
    assert bench.offsets == [5, 7, 8]


async def test_what_was_fetched_when_a_rebalance_began_is_read_again() -> None:
    def rebalance(consumer: Fetching) -> Any:
        consumer.flow_active = False
        return batch(fetched(99))

    bench = Bench()
    bench.dispatcher.assign([P0])
    consumer = Fetching(bench, batch(fetched(5)), rebalance, None)
    consumer.failing_seeks = 1
    await consumer.run()
    await bench.settle()
    assert bench.offsets == [5]
    assert consumer.seeks == 2


async def test_a_stopped_consumer_is_no_fault_of_a_worker_that_stops() -> None:
    bench = Bench()
    with pytest.raises(ConsumerStoppedError):
        await Fetching(bench, None, ConsumerStoppedError(), None).run()
    bench.app._stopped.set()
    await Fetching(bench, None, ConsumerStoppedError(), None).run()


async def test_only_what_is_done_is_committed_and_only_once() -> None:
    held = asyncio.Event()

    async def work(record: InboundRecord) -> None:
        if record.offset == 6:
            await held.wait()

    bench = Bench(work)
    bench.dispatcher.assign([P0, P1])
    await bench.app.commit()
    assert bench.consumer.commits == []  # nothing to say
    for offset in (5, 6, 7):
        bench.read(offset)
    bench.read(0, partition=1)
    await bench.settle()
    await bench.app.commit()
    held.set()
    await bench.settle()
    await bench.app.commit()
    await bench.app.commit()
    assert bench.consumer.commits == [
        {TP(P0.topic, 0): 6, TP(P0.topic, 1): 1},
        {TP(P0.topic, 0): 8},
    ]


async def test_a_commit_that_fails_comes_again() -> None:
    bench = Bench()
    bench.dispatcher.assign([P0])
    bench.read(5)
    await bench.settle()
    bench.consumer.takes_commits = False
    await bench.app.commit()
    bench.consumer.takes_commits = True
    await bench.app.commit()
    await bench.app.commit()
    assert bench.consumer.commits == [{TP(P0.topic, 0): 6}] * 2


async def test_a_full_partition_is_paused_until_it_has_room() -> None:
    held = asyncio.Event()

    async def work(record: InboundRecord) -> None:
        await held.wait()

    bench = Bench(work, window=Window(per_partition=2))
    bench.dispatcher.assign([P0, P1])
    bench.read(0)
    assert bench.consumer.paused == set()
    bench.read(1)
    assert bench.consumer.paused == {TP(P0.topic, 0)}
    held.set()
    await bench.settle()
    assert bench.consumer.paused == set()


async def test_partitions_are_left_with_what_is_done_and_not_with_the_rest() -> None:
    async def work(record: InboundRecord) -> None:
        if record.offset == 6:
            await asyncio.Event().wait()

    bench = Bench(work)
    bench.dispatcher.assign([P0, P1])
    assert bench.runner.assigned() == {"route": 2}
    bench.read(5)
    bench.read(6)
    await bench.settle()
    await bench.app.leave([P0])
    assert bench.consumer.commits == [{TP(P0.topic, 0): 6}]
    assert bench.runner.assigned() == {"route": 1}
    bench.read(7)
    bench.read(0, partition=1)
    await bench.settle()
    assert bench.offsets == [5, 6, 0]
    await bench.app.leave()
    assert bench.runner.assigned() == {"route": 0}


async def test_what_may_be_somebody_elses_is_not_waited_for() -> None:
    async def work(record: InboundRecord) -> None:
        await asyncio.Event().wait()

    bench = Bench(work)
    bench.app.drain_timeout = 3600.0
    bench.dispatcher.assign([P0])
    bench.read(5)
    await bench.settle()
    bench.consumer._thread.heard_at -= 11
    assert not bench.dispatcher.certain
    await bench.app.leave()
    assert bench.runner.assigned() == {"route": 0}
    assert bench.consumer.commits == []


async def test_the_first_fault_is_what_made_the_worker_fail() -> None:
    async def work(record: InboundRecord) -> None:
        raise RuntimeError(f"defect at {record.offset}")

    bench = Bench(work)
    bench.dispatcher.assign([P0])
    failing = asyncio.create_task(bench.runner.wait_failed())
    await bench.settle()
    assert not failing.done()
    bench.read(5)
    bench.read(6)
    assert str(await failing) == "defect at 5"
    assert str(await bench.runner.wait_failed()) == "defect at 5"
    await bench.app.commit()
    assert bench.consumer.commits == []


# --- how Faust is set up -------------------------------------------------------------------


def units(*stages: str) -> list[StageUnit]:
    return [StageUnit(stage, f"t.{stage}.v1", f"t.{stage}", Handler()) for stage in stages]


async def test_each_stage_has_its_own_group_and_topic() -> None:
    runner = FaustRunner(CONNECTION, units("route", "answer"))
    assert list(runner.dispatchers) == ["route", "answer"]
    assert [app.conf.id for app in runner._apps] == ["t.route", "t.answer"]
    assert [name for app in runner._apps for t in app.topics for name in t.topics] == [
        "t.route.v1",
        "t.answer.v1",
    ]
    assert [str(url) for url in runner._apps[0].conf.broker] == [
        "aiokafka://one:9092",
        "aiokafka://two:9092",
    ]


async def test_faust_waits_for_nothing_and_makes_no_topics() -> None:
    (app,) = FaustRunner(
        CONNECTION, units("route"), session_timeout=20.0, instance_id="host-1"
    )._apps
    conf = app.conf
    assert (conf.stream_wait_empty, conf.topic_allow_declare, conf.web_enabled) == (False,) * 3
    assert conf.topic_disable_leader
    assert conf.table_standby_replicas == 0
    assert conf.broker_session_timeout == 20.0
    assert conf.broker_heartbeat_interval <= 20.0 / 3
    assert conf.broker_request_timeout > conf.broker_session_timeout
    assert conf.consumer_group_instance_id == "host-1"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def test_stages_log_in_as_every_other_client_does(protocol: str, mechanism: str) -> None:
    connection = KafkaConnection(
        "one:9092",
        security_protocol=protocol,
        sasl_mechanism=mechanism,
        sasl_username="ann",
        sasl_password="secret",
    )
    (app,) = FaustRunner(connection, units("route"))._apps
    told = dict(credentials_to_aiokafka_auth(app.conf.broker_credentials))
    wanted = connection.options()
    assert (told.pop("ssl_context", None) is None) is (wanted.get("ssl_context") is None)
    assert told == {name: value for name, value in wanted.items() if name in told}
    assert {name for name in wanted if name.startswith("sasl")} <= told.keys()


# --- committing through aiokafka -----------------------------------------------------------


class Committing:
    """aiokafka's consumer, which commits or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.offsets: dict[tuple[str, int], int] = {}

    async def commit(self, offsets: Mapping[Any, Any]) -> None:
        if self.error is not None:
            raise self.error
        self.offsets = {tuple(name): value.offset for name, value in offsets.items()}


def thread(monkeypatch: pytest.MonkeyPatch, client: Committing, *assigned: TP) -> Any:
    (app,) = FaustRunner(CONNECTION, units("route"))._apps
    found = app.consumer._new_consumer_thread()
    monkeypatch.setattr(found, "assignment", lambda: set(assigned))
    monkeypatch.setattr(found, "_ensure_consumer", lambda: client)
    return found


async def test_only_partitions_that_are_held_are_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    held, gone = TP("t", 0), TP("t", 1)
    client = Committing()
    committing = thread(monkeypatch, client, held)
    assert await committing._commit({held: 5})
    assert client.offsets == {("t", 0): 5}
    assert not await committing._commit({held: 6, gone: 9})
    assert client.offsets == {("t", 0): 6}


@pytest.mark.parametrize("error", [KafkaConnectionError, CommitFailedError, ConsumerStoppedError])
async def test_a_broker_that_is_away_does_not_take_the_worker_down(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    held = TP("t", 0)
    assert not await thread(monkeypatch, Committing(error()), held)._commit({held: 5})


async def test_uncommitted_records_are_not_read() -> None:
    (app,) = FaustRunner(CONNECTION, units("route"))._apps
    consumer = app.consumer._new_consumer_thread()._create_worker_consumer(app.transport)
    assert consumer._isolation_level == "read_committed"
