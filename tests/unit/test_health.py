"""What the health endpoint says of the stages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from ragstream.delivery.dispatcher import Dispatcher, Lease
from ragstream.delivery.limit import FailureLimit
from ragstream.domain.records import InboundRecord, TopicPartition
from ragstream.health import Health
from ragstream.pipeline import StageUnit
from ragstream.settings import Settings


class Handler:
    paused: str | None = None

    def __init__(self) -> None:
        self.limit = FailureLimit("route")

    async def __call__(self, record: InboundRecord, lease: Lease) -> None: ...


class Stage:
    """One stage of a worker; ``heard``: whether the broker has confirmed its partitions."""

    def __init__(self) -> None:
        self.heard = True
        self.handler = Handler()
        self.dispatcher = Dispatcher(
            self.handler,
            flow=SimpleNamespace(pause=print, resume=print),
            on_fault=print,
            certain=lambda: self.heard,
        )

    async def ready(self) -> tuple[int, dict[str, Any]]:
        settings = Settings(_env_file=None, worker={"health_port": 0})
        unit = StageUnit("route", "queries", "group", self.handler)
        runner: Any = SimpleNamespace(dispatchers={"route": self.dispatcher})
        async with (
            Health(settings, [unit], runner) as health,
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{health.port}/readyz") as response,
        ):
            return response.status, (await response.json())["stages"]["route"]


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_not_ready_before_the_first_assignment(stage: Stage) -> None:
    assert await stage.ready() == (503, {"partitions": None, "in_flight": 0, "paused": None})


async def test_ready_with_partitions_or_knowingly_without(stage: Stage) -> None:
    stage.dispatcher.assign([])
    assert (await stage.ready())[0] == 200
    stage.dispatcher.assign([TopicPartition("queries", 0)])
    code, report = await stage.ready()
    assert (code, report["partitions"]) == (200, 1)


async def test_not_ready_while_the_stage_waits(stage: Stage) -> None:
    stage.dispatcher.assign([TopicPartition("queries", 0)])
    stage.handler.paused = "qdrant: refused"
    code, report = await stage.ready()
    assert (code, report["paused"]) == (503, "qdrant: refused")


async def test_not_ready_while_the_broker_is_silent(stage: Stage) -> None:
    stage.dispatcher.assign([TopicPartition("queries", 0)])
    stage.heard = False
    code, report = await stage.ready()
    assert code == 503
    assert report["paused"].startswith("kafka: ")
