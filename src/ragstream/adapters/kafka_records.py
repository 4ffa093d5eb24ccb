"""Records with header names that are no UTF-8.

Brokers do not look at them and some producers write any bytes. aiokafka raises on such a record
whenever it comes to it, so that a partition would stand still there for ever. Here such a name is
read with its odd bytes escaped (``\\xff``); everything else goes the way it always went.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

__all__ = ["ReadableRecords", "install"]

_OVERHEAD = struct.Struct(">qi")  # base offset, length of the rest


class ReadableRecords:
    """Stands in for aiokafka's ``MemoryRecords``: the record batches of one fetched partition."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        self._records = MemoryRecords(data)

    def size_in_bytes(self) -> int:
        return int(self._records.size_in_bytes())

    def has_next(self) -> bool:
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        start = self._position
        _, length = _OVERHEAD.unpack_from(self._data, start)
        self._position = start + _OVERHEAD.size + length
        batch = self._records.next_batch()
        if not isinstance(batch, DefaultRecordBatch):
            return batch  # of a format without headers
        return _Batch(batch, memoryview(self._data)[start : self._position])


class _Batch:
    """A record batch that is read again, name by name, where aiokafka gives up."""

    def __init__(self, batch: Any, raw: memoryview) -> None:
        self._batch = batch
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        done = 0
        try:
            for record in self._batch:
                yield record
                done += 1
        except (UnicodeDecodeError, CorruptRecordException):
            yield from islice(self._readable(), done, None)

    def _readable(self) -> Iterator[Any]:
        batch = iter(_DefaultRecordBatchPy(bytearray(self._raw)))
        batch._buffer = _EscapingText(batch._buffer)
        return iter(batch)


class _EscapingText(bytearray):
    """Bytes whose slices can always be decoded."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _EscapingText(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


def install() -> None:
    """Have all consumers of this process read records so."""
    fetcher.MemoryRecords = ReadableRecords
