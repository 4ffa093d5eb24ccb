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
_LONGEST_TEXT = 8_000


def dead_letter(
    record: InboundRecord, error: BaseException, *, stage: str, topic: str
) -> OutboundRecord:
    """The record for the dead-letter topic: key, value and headers unchanged, and why.

    A value that is too large even there is represented by its SHA-256; topic, partition and
    offset say where it stands. Earlier dead-letter headers are replaced.
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
    value = record.value
    if value is not None and len(value) > LARGEST_VALUE:
        facts["value.sha256"] = hashlib.sha256(value).hexdigest()
        facts["value.bytes"] = str(len(value))
        value = b""
    kept: Headers = tuple(
        (name, content)
        for name, content in record.headers
        if not name.startswith(DEAD_LETTER_PREFIX)
    )
    # A message may quote what a client sent, lone surrogates included.
    added = tuple(
        (DEAD_LETTER_PREFIX + name, text.encode(errors="replace")) for name, text in facts.items()
    )
    return OutboundRecord(topic, record.key, value, (*kept, *added))
