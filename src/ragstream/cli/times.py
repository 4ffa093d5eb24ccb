"""Points in time on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import typer

from ragstream.settings.types import parse_duration

__all__ = ["TIME_HELP", "point_in_time"]

TIME_HELP = "A duration back from now (30m, 2h, 7d), or an ISO 8601 time."


def point_in_time(text: str | None, *, now: datetime | None = None) -> datetime | None:
    """``2h`` ago, or a time such as ``2026-01-31T12:00Z``; without a zone it is local."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        pass
    try:
        return (now or datetime.now(UTC)) - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r}: {TIME_HELP[0].lower()}{TIME_HELP[1:]}") from None
