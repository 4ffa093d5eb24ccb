"""Records that a stage can't process: dead letters, an answer all the same, and a limit."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from ragstream.domain.errors import PermanentError
from ragstream.domain.events import Answer, Job
from ragstream.domain.outcomes import failed_answer
from tests.unit.delivery.bench import Bench, question, route


async def defective(job: Job) -> Job | Answer:
    raise KeyError("defect")


async def test_a_stage_that_fails_too_often_stops_working() -> None:
    bench = Bench(defective, failure_limit=3)
    for number in range(4):
        await bench.handle(question(query_id=f"q{number}"))
    assert len(bench.dead()) == len(bench.answers()) == bench.calls == 4
    assert bench.handler.paused is not None
    assert "more than 3 records failed" in bench.handler.paused

    waiting = asyncio.create_task(bench.handle(question(query_id="later")))
    await asyncio.sleep(0.01)
    assert bench.calls == 4
    assert not waiting.done()
    bench.handler.limit.resume()
    await waiting
    assert bench.calls == 5
    assert bench.handler.paused is None


async def test_what_waits_for_a_stopped_stage_fails_at_its_deadline() -> None:
    bench = Bench(route)
    bench.handler.limit.hold("too many failures")
    soon = (bench.clock.now() + timedelta(milliseconds=20)).isoformat()
    await bench.handle(question(deadline=soon))
    failure = bench.answer().failure
    assert failure is not None
    assert failure.code == "deadline_exceeded"
    assert "too many failures" in failure.message
    assert bench.calls == 0


async def test_what_cannot_be_read_or_fails_for_a_reason_does_not_count() -> None:
    async def refuse(job: Job) -> Job | Answer:
        raise PermanentError("no")

    bench = Bench(refuse, failure_limit=1)
    for number in range(5):
        await bench.handle(b"not JSON")
        await bench.handle(question(query_id=f"q{number}"))
    assert len(bench.dead()) == 5
    assert bench.handler.paused is None


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_a_defect_around_the_stage_is_answered_too() -> None:
    async def odd(job: Job) -> Job | Answer:
        answer = failed_answer(job, PermanentError("x"), stage="route", now=bench.clock.now())
        return answer.model_copy(update={"text": 1 + 2j})  # nothing that JSON can hold

    bench = Bench(odd)
    await bench.handle(question())
    failure = bench.answer().failure
    assert failure is not None
    assert failure.stage == "route"
    (letter,) = bench.dead()
    assert letter.header("__connect.errors.exception.class.name") is not None
