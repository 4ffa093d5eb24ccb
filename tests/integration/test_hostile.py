"""Every hostile record on real Kafka: each has its outcome, and the worker goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError

from ragstream.devstack.state import Endpoints
from tests.hostile.case import QUESTION
from tests.hostile.corpus import CASES, REPLY_PREFIX, Place, Seen, check, count, told, topic_of
from tests.hostile.corpus import value_of as value
from tests.support.deployment import Deployment, deployed
from tests.support.oddnames import OddName, builder

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

MEBIBYTE = 1024 * 1024
MANUAL = {
    "document_id": "manual",
    "text": "The default of acks in Kafka 3.0 is all.",
    "metadata": {"product": "kafka", "docVersion": "3.0", "title": "Producer settings"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    stack: Endpoints, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    """One worker with all stages."""
    folder = tmp_path_factory.mktemp("hostile")
    allowed = {"RAGSTREAM_DELIVERY__REPLY_PREFIX": REPLY_PREFIX}
    async with deployed(stack, folder, **allowed) as site, site.worker():
        await site.index(MANUAL)
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reckless(stack: Endpoints) -> AsyncIterator[AIOKafkaProducer]:
    """A producer that leaves the judgement of sizes to the broker."""
    async with AIOKafkaProducer(
        bootstrap_servers=stack.kafka,
        max_request_size=64 * MEBIBYTE,
        compression_type="gzip",
    ) as producer:
        yield producer


async def test_each_has_its_outcome(site: Deployment) -> None:
    sent = await asyncio.gather(
        *(
            site.publish(
                topic_of(case, site.topics),
                value(case, site.topics),
                key=case.key,
                headers=case.headers,
            )
            for case in CASES
        )
    )
    await site.caught_up()
    await site.ask("after", QUESTION, cache="bypass")
    assert "all" in (await site.log.answer("after"))["text"]
    await site.caught_up()

    expected, topics = count(), site.topics
    await site.log.until(
        lambda: (
            len(site.log.of(topics.rejections)) >= expected["dlt+rejection"]
            and sum(len(site.log.of(topic)) for topic in topics.all() if topic.endswith(".dlt"))
            >= expected["dlt"] + expected["dlt+rejection"]
        )
    )
    seen = Seen(topics, site.log.of)
    wrong = []
    for case, place in zip(CASES, sent, strict=True):
        # What an inner topic can't take is failed where it does not fit.
        case = replace(case, forwarded={}) if case.name.startswith("large") else case
        try:
            check(case, Place(place.topic, place.partition, place.offset), seen)
        except (AssertionError, ValueError) as error:
            wrong.append(f"{case.name}: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert len(site.log.of(topics.rejections)) == expected["dlt+rejection"]


async def test_the_broker_refuses_what_is_larger_than_the_topic_takes(
    site: Deployment, reckless: AIOKafkaProducer
) -> None:
    noise = bytes(range(256)) * 8 * 1024  # gzip makes it small
    await reckless.send_and_wait(site.topics.queries, noise)
    with pytest.raises(MessageSizeTooLargeError):
        await reckless.send_and_wait(site.topics.queries, os.urandom(MEBIBYTE + 1))


async def test_header_names_that_are_no_utf_8(site: Deployment, reckless: AIOKafkaProducer) -> None:
    batch = reckless.create_batch()
    batch._builder = builder()
    name, value = OddName(b"\xff-name"), b'{"query_id": "odd-name", "text": "?!"}'
    batch.append(key=b"k", value=value, timestamp=None, headers=[(name, b"x")])
    await (await reckless.send_batch(batch, site.topics.queries, partition=0))
    answer = await site.log.next(site.topics.answers, "odd-name")
    assert answer.headers[-1] == (r"\xff-name", b"x")
    await site.caught_up()


async def test_what_was_small_only_while_compressed(
    site: Deployment, reckless: AIOKafkaProducer
) -> None:
    """Values, keys and headers far beyond the topic's limit pass it, and are told of."""
    large = b" " * (5 * MEBIBYTE)
    sent = [
        await reckless.send_and_wait(site.topics.queries, 4 * large),
        await reckless.send_and_wait(site.topics.queries, b"{}", key=large),
        await reckless.send_and_wait(site.topics.queries, b"{}", headers=[("x", large)]),
    ]
    await site.caught_up()
    dlt = site.topics.dlt(site.topics.queries)
    places = [Place(place.topic, place.partition, place.offset) for place in sent]
    seen = Seen(site.topics, site.log.of)
    await site.log.until(lambda: all(seen.letters(place) for place in places))
    for place, part in zip(places, ("value", "key", "headers"), strict=True):
        (letter,) = seen.letters(place)
        facts = told(letter)
        assert int(facts[f"{part}.bytes"]) >= len(large)
    assert len(site.log.of(dlt)) > len(sent)
