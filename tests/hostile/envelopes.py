"""Keys and headers: CloudEvents that are broken, and headers that nobody expects."""

from __future__ import annotations

import json
from typing import Any

from ragstream.domain.records import Headers
from tests.hostile.case import QUESTION, Case, Outcome, asked

__all__ = ["ENVELOPES"]

TYPE = b"io.ragstream.query.v1"
STRUCTURED = b"application/cloudevents+json"


def _binary(
    name: str,
    outcome: Outcome,
    field: str | None = None,
    says: str = "",
    *,
    without: str = "",
    more: Headers = (),
    **changed: bytes,
) -> Case:
    """A query in binary mode; ``changed``: attributes with another value."""
    attributes = {"specversion": b"1.0", "id": b"1", "source": b"/test", "type": TYPE, **changed}
    headers = tuple((f"ce_{key}", value) for key, value in attributes.items() if key != without)
    return asked(name, outcome, field, says).also(headers=(*headers, *more))


def _structured(
    name: str,
    outcome: Outcome,
    field: str | None = None,
    says: str = "",
    *,
    content_type: bytes | None = STRUCTURED,
    more: Headers = (),
    **changed: Any,
) -> Case:
    data = {"query_id": name, "text": QUESTION}
    event = {"specversion": "1.0", "id": "1", "source": "/test", "type": TYPE.decode(),
             "data": data, **changed}  # fmt: skip
    kept = {key: value for key, value in event.items() if value is not ...}
    headers = (("content-type", content_type),) if content_type else ()
    value = json.dumps(kept).encode()
    return Case(name, outcome, value, field, says, headers=(*headers, *more), id=name)


def _typed(content_type: bytes) -> Headers:
    return (("content-type", content_type),)


ENVELOPES: tuple[Case, ...] = (
    # keys
    asked("no-key", "accepted").also(key=None),
    asked("no-key-invalid", "dlt+rejection", "top_k", "valid integer", top_k="3").also(key=None),
    asked("empty-record-key", "accepted").also(key=b""),
    asked("binary-key", "accepted").also(key=bytes(range(256))),
    asked("binary-key-invalid", "dlt+rejection", "text", "visible", text=" ").also(key=b"\xff\x00"),
    asked("huge-key", "dlt+rejection", "text", "visible", text=" ").also(key=b"k" * 500_000),
    # binary mode
    _binary("ce-binary", "accepted"),
    _binary("ce-specversion-0.3", "dlt+rejection", "ce_specversion", "1.0, not '0.3'",
            specversion=b"0.3"),
    _binary("ce-no-specversion", "dlt+rejection", "ce_specversion", "missing",
            without="specversion"),
    _binary("ce-other-type", "dlt+rejection", "ce_type", "not 'com.example.order'",
            type=b"com.example.order"),
    _binary("ce-type-of-another-topic", "dlt+rejection", "ce_type", "answer.v1",
            type=b"io.ragstream.answer.v1"),
    _binary("ce-no-type", "dlt+rejection", "ce_type", "not None", without="type"),
    _binary("ce-no-id", "dlt+rejection", "ce_id", "missing", without="id"),
    _binary("ce-empty-source", "dlt+rejection", "ce_source", "missing", source=b""),
    _binary("ce-time-without-zone", "dlt+rejection", "ce_time", "zone",
            time=b"2026-01-10T00:00:00"),
    _binary("ce-time-nonsense", "dlt+rejection", "ce_time", "RFC 3339", time=b"yesterday"),
    _binary("ce-generation-negative", "dlt+rejection", "ce_generation", "non-negative",
            generation=b"-1"),
    _binary("ce-generation-huge", "dlt+rejection", "ce_generation", "small", generation=b"9" * 30),
    _binary("ce-not-utf-8", "dlt+rejection", "ce_source", "not UTF-8", source=b"\xff\xfe"),
    _binary("ce-extensions", "accepted", partitionkey=b"x", traceparent=b"00-0-0-00"),
    _binary("ce-content-avro", "dlt+rejection", "content-type", "not 'avro/binary'",
            more=_typed(b"avro/binary")),
    _binary("ce-content-charset", "accepted", more=_typed(b"application/json; charset=utf-8")),
    _binary("ce-content-suffix", "accepted", more=_typed(b"application/vnd.example+json")),
    _binary("ce-content-not-utf-8", "dlt+rejection", "content-type", "UTF-8", more=_typed(b"\xff")),
    # structured mode
    _structured("structured", "accepted"),
    _structured("structured-untyped", "accepted", content_type=None),
    _structured("structured-same-headers", "accepted",
                more=(("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_type", TYPE))),
    _structured("structured-other-headers", "dlt+rejection", "ce_id", "differs",
                more=(("ce_id", b"2"),)),
    _structured("structured-no-data", "dlt", "data", "missing", data=...),
    _structured("structured-base64", "dlt", "data_base64", "JSON under data", data=...,
                data_base64="e30="),
    _structured("structured-data-text", "dlt", "value", "object, not a string", data="{}"),
    _structured("structured-data-null", "dlt", "value", "object, not null", data=None),
    _structured("structured-id-number", "dlt+rejection", "ce_id", "string", id=1),
    _structured("structured-version-number", "dlt+rejection", "specversion", "string",
                specversion=1.0),
    _structured("structured-nested-attribute", "dlt+rejection", "extra", "string", extra={"a": 1}),
    _structured("structured-invalid-data", "dlt+rejection", "text", "visible",
                data={"query_id": "structured-invalid-data", "text": " "}),
    _structured("structured-not-an-object", "dlt", "value", "is a JSON object").also(value=b"[]"),
    _structured("structured-avro", "dlt+rejection", "content-type", "+json",
                content_type=b"application/cloudevents+avro"),
    _structured("batch", "dlt", "content-type", "batch",
                content_type=b"application/cloudevents-batch+json").also(
        value=json.dumps([{"specversion": "1.0", "data": {"query_id": "batch"}}] * 2).encode()),
    # other headers
    asked("plain-content-octets", "accepted").also(headers=_typed(b"application/octet-stream")),
    asked("repeated-headers", "accepted", cache="bypass").also(
        headers=(("x", b"1"), ("x", b"2"), ("x", b"1")),
        carried=(("x", b"1"), ("x", b"2"), ("x", b"1")),
    ),
    _binary("repeated-attributes", "accepted", type=b"first",
            more=(("ce_type", TYPE), ("content-type", b"avro/binary"),
                  ("content-type", b"application/json"))),
    asked("binary-headers", "accepted", cache="bypass").also(
        headers=(("x-bytes", bytes(range(256))),), carried=(("x-bytes", bytes(range(256))),)),
    asked("empty-header-name", "accepted", cache="bypass").also(
        headers=(("", b"anonymous"),), carried=(("", b"anonymous"),)),
    asked("odd-header-names", "accepted", cache="bypass").also(
        headers=(("x\r\ny: 1", b""), ("\u202e", b""), ("CE_ID", b"")), carried=(("CE_ID", b""),)),
    asked("nul-in-header-name", "dlt+rejection", "headers", "NUL").also(headers=(("a\0", b""),)),
    asked("many-headers", "accepted").also(headers=(("x", b"1"),) * 2000),
    asked("large-headers", "dlt+rejection", "headers", "more than 65536").also(
        headers=(("x-large", b"x" * 500_000),)),
    asked("own-error-headers", "dlt+rejection", "text", "visible", text="\t").also(
        headers=(("__connect.errors.exception.message", b"nothing is wrong"),)),
)  # fmt: skip
