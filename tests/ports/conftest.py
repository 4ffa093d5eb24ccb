"""Servers for the contract suites, started when the first test asks for one."""

import os

import pytest

from ragstream.adapters import redis
from ragstream.adapters.postgres import Database, migrate
from tests.ports.servers import PostgresProcess, ValkeyProcess


@pytest.fixture(scope="session")
def valkey():
    server = ValkeyProcess()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres():
    server = PostgresProcess()
    yield server
    server.remove()


@pytest.fixture
async def redis_connection(valkey):
    """A key space of its own for each test."""
    prefix = f"test-{os.urandom(4).hex()}"
    connection = redis.connect(
        valkey.url, prefix=prefix, connect_timeout=5.0, operation_timeout=5.0, pause=0.0
    )
    yield connection
    await connection.aclose()


@pytest.fixture
async def database(postgres):
    """A migrated schema of its own for each test."""
    database = Database(postgres.dsn, schema=f"test_{os.urandom(4).hex()}")
    await migrate(database)
    yield database
    await database.run(lambda c: c.execute(f"DROP SCHEMA {database.schema} CASCADE"))
    await database.aclose()
