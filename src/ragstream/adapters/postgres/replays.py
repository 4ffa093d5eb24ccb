"""Which record was replayed as which generation."""

from __future__ import annotations

from ragstream.adapters.postgres.database import Connection, Database
from ragstream.domain.records import Replay

__all__ = ["PostgresReplays"]

_KNOWN = "SELECT generation, finished_at IS NOT NULL AS finished FROM replays WHERE replay_id = $1"

#: One at a time for each query: two replays of it must not get the same generation.
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended($1 || chr(31) || $2, 0))"

_BEGIN = """
    INSERT INTO replays (replay_id, tenant, query_id, generation)
    VALUES ($1, $2, $3, 1 + greatest(
        (SELECT max(generation) FROM replays WHERE tenant = $2 AND query_id = $3),
        (SELECT max(generation) FROM outcomes WHERE tenant = $2 AND query_id = $3),
        $4
    ))
    RETURNING generation
"""


class PostgresReplays:
    """The replays in the table ``replays``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, replay_id: str, tenant: str, query_id: str, *, above: int = 0) -> Replay:
        async def known_or_new(connection: Connection) -> Replay:
            async with connection.transaction():
                await connection.execute(_ALONE, tenant, query_id)
                known = await connection.fetchrow(_KNOWN, replay_id)
                if known is not None:
                    return Replay(replay_id, known["generation"], finished=known["finished"])
                new = await connection.fetchval(_BEGIN, replay_id, tenant, query_id, above)
                return Replay(replay_id, new)

        return await self._database.run(known_or_new)

    async def finish(self, replay_id: str) -> None:
        await self._database.run(
            lambda connection: connection.execute(
                "UPDATE replays SET finished_at = now() WHERE replay_id = $1", replay_id
            )
        )
