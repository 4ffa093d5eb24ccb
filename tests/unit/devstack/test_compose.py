"""docker-compose.yml and the development stack are the same components with the same settings."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragstream.devstack import kafka, postgres, valkey
from ragstream.devstack.state import VARIABLES

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    content = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return dict(content["services"])


def test_kafka(services: dict[str, Any]) -> None:
    service = services["kafka"]
    assert service["image"] == kafka.IMAGE
    given = service["environment"]
    expected = kafka.docker_environment(kafka.SETTINGS)
    assert {variable: given.get(variable) for variable in expected} == expected
    assert given["KAFKA_HEAP_OPTS"] == " ".join(kafka.HEAP)


def test_valkey(services: dict[str, Any]) -> None:
    service = services["valkey"]
    version = subprocess.run(
        [valkey.binary(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    _, tag = service["image"].split(":")
    assert f"v={tag}." in version
    options = service["command"][1:]
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given == {f"--{key}": value.strip('"') for key, value in valkey.SETTINGS.items()}


def test_postgres(services: dict[str, Any]) -> None:
    service = services["postgres"]
    programs = postgres.locate_programs()
    version = subprocess.run(
        [programs / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert service["image"] == f"postgres:{version.split()[-1]}"
    assert service["image"].startswith(f"postgres:{postgres.MAJOR}.")
    options = service["command"][1:]
    assert set(options[::2]) == {"-c"}
    assert options[1::2] == [f"{key}={value}" for key, value in postgres.SETTINGS.items()]
    assert service["environment"]["POSTGRES_INITDB_ARGS"] == " ".join(postgres.INITDB)
    assert service["environment"]["POSTGRES_DB"] == postgres.DATABASE


def test_qdrant_is_the_release_of_the_embedded_engine(services: dict[str, Any]) -> None:
    [bill] = [f for f in files("qdrant-edge-py") or [] if f.name.endswith("cyclonedx.json")]
    components = json.loads(bill.read_text())["components"]
    [version] = [part["version"] for part in components if part["name"] == "api"]
    _, tag = services["qdrant"]["image"].split(":v")
    assert tag.split(".")[:2] == version.split(".")[:2]


def test_everything_listens_on_the_loopback_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_worker_waits_for_topics_and_components(services: dict[str, Any]) -> None:
    waits = {name: wait["condition"] for name, wait in services["worker"]["depends_on"].items()}
    healthy = dict.fromkeys(("kafka", "qdrant", "valkey", "postgres"), "service_healthy")
    assert waits == {**healthy, "topics": "service_completed_successfully"}
    assert all("healthcheck" in services[name] for name in healthy)
    assert services["worker"]["restart"] == "unless-stopped"
    assert services["topics"]["command"] == ["topics", "apply"]


def test_the_worker_is_led_to_the_components(services: dict[str, Any]) -> None:
    for name in ("worker", "topics"):
        assert set(services[name]["environment"]) == set(VARIABLES.values())
    given = services["worker"]["environment"]
    assert given[VARIABLES["kafka"]] == "kafka:19092"
    assert (
        "INTERNAL://kafka:19092" in (services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"])
    )


def test_no_secret_is_written_down(services: dict[str, Any]) -> None:
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith(
        "${POSTGRES_PASSWORD:?"
    )
    assert ":${POSTGRES_PASSWORD:?" in services["worker"]["environment"][VARIABLES["postgres"]]


def test_the_image_is_small_pinned_and_not_root() -> None:
    lines = (ROOT / "ops" / "Dockerfile").read_text().splitlines()
    assert sum(line.startswith("FROM ") for line in lines) == 2
    assert any("--require-hashes" in line and "requirements.lock" in line for line in lines)
    assert any(line.startswith("USER ") and "root" not in line for line in lines)
    assert any('"worker", "--check"' in line for line in lines)
