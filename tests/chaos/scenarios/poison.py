"""Records that nobody can read."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.chaos.arena import Arena, Scenario

__all__ = ["SCENARIOS"]

#: What may lie on any topic.
GARBAGE: tuple[bytes | None, ...] = (
    None,
    b"",
    b"\xff\xfe\x00",
    b"{",
    b"[]",
    b"null",
    b'"a text"',
    b"<query/>",
    b'{"a": NaN}',
    b'{"a": 1, "a": 2}',
    b"[" * 100_000,
    b"\x00" * 500_000,
)
#: What looks like a query.
QUERIES: tuple[Callable[[int], dict[str, object]], ...] = (
    lambda n: {"query_id": f"bad{n}"},
    lambda n: {"query_id": f"bad{n}", "text": 5},
    lambda n: {"query_id": f"bad{n}", "text": ""},
    lambda n: {"query_id": "", "text": "a question"},
    lambda n: {"query_id": f"bad{n}", "text": "a question", "deadline": "soon"},
    lambda n: {"query_id": f"bad{n}", "text": "a question", "route": "NOWHERE"},
)


async def poison(arena: Arena) -> None:
    """Undecodable records among the load, and a SIGKILL: the DLTs hold exactly those."""
    site, rng, topics = arena.site, arena.rng, arena.site.topics
    inner = (topics.routed, topics.retrieved, topics.reranked, topics.answers, topics.documents)
    worker = await arena.begin()
    count = 40 if arena.short else 200
    goals = sorted(rng.sample(range(arena.load.total * 9 // 10), count))
    async with arena.loading() as load:
        for number, goal in enumerate(goals):
            await load.until_answered(goal)
            topic = topics.queries if rng.random() < 0.5 else rng.choice(inner)
            value = rng.choice(GARBAGE)
            if topic == topics.queries and rng.random() < 0.5:
                value = json.dumps(rng.choice(QUERIES)(number)).encode()
            key = b"key" if value is None or rng.random() < 0.5 else None
            place = await site.publish(topic, value, key=key)
            arena.poison[place.topic, place.partition, place.offset] = value
            await site.publish(topics.control, rng.choice(GARBAGE), key=b"key")
            if number == count // 2:
                await arena.kill(worker)
                worker = await arena.launch()
    arena.notes.append(f"{count} records of poison")


SCENARIOS = (Scenario("poison", poison, queries=(1000, 200)),)
