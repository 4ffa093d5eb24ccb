"""Outcome ledger and history in PostgreSQL.

``Database`` is the pool that both share; ``migrate`` brings the schema up to date.
"""

from ragstream.adapters.postgres.database import Database
from ragstream.adapters.postgres.history import PostgresHistory
from ragstream.adapters.postgres.ledger import PostgresLedger
from ragstream.adapters.postgres.migrate import Migration, migrate, pending

__all__ = [
    "Database",
    "Migration",
    "PostgresHistory",
    "PostgresLedger",
    "migrate",
    "pending",
]
