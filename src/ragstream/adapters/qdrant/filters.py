"""Scope, filters and versions of a search as Qdrant's conditions."""

from __future__ import annotations

from datetime import datetime

from qdrant_client import models

from ragstream.adapters.payload import ACCESS, DOC_VERSION, PRODUCT, TENANT, user_filters
from ragstream.domain.evidence import FilterValue, Range, SearchRequest, VersionConstraint

__all__ = ["equals", "search_filter"]


def search_filter(request: SearchRequest) -> models.Filter:
    """All that a hit must fulfil: tenant, readable by the user, filters, versions.

    Raises ``InvalidEvent`` for a filter that may not be set.
    """
    must: list[models.Condition] = [
        equals(TENANT, request.scope.tenant),
        _readable(request.scope.user_id, private_only=request.private_only),
        *(_condition(key, value) for key, value in user_filters(request.filters)),
    ]
    if request.versions is not None:
        must.append(_released(request.versions))
    return models.Filter(must=must)


def equals(key: str, value: str | int | bool) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _readable(user_id: str | None, *, private_only: bool) -> models.Condition:
    public = _is_empty(ACCESS)
    named = None if user_id is None else equals(ACCESS, user_id)
    if private_only:
        return named or models.HasIdCondition(has_id=[])  # nothing is private to nobody
    return public if named is None else models.Filter(should=[public, named])


def _released(versions: VersionConstraint) -> models.Filter:
    releases = models.FieldCondition(
        key=DOC_VERSION, match=models.MatchAny(any=list(versions.releases))
    )
    fitting: list[models.Condition] = [
        models.Filter(must=[equals(PRODUCT, versions.product), releases])
    ]
    if versions.keep_unversioned:
        fitting.append(_is_empty(DOC_VERSION))
    return models.Filter(should=fitting)


def _condition(key: str, value: FilterValue) -> models.Condition:
    match value:
        case Range():
            return models.FieldCondition(key=key, range=_range(value))
        case list():
            return _any_of(key, value)
        case float():
            # Matching is for exact types; a range of one number takes 2 and 2.0 alike.
            return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    return equals(key, value)


def _any_of(key: str, values: list[bool | int | float | str]) -> models.Condition:
    kinds = {type(value) for value in values}
    if kinds in ({str}, {int}):
        return models.FieldCondition(key=key, match=models.MatchAny(any=values))
    return models.Filter(should=[_condition(key, value) for value in values])


def _range(bounds: Range) -> models.Range | models.DatetimeRange:
    given = dict(bounds)
    if any(isinstance(bound, datetime) for bound in given.values()):
        return models.DatetimeRange(**given)
    return models.Range(**given)


def _is_empty(key: str) -> models.IsEmptyCondition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
