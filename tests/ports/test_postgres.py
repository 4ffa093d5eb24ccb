"""The database behind ledger and history: outages, errors and migrations."""

import asyncio
import os
import signal

import pytest

from ragstream.adapters.postgres import Database, Migration, PostgresLedger, migrate, pending
from ragstream.adapters.postgres.migrate import shipped
from ragstream.domain.errors import (
    ConfigurationError,
    DependencyUnavailable,
    PermanentError,
    RagstreamError,
)
from tests.ports.servers import PostgresProcess
from tests.ports.test_ledger import KEY, outcome

pytestmark = pytest.mark.integration
ONE = Migration(1, "one", "CREATE TABLE one (n int); INSERT INTO one VALUES (1)")
TWO = Migration(2, "two", "CREATE TABLE two (n int)")


@pytest.fixture
async def empty(postgres):
    """A schema that is not there yet."""
    database = Database(postgres.dsn, schema=f"test_{os.urandom(4).hex()}")
    yield database
    await database.run(lambda c: c.execute(f"DROP SCHEMA IF EXISTS {database.schema} CASCADE"))
    await database.aclose()


# --- outages -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_postgres():
    server = PostgresProcess()
    yield server
    server.remove()


async def test_outage_and_recovery(own_postgres):
    database = Database(own_postgres.dsn)
    await migrate(database)
    ledger = PostgresLedger(database)
    await ledger.record(KEY, outcome("kept"))
    own_postgres.stop()
    for _ in range(2):
        with pytest.raises(DependencyUnavailable) as caught:
            await ledger.record(KEY, outcome("other"))
        assert caught.value.dependency == "postgres"
    with pytest.raises(DependencyUnavailable):
        await database.ping()
    with pytest.raises(DependencyUnavailable):
        await migrate(database)
    own_postgres.start()
    assert await ledger.record(KEY, outcome("other")) == outcome("kept")
    await database.aclose()


async def test_shutdown_in_the_middle_of_a_statement(own_postgres):
    database = Database(own_postgres.dsn)
    sleeper = asyncio.create_task(database.run(lambda c: c.execute("SELECT pg_sleep(30)")))
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)'"
    async with asyncio.timeout(30):
        while not await database.run(lambda c: c.fetchval(sleeping)):
            await asyncio.sleep(0.01)
    await asyncio.to_thread(own_postgres.stop)
    with pytest.raises(DependencyUnavailable):
        await sleeper
    own_postgres.start()
    await database.ping()
    await database.aclose()


async def test_starts_while_the_server_is_down(own_postgres):
    own_postgres.stop()
    database = Database(own_postgres.dsn)
    with pytest.raises(DependencyUnavailable):
        await database.ping()
    own_postgres.start()
    await database.ping()
    await database.aclose()


async def test_a_hanging_server_is_noticed_in_time(own_postgres):
    database = Database(own_postgres.dsn, connect_timeout=0.5, command_timeout=0.5)
    pid = await database.run(lambda c: c.fetchval("SELECT pg_backend_pid()"))
    own_postgres.signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(30):
            for _ in range(2):
                with pytest.raises(DependencyUnavailable):
                    await database.ping()
    finally:
        own_postgres.signal(signal.SIGCONT)
        os.kill(pid, signal.SIGCONT)
    await database.ping()
    await database.aclose()


async def test_a_pool_that_is_used_up_is_noticed_in_time(postgres):
    database = Database(postgres.dsn, connect_timeout=0.1, max_connections=1)
    held = asyncio.Event()

    async def hold(connection):
        held.set()
        await asyncio.sleep(30)

    holder = asyncio.create_task(database.run(hold))
    await held.wait()
    with pytest.raises(DependencyUnavailable):
        await database.ping()
    holder.cancel()
    await asyncio.gather(holder, return_exceptions=True)
    await database.ping()
    await database.aclose()


