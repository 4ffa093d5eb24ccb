"""Stopped stages: in memory and in PostgreSQL."""

from __future__ import annotations

import pytest

from ragstream.adapters.memory_state import MemoryStops
from ragstream.adapters.postgres import PostgresStops
from ragstream.domain.ports import StageStops


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def stops(request: pytest.FixtureRequest) -> StageStops:
    if request.param == "memory":
        return MemoryStops()
    return PostgresStops(request.getfixturevalue("database"))


async def test_a_stop_stays_with_its_first_reason_until_it_is_cleared(stops: StageStops) -> None:
    assert await stops.stopped() == {}
    await stops.stop("answer", "first")
    await stops.stop("answer", "second")
    await stops.stop("route", "other")
    assert await stops.stopped() == {"answer": "first", "route": "other"}
    assert await stops.clear("answer")
    assert not await stops.clear("answer")
    assert await stops.stopped() == {"route": "other"}
