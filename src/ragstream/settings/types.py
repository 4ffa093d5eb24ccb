"""Kinds of values that settings have."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
)

__all__ = [
    "BaseUrl",
    "Count",
    "Duration",
    "Listed",
    "Names",
    "NonNegative",
    "Optional",
    "Ratio",
    "Section",
    "Servers",
    "Text",
    "parse_duration",
    "with_scheme",
]


class Section(BaseModel):
    """Base of the sections. Defaults are validated too, so that a rule between two settings holds
    when only one of them was given."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SIMPLE = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)\s*(ms|s|m|h|d)?", re.IGNORECASE)
_ISO = re.compile(
    r"P(?:([0-9.]+)D)?(?:T(?:([0-9.]+)H)?(?:([0-9.]+)M)?(?:([0-9.]+)S)?)?", re.IGNORECASE
)


def parse_duration(value: Any) -> float:
    """Seconds of ``8s``, ``500ms``, ``2m``, ``1h``, ``7d``, ISO 8601 (``PT1M30S``), a number of
    seconds or a timedelta. Raises ``ValueError``."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, str):
        text = value.strip()
        if simple := _SIMPLE.fullmatch(text):
            return float(simple[1]) * _UNITS[(simple[2] or "s").lower()]
        iso = _ISO.fullmatch(text)
        if iso and any(iso.groups()):
            parts = (float(part or 0) for part in iso.groups())
            return sum(n * _UNITS[unit] for n, unit in zip(parts, "dhms", strict=True))
    raise ValueError("must be a duration such as 8s, 500ms, 2m or PT8S")


def _no_bool(value: Any) -> Any:
    """Pydantic takes true for 1."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _blank_is_none(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value if value.get_secret_value().strip() else None
    return None if isinstance(value, str) and not value.strip() else value


def _split(value: Any) -> Any:
    """``a, b`` is a list of two."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def with_scheme(*schemes: str) -> AfterValidator:
    """The value must begin with one of the schemes. Never shows the value: it may hold a
    password."""

    def check(value: Any) -> Any:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if text is not None and not text.startswith(schemes):
            raise ValueError(f"must start with {' or '.join(schemes)}")
        return value

    return AfterValidator(check)


_SERVER = re.compile(r"(?:[^\s:/@\[\]]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


def _servers(value: str | None) -> str | None:
    """``host:port`` with commas between them."""
    for server in () if value is None else value.split(","):
        match = _SERVER.fullmatch(server.strip())
        if match is None or not 0 < int(match[1]) < 65_536:
            raise ValueError("must be host:port, several separated by commas; port 1 to 65535")
    return value


#: Seconds, more than 0.
Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0)]
#: More than 0.
Count = Annotated[int, BeforeValidator(_no_bool), Field(gt=0)]
NonNegative = Annotated[int, BeforeValidator(_no_bool), Field(ge=0)]
#: 0 to 1.
Ratio = Annotated[float, BeforeValidator(_no_bool), Field(ge=0, le=1, allow_inf_nan=False)]
#: Not blank.
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
#: Goes with lists of names: they may be written with commas between them.
Listed = BeforeValidator(_split)
Names = Annotated[tuple[Text, ...], Listed]
#: Goes with ``T | None``: blank is the same as not given.
Optional = BeforeValidator(_blank_is_none)
BaseUrl = Annotated[str | None, Optional, with_scheme("http://", "https://")]
Servers = Annotated[str | None, Optional, AfterValidator(_servers)]
