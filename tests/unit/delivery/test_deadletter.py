from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.delivery.deadletter import DEAD_LETTER_PREFIX, LARGEST_VALUE, dead_letter
from ragstream.domain.errors import InvalidEvent, PermanentError
from ragstream.domain.records import InboundRecord, OutboundRecord

optional_bytes = st.none() | st.binary(max_size=50)
header_names = st.sampled_from(["traceparent", "ce_id", "x", DEAD_LETTER_PREFIX + "topic"])


def record(value: bytes | None = b"{}", **fields: object) -> InboundRecord:
    return InboundRecord("in", 3, 17, 0.0, b"key", value, **fields)  # type: ignore[arg-type]


def facts(letter: OutboundRecord) -> dict[str, str]:
    return {
        name.removeprefix(DEAD_LETTER_PREFIX): content.decode()
        for name, content in letter.headers
        if name.startswith(DEAD_LETTER_PREFIX)
    }


@given(
    key=optional_bytes,
    value=optional_bytes,
    headers=st.lists(st.tuples(header_names, st.binary(max_size=9)), max_size=6),
)
def test_the_record_stays_as_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    read = InboundRecord("in", 0, 1, 0.0, key, value, tuple(headers))
    letter = dead_letter(read, InvalidEvent("no"), stage="route", topic="in.dlt")
    assert (letter.topic, letter.key, letter.value) == ("in.dlt", key, value)
    own = [h for h in letter.headers if not h[0].startswith(DEAD_LETTER_PREFIX)]
    assert own == [h for h in headers if not h[0].startswith(DEAD_LETTER_PREFIX)]


def test_it_says_where_it_was_and_why() -> None:
    error = InvalidEvent("must be positive", field="top_k")
    letter = dead_letter(record(), error, stage="route", topic="in.dlt")
    said = facts(letter)
    assert (said["topic"], said["partition"], said["offset"]) == ("in", "3", "17")
    assert said["stage"] == "route"
    assert said["exception.class.name"] == "ragstream.domain.errors.InvalidEvent"
    assert said["exception.message"] == "top_k: must be positive"
    assert said["exception.code"] == "invalid_event"
    assert "exception.stacktrace" not in said


def test_a_defect_brings_its_trace() -> None:
    try:
        {}["missing"]
    except KeyError as error:
        said = facts(dead_letter(record(), error, stage="answer", topic="in.dlt"))
    assert said["exception.code"] == "internal"
    assert "test_deadletter.py" in said["exception.stacktrace"]


def test_what_is_too_large_is_represented_by_its_hash() -> None:
    value = b"x" * (LARGEST_VALUE + 1)
    letter = dead_letter(record(value), PermanentError("no"), stage="route", topic="in.dlt")
    said = facts(letter)
    assert letter.value == b""
    assert said["value.sha256"] == hashlib.sha256(value).hexdigest()
    assert said["value.bytes"] == str(LARGEST_VALUE + 1)


def test_the_largest_value_is_kept() -> None:
    value = b"x" * LARGEST_VALUE
    letter = dead_letter(record(value), PermanentError("no"), stage="route", topic="in.dlt")
    assert letter.value == value


@pytest.mark.parametrize("text", ["x" * 100_000, "\ud800"])
def test_any_message_fits_into_a_header(text: str) -> None:
    letter = dead_letter(record(), PermanentError(text), stage="route", topic="in.dlt")
    assert sum(len(content) for _, content in letter.headers) < 64 * 1024


def test_what_failed_again_tells_of_the_last_time() -> None:
    first = dead_letter(record(), PermanentError("one"), stage="route", topic="in.dlt")
    again = record(headers=first.headers)
    said = facts(dead_letter(again, PermanentError("two"), stage="route", topic="in.dlt"))
    letter = dead_letter(again, PermanentError("two"), stage="route", topic="in.dlt")
    assert said["exception.message"] == "two"
    assert len(letter.headers) == len(first.headers)
