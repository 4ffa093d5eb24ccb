"""Which record was replayed as which generation: in memory and in PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from ragstream.adapters.memory_state import MemoryLedger, MemoryReplays
from ragstream.adapters.postgres import PostgresLedger, PostgresReplays
from ragstream.domain.ports import OutcomeLedger, Replays
from ragstream.domain.records import OutboundRecord, OutcomeKey, StoredOutcome


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def stores(request: pytest.FixtureRequest) -> tuple[Replays, OutcomeLedger]:
    if request.param == "memory":
        ledger = MemoryLedger()
        return MemoryReplays(ledger), ledger
    database = request.getfixturevalue("database")
    return PostgresReplays(database), PostgresLedger(database)


Stores = tuple[Replays, OutcomeLedger]


async def test_the_same_replay_keeps_its_generation_and_is_finished_once(stores: Stores) -> None:
    replays, _ = stores
    first = await replays.begin("queries/0/1", "acme", "q")
    assert (first.generation, first.finished) == (1, False)
    assert await replays.begin("queries/0/1", "acme", "q") == first
    await replays.finish("queries/0/1")
    again = await replays.begin("queries/0/1", "acme", "q")
    assert (again.generation, again.finished) == (1, True)


async def test_each_replay_of_a_query_is_a_generation_of_its_own(stores: Stores) -> None:
    replays, _ = stores
    begun = await asyncio.gather(
        *(replays.begin(f"queries/0/{offset}", "acme", "q") for offset in range(8))
    )
    assert sorted(one.generation for one in begun) == list(range(1, 9))
    other = await replays.begin("queries/0/99", "other", "q")
    assert other.generation == 1


async def test_a_generation_is_higher_than_any_that_the_query_has_had(stores: Stores) -> None:
    replays, ledger = stores
    outcome = StoredOutcome("f", OutboundRecord("answers", b"k", b"{}"))
    await ledger.record(OutcomeKey("acme", "q", 7), outcome)
    assert (await replays.begin("queries/0/1", "acme", "q")).generation == 8
    assert (await replays.begin("queries/0/2", "acme", "r", above=3)).generation == 4
