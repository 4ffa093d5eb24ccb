"""Events as records: CloudEvents 1.0 in the Kafka protocol binding.

Binary mode is written: attributes are headers (``ce_id``, ``ce_type``, …), the value is the
event as JSON. Topics that people publish to also accept structured mode (``content-type:
application/cloudevents+json``) and plain JSON without any header.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from ragstream.domain.errors import InvalidEvent
from ragstream.domain.events import EVENT_TYPES, AnswerDelta, Event, Query
from ragstream.domain.records import Headers, InboundRecord, OutboundRecord, last_header

__all__ = [
    "EVENT_TYPE_NAMES",
    "SOURCE",
    "Envelope",
    "decode",
    "encode",
    "encode_delta",
    "event_id",
    "fingerprint",
    "generation_header",
    "parse_json",
    "record_key",
    "type_name",
    "validated",
]

E = TypeVar("E", bound=Event)

SOURCE = "ragstream"
SPEC_VERSION = "1.0"
MAX_DEPTH = 32
_NAMESPACE = uuid.UUID("6f1c2f0e-6a0b-5f0e-9c59-0a2f5d6f9b11")
_STRUCTURED = "application/cloudevents"
_JSON_TYPES = ("application/json", "text/json")


def type_name(event: type[Event]) -> str:
    """CloudEvents type: ``io.ragstream.answer-delta.v1``."""
    name = event.__name__.removesuffix("Event")
    return f"io.ragstream.{re.sub('(?<!^)(?=[A-Z])', '-', name).lower()}.v1"


#: CloudEvents type by the event's name.
EVENT_TYPE_NAMES = {name: type_name(cls) for name, cls in EVENT_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Envelope:
    """What came with an event. ``carried``: headers that travel on to every hop."""

    id: str | None = None
    source: str | None = None
    time: datetime | None = None
    generation: int = 0
    carried: Headers = ()


def record_key(tenant: str, ordering_key: str) -> bytes:
    """Record key: the same for all queries of a conversation. 32 hexadecimal characters.

    The lengths keep ("a", "bc") and ("ab", "c") apart.
    """
    text = f"{len(tenant)}:{tenant}:{ordering_key}"
    return hashlib.sha256(text.encode()).hexdigest()[:32].encode()


def event_id(*parts: str | int) -> str:
    """The id of an event: the same parts give the same id, so a repeat is recognisable."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(str(part) for part in parts)))


def fingerprint(query: Query) -> str:
    """SHA-256 of the request. A repeated request may name a later deadline and is the same."""
    body = query.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"deadline"})
    return hashlib.sha256(_dumped(body, orjson.OPT_SORT_KEYS)).hexdigest()


def generation_header(generation: int) -> tuple[str, bytes]:
    return ("ce_generation", str(generation).encode())


def encode(
    event: Event,
    *,
    topic: str,
    key: bytes | None,
    id: str,
    time: datetime,
    subject: str | None = None,
    generation: int = 0,
    source: str = SOURCE,
    carried: Headers = (),
    partition: int | None = None,
) -> OutboundRecord:
    """The event as a record in binary mode. Same arguments, same bytes.

    Raises ``InvalidEvent`` for what JSON can't carry (integers beyond 64 bits, lone surrogates).
    """
    headers = [
        ("content-type", b"application/json"),
        ("ce_specversion", SPEC_VERSION.encode()),
        ("ce_id", id.encode()),
        ("ce_source", source.encode()),
        ("ce_type", type_name(type(event)).encode()),
        ("ce_time", _rfc3339(time).encode()),
        generation_header(generation),
    ]
    if subject is not None:
        headers.append(("ce_subject", subject.encode()))
    body = event.model_dump(by_alias=True, exclude_none=True)
    value = _dumped(body, orjson.OPT_UTC_Z)
    return OutboundRecord(topic, key, value, (*headers, *carried), partition)


def _dumped(body: dict[str, Any], option: int) -> bytes:
    try:
        return orjson.dumps(body, option=option)
    except orjson.JSONEncodeError as error:
        raise InvalidEvent(f"can't be written as JSON: {error}", field="value") from None


def encode_delta(query: Query, delta: AnswerDelta, topic: str) -> OutboundRecord:
    """A piece of an answer, keyed like the answer."""
    return encode(
        delta,
        topic=topic,
        key=record_key(query.tenant, query.ordering_key),
        id=event_id(query.tenant, query.query_id, delta.attempt, delta.seq),
        time=datetime.now(UTC),
        subject=query.query_id,
    )


def decode(
    record: InboundRecord, event_type: type[E], *, lenient: bool = False
) -> tuple[E, Envelope]:
    """Read an event of the expected type.

    ``lenient``: the topic is one that people publish to, so structured mode and plain JSON are
    accepted and the JSON is read strictly (duplicate keys, numbers out of range and the like
    are errors). Raises ``InvalidEvent`` that names the field.
    """
    value = record.value
    if value is None:
        raise InvalidEvent("the record is a tombstone (null value)", field="value")
    if not value:
        raise InvalidEvent("the value is empty", field="value")
    content_type = _text(record.headers, "content-type") or ""
    binary = last_header(record.headers, "ce_specversion") is not None
    if not binary and not lenient:
        raise InvalidEvent("not a CloudEvent in binary mode", field="ce_specversion")
    body = parse_json(value) if lenient else _parse_fast(value)
    attributes: dict[str, Any]
    if binary:
        if content_type and not content_type.lower().startswith(_JSON_TYPES):
            raise InvalidEvent(
                f"must be application/json, not {content_type!r}", field="content-type"
            )
        attributes = {
            name[3:]: _header_text(name, raw)
            for name, raw in record.headers
            if name.startswith("ce_")
        }
    elif content_type.lower().startswith(_STRUCTURED) or _looks_structured(body):
        attributes, body = _structured(body)
    else:
        attributes = {}
    if attributes:
        _check_attributes(attributes, event_type)
    return validated(event_type, body), Envelope(
        id=attributes.get("id"),
        source=attributes.get("source"),
        time=_time(attributes.get("time")),
        generation=_generation(attributes.get("generation")),
        carried=_carried(record.headers),
    )


