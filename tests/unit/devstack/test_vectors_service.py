"""The local vector store as a process: what survives, what it refuses, and how it says so."""

from __future__ import annotations

import random
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import qdrant_edge as edge
from qdrant_client.http import models

from ragstream.devstack.vectors import engine
from tests.support.vectors import LocalVectors, chunk_id, start

SCHEMA = {
    "vectors": {"dense": {"size": 2, "distance": "Cosine"}},
    "sparse_vectors": {"bm25": {"modifier": "idf"}},
}


def point(number: int, **vectors: object) -> dict[str, object]:
    return {
        "id": chunk_id(number),
        "vector": vectors or {"dense": [1.0, 2.0], "bm25": {"indices": [7], "values": [1.0]}},
        "payload": {"tenant": "acme", "number": number},
    }


def count(http: httpx.Client) -> int:
    response = http.post("/collections/docs/points/count", json={})
    assert response.status_code == 200
    counted: int = response.json()["result"]["count"]
    return counted


def upsert(http: httpx.Client, *points: object) -> httpx.Response:
    return http.put("/collections/docs/points?wait=true", json={"points": points})


def create(http: httpx.Client, name: str = "docs") -> httpx.Response:
    return http.put(f"/collections/{name}", json=SCHEMA)


@pytest.mark.integration
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    vectors = LocalVectors(tmp_path)
    with httpx.Client(base_url=vectors.url) as http:
        assert create(http).json()["result"] is True
        index = {"field_name": "tenant", "field_schema": "keyword"}
        assert http.put("/collections/docs/index?wait=true", json=index).status_code == 200
        assert upsert(http, point(1), point(2), point(3)).json()["status"] == "ok"
        deletion = {"points": [chunk_id(2)]}
        assert http.post("/collections/docs/points/delete", json=deletion).status_code == 200
        # Refused as a whole: nothing of it may appear when the log is replayed.
        assert upsert(http, point(8), point(9, dense=[1.0])).status_code == 400
        assert create(http, "short lived").status_code == 200
        assert http.delete("/collections/short lived").json()["result"] is True
    vectors.kill()
    half_made = tmp_path / ".0123"
    half_made.mkdir()

    vectors = LocalVectors(tmp_path)
    with httpx.Client(base_url=vectors.url) as http:
        names = http.get("/collections").json()["result"]["collections"]
        assert names == [{"name": "docs"}]
        asked = {"ids": [chunk_id(number) for number in range(10)], "with_payload": True}
        found = http.post("/collections/docs/points", json=asked).json()["result"]
        assert sorted(one["payload"]["number"] for one in found) == [1, 3]
        info = models.CollectionInfo.model_validate(http.get("/collections/docs").json()["result"])
        assert info.payload_schema["tenant"].data_type == models.PayloadSchemaType.KEYWORD
        assert info.config.params.sparse_vectors == {
            "bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)
        }
        assert upsert(http, point(4)).status_code == 200
    assert not half_made.exists()
    assert vectors.stop() == 0

    vectors = LocalVectors(tmp_path)
    with httpx.Client(base_url=vectors.url) as http:
        assert count(http) == 3
    assert vectors.stop() == 0


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="no limits for other processes")
def test_a_full_disk_is_an_outage_that_ends(tmp_path: Path) -> None:
    vectors = LocalVectors(tmp_path)
    process = psutil.Process(vectors.process.pid)
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    with httpx.Client(base_url=vectors.url, timeout=30) as http:
        assert create(http).status_code == 200
        process.rlimit(psutil.RLIMIT_FSIZE, (4096, hard))
        statuses = []
        while len(statuses) < 60 and 500 not in statuses:
            # Nothing that could be compressed, so that 60 of them don't fit into 32 MiB.
            large = point(len(statuses))
            large["payload"] = {"text": b64encode(random.Random(1).randbytes(750_000)).decode()}
            statuses.append(upsert(http, large).status_code)
        assert statuses[-1] == 500
        assert upsert(http, point(len(statuses))).status_code == 500
        process.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))
        for number in range(len(statuses) + 1):
            assert upsert(http, point(number)).status_code == 200
        assert count(http) == len(statuses) + 1
    assert vectors.stop() == 0


def test_rewriting_segments_keeps_the_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "OPTIMIZE_AFTER", 1000)
    collections = engine.Collections(tmp_path)
    collections.create("docs", models.CreateCollection.model_validate(SCHEMA))
    docs = collections["docs"]
    points = [
        edge.Point(id=number, vector={"dense": [1.0, float(number)]}, payload={})
        for number in range(1, 2001)
    ]
    docs.update(edge.UpdateOperation.upsert_points(points), points=2000)
    docs.update(edge.UpdateOperation.delete_points(list(range(1, 1001))), points=1000)
    folder = tmp_path / "docs" / "shard" / "segments"
    before = {path.name for path in folder.iterdir()}
    collections.tidy()
    assert {path.name for path in folder.iterdir()} != before
    docs.update(edge.UpdateOperation.upsert_points(points[:1]), points=1)
    collections.close()

    collections = engine.Collections(tmp_path)
    counted = collections["docs"].shard.count(edge.CountRequest())
    nearest = edge.Query.Nearest([1.0, 0.0], using="dense")
    best = collections["docs"].shard.query(edge.QueryRequest(limit=2, query=nearest))
    collections.close()
    assert counted == 1001
    assert [point.id for point in best] == [1, 1001]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalVectors, Path]]:
    data = tmp_path_factory.mktemp("vectors")
    vectors = LocalVectors(data)
    yield vectors, data
    assert vectors.stop() == 0


