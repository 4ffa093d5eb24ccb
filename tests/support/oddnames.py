"""Records with header names that no client of aiokafka would write."""

from __future__ import annotations

from typing import Any

from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

__all__ = ["OddName", "builder"]


class OddName(str):
    """A header name that is these bytes on the wire."""

    raw: bytes

    def __new__(cls, raw: bytes) -> OddName:
        name = super().__new__(cls, raw.decode("latin-1"))
        name.raw = raw
        return name

    def encode(self, *_arguments: Any) -> bytes:
        return self.raw


def builder(*, compression: int = 0) -> _DefaultRecordBatchBuilderPy:
    """A record batch, to be filled with ``append``."""
    return _DefaultRecordBatchBuilderPy(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1_000_000,
    )
