"""State inside the process: twins of the Redis and Postgres adapters.

For tests, and for running everything in one process. Nothing survives it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from ragstream.adapters.turns import turns_of
from ragstream.domain.events import Answer, AnswerStatus, Turn
from ragstream.domain.ports import Marked
from ragstream.domain.records import OutcomeKey, Replay, StoredOutcome

__all__ = [
    "MemoryAnswerCache",
    "MemoryCorpusGenerations",
    "MemoryHistory",
    "MemoryLedger",
    "MemoryMarks",
    "MemoryReplays",
    "MemoryStops",
]

Now = Callable[[], float]


class _Expiring:
    """Values that are forgotten after their time. At most ``limit`` are kept, the newest."""

    def __init__(self, now: Now, limit: int) -> None:
        self._now = now
        self._limit = limit
        self._entries: dict[Hashable, tuple[float, object]] = {}

    def set(self, key: Hashable, value: object, ttl: float) -> None:
        self._entries.pop(key, None)
        self._entries[key] = (self._now() + ttl, value)
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]

    def get(self, key: Hashable) -> object | None:
        expires, value = self._entries.get(key, (0.0, None))
        if value is not None and expires <= self._now():
            del self._entries[key]
            return None
        return value


class MemoryAnswerCache:
    """``now``: monotonic seconds."""

    def __init__(self, *, limit: int = 10_000, now: Now = time.monotonic) -> None:
        self._entries = _Expiring(now, limit)

    async def get(self, tenant: str, key: str) -> Answer | None:
        answer = self._entries.get((tenant, key))
        return answer if isinstance(answer, Answer) else None

    async def put(self, tenant: str, key: str, answer: Answer, *, ttl: float) -> None:
        self._entries.set((tenant, key), answer, ttl)


class MemoryCorpusGenerations:
    def __init__(self) -> None:
        self._generations: dict[str, int] = {}

    async def current(self, tenant: str) -> int:
        return self._generations.get(tenant, 0)

    async def bump(self, tenant: str) -> int:
        self._generations[tenant] = self._generations.get(tenant, 0) + 1
        return self._generations[tenant]


class MemoryMarks:
    """``ttl``: seconds for which done inputs are remembered."""

    def __init__(
        self, *, ttl: float = 86_400.0, limit: int = 100_000, now: Now = time.monotonic
    ) -> None:
        self._ttl = ttl
        self._done = _Expiring(now, limit)
        self._cancelled = _Expiring(now, limit)

    async def look(self, id: str, tenant: str, query_id: str) -> Marked:
        return Marked(
            self._done.get(id) is not None, self._cancelled.get((tenant, query_id)) is not None
        )

    async def done(self, id: str) -> None:
        self._done.set(id, True, self._ttl)

    async def cancel(self, tenant: str, query_id: str, *, ttl: float) -> None:
        self._cancelled.set((tenant, query_id), True, ttl)


class MemoryLedger:
    def __init__(self) -> None:
        self._outcomes: dict[OutcomeKey, StoredOutcome] = {}

    async def find(self, key: OutcomeKey) -> StoredOutcome | None:
        return self._outcomes.get(key)

    async def record(self, key: OutcomeKey, outcome: StoredOutcome) -> StoredOutcome:
        return self._outcomes.setdefault(key, outcome)

    def highest(self, tenant: str, query_id: str) -> int:
        """The highest generation with an outcome, 0 without any."""
        generations = (k.generation for k in self._outcomes if k[:2] == (tenant, query_id))
        return max(generations, default=0)


class MemoryReplays:
    """``ledger``: knows the generations that have an outcome."""

    def __init__(self, ledger: MemoryLedger | None = None) -> None:
        self._ledger = ledger or MemoryLedger()
        self._replays: dict[str, Replay] = {}
        self._highest: dict[tuple[str, str], int] = {}

    async def begin(self, replay_id: str, tenant: str, query_id: str, *, above: int = 0) -> Replay:
        if (known := self._replays.get(replay_id)) is not None:
            return known
        query = (tenant, query_id)
        decided = self._ledger.highest(tenant, query_id)
        self._highest[query] = 1 + max(self._highest.get(query, 0), decided, above)
        self._replays[replay_id] = Replay(replay_id, self._highest[query])
        return self._replays[replay_id]

    async def finish(self, replay_id: str) -> None:
        if (known := self._replays.get(replay_id)) is not None:
            self._replays[replay_id] = known._replace(finished=True)


class MemoryStops:
    def __init__(self) -> None:
        self._stops: dict[str, str] = {}

    async def stop(self, stage: str, reason: str) -> None:
        self._stops.setdefault(stage, reason)

    async def stopped(self) -> dict[str, str]:
        return dict(self._stops)

    async def clear(self, stage: str) -> bool:
        return self._stops.pop(stage, None) is not None


class MemoryHistory:
    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], Answer] = {}

    async def save(self, answer: Answer) -> None:
        key = (answer.tenant, answer.query_id)
        known = self._answers.get(key)
        if known is None or answer.generation >= known.generation:
            self._answers[key] = answer

    async def turns(
        self, tenant: str, conversation_id: str, *, limit: int, user_id: str | None = None
    ) -> tuple[Turn, ...]:
        answered = [
            answer
            for answer in self._answers.values()
            if answer.tenant == tenant
            and answer.conversation_id == conversation_id
            and answer.user_id == user_id
            and answer.status is AnswerStatus.ANSWERED
            and answer.text
        ]
        answered.sort(key=lambda answer: (answer.accepted_at, answer.query_id))
        turns = [turn for answer in answered for turn in turns_of(answer.question, answer.text)]
        return tuple(turns[-limit:]) if limit > 0 else ()

    async def is_terminal(self, tenant: str, query_id: str) -> bool:
        return (tenant, query_id) in self._answers
