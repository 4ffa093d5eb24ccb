"""What every chain is told, and what every chain does alike."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from dataclasses import asdict, dataclass, field
from itertools import pairwise

from ragstream.domain.topics import Topics

__all__ = ["PARTITIONS", "Hop", "Order", "chain_topics", "order", "quiet", "termination"]

VARIABLE = "RAGSTREAM_BENCHMARK"
#: Of every topic.
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Hop:
    source: str
    target: str
    group: str


@dataclass(frozen=True, slots=True)
class Order:
    """What a chain has to do. ``work``: seconds that a stage takes; ``slow``: which stage (an
    index of the hop); ``concurrency``: of that stage; ``window``: records that a stage works on at
    once, if not the default. ``postgres``, ``redis``: addresses for peers that use them;
    ``statistics``: file to write to on SIGUSR1."""

    kafka: str
    prefix: str
    postgres: str | None = None
    redis: str | None = None
    work: float = 0.0
    slow: int = 3
    concurrency: int = 0
    window: int = 0
    statistics: str | None = None
    extra: dict[str, str] = field(default_factory=dict)

    def hops(self) -> list[Hop]:
        names = chain_topics(Topics(self.prefix))
        return [
            Hop(source, target, f"{self.prefix}.hop{number}")
            for number, (source, target) in enumerate(pairwise(names))
        ]

    def environment(self) -> dict[str, str]:
        """How the order reaches the process: not on the command line, which others can read."""
        return {VARIABLE: json.dumps(asdict(self))}


def order() -> Order:
    """The order of this process."""
    return Order(**json.loads(os.environ[VARIABLE]))


def chain_topics(topics: Topics) -> list[str]:
    """The five topics between which the four hops lie."""
    return [topics.queries, topics.routed, topics.retrieved, topics.reranked, topics.answers]


def quiet() -> None:
    """Warnings only: the same for all, and what a service would do."""
    logging.basicConfig(level=logging.WARNING)
    for name in ("faust", "mode", "aiokafka", "asyncio", "faststream", "quixstreams"):
        logging.getLogger(name).setLevel(logging.WARNING)


def termination() -> asyncio.Event:
    """Set by SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop
