"""Events as records: CloudEvents 1.0 in the Kafka protocol binding.

Binary mode is written: attributes are headers (``ce_id``, ``ce_type``, …), the value is the
event as JSON. Topics that people publish to also accept structured mode (``content-type:
application/cloudevents+json``) and plain JSON without any header.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from ragstream.domain.errors import InvalidEvent
from ragstream.domain.events import EVENT_TYPES, AnswerDelta, Event, Query
from ragstream.domain.records import Headers, InboundRecord, OutboundRecord
from ragstream.strictjson import parse_json, readable_json

__all__ = [
    "EVENT_TYPE_NAMES",
    "REPLAY_ATTEMPT",
    "REPLAY_GENERATION",
    "REPLAY_ID",
    "REPLAY_PREFIX",
    "SOURCE",
    "Envelope",
    "decode",
    "encode",
    "encode_delta",
    "event_id",
    "fingerprint",
    "generation_header",
    "readable_fields",
    "record_key",
    "type_name",
    "validated",
]

E = TypeVar("E", bound=Event)

SOURCE = "ragstream"
SPEC_VERSION = "1.0"
#: Headers of a record that is replayed. They say so for one hop only.
REPLAY_PREFIX = "ragstream-replay-"
REPLAY_ID = f"{REPLAY_PREFIX}id"
REPLAY_GENERATION = f"{REPLAY_PREFIX}generation"
REPLAY_ATTEMPT = f"{REPLAY_PREFIX}attempt"
_NAMESPACE = uuid.UUID("6f1c2f0e-6a0b-5f0e-9c59-0a2f5d6f9b11").bytes
#: Bytes of a value and of all headers of a record that anybody may have published. The topic's
#: limit is lower, but compressed, more comes through.
LARGEST_VALUE = 16 * 1024 * 1024
LARGEST_HEADERS = 64 * 1024
_STRUCTURED = "application/cloudevents"
_KINDS = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


@cache
def type_name(event: type[Event]) -> str:
    """CloudEvents type: ``io.ragstream.answer-delta.v1``."""
    name = event.__name__.removesuffix("Event")
    return f"io.ragstream.{re.sub('(?<!^)(?=[A-Z])', '-', name).lower()}.v1"


#: CloudEvents type by the event's name.
EVENT_TYPE_NAMES = {name: type_name(cls) for name, cls in EVENT_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Envelope:
    """What came with an event. ``carried``: headers that travel on to every hop; ``replay_id``:
    which record this one repeats on purpose, as another generation."""

    id: str | None = None
    source: str | None = None
    time: datetime | None = None
    generation: int = 0
    carried: Headers = ()
    replay_id: str | None = None


def record_key(tenant: str, ordering_key: str) -> bytes:
    """Record key: the same for all queries of a conversation. 32 hexadecimal characters.

    The lengths keep ("a", "bc") and ("ab", "c") apart.
    """
    text = f"{len(tenant)}:{tenant}:{ordering_key}"
    return hashlib.sha256(text.encode()).hexdigest()[:32].encode()


def event_id(*parts: str | int) -> str:
    """The id of an event: the same parts give the same id, so a repeat is recognisable."""
    text = "\x1f".join(map(str, parts))
    # As uuid.uuid5 does it, without its objects: every stage makes two a record.
    digest = hashlib.sha1(_NAMESPACE + text.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


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
    if lenient:
        _check_limits(value, record.headers)
    # Any of them says that this is meant to be a CloudEvent, so that the others are missed.
    attributes: dict[str, Any] = {
        name[3:]: _header_text(name, raw) for name, raw in record.headers if name.startswith("ce_")
    }
    declared = _text(record.headers, "content-type") or ""
    media_type = declared.partition(";")[0].strip().lower()
    if media_type.startswith(_STRUCTURED) and lenient:
        _check_structured_type(media_type)
        inner, body = _structured(parse_json(value))
        _check_same(attributes, inner)
        attributes = inner
    elif attributes:
        if media_type and not _is_json(media_type):
            raise InvalidEvent(f"must be application/json, not {declared!r}", field="content-type")
        if attributes.get("specversion") is None:
            raise InvalidEvent("is missing", field="ce_specversion")
        body = parse_json(value) if lenient else _parse_fast(value)
    elif lenient:
        body = parse_json(value)
        if _looks_structured(body):
            attributes, body = _structured(body)
    else:
        raise InvalidEvent("not a CloudEvent in binary mode", field="ce_specversion")
    if attributes:
        _check_attributes(attributes, event_type)
    if not isinstance(body, dict):
        raise InvalidEvent(f"must be a JSON object, not {_KINDS[type(body)]}", field="value")
    return validated(event_type, body), Envelope(
        id=attributes.get("id"),
        source=attributes.get("source"),
        time=_time(attributes.get("time")),
        generation=_generation(
            _text(record.headers, REPLAY_GENERATION) or attributes.get("generation")
        ),
        carried=_carried(record.headers),
        replay_id=_text(record.headers, REPLAY_ID),
    )


def validated(event_type: type[E], body: Any) -> E:
    """The event with these fields. Raises ``InvalidEvent`` that names what is wrong."""
    try:
        return event_type.model_validate(body)
    except ValidationError as error:
        raise _invalid(error) from None


def readable_fields(value: bytes | None) -> dict[str, Any]:
    """The fields of an event that is not valid, as far as they can be made out, so that its sender
    can be told."""
    if not value or len(value) > LARGEST_VALUE:
        return {}
    body = readable_json(value)
    if _looks_structured(body):
        body = body.get("data")
    return body if isinstance(body, dict) else {}


def _parse_fast(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InvalidEvent(f"not JSON: {error}", field="value") from None


def _check_limits(value: bytes, headers: Headers) -> None:
    if len(value) > LARGEST_VALUE:
        raise InvalidEvent(f"has {len(value)} bytes, more than {LARGEST_VALUE}", field="value")
    size = sum(len(name) + len(content or b"") for name, content in headers)
    if size > LARGEST_HEADERS:  # they travel on with every hop
        raise InvalidEvent(f"have {size} bytes, more than {LARGEST_HEADERS}", field="headers")
    if any("\x00" in name for name, _ in headers):  # the ledger could not keep it
        raise InvalidEvent("a name holds a NUL character", field="headers")


def _is_json(media_type: str) -> bool:
    return media_type in ("application/json", "text/json") or media_type.endswith("+json")


def _check_structured_type(media_type: str) -> None:
    if media_type.startswith(f"{_STRUCTURED}-batch"):
        raise InvalidEvent(
            "a batch of CloudEvents can't be read: publish each as a record of its own",
            field="content-type",
        )
    if media_type != f"{_STRUCTURED}+json":
        raise InvalidEvent(f"must be {_STRUCTURED}+json, not {media_type!r}", field="content-type")


def _check_same(headers: dict[str, Any], attributes: dict[str, Any]) -> None:
    """In structured mode the attributes may be headers as well, and must then say the same."""
    for name, value in headers.items():
        if name in attributes and str(attributes[name]) != value:
            raise InvalidEvent("differs from the structured event", field=f"ce_{name}")


def _looks_structured(body: Any) -> bool:
    return isinstance(body, dict) and {"specversion", "type", "source", "id"} <= body.keys()


def _structured(body: Any) -> tuple[dict[str, Any], Any]:
    if not isinstance(body, dict):
        raise InvalidEvent("a structured CloudEvent is a JSON object", field="value")
    if "data_base64" in body:
        raise InvalidEvent("must be JSON under data", field="data_base64")
    if "data" not in body:
        raise InvalidEvent("is missing", field="data")
    attributes = {name: value for name, value in body.items() if name != "data"}
    for name, value in attributes.items():
        if value is not None and not isinstance(value, str | int):
            raise InvalidEvent("must be a string, integer or boolean", field=name)
    return attributes, body["data"]


def _check_attributes(attributes: dict[str, Any], event_type: type[Event]) -> None:
    version = attributes.get("specversion")
    if version != SPEC_VERSION:
        raise InvalidEvent(f"must be {SPEC_VERSION}, not {version!r}", field="ce_specversion")
    expected = type_name(event_type)
    if attributes.get("type") != expected:
        raise InvalidEvent(f"must be {expected}, not {attributes.get('type')!r}", field="ce_type")
    for name in ("id", "source"):
        value = attributes.get(name)
        if value is None or value == "":
            raise InvalidEvent("is missing", field=f"ce_{name}")
        if not isinstance(value, str):
            raise InvalidEvent("must be a string", field=f"ce_{name}")


def _time(value: str | int | None) -> datetime | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
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
        if not name.startswith(("ce_", REPLAY_PREFIX))
        and name.lower() != "content-type"
        and value is not None
    )


def _text(headers: Iterable[tuple[str, bytes]], name: str) -> str | None:
    """The last value: of repeated headers Kafka's own clients take that one."""
    found = None
    for key, value in headers:
        if key.lower() == name:
            found = _header_text(key, value)
    return found


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
