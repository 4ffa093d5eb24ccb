"""Where the benchmarks run: the development stack's servers, and fresh topics for each chain."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.gauge import Gauge
from benchmarks.peers.common import PARTITIONS, Order
from benchmarks.process import ChainProcess, chain_process
from ragstream.adapters.kafka import KafkaConnection
from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.devstack.stack import Stack
from ragstream.devstack.state import Endpoints, endpoints_of
from ragstream.domain.declarations import declare
from ragstream.domain.topics import Topics

__all__ = ["PEERS", "Peer", "Site", "running_site"]


@dataclass(frozen=True, slots=True)
class Peer:
    """A chain to run. ``postgres``, ``redis``: whether it gets the address of the server."""

    name: str
    module: str
    postgres: bool = False
    redis: bool = False


#: By name, in the order of the tables.
PEERS = {
    peer.name: peer
    for peer in (
        Peer("raw", "benchmarks.peers.raw"),
        Peer("quix", "benchmarks.peers.quix"),
        Peer("faststream", "benchmarks.peers.fast_stream"),
        Peer("faust", "benchmarks.peers.plain_faust"),
        Peer("ragstream", "benchmarks.peers.ragstream_chain"),
        Peer("ragstream-pg", "benchmarks.peers.ragstream_chain", postgres=True),
        Peer("ragstream-full", "benchmarks.peers.ragstream_chain", postgres=True, redis=True),
    )
}


class Site:
    """Running servers. ``folder``: for logs and whatever else lives as long."""

    def __init__(self, endpoints: Endpoints, folder: Path) -> None:
        if endpoints.kafka is None:
            sys.exit(f"the benchmarks need Kafka: {endpoints.reason}")
        self.kafka = endpoints.kafka
        self.endpoints = endpoints
        self.folder = folder

    async def order(self, peer: Peer) -> Order:
        """An order for a chain on topics of its own, which are made here."""
        prefix = f"b{uuid.uuid4().hex[:10]}"
        declared = declare(Topics(prefix), "development", partitions=PARTITIONS)
        async with TopicAdmin(KafkaConnection(self.kafka)) as admin:
            await admin.apply(declared)
        return Order(
            kafka=self.kafka,
            prefix=prefix,
            postgres=self.endpoints.postgres if peer.postgres else None,
            redis=self.endpoints.redis if peer.redis else None,
        )

    @asynccontextmanager
    async def process(self, peer: Peer, order: Order) -> AsyncIterator[ChainProcess]:
        """A chain's process; it does not outlive the context."""
        log = self.folder / f"{peer.name}-{order.prefix}-{uuid.uuid4().hex[:4]}.log"
        async with chain_process(peer.module, order.environment(), log) as process:
            yield process

    @asynccontextmanager
    async def chain(
        self, peer: Peer, **options: object
    ) -> AsyncIterator[tuple[ChainProcess, Gauge]]:
        """A chain that works, warm. ``options``: fields of its ``Order``."""
        order = replace(await self.order(peer), **options)  # type: ignore[arg-type]
        async with self.gauge(order) as gauge, self.process(peer, order) as process:
            await gauge.warm_up(process)
            yield process, gauge

    @asynccontextmanager
    async def gauge(self, order: Order, *, at: int = -1) -> AsyncIterator[Gauge]:
        """A gauge from the chain's first topic to its last, or to the one with the index ``at``."""
        gauge = Gauge(order, at=at)
        await gauge.start()
        try:
            yield gauge
        finally:
            await gauge.aclose()


@asynccontextmanager
async def running_site(state: Path | None = None) -> AsyncIterator[Site]:
    """Servers of their own on a temporary folder, or those that run on a ``state`` folder."""
    folder = await asyncio.to_thread(_folder)
    try:
        if state is not None:
            yield Site(endpoints_of(state), folder)
            return
        async with Stack(folder / "state") as stack:
            yield Site(stack.endpoints, folder)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ragstream-bench-"))
    folder.chmod(0o711)  # the database may run as another user
    return folder