@pytest.fixture
def http(running: tuple[LocalVectors, Path]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running[0].url) as client:
        create(client)
        yield client


def test_one_process_per_data_folder(running: tuple[LocalVectors, Path]) -> None:
    second = start(running[1])
    out, err = second.communicate(timeout=20)
    assert second.returncode == 2
    assert out == ""
    assert err == f"error: {running[1]} is in use by another process\n"


def test_port_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        second = start(tmp_path, port=port)
        _, err = second.communicate(timeout=20)
    assert second.returncode == 2
    assert err.startswith(f"error: can't listen on 127.0.0.1:{port}: ")
    assert err.count("\n") == 1


def test_health_and_version(http: httpx.Client) -> None:
    assert http.get("/healthz").text == "healthz check passed"
    assert models.VersionInfo.model_validate(http.get("/").json()).version


def test_envelope(http: httpx.Client) -> None:
    body = http.get("/collections/docs/exists").json()
    assert body["result"] == {"exists": True}
    assert body["status"] == "ok"
    assert body["time"] >= 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/collections/none", None, 404, "Not found: Collection `none` doesn't exist!"),
        ("POST", "/collections/none/points/count", {}, 404, "Not found"),
        ("PUT", "/collections/docs", SCHEMA, 409, "Collection `docs` already exists!"),
        ("PUT", "/collections/a%2Fb", SCHEMA, 400, "invalid collection name"),
        ("PUT", "/collections/docs/points", {"points": [point(1, dense=[1.0])]}, 400,
         "Wrong input: Vector dimension error: expected dim: 2, got 1"),
        ("PUT", "/collections/docs/points", {"points": [point(1, nope=[1.0, 2.0])]}, 400,
         "Wrong input: Not existing vector name error: nope"),
        ("PUT", "/collections/docs/points", {"points": [point(1, bm25=[1.0, 2.0])]}, 400,
         "Wrong input: Wrong vector type error: bm25 is sparse"),
        ("PUT", "/collections/docs/points",
         {"points": [point(1, bm25={"indices": [1, 1], "values": [1.0, 2.0]})]}, 400,
         "indices must be unique"),
        ("PUT", "/collections/docs/points",
         {"points": [point(1, bm25={"indices": [1], "values": [1.0, 2.0]})]}, 400,
         "as many indices as values"),
        ("PUT", "/collections/docs/points",
         {"points": [{"id": "one", "vector": {"dense": [1.0, 2.0]}}]}, 400, "UUID"),
        ("PUT", "/collections/docs/points", {"pints": []}, 400, "Format error in JSON body"),
        ("POST", "/collections/docs/points/query", {"query": [1.0], "using": "dense"}, 400,
         "Vector dimension error: expected dim: 2, got 1"),
        ("POST", "/collections/docs/points/query", {"query": [1.0, 2.0], "using": "nope"}, 400,
         "Not existing vector name error: nope"),
        ("POST", "/collections/docs/points/query", {"query": {"sample": "random"}}, 400,
         "SampleQuery is not supported"),
        ("PUT", "/collections/docs/points", {"points": [], "update_mode": "insert_only"}, 400,
         "update_mode is not supported"),
    ],
)  # fmt: skip
def test_errors(
    http: httpx.Client, method: str, path: str, body: object, status: int, message: str
) -> None:
    response = http.request(method, path, json=body)
    assert response.status_code == status
    told: Any = response.json()
    assert message in told["status"]["error"]
    assert "result" not in told
    assert count(http) == 0


def test_body_that_is_not_json(http: httpx.Client) -> None:
    response = http.put("/collections/docs/points", content=b"{")
    assert response.status_code == 400
    assert "Format error in JSON body" in response.json()["status"]["error"]


def test_scroll_pages_through_everything(http: httpx.Client) -> None:
    http.put("/collections/pages", json=SCHEMA)
    points = [point(number) for number in range(1, 8)]
    http.put("/collections/pages/points", json={"points": points})
    seen: list[int] = []
    offset = None
    while True:
        asked = {"limit": 3, "offset": offset, "with_payload": ["number"]}
        page = http.post("/collections/pages/points/scroll", json=asked).json()["result"]
        seen += [one["payload"]["number"] for one in page["points"]]
        offset = page["next_page_offset"]
        if offset is None:
            break
    assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_facet_needs_an_index(http: httpx.Client) -> None:
    http.put("/collections/counted", json=SCHEMA)
    http.put("/collections/counted/points", json={"points": [point(1), point(2)]})
    refused = http.post("/collections/counted/facet", json={"key": "tenant"})
    assert refused.status_code == 400
    assert "No appropriate index" in refused.json()["status"]["error"]
    index = {"field_name": "tenant", "field_schema": "keyword"}
    assert http.put("/collections/counted/index", json=index).status_code == 200
    counted = http.post("/collections/counted/facet", json={"key": "tenant", "exact": True})
    assert counted.json()["result"] == {"hits": [{"value": "acme", "count": 2}]}


def test_set_payload(http: httpx.Client) -> None:
    http.put("/collections/changed", json=SCHEMA)
    http.put("/collections/changed/points", json={"points": [point(1), point(2)]})
    change = {"payload": {"seen": True}, "points": [chunk_id(1)]}
    assert http.post("/collections/changed/points/payload", json=change).status_code == 200
    condition = {"must": [{"key": "seen", "match": {"value": True}}]}
    counted = http.post("/collections/changed/points/count", json={"filter": condition}).json()
    assert counted["result"]["count"] == 1
