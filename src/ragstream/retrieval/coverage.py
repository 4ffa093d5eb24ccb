"""Making sure that a comparison has evidence of every release it compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from ragstream.domain.errors import PermanentError

__all__ = ["CoverageImpossible", "cover_releases"]

T = TypeVar("T")


class CoverageImpossible(PermanentError):
    """A release has no candidate, or there are more releases than places."""

    code = "coverage_impossible"


def cover_releases(
    ranked: Sequence[T],
    candidates: Sequence[T],
    releases: Sequence[str],
    limit: int,
    release_of: Callable[[T], str | None],
) -> list[T]:
    """The best ``limit`` of ``ranked`` with each release represented.

    A release that is missing gets its first candidate: appended while there is room, else in
    place of the last entry that no release depends on. Raises ``CoverageImpossible``; a caller
    that can do without a release leaves it out of ``releases``.
    """
    kept = list(ranked[:limit])
    if not releases:
        return kept
    if limit < len(set(releases)):
        raise CoverageImpossible(f"{limit} places cannot hold {len(set(releases))} releases")
    for release in releases:
        if any(release_of(item) == release for item in kept):
            continue
        found = next((item for item in candidates if release_of(item) == release), None)
        if found is None:
            raise CoverageImpossible(f"no evidence for release {release}")
        if len(kept) < limit:
            kept.append(found)
        else:
            kept[_replaceable(kept, releases, release_of)] = found
    return kept


def _replaceable(
    kept: Sequence[T], releases: Sequence[str], release_of: Callable[[T], str | None]
) -> int:
    represented = Counter(release_of(item) for item in kept)
    for index in range(len(kept) - 1, -1, -1):
        release = release_of(kept[index])
        if release not in releases or represented[release] > 1:
            return index
    raise CoverageImpossible("every entry is the only one of its release")
