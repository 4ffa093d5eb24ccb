"""What a library says over and over is said now and then."""

from __future__ import annotations

import logging

import pytest

from ragstream.cli.repeats import Repeats


def say(sieve: Repeats, message: str, *args: object, name: str = "aiokafka.conn") -> str | None:
    record = logging.LogRecord(name, logging.ERROR, __file__, 1, message, args, None)
    return record.getMessage() if sieve.filter(record) else None


@pytest.fixture
def time() -> list[float]:
    return [0.0]


@pytest.fixture
def sieve(time: list[float]) -> Repeats:
    return Repeats("aiokafka", interval=10, now=lambda: time[0])


def test_the_same_message_is_told_once_in_a_while(sieve: Repeats, time: list[float]) -> None:
    assert say(sieve, "Unable to connect to %s", "a:1") == "Unable to connect to a:1"
    assert say(sieve, "Unable to connect to %s", "b:2") is None
    assert say(sieve, "Unable to connect to %s", "c:3") is None
    time[0] = 10
    assert say(sieve, "Unable to connect to %s", "d:4") == (
        "Unable to connect to d:4 (2 more like it)"
    )
    time[0] = 20
    assert say(sieve, "Unable to connect to %s", "d:4") == "Unable to connect to d:4"


def test_other_messages_and_other_loggers_pass(sieve: Repeats) -> None:
    assert say(sieve, "one")
    assert say(sieve, "two")
    assert say(sieve, "one", name="aiokafka.consumer")
    for _ in range(3):
        assert say(sieve, "one", name="ragstream.worker")
        assert say(sieve, "one", name="aiokafkaesque")
