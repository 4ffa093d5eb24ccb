from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragstream.domain.errors import InvalidEvent
from ragstream.domain.events import Cancel, DocumentEvent, Event, Query
from ragstream.domain.records import Headers, InboundRecord, OutboundRecord
from ragstream.strictjson import parse_json
from ragstream.wire import (
    decode,
    encode,
    event_id,
    fingerprint,
    readable_fields,
    record_key,
    type_name,
)

TIME = datetime(2026, 1, 10, 12, 0, 0, 123456, tzinfo=UTC)
PLAIN = orjson.dumps({"query_id": "q", "text": "What?"})


def inbound(value: bytes | None, headers: Headers = ()) -> InboundRecord:
    return InboundRecord("t", 0, 0, 0.0, None, value, headers)


def read_back(record: OutboundRecord) -> InboundRecord:
    return InboundRecord(record.topic, 0, 0, 0.0, record.key, record.value, record.headers)


def test_binary_mode_round_trip() -> None:
    query = Query(query_id="q", text="Was ist Zoë?", filters={"docVersion": ["2.8"]})
    record = encode(query, topic="t", key=b"k", id="i", time=TIME, subject="q", generation=2)
    assert dict(record.headers) == {
        "content-type": b"application/json",
        "ce_specversion": b"1.0",
        "ce_id": b"i",
        "ce_source": b"ragstream",
        "ce_type": b"io.ragstream.query.v1",
        "ce_time": b"2026-01-10T12:00:00.123Z",
        "ce_generation": b"2",
        "ce_subject": b"q",
    }
    event, envelope = decode(read_back(record), Query)
    assert event == query
    assert (envelope.id, envelope.generation, envelope.time) == (
        "i",
        2,
        TIME.replace(microsecond=123000),
    )


def test_unknown_fields_and_headers_travel_on() -> None:
    record = encode(
        Query.model_validate({"query_id": "q", "text": "?", "priority": 7}),
        topic="t", key=None, id="i", time=TIME, carried=(("traceparent", b"00"), ("x", b"1")),
    )  # fmt: skip
    event, envelope = decode(read_back(record), Query)
    assert event.model_extra == {"priority": 7}
    assert envelope.carried == (("traceparent", b"00"), ("x", b"1"))


def test_plain_json_is_accepted_where_people_publish_only() -> None:
    assert decode(inbound(PLAIN), Query, lenient=True)[0].text == "What?"
    with pytest.raises(InvalidEvent, match="ce_specversion"):
        decode(inbound(PLAIN), Query)


@pytest.mark.parametrize("content_type", [b"application/cloudevents+json", None])
def test_structured_mode(content_type: bytes | None) -> None:
    body = {
        "specversion": "1.0", "type": "io.ragstream.query.v1", "source": "/me", "id": "7",
        "data": {"query_id": "q", "text": "What?"},
    }  # fmt: skip
    headers = (("content-type", content_type),) if content_type else ()
    event, envelope = decode(inbound(orjson.dumps(body), headers), Query, lenient=True)
    assert (event.query_id, envelope.id, envelope.source) == ("q", "7", "/me")


