"""The dispatcher: runs records of a stage in key order, many keys at once.

It is fed records by whatever reads them (a Kafka consumer, the in-memory bus), hands each to a
handler, and says which offsets may be committed. It knows neither Kafka nor what the handler does.

- Records of one key run one after the other, in order; keys run side by side. Records without a
  key run side by side.
- At most ``Window.records`` run at a time; a partition that is too far ahead of its committable
  offset, or has too much queued behind one key, is paused.
- A handler that returns has done all of its work; one that raises has not, and its record keeps
  the partition from advancing.
- On revocation the partition's intake stops, running handlers get ``drain`` seconds, the rest are
  cancelled. A ``Lease`` tells a handler whether its partition is still ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ragstream.delivery.tracker import Delivered, OffsetTracker
from ragstream.domain.errors import LeaseRevoked
from ragstream.domain.records import InboundRecord, TopicPartition

__all__ = ["Dispatcher", "FlowControl", "Handler", "Lease", "Window"]

log = logging.getLogger(__name__)

#: Seconds between two looks whether a lease in doubt is certain again.
_DOUBT_INTERVAL = 0.05


class FlowControl(Protocol):
    """How the dispatcher slows its source down."""

    def pause(self, partition: TopicPartition) -> None: ...

    def resume(self, partition: TopicPartition) -> None: ...


@dataclass(frozen=True, slots=True)
class Window:
    """Bounds. ``records``: handlers running at once; ``per_partition``: records read beyond the
    committable offset; ``per_key``: records waiting behind one key."""

    records: int = 128
    per_partition: int = 512
    per_key: int = 64


class Lease:
    """The right to publish for a partition during one assignment of it.

    ``certain``: whether the assignment is known to last. A process that was suspended may have
    lost its partitions long before it is told.
    """

    __slots__ = ("_certain", "_partition", "held")

    def __init__(
        self, partition: TopicPartition, certain: Callable[[], bool] = lambda: True
    ) -> None:
        self._partition = partition
        self._certain = certain
        self.held = True

    def check(self) -> None:
        """Raises ``LeaseRevoked``."""
        if not self.held:
            raise LeaseRevoked(f"{self._partition.topic}[{self._partition.partition}] moved away")

    async def confirmed(self) -> None:
        """Await immediately before each publish: returns once the lease is certain. Raises
        ``LeaseRevoked``."""
        while self.held and not self._certain():  # noqa: ASYNC110 - told by another thread
            await asyncio.sleep(_DOUBT_INTERVAL)
        self.check()


Handler = Callable[[InboundRecord, Lease], Awaitable[None]]


class _Partition:
    """State of one partition during one assignment."""

    def __init__(self, partition: TopicPartition, certain: Callable[[], bool]) -> None:
        self.lease = Lease(partition, certain)
        self.tracker = OffsetTracker()
        self.lanes: dict[bytes, deque[tuple[InboundRecord, Delivered]]] = {}
        self.running: set[asyncio.Task[None]] = set()
        self.accepting = True
        self.paused = False
        self.crowded: set[bytes] = set()
        self.committed: int | None = None


class Dispatcher:
    """See the module. ``on_fault`` is called with what a handler raised unexpectedly: its record
    can't be acknowledged, so whoever owns the dispatcher has to start the stage anew.
    ``certain``: whether what is assigned is known to be ours still."""

    def __init__(
        self,
        handler: Handler,
        *,
        window: Window | None = None,
        flow: FlowControl,
        on_fault: Callable[[BaseException], None],
        certain: Callable[[], bool] = lambda: True,
    ) -> None:
        self._handler = handler
        self._certain = certain
        self._window = window or Window()
        self._flow = flow
        self._on_fault = on_fault
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._ready: deque[tuple[_Partition, InboundRecord, Delivered]] = deque()
        self._running = 0
        self._progress_at = 0.0
        self.finished = 0
        self.was_assigned = False

    @property
    def in_flight(self) -> int:
        """Records read whose partition has not advanced over them yet."""
        return sum(len(partition.tracker) for partition in self._partitions.values())

    @property
    def certain(self) -> bool:
        """Whether what is assigned is known to be ours still."""
        return self._certain()

    @property
    def running(self) -> int:
        return self._running

    def standstill(self) -> float:
        """Seconds in which handlers ran and none came to an end."""
        if not self._running:
            return 0.0
        return asyncio.get_running_loop().time() - self._progress_at

    def note_progress(self) -> None:
        """Count the standstill from now on: nothing has finished, and that is right."""
        self._progress_at = asyncio.get_running_loop().time()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Start accepting records of these partitions, in a new epoch."""
        self.was_assigned = True
        for name in partitions:
            if (former := self._partitions.get(name)) is not None:
                self._abandon(former)
            self._partitions[name] = _Partition(name, self._certain)

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._partitions)

    def feed(self, record: InboundRecord) -> None:
        """Take a record. Never blocks; a record of a partition that is not ours is dropped
        (whoever owns it reads it)."""
        partition = self._partitions.get(record.topic_partition)
        if partition is None or not partition.accepting:
            return
        item = partition.tracker.deliver(record.offset)
        key = record.key
        if key is None:
            self._start(partition, record, item)
        elif (lane := partition.lanes.get(key)) is None:
            partition.lanes[key] = deque()
            self._start(partition, record, item)
        else:
            lane.append((record, item))
            if len(lane) >= self._window.per_key:
                partition.crowded.add(key)
        self._regulate(record.topic_partition, partition)

    def committable(self) -> dict[TopicPartition, int]:
        """Offsets that may be committed and have not been confirmed as committed."""
        found = {}
        for name, partition in self._partitions.items():
            position = partition.tracker.position
            if position is not None and position != partition.committed:
                found[name] = position
        return found

    def confirm(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The commit of these offsets succeeded."""
        for name, offset in offsets.items():
            if (partition := self._partitions.get(name)) is not None:
                partition.committed = offset

    async def drain(self, partitions: Iterable[TopicPartition], *, timeout: float) -> None:
        """Stop intake, let running handlers finish for ``timeout`` seconds, cancel the rest.

        Afterwards ``committable`` still tells the final offsets; call ``release`` when they are
        committed.
        """
        names = [name for name in partitions if name in self._partitions]
        leaving = [self._partitions[name] for name in names]
        for partition in leaving:
            partition.accepting = False
            partition.lanes = {key: deque() for key in partition.lanes}
        gone = set(map(id, leaving))
        self._ready = deque(item for item in self._ready if id(item[0]) not in gone)
        running = {task for partition in leaving for task in partition.running}
        if running:
            _, late = await asyncio.wait(running, timeout=timeout)
            # From here on nothing may be published, even by a handler that ignores cancellation.
            for partition in leaving:
                partition.lease.held = False
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)
        for partition in leaving:
            partition.lease.held = False

    def _abandon(self, partition: _Partition) -> None:
        """End an assignment that was never drained: its records are read again."""
        partition.accepting = False
        partition.lease.held = False
        self._ready = deque(item for item in self._ready if item[0] is not partition)
        for task in partition.running:
            task.cancel()

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that were drained."""
        for name in partitions:
            self._partitions.pop(name, None)

    def _start(self, partition: _Partition, record: InboundRecord, item: Delivered) -> None:
        if self._running >= self._window.records:
            self._ready.append((partition, record, item))
            return
        if not self._running:
            self.note_progress()
        self._running += 1
        task = asyncio.create_task(self._run(partition, record, item))
        partition.running.add(task)
        task.add_done_callback(partition.running.discard)

    async def _run(self, partition: _Partition, record: InboundRecord, item: Delivered) -> None:
        try:
            await self._handler(record, partition.lease)
        except LeaseRevoked:
            log.info("left %s@%d to its new owner", record.topic, record.offset)
        except asyncio.CancelledError as error:
            log.info("cancelled %s@%d", record.topic, record.offset)
            if partition.accepting:
                # Nobody here did it: something that the handler waited for was cancelled.
                self._on_fault(error)
        except Exception as error:
            log.exception("handler of %s@%d failed", record.topic, record.offset)
            self._on_fault(error)
        else:
            partition.tracker.finish(item)
            self.finished += 1
        finally:
            self._running -= 1
            self.note_progress()
            self._next(partition, record)

    def _next(self, partition: _Partition, record: InboundRecord) -> None:
        if (key := record.key) is not None and (lane := partition.lanes.get(key)) is not None:
            if lane and partition.accepting:
                following, item = lane.popleft()
                if len(lane) <= self._window.per_key // 2:
                    partition.crowded.discard(key)
                self._ready.append((partition, following, item))
            else:
                del partition.lanes[key]
                partition.crowded.discard(key)
        while self._ready and self._running < self._window.records:
            self._start(*self._ready.popleft())
        self._regulate(record.topic_partition, partition)

    def _regulate(self, name: TopicPartition, partition: _Partition) -> None:
        """Pause a partition that is full, resume it at half."""
        if self._partitions.get(name) is not partition:
            return
        ahead = len(partition.tracker)
        full = ahead >= self._window.per_partition or bool(partition.crowded)
        if full and not partition.paused:
            partition.paused = True
            self._flow.pause(name)
        elif partition.paused and not full and ahead <= self._window.per_partition // 2:
            partition.paused = False
            self._flow.resume(name)
