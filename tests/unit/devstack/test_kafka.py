from __future__ import annotations

import pytest

from ragstream.devstack import kafka
from ragstream.devstack.kafka import Broker, Probes, choose
from ragstream.domain.errors import ConfigurationError


@pytest.mark.parametrize(
    ("probes", "broker", "reason"),
    [
        (Probes(java=17, maven=True), Broker.JAVA, "Java 17"),
        (Probes(java=21, jars=True), Broker.JAVA, "Java 21"),
        (Probes(java=21, maven=True, docker=True), Broker.JAVA, "Java 21"),
        (Probes(java=21, docker=True), Broker.DOCKER, "there is no Maven to fetch Kafka with"),
        (
            Probes(java=11, maven=True, docker=True),
            Broker.DOCKER,
            "Java 11 is too old (Kafka 4.4.0 needs 17)",
        ),
        (
            Probes(maven=True),
            Broker.MEMORY,
            "there is no Java, and no Docker daemon answers",
        ),
        (
            Probes(java=17),
            Broker.MEMORY,
            "there is no Maven to fetch Kafka with, and no Docker daemon answers",
        ),
    ],
)
def test_takes_java_then_docker_then_no_broker(probes: Probes, broker: Broker, reason: str) -> None:
    assert choose(probes) == kafka.Choice(broker, reason)


def test_a_wish_wins_where_it_can_be_had() -> None:
    everything = Probes(java=17, maven=True, jars=True, docker=True)
    for broker in Broker:
        assert choose(everything, broker).broker is broker
    assert choose(Probes(), Broker.MEMORY).broker is Broker.MEMORY


@pytest.mark.parametrize(
    ("wanted", "message"),
    [(Broker.JAVA, "there is no Java"), (Broker.DOCKER, "no Docker daemon answers")],
)
def test_a_wish_that_cannot_be_had_is_the_users_to_mend(wanted: Broker, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        choose(Probes(), wanted)


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.2" 2024-01-16', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_reads_the_major_version_of_java(output: str, major: int | None) -> None:
    assert kafka.java_major(output) == major


def test_cluster_ids_are_16_bytes_and_never_look_like_options() -> None:
    made = {kafka.cluster_id() for _ in range(500)}
    assert len(made) == 500
    assert all(len(one) == 22 and one[0] != "-" for one in made)


def test_the_container_is_published_on_the_loopback_only() -> None:
    command = kafka.docker_command("ragstream-x", 25001)
    assert command[-1] == "apache/kafka:4.4.0"
    assert command[command.index("--publish") + 1] == "127.0.0.1:25001:25001"
    variables = [command[i + 1] for i, part in enumerate(command) if part == "--env"]
    assert "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:25001" in variables
    for variable, value in kafka.docker_environment(kafka.SETTINGS).items():
        assert f"{variable}={value}" in variables


def test_paths_in_the_properties_are_ascii() -> None:
    settings = {"a": "1", "log.dirs": "/tmp/Ω/\U0001f600\\b c"}
    written = "a=1\nlog.dirs=/tmp/\\u03a9/\\ud83d\\ude00\\\\b c\n"
    assert kafka.as_properties(settings) == written


def test_the_virtual_machine_writes_nothing_below_tmp() -> None:
    assert "-XX:-UsePerfData" in kafka.JVM
