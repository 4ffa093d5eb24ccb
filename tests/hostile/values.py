"""Values that are no JSON, no object, or JSON at its limits."""

from __future__ import annotations

import gzip
import json
import struct

from tests.hostile.case import QUESTION, Case, asked, raw

__all__ = ["VALUES"]

GOOD = json.dumps({"query_id": "%b", "text": QUESTION})
PLAIN = GOOD.encode()
MEBIBYTE = 1024 * 1024


def _with(name: str, rest: str) -> bytes:
    """A query with further JSON behind its own fields."""
    return GOOD.replace("%b", name).encode()[:-1] + rest.encode("utf-8", "surrogatepass") + b"}"


def _filled(name: str, size: int) -> bytes:
    """A query that an unknown field makes ``size`` bytes large."""
    empty = _with(name, ', "padding": ""')
    return empty.replace(b'""', b'"' + b"x" * (size - len(empty)) + b'"')


def _avro(name: str) -> bytes:
    """Schema Registry framing: byte 0, schema id, two Avro strings."""
    fields = b"".join(bytes([2 * len(text)]) + text for text in (name.encode(), b"What is acks?"))
    return struct.pack(">bI", 0, 42) + fields


NESTED = ', "extra": ' + "[" * 10_000 + "]" * 10_000

VALUES: tuple[Case, ...] = (
    # nothing
    raw("tombstone", "dlt", None, "value", "tombstone"),
    raw("empty", "dlt", b"", "value", "empty"),
    raw("blank", "dlt", b" \n\t ", "value", "not JSON"),
    # other formats
    raw("text", "dlt", b"What is acks?", "value", "not JSON: Expecting value at line 1 column 1"),
    raw("xml", "dlt", b"<query id='%b'/>", "value", "not JSON"),
    raw("form", "dlt", b"query_id=%b&text=acks", "value", "not JSON"),
    raw("single-quotes", "dlt", b"{'query_id': '%b', 'text': 'x'}", "value", "double quotes"),
    raw("truncated", "dlt", PLAIN[:-12], "value", "not JSON: Unterminated string"),
    raw("two-objects", "dlt", PLAIN + PLAIN, "value", "Extra data"),
    raw("trailing-comma", "dlt", b'{"query_id": "%b", "text": "x",}', "value", "not JSON"),
    raw("comment", "dlt", b'{"query_id": "%b", /* hm */ "text": "x"}', "value", "not JSON"),
    raw("bom", "accepted", b"\xef\xbb\xbf" + PLAIN),
    raw(
        "utf-16", "dlt+rejection", GOOD.replace("%b", "utf-16").encode("utf-16"), "value", "UTF-16"
    ),
    raw(
        "utf-16-be",
        "dlt+rejection",
        GOOD.replace("%b", "utf-16-be").encode("utf-16-be"),
        "value",
        "UTF-16",
    ),
    raw("latin-1", "dlt+rejection", '{"query_id": "%b", "text": "Zoé?"}'.encode("latin-1"),
        "value", "not UTF-8 at byte"),
    raw("random-bytes", "dlt", bytes(range(128, 256)), "value", "not UTF-8 at byte 0"),
    raw("overlong-utf-8", "dlt", b"\xc0\xaf\xc0\xaf", "value", "not UTF-8"),
    raw("schema-registry", "dlt", _avro("schema-registry"), "value", "Schema Registry framing"),
    raw("avro-file", "dlt", b"Obj\x01\x04\x14avro.codec\x08null\x00", "value", "Avro file"),
    raw("protobuf", "dlt", b"\x0a\x08protobuf\x12\x0dWhat is acks?", "value", "not JSON"),
    raw("gzip", "dlt", gzip.compress(PLAIN, mtime=0), "value", "looks like gzip"),
    raw("zstandard", "dlt", b"(\xb5/\xfd\x04\x00abc", "value", "looks like Zstandard"),
    raw("java-object", "dlt", b"\xac\xed\x00\x05sr\x00\x04Look", "value", "Java object"),
    raw("nul-bytes", "dlt", b"\x00" * 100, "value", "byte 0"),
    raw("nul-behind", "dlt", PLAIN + b"\x00", "value", "not JSON"),
    # JSON, but no object
    raw("array", "dlt", b"[" + PLAIN + b"]", "value", "must be a JSON object, not an array"),
    raw("string", "dlt", b'"%b"', "value", "must be a JSON object, not a string"),
    raw("number", "dlt", b"42", "value", "must be a JSON object, not a number"),
    raw("null", "dlt", b"null", "value", "must be a JSON object, not null"),
    raw("boolean", "dlt", b"true", "value", "must be a JSON object, not a boolean"),
    raw("string-of-json", "dlt", json.dumps(GOOD).encode(), "value", "object, not a string"),
    raw("no-fields", "dlt", b"{}", "query_id", "query_id: Field required; text: Field required"),
    # numbers
    raw("nan", "dlt+rejection", _with("nan", ', "top_k": NaN'), "value", "NaN is not JSON"),
    raw("infinity", "dlt+rejection", _with("infinity", ', "x": -Infinity'), "value", "-Infinity"),
    raw("digits-30", "dlt+rejection", _with("digits-30", ', "x": ' + "9" * 30), "x", "64 bits"),
    raw("digits-10000", "dlt", _with("digits-10000", ', "x": ' + "9" * 10_000), "value", "64 bits"),
    raw("1e400", "dlt+rejection", _with("1e400", ', "x": [0, 1e400]'), "x.1", "out of range"),
    raw("64-bits", "accepted", _with("64-bits", f', "cache": "bypass", "x": {2**64 - 1}')).also(
        forwarded={"x": 2**64 - 1}
    ),
    raw("long-fraction", "accepted", _with("long-fraction", ', "x": 0.' + "3" * 5_000)),
    # keys and strings
    raw("twice", "dlt+rejection", _with("twice", ', "top_k": 1, "top_k": 2'), "top_k", "twice"),
    raw("id-twice", "dlt",
        b'{"query_id": "%b", "query_id": "q", "text": "x"}', "query_id", "twice"),
    raw("tenant-twice", "dlt+rejection",
        b'{"query_id": "%b", "tenant": "a", "tenant": "b", "text": "x"}', "tenant", "twice",
    ).also(tenant=None),
    raw("twice-escaped", "dlt+rejection",
        b'{"query_id": "%b", "text": "x", "t\\u0065xt": "y"}', "text", "twice"),
    raw("twice-in-many", "dlt+rejection",
        _with("twice-in-many", "".join(f', "{n}": 0' for n in range(50_000)) + ', "7": 1'),
        "7", "twice"),
    raw("surrogate-escaped", "dlt+rejection",
        b'{"query_id": "%b", "text": "broken \\ud83d"}', "text", "lone surrogate"),
    raw("surrogate-in-key", "dlt+rejection",
        b'{"query_id": "%b", "text": "x", "a": {"\\udc00": 1}}', "a", "lone surrogate"),
    raw("surrogate-in-id", "dlt", b'{"query_id": "\\ud800", "text": "x"}', "query_id", "surrogate"),
    raw("surrogate-raw", "dlt+rejection", _with("surrogate-raw", ', "x": "\ud800"'),
        "value", "not UTF-8"),
    raw("control-in-string", "dlt", b'{"query_id": "%b", "text": "a\nb"}', "value", "control char"),
    raw("empty-key", "accepted", _with("empty-key", ', "cache": "bypass", "": 1'))
    .also(forwarded={"": 1}),
    # depth and size
    raw("deep-array", "dlt", b"[" * 10_000 + b"]" * 10_000, "value", "nested too deeply"),
    raw("deep-field", "dlt", _with("deep-field", NESTED), "value", "nested too deeply"),
    raw("deep-33", "dlt+rejection", _with("deep-33", ', "x": ' + "[" * 32 + "]" * 32),
        "x.0.0", "nested deeper than 32"),
    raw("deep-32", "accepted", _with("deep-32", ', "x": ' + "[" * 31 + "]" * 31)),
    raw("unclosed", "dlt", b"[" * 500_000, "value", "nested too deeply"),
    raw("large-field", "accepted", _filled("large-field", 500_000)),
    raw("large", "accepted", _filled("large", MEBIBYTE - 4096)),
    raw("large-noise", "dlt", b"\xfe" * (MEBIBYTE - 4096), "value", "not UTF-8"),
    raw("large-spaces", "dlt", b" " * (MEBIBYTE - 4096), "value", "not JSON"),
    raw("many-items", "accepted", _with("many-items", ', "x": [' + "1," * 100_000 + "1]")),
    # extensions
    asked("unknown-fields", "accepted", cache="bypass", priority="high",
          nested={"a": [1, None, {}]}).also(
        forwarded={"priority": "high", "nested": {"a": [1, None, {}]}}
    ),
    asked("dangerous-names", "accepted", __class__="x", __proto__={"a": 1}, model_config=1,
          model_fields={}, ordering_key="x", copy="x", **{"$where": "1"}),
)  # fmt: skip
