"""How good the evidence is, in words that the model can act on."""

from __future__ import annotations

from collections.abc import Sequence

from ragstream.domain.events import Quality
from ragstream.domain.evidence import SearchMode

__all__ = ["MIN_LENGTH", "assess", "is_low", "note"]

MIN_LENGTH = 100  # characters; a text must be longer to count as high quality


def assess(texts: Sequence[str], mode: SearchMode = SearchMode.HYBRID) -> Quality:
    """Level of the retained evidence. ``mode`` tells how the search ran."""
    if not texts:
        return Quality.NONE
    if mode is SearchMode.SPARSE_ONLY:
        return Quality.KEYWORD_SEARCH
    if _substantial(texts) == len(texts):
        return Quality.HIGH_QUALITY
    return Quality.MIXED_QUALITY


def note(texts: Sequence[str], mode: SearchMode = SearchMode.HYBRID) -> str:
    """The sentence that tells the model about it."""
    found = len(texts)
    match assess(texts, mode):
        case Quality.NONE:
            return "No relevant documents found. Using general knowledge only."
        case Quality.KEYWORD_SEARCH:
            return (
                f"Found {found} documents via keyword search (embedding service unavailable). "
                "Results may be less semantically relevant."
            )
        case Quality.HIGH_QUALITY:
            return f"Found {found} high-quality relevant documents via semantic search."
        case _:
            return (
                f"Found {found} documents ({_substantial(texts)} high-quality) via search. "
                "Some results may be less relevant."
            )


def is_low(message: str) -> bool:
    """Whether the low-quality prompt goes with this note."""
    return "less relevant" in message or "keyword search" in message


def _substantial(texts: Sequence[str]) -> int:
    return sum(len(text) > MIN_LENGTH for text in texts)
