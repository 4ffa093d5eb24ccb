"""Numbered SQL files, applied once each and in order.

All that are missing are applied in one transaction under an advisory lock: starters that come at
the same time wait for each other, and a failure leaves the schema as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from ragstream.adapters.postgres.database import Connection, Database, translated_errors
from ragstream.domain.errors import ConfigurationError

__all__ = ["Migration", "migrate", "pending"]

_TABLE = """
    CREATE TABLE IF NOT EXISTS migrations (
        number integer PRIMARY KEY,
        name text NOT NULL,
        checksum text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file ``<number>_<name>.sql``."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def shipped() -> tuple[Migration, ...]:
    """The migrations of this release, in order."""
    folder = files("ragstream.adapters.postgres") / "migrations"
    found = []
    for file in folder.iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, file.read_text("utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.number))


async def migrate(
    database: Database, migrations: Sequence[Migration] | None = None, *, timeout: float = 60.0
) -> tuple[Migration, ...]:
    """Apply what is missing and return it.

    ``timeout``: seconds for each statement, waiting for another starter included. Raises
    ``ConfigurationError`` when an applied migration was changed or the schema is newer than this
    release.
    """
    known = shipped() if migrations is None else tuple(migrations)
    lock = int.from_bytes(hashlib.sha256(database.schema.encode()).digest()[:8], signed=True)
    connection = await database.connect(command_timeout=timeout)
    try:
        with translated_errors():
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", lock)
                await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {database.schema}")
                await connection.execute(_TABLE)
                missing = _missing(known, await _applied(connection), database.schema)
                for migration in missing:
                    await connection.execute(migration.sql)
                    await connection.execute(
                        "INSERT INTO migrations (number, name, checksum) VALUES ($1, $2, $3)",
                        migration.number,
                        migration.name,
                        migration.checksum,
                    )
                return missing
    finally:
        connection.terminate()


async def pending(
    database: Database, migrations: Sequence[Migration] | None = None
) -> tuple[Migration, ...]:
    """What ``migrate`` would apply. Changes nothing; raises as ``migrate`` does."""
    known = shipped() if migrations is None else tuple(migrations)

    async def applied(connection: Connection) -> dict[int, str]:
        exists = await connection.fetchval("SELECT to_regclass('migrations') IS NOT NULL")
        return await _applied(connection) if exists else {}

    return _missing(known, await database.run(applied), database.schema)


async def _applied(connection: Connection) -> dict[int, str]:
    rows = await connection.fetch("SELECT number, checksum FROM migrations")
    return {row["number"]: row["checksum"] for row in rows}


def _missing(
    known: tuple[Migration, ...], applied: dict[int, str], schema: str
) -> tuple[Migration, ...]:
    unknown = sorted(applied.keys() - {migration.number for migration in known})
    if unknown:
        raise ConfigurationError(
            f"the database schema {schema!r} is newer than this release: it has migration "
            f"{unknown[-1]}, which is not known here"
        )
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise ConfigurationError(
                f"migration {migration.number} ({migration.name}) was changed after it was "
                f"applied to the database schema {schema!r}"
            )
    return tuple(migration for migration in known if migration.number not in applied)