def test_names_of_types() -> None:
    assert type_name(Cancel) == "io.ragstream.cancel.v1"
    assert type_name(DocumentEvent) == "io.ragstream.document.v1"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "value: the record is a tombstone"),
        (b"", "value: the value is empty"),
        (b"\x00\x00\x00\x00\x01abc", "Schema Registry"),
        (b"{", "value: not JSON"),
        (b"\xff", "value: not UTF-8 at byte 0"),
        (b'{"query_id": "a", "query_id": "b"}', "query_id: the key occurs twice"),
        (b'{"query_id": "a", "text": NaN}', "NaN is not JSON"),
        (b'{"query_id": "a", "text": "x", "n": 123456789012345678901234567890}', "n: integer"),
        (b'{"query_id": "a", "text": "x", "n": 1e999}', "n: number out of range"),
        (b'{"query_id": "a", "text": "\\ud800"}', "text: holds a lone surrogate"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "nested deeper"),
        (b"[]", "value: must be a JSON object, not an array"),
        (b'{"text": "x"}', "query_id: Field required"),
        (b'{"query_id": "a", "text": "x", "top_k": -1}', "top_k: "),
        (b'{"query_id": "a", "text": "x", "deadline": "2026-01-01T00:00:00"}', "deadline: "),
        (b'{"query_id": "a", "text": "\\u200b \\u202e"}', "text: has no visible character"),
        (b'{"query_id": "a", "text": "x", "history": [{"role": "root", "text": "y"}]}', "history"),
        (b'{"query_id": "a", "text": "x", "reply_partition": 1}', "reply_partition needs reply_to"),
    ],
)  # fmt: skip
def test_bad_queries_get_an_error_that_names_the_field(value: bytes | None, message: str) -> None:
    with pytest.raises(InvalidEvent) as caught:
        decode(inbound(value), Query, lenient=True)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("header", "value", "field"),
    [
        ("ce_specversion", b"0.3", "ce_specversion"),
        ("ce_type", b"com.example.order", "ce_type"),
        ("ce_id", b"", "ce_id"),
        ("ce_time", b"yesterday", "ce_time"),
        ("ce_time", b"2026-01-01T00:00:00", "ce_time"),
        ("ce_generation", b"-1", "ce_generation"),
        ("ce_source", b"\xff", "ce_source"),
        ("content-type", b"avro/binary", "content-type"),
    ],
)
def test_bad_headers(header: str, value: bytes, field: str) -> None:
    good = encode(Query(query_id="q", text="?"), topic="t", key=None, id="i", time=TIME)
    headers = tuple((n, value if n == header else v) for n, v in good.headers)
    with pytest.raises(InvalidEvent) as caught:
        decode(inbound(good.value, headers), Query, lenient=True)
    assert caught.value.field == field


def test_a_byte_order_mark_is_no_error() -> None:
    assert decode(inbound(b"\xef\xbb\xbf" + PLAIN), Query, lenient=True)[0].query_id == "q"


EVENT = {
    "query_id": "q", "text": "What?", "tenant": "t", "history": [{"role": "user", "text": "a"}],
    "filters": {"year": {"gte": 2020}, "docVersion": ["2.8"]}, "top_k": 3, "stream": False,
    "deadline": "2026-01-10T00:00:00Z", "reply_to": "r", "reply_partition": 0, "more": {"a": []},
}  # fmt: skip
ATTRIBUTES = ("ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "ce_generation")


def read_or_refused(
    value: bytes, headers: Headers = (), event_type: type[Event] = Query
) -> Event | None:
    """The event, or None where the error is one that a stranger can be shown."""
    try:
        return decode(inbound(value, headers), event_type, lenient=True)[0]
    except InvalidEvent as error:
        caught = error
    assert caught.field
    assert str(caught).startswith(f"{caught.field}: ")
    assert str(caught).isprintable()
    assert len(str(caught)) < 3000
    return None


@given(st.binary(max_size=200), st.sampled_from([Query, DocumentEvent, Cancel]))
def test_any_bytes_are_decoded_or_refused(value: bytes, event_type: type[Event]) -> None:
    read_or_refused(value, event_type=event_type)
    assert isinstance(readable_fields(value), dict)


@given(st.data())
def test_a_valid_event_with_a_few_other_bytes(data: st.DataObject) -> None:
    value = bytearray(orjson.dumps(EVENT))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(value)))
        end = start + data.draw(st.integers(0, 8))
        value[start:end] = data.draw(st.binary(max_size=4))
    read_or_refused(bytes(value))


header_names = st.sampled_from([*ATTRIBUTES, "content-type", "traceparent", ""]) | st.text()
header_values = st.none() | st.binary(max_size=20) | st.sampled_from(
    [b"1.0", b"1", b"/me", b"io.ragstream.query.v1", b"application/json",
     b"application/cloudevents+json", b"application/cloudevents-batch+json",
     b"2026-01-10T00:00:00Z"]
)  # fmt: skip


@given(st.lists(st.tuples(header_names, header_values), max_size=10).map(tuple))
def test_any_headers_are_accepted_or_refused(headers: Headers) -> None:
    event = read_or_refused(PLAIN, headers)
    if event is not None:
        _, envelope = decode(inbound(PLAIN, headers), Query, lenient=True)
        own = [
            (name, value)
            for name, value in headers
            if value is not None and not name.startswith("ce_") and name.lower() != "content-type"
        ]
        assert list(envelope.carried) == own


