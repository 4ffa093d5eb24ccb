"""The pipeline as a worker process on real services, seen through its topics and commands."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import datetime

import orjson
import pytest
import pytest_asyncio

from ragstream.devstack import jars
from ragstream.devstack.kafka import java
from ragstream.devstack.state import Endpoints
from ragstream.wire import EVENT_TYPE_NAMES, event_id, record_key
from tests.support.corpus import write_jsonl
from tests.support.deployment import Deployment, deployed
from tests.support.topiclog import body, headers

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

ACKS = "What is the default of acks in Kafka {}?"
CONNECT = "__connect.errors."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    stack: Endpoints, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployment]:
    """One worker with all stages, no language model, and the corpus indexed by command."""
    async with (
        deployed(stack, tmp_path_factory.mktemp("pipeline")) as site,
        site.worker() as worker,
    ):
        site.environment["RAGSTREAM_WORKER__HEALTH_PORT"] = str(worker.port)
        ingested = await site.run("ingest", str(write_jsonl(site.folder / "corpus.jsonl")))
        assert ingested.code == 0, ingested.err
        assert ingested.out == "6 documents indexed\n"
        yield site


async def test_commands(site: Deployment) -> None:
    again, answered, unanswerable, check = await asyncio.gather(
        site.run("ingest", "corpus.jsonl"),
        site.run("ask", ACKS.format("2.8"), "--json"),
        site.run("ask", "Who won the regatta on the lake of Geneva?", "--json"),
        site.run("worker", "--check"),
    )
    assert (again.code, again.out) == (0, "6 documents indexed\n")
    assert len(site.log.of(site.topics.index_changes)) == 6  # nothing changed

    assert answered.code == 0, answered.err
    answer = json.loads(answered.out)
    assert answer["status"] == "answered"
    assert "The default of acks is 1." in answer["text"]
    assert answer["cache"] is None
    assert answer["citations"][0]["metadata"]["docVersion"] == "2.8"
    assert answer["citations"][0]["url"] == "https://docs.example/2.8/producer/acks"

    assert unanswerable.code == 5, unanswerable.err
    assert json.loads(unanswerable.out)["status"] == "no_context"
    assert check.code == 0, check.err
    stages = json.loads(check.out)["stages"]
    assert stages["answer"]["partitions"] > 0


async def test_doctor_finds_nothing_wrong(site: Deployment) -> None:
    doctor = await site.run("doctor", "--json")
    assert doctor.code == 0, doctor.out + doctor.err
    found = json.loads(doctor.out)
    assert found["kafka"]["detail"].endswith("lag 0")
    assert found["worker"]["detail"].startswith("ready: route, retrieve")
    assert found["postgres"]["detail"] == "answers, migrated"


async def test_the_second_answer_comes_from_the_cache(site: Deployment) -> None:
    for query_id in ("first", "second"):
        await site.ask(query_id, ACKS.format("3.7"), stream=False)
        answer = await site.log.answer(query_id)
        assert "The default of acks is all." in answer["text"]
        assert answer.get("cache") == ("exact" if query_id == "second" else None)
    assert site.log.of(site.topics.answer_deltas, "first") == []


async def test_a_query_on_its_way(site: Deployment) -> None:
    """Every hop has the same key and the carried headers, and an id that can be computed."""
    trace = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    sent = [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"anything"),
        ("ce_source", b"/tests"),
        ("ce_type", EVENT_TYPE_NAMES["Query"].encode()),
        ("content-type", b"application/json"),
        ("traceparent", trace),
        ("x-team", b"\xff\x00 not text"),
    ]
    query = {"query_id": "way", "text": "What is a tombstone?", "conversation_id": "talk"}
    await site.publish(site.topics.queries, {**query, "x_field": [1]}, headers=sent)
    await site.log.next(site.topics.answers, "way")

    hops = {
        "route": (site.topics.routed, "Routed"),
        "retrieve": (site.topics.retrieved, "Retrieved"),
        "rerank": (site.topics.reranked, "Reranked"),
        "answer": (site.topics.answers, "Answer"),
    }
    for stage, (topic, event) in hops.items():
        (record,) = site.log.of(topic, "way")
        assert record.key == record_key("default", "talk")
        found = headers(record)
        assert datetime.fromisoformat(found.pop("ce_time").decode()).tzinfo is not None
        assert found == {
            "content-type": b"application/json",
            "ce_specversion": b"1.0",
            "ce_id": event_id("default", "way", 0, stage).encode(),
            "ce_source": b"ragstream",
            "ce_type": EVENT_TYPE_NAMES[event].encode(),
            "ce_generation": b"0",
            "ce_subject": b"way",
            "traceparent": trace,
            "x-team": b"\xff\x00 not text",
        }
        if event != "Answer":
            assert body(record)["query"]["x_field"] == [1]
    (record,) = site.log.answers("way")
    assert "a record without a value" in body(record)["text"]

    await site.caught_up()
    (saved,) = await site.database.fetch("SELECT * FROM answers WHERE query_id = 'way'")
    assert (saved["status"], saved["conversation_id"]) == ("answered", "talk")
    assert json.loads(saved["answer"]) == body(record)
    (outcome,) = await site.database.fetch("SELECT * FROM outcomes WHERE query_id = 'way'")
    assert (outcome["record_key"], outcome["value"]) == (record.key, record.value)


async def test_many_queries_at_once(site: Deployment) -> None:
    shapes = ({}, {"stream": False}, {"conversation_id": "busy"}, {"cache": "bypass"})
    queries = {
        f"many-{number}": {"text": f"Query {number}: what is the default of acks?"}
        | shapes[number % len(shapes)]
        for number in range(50)
    }
    sent = [
        await site.producer.send(
            site.topics.queries,
            orjson.dumps({"query_id": query_id, **fields}),
            key=query_id.encode() if number % 2 else None,
        )
        for number, (query_id, fields) in enumerate(queries.items())
    ]
    await asyncio.gather(*sent)
    await site.log.until(lambda: all(map(site.log.answers, queries)))
    await site.caught_up()
    for query_id, fields in queries.items():
        (record,) = site.log.answers(query_id)
        answer = body(record)
        assert (answer["status"], answer["question"]) == ("answered", fields["text"])
    rows = await site.database.fetch(
        "SELECT query_id FROM answers WHERE query_id LIKE 'many-%' AND status = 'answered'"
    )
    assert sorted(row["query_id"] for row in rows) == sorted(queries)


async def test_kafkas_own_console_producer(site: Deployment) -> None:
    class_path = os.pathsep.join(map(str, await jars.ensure(jars.cache_folder())))
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]
    tool = [java(), *options, "-cp", class_path, "org.apache.kafka.tools.ConsoleProducer"]
    target = [
        "--topic",
        site.topics.queries,
        "--bootstrap-server",
        site.connection.bootstrap_servers,
    ]
    process = await asyncio.create_subprocess_exec(
        *tool,
        *target,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    line = b'{"query_id": "console", "text": "What does log compaction keep?"}\n'
    output, _ = await process.communicate(line)
    assert process.returncode == 0, output.decode()
    assert "the latest record of every key" in (await site.log.answer("console"))["text"]


async def test_what_cannot_be_processed(site: Deployment) -> None:
    """It goes to the dead-letter topic as it was, and the worker goes on."""
    framed = b"\x00\x00\x00\x00\x07" + orjson.dumps({"query_id": "framed", "text": "?"})
    invalid = orjson.dumps({"query_id": "invalid", "text": " "})
    poison: dict[bytes, tuple[bytes | None, str]] = {
        b"bytes": (b"\xff\xfe\xfd", "value: looks like UTF-16: publish UTF-8"),
        b"json": (b'{"query_id": ', "value: not JSON"),
        b"tombstone": (None, "value: the record is a tombstone (null value)"),
        b"empty": (b"", "value: the value is empty"),
        b"framed": (framed, "value: the value starts with byte 0: it looks like Schema Registry"),
        b"invalid": (invalid, "text: has no visible character"),
    }
    sent = {}
    own: list[tuple[str, bytes | None]] = [("x-team", b"blue"), ("x-null", None)]
    for key, (value, _) in poison.items():
        sent[key] = await site.publish(site.topics.queries, value, key=key, headers=own)
    await site.ask("after", "What is the default of linger.ms in Kafka 3.7?")
    assert "The default of linger.ms is 5." in (await site.log.answer("after"))["text"]

    dlt = site.topics.dlt(site.topics.queries)
    await site.log.until(lambda: len(site.log.of(dlt)) >= len(poison))
    letters = {record.key: record for record in site.log.of(dlt)}
    assert letters.keys() == poison.keys()
    for key, (value, reason) in poison.items():
        record = letters[key]
        assert record.value == value
        assert record.headers[:2] == tuple(own)
        told = headers(record)
        assert told[CONNECT + "topic"].decode() == site.topics.queries
        assert int(told[CONNECT + "partition"]) == sent[key].partition
        assert int(told[CONNECT + "offset"]) == sent[key].offset
        assert told[CONNECT + "exception.message"].decode().startswith(reason)
        assert told[CONNECT + "exception.class.name"] == b"ragstream.domain.errors.InvalidEvent"

    rejection = await site.log.next(site.topics.rejections, "invalid")
    assert body(rejection) == {
        "query_id": "invalid",
        "tenant": "default",
        "message": "text: has no visible character",
        "code": "invalid_event",
        "field": "text",
        "topic": site.topics.queries,
        "partition": sent[b"invalid"].partition,
        "offset": sent[b"invalid"].offset,
    }
    assert len(site.log.of(site.topics.rejections)) == 1
    await site.caught_up()


async def test_another_request_under_a_known_query_id(site: Deployment) -> None:
    await site.ask("taken", "What is a rebalance?")
    answer = await site.log.answer("taken")
    await site.ask("taken", "What is a rebalance?")  # the same request: the same answer
    await site.log.until(lambda: len(site.log.answers("taken")) == 2)
    first, second = site.log.answers("taken")
    assert (first.value, first.headers) == (second.value, second.headers)
    await site.ask("taken", "What does log compaction keep?")
    rejection = body(await site.log.next(site.topics.rejections, "taken"))
    assert (rejection["code"], rejection["field"]) == ("conflicting_request", "query_id")
    assert "compaction" not in answer["text"]
    assert len(site.log.answers("taken")) == 2
