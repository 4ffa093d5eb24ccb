"""Answered questions, for conversations, audits and analysis."""

from __future__ import annotations

from typing import Any

import orjson

from ragstream.adapters.postgres.database import Connection, Database
from ragstream.adapters.turns import turns_of
from ragstream.domain.events import Answer, Turn

__all__ = ["PostgresHistory"]

_SAVE = """
    INSERT INTO answers (
        tenant, query_id, generation, user_id, conversation_id, question, status, text, route,
        model, prompt_version, quality, failure_code, accepted_at, completed_at, answer
    )
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16::jsonb)
    ON CONFLICT (tenant, query_id) DO UPDATE SET
        generation = EXCLUDED.generation,
        user_id = EXCLUDED.user_id,
        conversation_id = EXCLUDED.conversation_id,
        question = EXCLUDED.question,
        status = EXCLUDED.status,
        text = EXCLUDED.text,
        route = EXCLUDED.route,
        model = EXCLUDED.model,
        prompt_version = EXCLUDED.prompt_version,
        quality = EXCLUDED.quality,
        failure_code = EXCLUDED.failure_code,
        accepted_at = EXCLUDED.accepted_at,
        completed_at = EXCLUDED.completed_at,
        answer = EXCLUDED.answer,
        saved_at = now()
    WHERE answers.generation <= EXCLUDED.generation
    RETURNING true
"""

_CITE = """
    INSERT INTO citations (tenant, query_id, number, document_id, chunk_id, title, url, score)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (tenant, query_id, number) DO NOTHING
"""

_TURNS = """
    SELECT question, text FROM answers
    WHERE tenant = $1 AND conversation_id = $2 AND user_id IS NOT DISTINCT FROM $3
        AND status = 'answered' AND text <> ''
    ORDER BY accepted_at DESC, query_id COLLATE "C" DESC
    LIMIT $4
"""


class PostgresHistory:
    """The history in the tables ``answers`` and ``citations``.

    A conversation is seen by the user who holds it only: turns of other users are left out, and
    a reader without a ``user_id`` sees turns without one.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, answer: Answer) -> None:
        row, citations = _row(answer), _citations(answer)

        async def replace(connection: Connection) -> None:
            async with connection.transaction():
                if not await connection.fetchval(_SAVE, *row):
                    return  # a higher generation is there
                await connection.execute(
                    "DELETE FROM citations WHERE tenant = $1 AND query_id = $2",
                    answer.tenant,
                    answer.query_id,
                )
                await connection.executemany(_CITE, citations)

        await self._database.run(replace)

    async def turns(
        self, tenant: str, conversation_id: str, *, limit: int, user_id: str | None = None
    ) -> tuple[Turn, ...]:
        if limit <= 0:
            return ()
        rows = await self._database.run(
            lambda connection: connection.fetch(
                _TURNS, tenant, conversation_id, user_id, (limit + 1) // 2
            )
        )
        turns = [turn for row in reversed(rows) for turn in turns_of(row["question"], row["text"])]
        return tuple(turns[-limit:])

    async def is_terminal(self, tenant: str, query_id: str) -> bool:
        found = await self._database.run(
            lambda connection: connection.fetchval(
                "SELECT EXISTS (SELECT FROM answers WHERE tenant = $1 AND query_id = $2)",
                tenant,
                query_id,
            )
        )
        return bool(found)


def _row(answer: Answer) -> list[Any]:
    body = _storable(answer.model_dump(mode="json", by_alias=True, exclude_none=True))
    values = (
        answer.tenant,
        answer.query_id,
        answer.generation,
        answer.user_id,
        answer.conversation_id,
        answer.question,
        answer.status.value,
        answer.text,
        answer.route,
        answer.model,
        answer.prompt_version,
        answer.quality.value,
        answer.failure.code if answer.failure else None,
        answer.accepted_at,
        answer.completed_at,
        orjson.dumps(body).decode(),
    )
    return [_storable(value) for value in values]


def _citations(answer: Answer) -> list[list[Any]]:
    return [
        [
            _storable(value)
            for value in (
                answer.tenant,
                answer.query_id,
                citation.number,
                citation.document_id,
                citation.chunk_id,
                citation.title,
                citation.url,
                citation.score,
            )
        ]
        for citation in answer.citations
    ]


def _storable(value: Any) -> Any:
    """The value without NUL characters, the only ones that PostgreSQL's text can't hold."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return value
