"""History: every answer into Postgres."""

from __future__ import annotations

from collections.abc import Sequence

from ragstream.domain.events import Answer
from ragstream.domain.ports import History
from ragstream.domain.records import OutboundRecord

__all__ = ["RecordHistory"]


class RecordHistory:
    """The stage. Idempotent: an answer that comes again replaces itself."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def __call__(self, answer: Answer) -> Sequence[OutboundRecord]:
        await self._history.save(answer)
        return ()
