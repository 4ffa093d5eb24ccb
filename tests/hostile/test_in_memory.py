"""Every hostile record through the whole pipeline on the in-memory bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from ragstream import AnswerStatus
from ragstream.adapters.memory import MemoryBus
from ragstream.domain.declarations import CONSUMERS
from ragstream.domain.records import OutboundRecord
from ragstream.domain.topics import Topics
from ragstream.serve import InProcess, in_process
from ragstream.settings import load_settings
from tests.hostile.case import QUESTION, Case
from tests.hostile.corpus import CASES, REPLY_PREFIX, Place, Seen, check, count, topic_of, value_of
from tests.pipeline.test_in_process import manual

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, slots=True)
class Site:
    """A pipeline that all cases were published to and that has nothing left to read."""

    pipeline: InProcess
    bus: MemoryBus
    places: dict[str, Place]
    seen: Seen


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY"):
            patch.delenv(variable, raising=False)
        patch.setenv("RAGSTREAM_DELIVERY__REPLY_PREFIX", REPLY_PREFIX)
        patch.chdir(tmp_path_factory.mktemp("hostile"))
        settings = load_settings()
    topics = Topics(settings.kafka.prefix)
    async with in_process(settings) as pipeline:
        await pipeline.ingest([manual("2.8", "1"), manual("3.0", "all")])
        bus = pipeline._bus
        places = {case.name: _published(bus, case, topics) for case in CASES}
        async with asyncio.timeout(60):
            while any(bus.lag(topics.group(s), topics.named(t)) for t, s in CONSUMERS.items()):
                await asyncio.sleep(0.02)
        yield Site(pipeline, bus, places, Seen(topics, bus.records))


def _published(bus: MemoryBus, case: Case, topics: Topics) -> Place:
    topic = topic_of(case, topics)
    before = {name: len(bus.read(name, 0, 10_000)) for name in bus.partitions_of(topic)}
    bus.append([OutboundRecord(topic, case.key, value_of(case, topics), case.headers)])
    (grown,) = (name for name in before if len(bus.read(name, 0, 10_000)) > before[name])
    return Place(topic, grown.partition, before[grown])


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_outcome(case: Case, site: Site) -> None:
    check(case, site.places[case.name], site.seen)


async def test_nothing_else_came_of_them(site: Site) -> None:
    topics, expected = site.seen.topics, count()
    letters = [
        letter
        for topic in topics.all()
        if topic.endswith(".dlt")
        for letter in site.bus.records(topic)
    ]
    assert len(letters) == expected["dlt"] + expected["dlt+rejection"]
    assert len(site.bus.records(topics.rejections)) == expected["dlt+rejection"]


async def test_a_good_question_is_still_answered(site: Site) -> None:
    answer = await site.pipeline.client.ask(QUESTION, cache="bypass")
    assert answer.status is AnswerStatus.ANSWERED
    assert "all" in answer.text


async def test_there_are_cases_of_every_kind() -> None:
    assert len(CASES) == len({case.name for case in CASES})
    assert min(count().values()) > 5
