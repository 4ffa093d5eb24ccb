"""A model that misbehaves in every way that its API allows."""

from __future__ import annotations

import re
from collections.abc import Callable

from ragstream.testing import Call
from tests.chaos.arena import Arena, Scenario
from tests.support.topiclog import body

__all__ = ["SCENARIOS"]

KINDS = 8
#: A stream that broke off, one that is not valid, and one without choices: not tried again, for a
#: part of the answer may have been shown. And a reranking model that does not keep to JSON.
_PERMANENT = (3, 4, 5, 6)


async def llm(arena: Arena) -> None:
    """A model that hangs, is busy, fails, breaks off, talks nonsense or says nothing."""
    model, total = arena.model, arena.load.total

    def of(kind: int) -> Callable[[Call], bool]:
        return lambda call: _kind(call.user) == kind

    def written(kind: int) -> Callable[[Call], bool]:
        return lambda call: not call.wants_json and of(kind)(call)

    def judged(kind: int) -> Callable[[Call], bool]:
        return lambda call: call.wants_json and of(kind)(call)

    times = total // KINDS // 2
    await arena.begin()
    model.fail(429, retry_after=1, when=of(0), times=times)
    model.fail(500, when=of(1), times=times)
    model.fail(503, when=of(1), times=times // 2)
    model.hang(when=written(2), times=min(times, 20))
    model.break_off(after=2, when=written(3), times=times)
    model.garble(when=written(4), times=times)
    model.no_choices(when=written(5), times=times)
    model.garble(when=judged(6), times=times)
    model.reply("no JSON", when=judged(6), times=times // 2)
    async with arena.loading():
        arena.fault()
    await arena.load.until_answered(total)
    arena.notes.append(f"{len(model.calls_of('chat'))} calls of the chat model")
    # The others are worth another attempt, or have something to fall back on.
    hopeless = {kind for kind in map(_kind, _failed(arena)) if kind not in _PERMANENT}
    assert not hopeless, f"failed, though trying again would have helped: kinds {hopeless}"


def _kind(text: str) -> int | None:
    """One of eight, by the query's number."""
    found = re.search(r"case (\d+)\)", text)
    return int(found[1]) % KINDS if found else None


def _failed(arena: Arena) -> list[str]:
    """Questions whose answer says that they failed."""
    answers = map(body, arena.site.log.of(arena.site.topics.answers))
    return [answer["question"] for answer in answers if answer["status"] == "failed"]


SCENARIOS = (
    Scenario(
        "llm",
        llm,
        queries=(800, 80),
        statuses=frozenset({"answered", "failed"}),
        variables={
            "OPENAI_BASE_URL": "{model}",
            "OPENAI_MODEL": "small",
            "RAGSTREAM_LLM__FIRST_TOKEN_TIMEOUT": "3",
            "RAGSTREAM_LLM__TOTAL_TIMEOUT": "6",
        },
    ),
)