async def test_first_uses_at_the_same_time(postgres):
    database = Database(postgres.dsn)
    await asyncio.gather(*(database.ping() for _ in range(20)))
    await database.aclose()


async def test_cancelled_work_gives_its_connection_back(postgres):
    database = Database(postgres.dsn, max_connections=1)
    for _ in range(3):
        task = asyncio.create_task(database.run(lambda c: c.execute("SELECT pg_sleep(30)")))
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await database.ping()
    await database.aclose()


# --- errors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "arguments", "expected"),
    [
        ("SELECT 1/0", (), PermanentError),
        ("SELECT $1::int", ("text",), PermanentError),
        ("SELECT $1::text", ("\x00",), PermanentError),
        ("SELEC 1", (), PermanentError),
        ("SELECT * FROM nothing", (), DependencyUnavailable),
        ("INSERT INTO outcomes (tenant) VALUES ('a')", (), PermanentError),
        ("SET transaction_read_only = on; CREATE TABLE t ()", (), DependencyUnavailable),
        ("SET statement_timeout = 1; SELECT pg_sleep(30)", (), DependencyUnavailable),
        ("SELECT pg_terminate_backend(pg_backend_pid())", (), DependencyUnavailable),
    ],
)
async def test_errors(database, statement, arguments, expected):
    with pytest.raises(RagstreamError) as caught:
        await database.run(lambda c: c.execute(statement, *arguments))
    assert type(caught.value) is expected


async def test_a_database_that_is_not_there(postgres):
    database = Database(postgres.dsn.replace("/postgres", "/nowhere"))
    with pytest.raises(DependencyUnavailable, match="nowhere"):
        await database.ping()
    await database.aclose()


async def test_a_dsn_that_makes_no_sense_tells_no_password():
    database = Database("nonsense://user:hunter2@host")
    with pytest.raises(ConfigurationError) as caught:
        await database.ping()
    assert "hunter2" not in f"{caught.value} {database!r}"
    with pytest.raises(ConfigurationError):
        Database("postgresql://host", schema='a"; DROP TABLE x')


# --- migrations ----------------------------------------------------------------------------


async def test_migrations_are_applied_once(empty):
    assert [m.number for m in shipped()] == list(range(1, len(shipped()) + 1))
    assert await pending(empty) == shipped()
    assert await migrate(empty) == shipped()
    assert await migrate(empty) == ()
    assert await pending(empty) == ()


async def test_a_later_release_applies_what_is_new(empty):
    assert await migrate(empty, [ONE]) == (ONE,)
    assert await pending(empty, [ONE, TWO]) == (TWO,)
    assert await migrate(empty, [ONE, TWO]) == (TWO,)
    assert await empty.run(lambda c: c.fetchval("SELECT count(*) FROM one")) == 1


async def test_starters_at_the_same_time(empty):
    applied = await asyncio.gather(*(migrate(empty, [ONE, TWO]) for _ in range(8)))
    assert sorted(applied, key=len) == [()] * 7 + [(ONE, TWO)]


async def test_a_changed_migration_is_an_error(empty):
    await migrate(empty, [ONE])
    changed = Migration(1, "one", ONE.sql + " ")
    for attempt in (migrate, pending):
        with pytest.raises(ConfigurationError, match="changed"):
            await attempt(empty, [changed, TWO])


async def test_a_newer_schema_is_an_error(empty):
    await migrate(empty, [ONE, TWO])
    for attempt in (migrate, pending):
        with pytest.raises(ConfigurationError, match="newer"):
            await attempt(empty, [ONE])


async def test_a_migration_that_fails_leaves_nothing(empty):
    broken = Migration(2, "broken", "CREATE TABLE two (n int); SELECT 1/0")
    with pytest.raises(PermanentError):
        await migrate(empty, [ONE, broken])
    assert await pending(empty, [ONE, TWO]) == (ONE, TWO)
    assert await migrate(empty, [ONE, TWO]) == (ONE, TWO)
