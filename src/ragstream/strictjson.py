"""JSON as a stranger may have written it.

Read strictly, so that nobody has to guess what was meant, and with errors that tell what the value
looks like instead.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from ragstream.domain.errors import InvalidEvent

__all__ = ["parse_json", "readable_json"]

MAX_DEPTH = 32
#: What is published in place of JSON, by how it starts. In this order.
_NOT_JSON = {
    b"\x00{\x00": "looks like UTF-16: publish UTF-8",
    b"{\x00": "looks like UTF-16: publish UTF-8",
    b"\xff\xfe": "looks like UTF-16: publish UTF-8",
    b"\xfe\xff": "looks like UTF-16: publish UTF-8",
    b"\x00": "the value starts with byte 0: it looks like Schema Registry framing (Avro, Protobuf "
    "or JSON Schema); publish plain JSON instead",
    b"Obj\x01": "looks like an Avro file: publish plain JSON instead",
    b"\x1f\x8b": "looks like gzip: publish plain JSON and leave compression to the producer",
    b"(\xb5/\xfd": "looks like Zstandard: publish plain JSON and leave compression to the producer",
    b"\xac\xed\x00\x05": "looks like a serialized Java object: publish plain JSON instead",
}


def parse_json(value: bytes) -> Any:
    """Parse JSON strictly: UTF-8, no duplicate keys, no NaN or Infinity, integers of 64 bits, no
    lone surrogates, at most ``MAX_DEPTH`` levels. Raises ``InvalidEvent``."""
    for start, told in _NOT_JSON.items():
        if value.startswith(start):
            raise InvalidEvent(told, field="value")
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
    except ValueError:  # Python refuses integers of thousands of digits
        raise InvalidEvent("integer outside 64 bits", field="value") from None
    _check_values(parsed)
    return parsed


def readable_json(value: bytes) -> Any:
    """What can be made out of a value that ``parse_json`` refuses, None if nothing can.

    What it refuses is passed over where that does no harm. A key that occurs twice is None, since
    nobody knows which was meant; bytes that are no text are U+FFFD.
    """
    try:
        text = value.decode(json.detect_encoding(value), "replace")
        return json.loads(text, object_pairs_hook=_unambiguous_pairs)
    except (ValueError, RecursionError):
        return None


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise InvalidEvent("the key occurs twice", field=min(_repeated(pairs)))
    return result


def _unambiguous_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {**dict(pairs), **dict.fromkeys(_repeated(pairs))}


def _repeated(pairs: list[tuple[str, Any]]) -> list[str]:
    return [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]


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
