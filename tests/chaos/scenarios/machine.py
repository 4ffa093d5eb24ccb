"""What the machine does to a process: a loop that stands still, a clock that is wrong, a disk
that is full."""

from __future__ import annotations

import asyncio
import resource
from base64 import b64encode
from collections.abc import Callable

from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.adapters.qdrant import QdrantVectorStore
from tests.chaos.arena import Arena, Scenario
from tests.chaos.saboteur import Sabotage
from tests.chaos.waiting import eventually
from tests.support.corpus import DOCUMENTS
from tests.support.topiclog import body

__all__ = ["SCENARIOS"]

#: Exit code of the watchdog.
STALLED = 70
HOUR = 3600.0
ESSAYIST = "essayist"


async def stall(arena: Arena) -> None:
    """A worker's event loop blocked for longer than the watchdog allows."""
    rng, topics = arena.rng, arena.site.topics
    worker = await arena.begin()
    async with arena.loading() as load:
        await load.until_answered(load.total // 20)
        await arena.kill(worker)
        for _ in range(1 if arena.short else 4):
            topic = rng.choice((topics.routed, topics.retrieved, topics.answers))
            sabotage = Sabotage("published", nth=rng.randint(10, 80), topic=topic, do="stall")
            stalling = await arena.launch(sabotage, RAGSTREAM_WORKER__STALL_TIMEOUT="3")
            await arena.sabotaged(stalling, code=STALLED)
        await arena.launch()


async def clock(arena: Arena) -> None:
    """One worker's clock an hour ahead, another's an hour behind."""
    first = await arena.begin()
    ahead = await arena.launch(Sabotage(clock=HOUR))
    behind = await arena.launch(Sabotage(clock=-HOUR))
    await ahead.ready()
    await behind.ready()
    async with arena.loading() as load:
        arena.fault()
        await load.until_answered(load.total // 2)
        # From here on, all is up to those who are wrong.
        await arena.kill(first)


async def disk(arena: Arena) -> None:
    """No room for the vector store while documents are indexed, then room again."""
    site, services, rng = arena.site, arena.services, arena.rng
    topics = site.topics
    await arena.begin()
    async with arena.loading() as load:
        await load.until_answered(load.total // 10)
        # More than fits into the files of 32 MiB that the engine has made in advance, and nothing
        # that it could compress.
        documents = [
            {
                "document_id": f"essay-{number}",
                "tenant": ESSAYIST,
                "text": f"Essay {number} is about {rng.choice(_WORDS)}.",
                "metadata": {"notes": b64encode(rng.randbytes(300_000)).decode()},
            }
            for number in range(150)
        ]
        arena.fault()
        services.limit_files("vectors", 4096)
        for document in documents:
            await site.publish(topics.documents, document)
        stored = await _standing_still(lambda: len(_indexed(arena)), 5 if arena.short else 20)
        assert stored < len(documents), "there was room for all of them"
        alive = services.alive("vectors")
        arena.notes.append(
            f"without room: {stored} documents of {len(documents)} stored, "
            f"vector store {'alive' if alive else 'dead'}"
        )
        if alive:
            services.limit_files("vectors", resource.RLIM_INFINITY)
        else:
            await services.restart("vectors")
    async with TopicAdmin(site.connection) as admin:

        async def acknowledged() -> bool:
            lag = await admin.lag(topics.group("ingest"), topics.documents)
            return not any(lag.values())

        await eventually(acknowledged, "ingest to acknowledge every document")
    store = QdrantVectorStore.connect(arena.services.endpoints.qdrant)
    try:
        collection = site.environment["RAGSTREAM_QDRANT__COLLECTIONS__DOCS"]
        essays = [str(document["document_id"]) for document in documents]
        kept = [bool(await store.revisions(collection, ESSAYIST, essay)) for essay in essays]
    finally:
        await store.close()
    assert all(kept), f"{kept.count(False)} documents are not in the store"
    told = len(_indexed(arena))
    arena.notes.append(f"in the end: all documents stored, {told} index changes told")


def _indexed(arena: Arena) -> set[str]:
    """Essays that an index change tells of."""
    changes = map(body, arena.site.log.of(arena.site.topics.index_changes))
    return {change["document_id"] for change in changes} - {d["document_id"] for d in DOCUMENTS}


async def _standing_still(count: Callable[[], int], seconds: float) -> int:
    """The count, when it has not changed for so long."""
    before = -1
    while (now := count()) != before:
        before = now
        await asyncio.sleep(seconds)
    return now


_WORDS = ("acks", "linger", "rebalance", "tombstone", "partition", "offset", "leader", "replica")

SCENARIOS = (
    Scenario("stall", stall, queries=(1000, 200)),
    Scenario("clock", clock, queries=(1000, 200), statuses=frozenset({"answered", "failed"})),
    Scenario("disk", disk, queries=(500, 50)),
)
