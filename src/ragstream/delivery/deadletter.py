"""What can't be processed goes to ``<topic>.dlt`` as it was, with Kafka Connect's headers."""

from __future__ import annotations

import hashlib
import traceback

from ragstream.domain.errors import RagstreamError
from ragstream.domain.records import Headers, InboundRecord, OutboundRecord

__all__ = ["DEAD_LETTER_PREFIX", "dead_letter"]

DEAD_LETTER_PREFIX = "__connect.errors."
#: What a dead-letter topic takes (``max.message.bytes``), less room for headers.
LARGEST_VALUE = 4 * 1024 * 1024 - 64 * 1024
LARGEST_KEY = 1024 * 1024
_ROOM_BESIDE = 16 * 1024  # of that room, for key and headers that came with the record
_LONGEST_TEXT = 8_000


def dead_letter(
    record: InboundRecord, error: BaseException, *, stage: str, topic: str
) -> OutboundRecord:
    """The record for the dead-letter topic: key, value and headers unchanged, and why.

    A value that is too large even there (much more than a topic's limit comes compressed) is
    represented by its SHA-256, and so is a key; headers are left out. Topic, partition and offset
    say where the record stands. Earlier dead-letter headers are replaced.
    """
    facts = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "connector.name": "ragstream",
        "task.id": "0",
        "stage": stage,
        "class.name": f"ragstream.stages.{stage}",
        "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
        "exception.message": str(error)[:_LONGEST_TEXT],
        "exception.code": error.code if isinstance(error, RagstreamError) else "internal",
    }
    if not isinstance(error, RagstreamError):
        trace = "".join(traceback.format_exception(error))
        facts["exception.stacktrace"] = trace[-_LONGEST_TEXT:]
    key, value = record.key, record.value
    kept: Headers = tuple(
        (name, content)
        for name, content in record.headers
        if not name.startswith(DEAD_LETTER_PREFIX)
    )
    headers_size = sum(len(name.encode()) + len(content or b"") for name, content in kept)
    if key is not None and len(key) > LARGEST_KEY:
        facts["key.sha256"] = hashlib.sha256(key).hexdigest()
        facts["key.bytes"] = str(len(key))
        key = facts["key.sha256"].encode()
    if headers_size > LARGEST_VALUE // 2:
        facts["headers.bytes"] = str(headers_size)
        kept = ()
    beside = len(key or b"") + (headers_size if kept else 0)
    if value is not None and len(value) > LARGEST_VALUE - max(0, beside - _ROOM_BESIDE):
        facts["value.sha256"] = hashlib.sha256(value).hexdigest()
        facts["value.bytes"] = str(len(value))
        value = b""
    # A message may quote what a client sent, lone surrogates included.
    added = tuple(
        (DEAD_LETTER_PREFIX + name, text.encode(errors="replace")) for name, text in facts.items()
    )
    return OutboundRecord(topic, key, value, (*kept, *added))