def validated(event_type: type[E], body: Any) -> E:
    """The event with these fields. Raises ``InvalidEvent`` that names what is wrong."""
    try:
        return event_type.model_validate(body)
    except ValidationError as error:
        raise _invalid(error) from None


def parse_json(value: bytes) -> Any:
    """Parse JSON strictly: UTF-8, no duplicate keys, no NaN or Infinity, integers of 64 bits, no
    lone surrogates, at most ``MAX_DEPTH`` levels. Raises ``InvalidEvent``."""
    if value[:1] == b"\x00":
        raise InvalidEvent(
            "the value starts with byte 0: it looks like Schema Registry framing (Avro, Protobuf "
            "or JSON Schema); publish plain JSON instead",
            field="value",
        )
    try:
        text = value.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"not UTF-8 at byte {error.start}", field="value") from None
    try:
        parsed = json.loads(text, object_pairs_hook=_unique_pairs, parse_constant=_no_constant)
    except InvalidEvent:
        raise
    except RecursionError:
        raise InvalidEvent("nested too deeply", field="value") from None
    except json.JSONDecodeError as error:
        raise InvalidEvent(
            f"not JSON: {error.msg} at line {error.lineno} column {error.colno}", field="value"
        ) from None
    except ValueError as error:  # integers of thousands of digits
        raise InvalidEvent(f"not JSON that can be read: {error}", field="value") from None
    _check_values(parsed)
    return parsed


def _parse_fast(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InvalidEvent(f"not JSON: {error}", field="value") from None


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidEvent("the key occurs twice", field=twice[:100])
    return result


def _no_constant(name: str) -> None:
    raise InvalidEvent(f"{name} is not JSON", field="value")


def _check_values(root: Any) -> None:
    pending: list[tuple[Any, str, int]] = [(root, "", 1)]
    while pending:
        value, path, depth = pending.pop()
        if isinstance(value, str):
            _check_string(value, path)
        elif isinstance(value, int) and not -(2**63) <= value < 2**64:
            raise InvalidEvent("integer outside 64 bits", field=path or "value")
        elif isinstance(value, float) and value in (float("inf"), float("-inf")):
            raise InvalidEvent("number out of range", field=path or "value")
        elif isinstance(value, dict | list):
            if depth > MAX_DEPTH:
                raise InvalidEvent(f"nested deeper than {MAX_DEPTH} levels", field=path or "value")
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for name, item in pairs:
                if isinstance(name, str):
                    _check_string(name, path)
                inner = f"{path}.{name}" if path else str(name)
                pending.append((item, inner[:200], depth + 1))


def _check_string(value: str, path: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidEvent("holds a lone surrogate", field=path or "value") from None


def _looks_structured(body: Any) -> bool:
    return isinstance(body, dict) and {"specversion", "type", "source", "id"} <= body.keys()


def _structured(body: Any) -> tuple[dict[str, Any], Any]:
    if not isinstance(body, dict):
        raise InvalidEvent("a structured CloudEvent is a JSON object", field="value")
    if "data" not in body:
        raise InvalidEvent("is missing", field="data")
    attributes = {name: value for name, value in body.items() if name != "data"}
    for name, value in attributes.items():
        if value is not None and not isinstance(value, str | int):
            raise InvalidEvent("must be a string", field=name)
    return attributes, body["data"]


def _check_attributes(attributes: dict[str, Any], event_type: type[Event]) -> None:
    version = attributes.get("specversion")
    if version != SPEC_VERSION:
        raise InvalidEvent(f"must be {SPEC_VERSION}, not {version!r}", field="ce_specversion")
    expected = type_name(event_type)
    if attributes.get("type") != expected:
        raise InvalidEvent(f"must be {expected}, not {attributes.get('type')!r}", field="ce_type")
    for name in ("id", "source"):
        if not attributes.get(name):
            raise InvalidEvent("is missing", field=f"ce_{name}")


def _time(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise InvalidEvent("not an RFC 3339 time", field="ce_time") from None
    if time.tzinfo is None:
        raise InvalidEvent("has no time zone", field="ce_time")
    return time


def _generation(value: str | int | None) -> int:
    if value is None:
        return 0
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise InvalidEvent("must be a small non-negative integer", field="ce_generation")
    return int(text)


def _carried(headers: Headers) -> Headers:
    """traceparent, tracestate and headers that are not ours."""
    return tuple(
        (name, value)
        for name, value in headers
        if not name.startswith("ce_") and name.lower() != "content-type" and value is not None
    )


def _text(headers: Iterable[tuple[str, bytes]], name: str) -> str | None:
    for key, value in headers:
        if key.lower() == name:
            return _header_text(key, value)
    return None


def _header_text(name: str, value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise InvalidEvent("is not UTF-8", field=name) from None


def _rfc3339(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _invalid(error: ValidationError) -> InvalidEvent:
    """All problems in one message; ``field`` is that of the first."""
    problems: list[str] = []
    first: str | None = None
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        field = ".".join(str(part) for part in item["loc"]) or "value"
        first = first or field
        message = item["msg"].removeprefix("Value error, ")
        problems.append(message if field == first and not problems else f"{field}: {message}")
    return InvalidEvent("; ".join(problems)[:2000], field=first)
