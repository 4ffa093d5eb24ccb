"""The outcome ledger: in memory and in PostgreSQL."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstream.adapters.memory_state import MemoryLedger
from ragstream.adapters.postgres import Database, PostgresLedger, migrate
from ragstream.domain.records import OutboundRecord, OutcomeKey, StoredOutcome

KEY = OutcomeKey("acme", "q1", 0)


def outcome(text: str = "answer", **fields) -> StoredOutcome:
    values = {
        "topic": "ragstream.answers.v1",
        "key": b"\x00\xff",
        "value": text.encode(),
        "headers": (("ce_id", b"1"), ("h", b"\x00"), ("h", b""), ("h", b"again")),
        "partition": None,
    }
    return StoredOutcome("f" * 64, OutboundRecord(**(values | fields)))


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def ledger(request):
    if request.param == "memory":
        return MemoryLedger()
    return PostgresLedger(request.getfixturevalue("database"))


async def test_first_outcome_stays(ledger):
    assert await ledger.find(KEY) is None
    assert await ledger.record(KEY, outcome("first")) == outcome("first")
    assert await ledger.record(KEY, outcome("second")) == outcome("first")
    assert await ledger.find(KEY) == outcome("first")


async def test_keys_are_apart(ledger):
    keys = [KEY, KEY._replace(generation=1), KEY._replace(query_id="q2"), KEY._replace(tenant="b")]
    for key in keys:
        await ledger.record(key, outcome(str(key)))
    assert [await ledger.find(key) for key in keys] == [outcome(str(key)) for key in keys]


@pytest.mark.parametrize(
    "stored",
    [
        outcome(headers=()),
        outcome(key=None),
        outcome(key=b""),
        outcome(partition=3),
        outcome(value=bytes(range(256)) * 4096),
    ],
    ids=["no headers", "null key", "empty key", "partition", "1 MB"],
)
async def test_records_come_back_byte_for_byte(ledger, stored):
    await ledger.record(KEY, stored)
    assert await ledger.find(KEY) == stored


async def test_of_many_at_the_same_time_one_wins_and_all_see_it(ledger):
    for generation in range(5):
        key = KEY._replace(generation=generation)
        seen = await asyncio.gather(*(ledger.record(key, outcome(str(n))) for n in range(20)))
        assert set(seen) == {await ledger.find(key)}


headers = st.lists(
    st.tuples(st.text(st.characters(exclude_characters="\x00", codec="utf-8")), st.binary())
).map(tuple)


@pytest.mark.integration
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.none() | st.binary(),
    value=st.binary(),
    headers=headers,
    generation=st.integers(0, 2**62),
)
def test_any_record_comes_back(postgres, key, value, headers, generation):
    async def check():
        database = Database(postgres.dsn, schema="test_any_record")
        try:
            await migrate(database)
            await database.run(lambda connection: connection.execute("TRUNCATE outcomes"))
            ledger = PostgresLedger(database)
            stored = outcome(key=key, value=value, headers=headers)
            await ledger.record(KEY._replace(generation=generation), stored)
            assert await ledger.find(KEY._replace(generation=generation)) == stored
        finally:
            await database.aclose()

    asyncio.run(check())


@pytest.mark.integration
async def test_a_writer_that_waits_for_another_transaction_reads_what_that_one_stored(database):
    """The other's row is not visible in the waiting statement's snapshot."""
    ledger = PostgresLedger(database)
    other = await database.connect(command_timeout=5)
    transaction = other.transaction()
    await transaction.start()
    await other.execute(
        "INSERT INTO outcomes VALUES ($1, $2, $3, 'f', 't', NULL, NULL, 'theirs', '{}', '{}')", *KEY
    )
    ours = asyncio.create_task(ledger.record(KEY, outcome("ours")))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while not await database.run(lambda connection: connection.fetchval(waiting)):
            await asyncio.sleep(0.01)
    assert not ours.done()
    await transaction.commit()
    assert (await ours).record.value == b"theirs"
    await other.close()


@pytest.mark.integration
async def test_a_writer_that_waited_for_a_rollback_wins(database):
    ledger = PostgresLedger(database)
    other = await database.connect(command_timeout=5)
    transaction = other.transaction()
    await transaction.start()
    await other.execute(
        "INSERT INTO outcomes VALUES ($1, $2, $3, 'f', 't', NULL, NULL, 'theirs', '{}', '{}')", *KEY
    )
    ours = asyncio.create_task(ledger.record(KEY, outcome("ours")))
    await asyncio.sleep(0)
    await transaction.rollback()
    assert await ours == outcome("ours")
    await other.close()


@pytest.mark.integration
async def test_purge(database):
    ledger = PostgresLedger(database)
    keys = [KEY._replace(generation=generation) for generation in range(4)]
    for key in keys:
        await ledger.record(key, outcome())
    await database.run(
        lambda connection: connection.execute(
            "UPDATE outcomes SET created_at = now() - interval '30 days' WHERE generation < 3"
        )
    )
    before = datetime.now(UTC) - timedelta(days=7)
    assert await ledger.purge(before, limit=2) == 2
    assert await ledger.purge(before, limit=2) == 1
    assert await ledger.purge(before, limit=2) == 0
    assert await ledger.find(keys[3]) == outcome()
