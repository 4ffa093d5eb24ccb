"""`ragstream ask`, with a pipeline in memory in the place of Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from ragstream import client as client_module
from ragstream.adapters.memory import MemoryBus
from ragstream.client import Client
from ragstream.domain.events import Answer, AnswerDelta, Event, Query, Rejection
from ragstream.domain.topics import Topics
from ragstream.wire import decode, encode
from tests.support.commandline import run_command
from tests.support.stages import NOW

Run = Callable[..., int]


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return partial(run_command, monkeypatch)


class Pipeline:
    """What the other side of the bus says to the question."""

    def __init__(self, prefix: str) -> None:
        self.topics = Topics(prefix)
        self.bus = MemoryBus(self.topics.all(), partitions=1)
        self.query: Query | None = None

    async def play(self, says: list[dict[str, Any]]) -> None:
        while not (asked := self.bus.records(self.topics.queries)):
            await self.bus.wait_for_growth()
        self.query, _ = decode(asked[0], Query, lenient=True)
        for fields in says:
            self._say({"query_id": self.query.query_id, "tenant": self.query.tenant, **fields})

    def _say(self, fields: dict[str, Any]) -> None:
        kinds: dict[str, tuple[type[Event], str]] = {
            "seq": (AnswerDelta, self.topics.answer_deltas),
            "message": (Rejection, self.topics.rejections),
            "status": (Answer, self.topics.answers),
        }
        kind, topic = next(kinds[name] for name in kinds if name in fields)
        event = kind.model_validate(fields)
        subject = fields["query_id"]
        self.bus.append([encode(event, topic=topic, key=b"k", id="1", time=NOW, subject=subject)])


Asking = Callable[..., Pipeline]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    """A pipeline in memory in the place of Kafka, that says these things."""

    def asking(*says: dict[str, Any]) -> Pipeline:
        pipeline = Pipeline("test")

        @asynccontextmanager
        async def connect(_connection: object, *, prefix: str) -> AsyncIterator[Client]:
            async with Client(pipeline.bus, prefix=prefix) as client:
                playing = asyncio.create_task(pipeline.play(list(says)))
                yield client
                playing.cancel()

        monkeypatch.setattr(Client, "connect", connect)
        monkeypatch.setenv("RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS", "nowhere:9092")
        monkeypatch.setenv("RAGSTREAM_KAFKA__PREFIX", "test")
        return pipeline

    return asking


def answer(**fields: object) -> dict[str, Any]:
    return {
        "question": "What?",
        "status": "answered",
        "text": "It is all[1].",
        "model": "extractive",
        "accepted_at": NOW,
        "completed_at": NOW,
        **fields,
    }


def delta(seq: int, text: str, attempt: str = "1") -> dict[str, Any]:
    return {"seq": seq, "text": text, "attempt": attempt}


FAILURE = {"message": "[/bold] broke", "code": "permanent", "retryable": False, "stage": "answer"}
CITATION = {
    "number": 1,
    "document_id": "d",
    "chunk_id": "c",
    "title": "[draft] Of [/acks]",
    "url": "https://docs.example/[x]",
    "anchor": "acks",
    "snippet": "…",
    "version": {"product": "kafka", "requested": ["3.0"], "evidence": "2.8", "exact": False},
}


@pytest.mark.parametrize(
    ("says", "code"),
    [
        (answer(), 0),
        (answer(status="no_context", text="Nothing."), 5),
        (answer(status="failed", text="", failure=FAILURE), 1),
        (answer(status="cancelled", text=""), 1),
    ],
    ids=lambda value: value["status"] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_the_exit_code_is_that_of_the_answer(
    run: Run, asking: Asking, says: dict[str, Any], code: int, options: list[str]
) -> None:
    asking(says)
    assert run("ask", "What?", *options) == code


def test_json_is_the_answer_event_and_nothing_else(
    run: Run, asking: Asking, capsys: pytest.CaptureFixture[str]
) -> None:
    asking(delta(0, "It is"), answer(citations=[CITATION], degraded=["x"]))
    assert run("ask", "What?", "--json") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.count("\n") == 1
    event = orjson.loads(printed.out)
    assert (event["status"], event["text"]) == ("answered", "It is all[1].")
    assert event["accepted_at"] == "2026-01-10T12:00:00Z"
    assert event["citations"][0]["title"] == "[draft] Of [/acks]"
    assert event.keys() >= {"query_id", "tenant", "citations", "route", "quality", "timings"}
    assert Answer.model_validate(event).degraded == ("x",)


def test_the_options_make_the_query(run: Run, asking: Asking) -> None:
    pipeline = asking(answer())
    options = "--tenant acme --user ann --conversation c --route DOCS --top-k 3 --no-cache"
    filters = ["--filter", "product=kafka", "--filter", "docVersion=2.8,3.7", "--filter", "a=b=c"]
    assert run("ask", "What?", *options.split(), *filters) == 0
    query = pipeline.query
    assert query is not None
    assert (query.text, query.tenant, query.user_id) == ("What?", "acme", "ann")
    assert (query.conversation_id, query.route, query.top_k) == ("c", "DOCS", 3)
    assert query.cache == "bypass"
    assert query.filters == {"product": "kafka", "docVersion": ["2.8", "3.7"], "a": "b=c"}


def test_the_text_stands_once_with_its_citations(
    run: Run, asking: Asking, capsys: pytest.CaptureFixture[str]
) -> None:
    asking(delta(0, "It is "), delta(1, "all"), answer(citations=[CITATION]))
    assert run("ask", "What?") == 0
    text = capsys.readouterr().out
    assert text.startswith("It is all[1].\n")
    assert "[1] [draft] Of [/acks] (kafka 2.8, requested 3.0)" in text
    assert "https://docs.example/[x]#acks" in text
    assert "extractive" in text


def test_another_attempt_starts_over(
    run: Run, asking: Asking, capsys: pytest.CaptureFixture[str]
) -> None:
    asking(delta(0, "It was"), delta(0, "It is", "2"), answer())
    assert run("ask", "What?") == 0
    text = capsys.readouterr().out
    assert "starting over" in text
    assert "\nIt is all[1].\n" in text


def test_a_failure_is_told(run: Run, asking: Asking, capsys: pytest.CaptureFixture[str]) -> None:
    asking(answer(status="failed", text="", failure=FAILURE))
    assert run("ask", "What?") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "failed in answer: [/bold] broke (permanent; will fail again)" in said


def test_a_question_that_is_not_accepted(
    run: Run, asking: Asking, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"topic": "t", "partition": 0, "offset": 0}
    asking({"message": "no such route: '[/red]'", "code": "invalid_event", **place})
    assert run("ask", "What?", "--route", "[/red]") == 2
    assert "rejected: no such route: '[/red]'" in capsys.readouterr().err


def test_a_question_that_can_not_be_asked(
    run: Run, asking: Asking, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = asking(answer())
    assert run("ask", " ") == 2
    assert "text: has no visible character" in capsys.readouterr().err
    assert pipeline.query is None


def test_no_answer_in_time(
    run: Run,
    asking: Asking,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(client_module, "GRACE", 0.01)
    pipeline = asking()
    assert run("ask", "What?", "--timeout", "0.01") == 4
    assert "is a worker running?" in capsys.readouterr().err
    assert len(pipeline.bus.records("test.control.v1")) == 1  # it is cancelled
