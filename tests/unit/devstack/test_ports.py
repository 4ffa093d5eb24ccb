from __future__ import annotations

import socket

import pytest

from ragstream.devstack.ports import choose_ports, is_free
from ragstream.domain.errors import ConfigurationError

NAMES = ("kafka", "valkey", "postgres")


def test_sees_whether_something_listens() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_chooses_distinct_free_ports() -> None:
    chosen = choose_ports(NAMES, {}, {}, free=lambda port: port % 2 == 0)
    assert tuple(chosen) == NAMES
    assert len(set(chosen.values())) == 3
    assert all(port % 2 == 0 for port in chosen.values())


def test_given_before_remembered_before_any() -> None:
    chosen = choose_ports(NAMES, {"kafka": 9092}, {"kafka": 1, "valkey": 20_001}, lambda _: True)
    assert chosen["kafka"] == 9092
    assert chosen["valkey"] == 20_001


def test_a_remembered_port_that_is_taken_is_replaced() -> None:
    remembered = {"kafka": 20_001, "valkey": 20_002, "postgres": 20_003}
    chosen = choose_ports(NAMES, {}, remembered, free=lambda port: port != 20_001)
    assert chosen["kafka"] not in remembered.values()
    assert chosen["valkey"] == 20_002


def test_a_given_port_beats_the_same_remembered_one() -> None:
    chosen = choose_ports(NAMES, {"postgres": 20_001}, {"kafka": 20_001}, lambda _: True)
    assert chosen["postgres"] == 20_001
    assert chosen["kafka"] != 20_001


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka": 9092}, r"port 9092 for kafka is taken on 127\.0\.0\.1: choose another"),
        ({"valkey": 5, "kafka": 5}, "port 5 is given twice"),
        ({"redis": 6379}, "no component is called redis: a port can be given for kafka"),
    ],
)
def test_a_given_port_that_cannot_be_had(given: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        choose_ports(NAMES, given, {}, free=lambda port: port != 9092)


def test_no_port_left() -> None:
    with pytest.raises(ConfigurationError, match="no free port"):
        choose_ports(NAMES, {}, {}, free=lambda _: False)
