"""The outcome ledger: the one insert-if-absent that decides what a query's outcome is."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import asyncpg

from ragstream.adapters.postgres.database import Connection, Database
from ragstream.domain.errors import RagstreamError, TransientError
from ragstream.domain.records import OutboundRecord, OutcomeKey, StoredOutcome

__all__ = ["PostgresLedger", "keep_purging"]

log = logging.getLogger(__name__)

_COLUMNS = "fingerprint, topic, partition, record_key, value, header_names, header_values"

_FIND = f"""
    SELECT {_COLUMNS} FROM outcomes WHERE tenant = $1 AND query_id = $2 AND generation = $3
"""  # noqa: S608 (constant text)

# One round trip in the common cases: the row is ours, or it was there when the statement began.
# A row that another transaction commits while the statement waits for it is neither returned by
# the insertion nor visible in the statement's snapshot; a second look finds it.
_RECORD = f"""
    WITH inserted AS (
        INSERT INTO outcomes (tenant, query_id, generation, {_COLUMNS})
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
        ON CONFLICT (tenant, query_id, generation) DO NOTHING
        RETURNING {_COLUMNS}
    )
    SELECT {_COLUMNS} FROM inserted
    UNION ALL
    {_FIND}
"""  # noqa: S608 (constant text)

_PURGE = """
    DELETE FROM outcomes WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM outcomes WHERE created_at < $1 ORDER BY created_at LIMIT $2
    ))
"""


class PostgresLedger:
    """The ledger in the table ``outcomes``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, key: OutcomeKey) -> StoredOutcome | None:
        row = await self._database.run(lambda connection: connection.fetchrow(_FIND, *key))
        return None if row is None else _outcome(row)

    async def record(self, key: OutcomeKey, outcome: StoredOutcome) -> StoredOutcome:
        record = outcome.record
        values = (
            outcome.fingerprint,
            record.topic,
            record.partition,
            record.key,
            record.value,
            [name for name, _ in record.headers],
            [value for _, value in record.headers],
        )

        async def insert_or_read(connection: Connection) -> asyncpg.Record | None:
            row = await connection.fetchrow(_RECORD, *key, *values)
            return row or await connection.fetchrow(_FIND, *key)

        row = await self._database.run(insert_or_read)
        if row is None:  # purged between the two statements
            raise TransientError("postgres: the outcome went away while it was read")
        return _outcome(row)

    async def purge(self, before: datetime, *, limit: int = 10_000) -> int:
        """Delete up to ``limit`` outcomes recorded before a time; return how many went.

        Keep them longer than any topic they may be delivered from again.
        """
        status = await self._database.run(
            lambda connection: connection.execute(_PURGE, before, limit)
        )
        return int(status.rpartition(" ")[2])


async def keep_purging(
    ledger: PostgresLedger, *, retention: float, interval: float = 3600.0
) -> None:
    """Every ``interval`` seconds, delete the outcomes that are older than ``retention`` seconds."""
    while True:
        before = datetime.now(UTC) - timedelta(seconds=retention)
        try:
            while await ledger.purge(before):
                pass
        except RagstreamError as error:
            log.info("old outcomes are still there: %s", error)
        await asyncio.sleep(interval)


def _outcome(row: asyncpg.Record) -> StoredOutcome:
    headers = tuple(zip(row["header_names"], row["header_values"], strict=True))
    record = OutboundRecord(
        row["topic"], row["record_key"], row["value"], headers, row["partition"]
    )
    return StoredOutcome(row["fingerprint"], record)
