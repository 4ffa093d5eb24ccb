"""What commands make of what answers at the health port."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from typing import Any

import pytest

from ragstream.adapters.memory_vectors import MemoryVectorStore
from ragstream.app import collection_specs
from ragstream.cli import checks
from ragstream.domain.errors import ConfigurationError, PermanentError
from ragstream.settings import load_settings
from tests.support.commandline import run_command

Serve = Callable[[bytes], None]
KAFKA = "nowhere:9092"
HEALTHY = {"partitions": 4, "in_flight": 0, "paused": None}


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS", KAFKA)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A server at the health port that answers with these bytes."""
    answer = b""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(answer)

    with TCPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setenv("RAGSTREAM_WORKER__HEALTH_PORT", str(server.server_address[1]))
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()

        def serve(these: bytes) -> None:
            nonlocal answer
            answer = these

        yield serve
        server.shutdown()


def http(status: str, body: bytes) -> bytes:
    return b"HTTP/1.0 %s\r\n\r\n%s" % (status.encode(), body)


def worker(status: str = "200 OK", *, servers: str = KAFKA, **stages: Any) -> bytes:
    report = {"pid": 7, "bootstrap_servers": servers, "prefix": "ragstream"}
    return http(status, json.dumps({**report, "stages": stages or {"route": HEALTHY}}).encode())


STARTING = worker("503 Service Unavailable", route=HEALTHY | {"partitions": None})
PAUSED = worker("503 Service Unavailable", route=HEALTHY | {"paused": "redis: refused"})
CASES = {
    "ready": (worker(), None),
    "starting": (STARTING, "route: no partitions yet"),
    "paused": (PAUSED, "route is paused: redis: refused"),
    "another stack": (worker(servers="a:1"), "is on Kafka a:1, not nowhere:9092"),
    "another web server": (http("404 Not Found", b"<html>"), "is no worker"),
    "another service": (http("200 OK", b'{"status": "ok"}'), "is no worker"),
    "no web server": (b"SSH-2.0-OpenSSH_9.2\r\n", "is no worker"),
    "nothing at all": (b"", "worker"),
}


@pytest.mark.parametrize("case", CASES)
def test_whether_it_is_ready(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    answer, problem = CASES[case]
    serve(answer)
    assert run_command(monkeypatch, "worker", "--check") == (1 if problem else 0)
    assert (problem or "") in capsys.readouterr().err


@pytest.mark.parametrize("case", CASES)
async def test_doctor_says_the_same(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    answer, problem = CASES[case]
    serve(answer)
    monkeypatch.setattr(checks, "TopicAdmin", Admin)
    monkeypatch.setattr(Admin, "members_of", NOBODY, raising=False)
    settings = load_settings()
    examine = partial(checks._worker, settings)
    async with AsyncExitStack() as stack:
        if problem is None:
            assert await examine(stack) == "ready: route"
            assert checks.worker_pid(settings) == {"worker": 7}
            return
        with pytest.raises(PermanentError, match=problem):
            await examine(stack)
    if case not in ("starting", "paused"):
        assert checks.worker_pid(settings) == {}


class Admin:
    """In the place of the cluster's administration."""

    members_of: dict[str, int]

    def __init__(self, _connection: object) -> None: ...

    async def __aenter__(self) -> Admin:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def members(self, groups: Any) -> dict[str, int]:
        return {group: self.members_of.get(group.rpartition(".")[2], 1) for group in groups}


NOBODY = dict.fromkeys(("route", "retrieve", "rerank", "answer", "ingest", "history"), 0)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, "runs elsewhere: every group has members"),
        ({"rerank": 0}, "no worker reads for ragstream.rerank"),
        (NOBODY, "start `ragstream worker`"),
    ],
)
async def test_where_none_answers_the_groups_tell_of_workers(
    monkeypatch: pytest.MonkeyPatch, members: dict[str, int], said: str
) -> None:
    def nobody(_settings: object) -> None:
        raise checks.NobodyAnswers("no worker answers on X")

    monkeypatch.setattr(checks, "readiness", nobody)
    monkeypatch.setattr(checks, "TopicAdmin", Admin)
    monkeypatch.setattr(Admin, "members_of", members, raising=False)
    async with AsyncExitStack() as stack:
        if members:
            with pytest.raises(PermanentError, match=said):
                await checks._worker(load_settings(), stack)
        else:
            assert said in await checks._worker(load_settings(), stack)


@pytest.mark.parametrize("ensured", [True, False])
@pytest.mark.parametrize("found", ["none", "of other dimensions", "as configured"])
async def test_collections(monkeypatch: pytest.MonkeyPatch, found: str, ensured: bool) -> None:
    monkeypatch.setenv("RAGSTREAM_QDRANT__URL", "http://nowhere:6333")
    monkeypatch.setenv("RAGSTREAM_QDRANT__ENSURE_COLLECTIONS", str(ensured))
    store = MemoryVectorStore()
    monkeypatch.setattr(checks, "build_store", lambda *_: store)
    settings = load_settings()
    if found != "none":
        await store.ensure(collection_specs(settings), create=True, payload_indexes=False)
    if found == "of other dimensions":
        settings = load_settings(embeddings={"dimensions": 100})
    async with AsyncExitStack() as stack:
        if found == "as configured":
            assert "0 chunks in 5 collections" in await checks._qdrant(settings, stack)
        elif found == "none" and ensured:
            assert "are made when a worker starts" in await checks._qdrant(settings, stack)
        else:
            with pytest.raises(ConfigurationError, match="collections are not as configured"):
                await checks._qdrant(settings, stack)