def test_headers_that_cannot_travel_on_are_refused() -> None:
    with pytest.raises(InvalidEvent, match="headers: a name holds a NUL"):
        decode(inbound(PLAIN, (("a\0", b""),)), Query, lenient=True)
    with pytest.raises(InvalidEvent, match="headers: have 70001 bytes, more than 65536"):
        decode(inbound(PLAIN, (("x", b"y" * 70_000),)), Query, lenient=True)


@given(
    st.builds(
        Query,
        query_id=st.from_regex(r"[\x21-\x7e]{1,200}", fullmatch=True),
        text=st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)),
                     min_size=1).map(lambda text: f"{text}?"),
        tenant=st.from_regex(r"[\x21-\x7e]{1,200}", fullmatch=True),
        top_k=st.none() | st.integers(1, 100),
        filters=st.dictionaries(
            st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=200),
            st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False,
            allow_infinity=False) | st.lists(st.text(st.characters(exclude_categories=("Cs",)),
            max_size=9), min_size=1, max_size=3),
            max_size=3,
        ),
        deadline=st.none() | st.datetimes(timezones=st.just(UTC)),
    )
)  # fmt: skip
def test_a_valid_query_is_read_back_as_it_was(query: Query) -> None:
    record = encode(query, topic="t", key=None, id="i", time=TIME)
    assert decode(read_back(record), Query)[0] == query
    assert decode(read_back(record), Query, lenient=True)[0] == query


def test_what_can_be_made_out_of_an_invalid_event() -> None:
    assert readable_fields(b'{"query_id": "a", "n": NaN, "x": 1e999}')["query_id"] == "a"
    assert readable_fields('{"query_id": "a", "text": "\xe9"}'.encode("latin-1"))["query_id"] == "a"
    assert readable_fields('{"query_id": "a"}'.encode("utf-16")) == {"query_id": "a"}
    assert readable_fields(b'{"query_id": "a", "query_id": "b", "n": 1}') == {
        "query_id": None, "n": 1
    }  # fmt: skip
    structured = {"specversion": "1.0", "type": "x", "source": "y", "id": "z"}
    assert readable_fields(orjson.dumps({**structured, "data": {"query_id": "a"}})) == {
        "query_id": "a"
    }
    for value in (None, b"", b"[1]", b"{", b"[" * 100_000, b"\x1f\x8b", b"9" * 10_000):
        assert readable_fields(value) == {}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from([*Query.model_fields, "other"]), json_values, max_size=6))
def test_any_object_is_decoded_or_refused_with_its_field(body: dict[str, object]) -> None:
    assume(body.get("other", "absent") is not None)  # null is written as absence
    raw = json.dumps({"query_id": "q", "text": "x", **body}).encode()
    event = read_or_refused(raw)
    if event is not None:
        record = encode(event, topic="t", key=None, id="i", time=TIME)
        assert decode(read_back(record), Query)[0] == event


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_strict_parsing_agrees_with_a_lenient_parser(body: dict[str, object]) -> None:
    try:
        raw = orjson.dumps(body)
    except orjson.JSONEncodeError:
        return  # integers over 64 bits
    assert parse_json(raw) == orjson.loads(raw)


def test_the_key_keeps_tenants_apart() -> None:
    assert record_key("a", "bc") != record_key("ab", "c")
    assert record_key("a", "b") == record_key("a", "b")


@given(st.lists(st.text() | st.integers()))
def test_event_ids_are_uuids_of_version_5(parts: list[str | int]) -> None:
    namespace = uuid.UUID("6f1c2f0e-6a0b-5f0e-9c59-0a2f5d6f9b11")
    expected = uuid.uuid5(namespace, "\x1f".join(map(str, parts)))
    assert event_id(*parts) == str(expected)


def test_the_fingerprint_ignores_the_deadline_only() -> None:
    one = Query(query_id="q", text="?")
    assert fingerprint(one) == fingerprint(one.model_copy(update={"deadline": TIME}))
    assert fingerprint(one) != fingerprint(one.model_copy(update={"top_k": 3}))
