from __future__ import annotations

import pytest
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

from ragstream.adapters import kafka
from ragstream.adapters.kafka_records import ReadableRecords
from tests.support.oddnames import OddName, builder

GZIP = 1


def batch(*names: str, compression: int = 0) -> bytes:
    """A record for each header name."""
    made = builder(compression=compression)
    for offset, name in enumerate(names):
        made.append(offset, timestamp=1, key=b"k", value=b"v%d" % offset, headers=[(name, b"\xff")])
    return bytes(made.build())


@pytest.mark.parametrize("compression", [0, GZIP])
def test_names_that_are_no_utf_8_are_escaped(compression: int) -> None:
    odd = batch("a", OddName(b"\xff-name"), "ü", OddName(b"\xc3"), compression=compression)
    data = odd + batch("next", compression=compression)
    with pytest.raises((UnicodeDecodeError, CorruptRecordException)):
        list(MemoryRecords(data).next_batch())
    records = ReadableRecords(data)
    read = []
    while records.has_next():
        found = records.next_batch()
        assert found.validate_crc()
        assert not found.is_control_batch
        read.append([(r.offset, r.key, r.value, list(r.headers)) for r in found])
    assert read == [
        [
            (0, b"k", b"v0", [("a", b"\xff")]),
            (1, b"k", b"v1", [("\\xff-name", b"\xff")]),
            (2, b"k", b"v2", [("ü", b"\xff")]),
            (3, b"k", b"v3", [("\\xc3", b"\xff")]),
        ],
        [(0, b"k", b"v0", [("next", b"\xff")])],
    ]


def test_ordinary_records_are_read_as_ever() -> None:
    data = batch("a", "ü", "") + batch("b")
    ours, theirs = ReadableRecords(data), MemoryRecords(data)
    assert ours.size_in_bytes() == theirs.size_in_bytes()
    while theirs.has_next():
        one, other = ours.next_batch(), theirs.next_batch()
        assert one.next_offset == other.next_offset
        assert [repr(r.headers) for r in one] == [repr(r.headers) for r in other]
    assert not ours.has_next()


def test_a_batch_that_is_really_broken_is_told_of() -> None:
    data = bytearray(batch("a"))
    data[61] = 0x7F  # length of the first record
    with pytest.raises(CorruptRecordException):
        list(ReadableRecords(bytes(data)).next_batch())


def test_whoever_imports_the_adapter_reads_so() -> None:
    assert kafka
    assert fetcher.MemoryRecords is ReadableRecords
