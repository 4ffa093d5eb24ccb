"""Cutting documents into chunks."""

from __future__ import annotations

__all__ = ["chunk_windows"]


def chunk_windows(tokens: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """``[start, end)`` windows over that many tokens; each starts ``overlap`` before the last
    one's end, and the last one ends at the end."""
    if size <= 0 or not 0 <= overlap < size:
        raise ValueError("needs size > 0 and 0 <= overlap < size")
    windows = []
    start = 0
    while start < tokens:
        end = min(start + size, tokens)
        windows.append((start, end))
        if end == tokens:
            break
        start = end - overlap
    return windows
