"""What Kafka clients of any kind may do: reply topics, transactions, cancelling early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from ragstream.adapters import redis
from ragstream.devstack.state import Endpoints
from tests.support.corpus import DOCUMENTS
from tests.support.deployment import PATIENCE, Deployment, deployed
from tests.support.topiclog import body, headers

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

ACKS = "What is the default of acks in Kafka 3.7?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    stack: Endpoints, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    variables = {"RAGSTREAM_DELIVERY__REPLY_PREFIX": "replies-"}
    async with (
        deployed(stack, tmp_path_factory.mktemp("clients"), **variables) as site,
        site.worker(),
    ):
        await site.index(*DOCUMENTS)
        yield site


async def test_an_answer_is_copied_to_the_partition_that_was_asked_for(site: Deployment) -> None:
    topic = f"replies-{site.topics.prefix}"
    admin = AIOKafkaAdminClient(**site.connection.options())
    await admin.start()
    await admin.create_topics([NewTopic(topic, 3, 1)])
    await admin.close()
    await site.ask("copied", ACKS, reply_to=topic, reply_partition=2)
    answer = (await site.log.answer("copied")) and site.log.answers("copied")[0]
    consumer = AIOKafkaConsumer(**site.connection.options())
    async with consumer, asyncio.timeout(PATIENCE):
        consumer.assign([TopicPartition(topic, 2)])
        await consumer.seek_to_beginning()
        copy = await consumer.getone()
    assert (copy.key, copy.value, copy.headers) == (answer.key, answer.value, answer.headers)


async def test_a_reply_topic_that_does_not_exist_costs_no_answer(site: Deployment) -> None:
    await site.ask("nowhere", ACKS, reply_to="replies-nowhere")
    assert (await site.log.answer("nowhere"))["status"] == "answered"
    await site.ask("forbidden", ACKS, reply_to="elsewhere")
    rejection = body(await site.log.next(site.topics.rejections, "forbidden"))
    assert rejection["field"] == "reply_to"


async def test_records_of_an_aborted_transaction_were_never_published(site: Deployment) -> None:
    producer = AIOKafkaProducer(
        **site.connection.options(), transactional_id=f"t-{site.topics.prefix}"
    )
    async with producer:
        for query_id, commits in (("aborted", False), ("committed", True)):
            await producer.begin_transaction()
            value = orjson.dumps({"query_id": query_id, "text": ACKS})
            await producer.send_and_wait(site.topics.queries, value, key=b"k", partition=0)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
    assert (await site.log.answer("committed"))["status"] == "answered"
    # It stood before the other one in the same partition.
    assert site.log.of(site.topics.routed, "aborted") == []
    assert site.log.answers("aborted") == []


async def test_a_query_may_be_cancelled_before_it_comes(site: Deployment) -> None:
    connection = redis.connect(site.environment["RAGSTREAM_REDIS__URL"], prefix=site.topics.prefix)
    marks = redis.RedisMarks(connection)
    async with site.client() as client, asyncio.timeout(PATIENCE):
        for query_id in ("theirs", "never"):
            await client.cancel(query_id)
            while not (await marks.look("", "default", query_id)).cancelled:
                await asyncio.sleep(0.05)
    await connection.aclose()
    await site.ask("theirs", ACKS, tenant="acme")
    await site.ask("never", ACKS)
    assert (await site.log.answer("never"))["status"] == "cancelled"
    assert (await site.log.answer("theirs"))["status"] == "no_context"  # of a tenant without any
    assert headers(site.log.answers("never")[0])["ce_subject"] == b"never"


async def test_a_document_that_no_topic_takes_is_skipped_and_told(site: Deployment) -> None:
    folder = site.folder / "sizes"
    folder.mkdir()
    (folder / "huge.txt").write_text("word " * 400_000)
    (folder / "small.txt").write_text("The default of linger.ms is 5.")
    done = await site.run("ingest", "sizes")
    assert (done.code, done.out) == (1, "1 document indexed\n")
    assert "skipped" in done.err
    assert "huge.txt" in done.err
