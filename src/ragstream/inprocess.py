"""Running stages on the in-memory bus, inside a program or a test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ragstream.adapters.memory import MemoryBus
from ragstream.delivery.dispatcher import Dispatcher
from ragstream.domain.records import TopicPartition
from ragstream.pipeline import StageUnit

__all__ = ["MemoryRunner"]


class MemoryRunner:
    """Stages on a ``MemoryBus``."""

    def __init__(
        self, bus: MemoryBus, units: Sequence[StageUnit], *, drain: float = 5.0, batch: int = 64
    ) -> None:
        self._bus = bus
        self._units = units
        self._drain = drain
        self._batch = batch
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.dispatchers: dict[str, Dispatcher] = {}

    async def start(self) -> None:
        for unit in self._units:
            flow = _PausedSet()
            dispatcher = Dispatcher(
                unit.handler, window=unit.window, flow=flow, on_fault=self._on_fault
            )
            self.dispatchers[unit.stage] = dispatcher
            self._tasks.append(asyncio.create_task(self._feed(unit, dispatcher, flow)))

    async def stop(self) -> None:
        for unit in self._units:
            dispatcher = self.dispatchers[unit.stage]
            await dispatcher.drain(dispatcher.assigned(), timeout=self._drain)
            self._bus.commit(unit.group, dispatcher.committable())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_failed(self) -> BaseException:
        return await asyncio.shield(self._failure)

    def _on_fault(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_result(error)

    async def _feed(self, unit: StageUnit, dispatcher: Dispatcher, flow: _PausedSet) -> None:
        partitions = self._bus.partitions_of(unit.topic)
        dispatcher.assign(partitions)
        positions = {name: self._bus.committed(unit.group, name) for name in partitions}
        while True:
            growth = asyncio.ensure_future(self._bus.wait_for_growth())
            fed = False
            for name in partitions:
                if name in flow.paused:
                    continue
                for record in self._bus.read(name, positions[name], self._batch):
                    positions[name] = record.offset + 1
                    dispatcher.feed(record)
                    fed = True
            offsets = dispatcher.committable()
            self._bus.commit(unit.group, offsets)
            dispatcher.confirm(offsets)
            if fed:
                growth.cancel()
                await asyncio.sleep(0)
                continue
            resumed = asyncio.ensure_future(flow.resumed.wait())
            await asyncio.wait((growth, resumed), timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            flow.resumed.clear()
            growth.cancel()
            resumed.cancel()


class _PausedSet:
    """Flow control of the in-memory bus."""

    def __init__(self) -> None:
        self.paused: set[TopicPartition] = set()
        self.resumed = asyncio.Event()

    def pause(self, partition: TopicPartition) -> None:
        self.paused.add(partition)

    def resume(self, partition: TopicPartition) -> None:
        self.paused.discard(partition)
        self.resumed.set()
