"""Loading settings, with every problem told by the variable that is to be changed."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError

from ragstream.domain.errors import ConfigurationError
from ragstream.settings.describe import describe, field_at, is_secret, variable_name
from ragstream.settings.model import Settings
from ragstream.settings.profiles import BUILT_IN
from ragstream.settings.sources import OTHER_VARIABLES, PREFIX

__all__ = ["load_settings"]


def load_settings(*, state: Path = Path(".ragstream"), **given: Any) -> Settings:
    """The settings in force. ``state``: folder of the development stack; ``given``: sections as
    mappings or models, before everything else.

    Raises ``ConfigurationError`` that lists every problem, a line each, as
    ``VARIABLE: what is wrong (got …)``.
    """
    development = state / "dev.env"
    problems = list(_unknown({**dotenv_values(development), **os.environ}))
    try:
        settings = Settings(_env_file=development, **given)
    except ValidationError as error:
        problems += [_told(item) for item in error.errors(include_url=False)]
    else:
        if not problems:
            return settings
    raise ConfigurationError("\n".join(problems))


def _unknown(variables: Mapping[str, str | None]) -> Iterator[str]:
    """Variables of ours whose section does not exist; the models find the others."""
    sections = tuple(Settings.model_fields)
    for name in sorted(variables):
        section = name.upper().removeprefix(PREFIX).partition("__")[0].lower()
        ours = name.upper().startswith(PREFIX) and name.upper() not in OTHER_VARIABLES
        if ours and section not in sections:
            yield f"{name}: {_no_such_setting(name.upper())}"


def _no_such_setting(name: str) -> str:
    # Without the prefix, which would make any two of them alike.
    known = [one.removeprefix(PREFIX) for one in _known()]
    near = difflib.get_close_matches(name.removeprefix(PREFIX), known, n=1, cutoff=0.75)
    return f"no such setting; did you mean {PREFIX}{near[0]}?" if near else "no such setting"


def _known() -> list[str]:
    known = []
    for row in describe():
        if "<NAME>" in row.name:
            known += [row.name.replace("<NAME>", name.upper()) for name in BUILT_IN[row.path[0]]]
        else:
            known.append(row.name)
    return known


def _told(error: Any) -> str:
    path = error["loc"]
    name = variable_name(path)
    if error["type"] == "extra_forbidden":
        return f"{name}: {_no_such_setting(name)}"
    if error["type"] == "missing":
        return f"{name}: is required"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name}: {message}{_shown(path, error['input'])}"


def _shown(path: tuple[str | int, ...], value: Any) -> str:
    """What was given, if it may be shown."""
    field = field_at(path)
    if value is None:
        return ""
    if field is None or is_secret(field):
        return " (not shown)"
    if not isinstance(value, str | int | float | bool):
        return f" (got {type(value).__name__})"
    text = repr(value)
    return f" (got {text if len(text) <= 80 else text[:77] + '…'})"
