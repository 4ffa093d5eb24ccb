"""Which offset of a partition may be committed."""

from __future__ import annotations

from collections import deque

__all__ = ["Delivered", "OffsetTracker"]


class Delivered:
    """A record that was handed over, and whether all its outputs are confirmed."""

    __slots__ = ("done", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.done = False


class OffsetTracker:
    """The contiguous prefix of delivered records that are done.

    It goes by the order of delivery, not by offset arithmetic: transactions and compaction leave
    gaps between offsets.
    """

    def __init__(self) -> None:
        self._delivered: deque[Delivered] = deque()
        #: Offset to commit (the next one to read), or None before the first record is done.
        self.position: int | None = None

    def __len__(self) -> int:
        """Records delivered and not part of the prefix: read minus committable."""
        return len(self._delivered)

    def deliver(self, offset: int) -> Delivered:
        item = Delivered(offset)
        self._delivered.append(item)
        return item

    def finish(self, item: Delivered) -> None:
        """The record is done; the prefix grows over every done record at its front."""
        item.done = True
        while self._delivered and self._delivered[0].done:
            self.position = self._delivered.popleft().offset + 1
