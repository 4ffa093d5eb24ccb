"""Filters that a model read out of a question: ``{"days_back": 3, "source": null}``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ragstream.domain.errors import PermanentError
from ragstream.domain.evidence import FilterValue, Range

__all__ = ["ExtractionRejected", "InferredFilter", "inferred_filter"]

MAX_DAYS_BACK = 36_500


class ExtractionRejected(PermanentError):
    """The model's extraction is not of the agreed form."""

    code = "extraction_rejected"


@dataclass(frozen=True, slots=True)
class InferredFilter:
    """``published_since``: earliest publication; ``source``: name of the source."""

    published_since: datetime | None = None
    source: str | None = None

    def as_filters(self) -> dict[str, FilterValue]:
        """By metadata key on the wire."""
        filters: dict[str, FilterValue] = {}
        if self.published_since is not None:
            filters["publishedAt"] = Range(gte=self.published_since)
        if self.source is not None:
            filters["sourceName"] = self.source
        return filters


def inferred_filter(extraction: Mapping[str, object], now: datetime) -> InferredFilter:
    """Turn an extraction into a filter. Nothing, null, 0 and blank mean no condition.

    Raises ``ExtractionRejected`` for values of the wrong type or range.
    """
    days, source = extraction.get("days_back"), extraction.get("source")
    if days is not None and (isinstance(days, bool) or not isinstance(days, int)):
        raise ExtractionRejected("days_back must be a whole number or null")
    if days is not None and not 0 <= days <= MAX_DAYS_BACK:
        raise ExtractionRejected(f"days_back must be 0 to {MAX_DAYS_BACK}")
    if source is not None and not isinstance(source, str):
        raise ExtractionRejected("source must be text or null")
    return InferredFilter(
        published_since=now - timedelta(days=days) if days else None,
        source=(source or "").strip() or None,
    )
