"""A small corpus: two releases of a product whose defaults differ, and what surrounds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["DOCUMENTS", "write_jsonl"]


def _setting(release: str, name: str, meaning: str, default: str) -> dict[str, Any]:
    return {
        "document_id": f"{name}-{release}",
        "text": f"The producer setting {name}: {meaning} The default of {name} is {default}.",
        "metadata": {
            "title": f"Producer setting {name}",
            "product": "kafka",
            "docVersion": release,
            "url": f"https://docs.example/{release}/producer/{name}",
        },
    }


_ACKS = "how many acknowledgments the leader must have received before a request is complete."
_LINGER = "how many milliseconds the producer waits for further records to send together."

#: As documents.v1 takes them.
DOCUMENTS = (
    _setting("2.8", "acks", _ACKS, "1"),
    _setting("3.7", "acks", _ACKS, "all"),
    _setting("2.8", "linger.ms", _LINGER, "0"),
    _setting("3.7", "linger.ms", _LINGER, "5"),
    {
        "document_id": "groups",
        "text": "Consumers of one group share the partitions of a topic. A rebalance hands the "
        "partitions of a consumer that left to those that stay.",
        "metadata": {"title": "Consumer groups", "url": "https://docs.example/groups"},
    },
    {
        "document_id": "compaction",
        "text": "Log compaction keeps the latest record of every key. A tombstone is a record "
        "without a value, and removes its key.",
        "metadata": {"title": "Log compaction", "url": "https://docs.example/compaction"},
    },
)


def write_jsonl(path: Path) -> Path:
    """The corpus as a file for ``ragstream ingest``."""
    lines = []
    for document in DOCUMENTS:
        metadata = dict(document["metadata"])
        entry = {
            "_id": document["document_id"],
            "title": metadata.pop("title"),
            "text": document["text"],
            "metadata": metadata,
        }
        lines.append(json.dumps(entry))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
