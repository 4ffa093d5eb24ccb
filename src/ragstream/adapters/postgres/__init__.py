"""Outcome ledger, history, replays and stopped stages in PostgreSQL.

``Database`` is the pool that they share; ``migrate`` brings the schema up to date.
"""

from ragstream.adapters.postgres.database import Database
from ragstream.adapters.postgres.history import PostgresHistory
from ragstream.adapters.postgres.ledger import PostgresLedger, keep_purging
from ragstream.adapters.postgres.migrate import Migration, migrate, pending
from ragstream.adapters.postgres.replays import PostgresReplays
from ragstream.adapters.postgres.stops import PostgresStops

__all__ = [
    "Database",
    "Migration",
    "PostgresHistory",
    "PostgresLedger",
    "PostgresReplays",
    "PostgresStops",
    "keep_purging",
    "migrate",
    "pending",
]
