"""Stages that were stopped."""

from __future__ import annotations

from ragstream.adapters.postgres.database import Database

__all__ = ["PostgresStops"]


class PostgresStops:
    """The stops in the table ``stops``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def stop(self, stage: str, reason: str) -> None:
        await self._database.run(
            lambda connection: connection.execute(
                "INSERT INTO stops (stage, reason) VALUES ($1, $2) ON CONFLICT (stage) DO NOTHING",
                stage,
                reason,
            )
        )

    async def stopped(self) -> dict[str, str]:
        rows = await self._database.run(
            lambda connection: connection.fetch("SELECT stage, reason FROM stops")
        )
        return {row["stage"]: row["reason"] for row in rows}

    async def clear(self, stage: str) -> bool:
        status = await self._database.run(
            lambda connection: connection.execute("DELETE FROM stops WHERE stage = $1", stage)
        )
        return bool(status != "DELETE 0")
