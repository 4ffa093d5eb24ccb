"""Where settings come from. Each source gives nested mappings; the earlier ones win."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
)

from ragstream.domain.errors import ConfigurationError
from ragstream.settings.profiles import BUILT_IN, PROFILES

__all__ = [
    "CONFIG_FILE",
    "OTHER_VARIABLES",
    "PREFIX",
    "DevelopmentSource",
    "EnvironmentSource",
    "FileSource",
    "Normalised",
    "OpenAISource",
    "ProfileSource",
    "SharedEndpointSource",
]

PREFIX = "RAGSTREAM_"
CONFIG_FILE = Path("ragstream.toml")
#: Variables with our prefix that are no settings.
OTHER_VARIABLES = frozenset({"RAGSTREAM_CONFIG", "RAGSTREAM_CACHE", "RAGSTREAM_TEST_STACK"})
OPENAI = "https://api.openai.com/v1"


class _Variables(EnvSettingsSource):
    """Values that are no JSON where JSON is expected are left to the models, which report them
    together with everything else."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return json.loads(value)
        except ValueError:
            return value

    def _load_env_vars(self) -> Mapping[str, str | None]:
        others = {name.lower() for name in OTHER_VARIABLES}
        found = super()._load_env_vars()
        return {name: value for name, value in found.items() if name.lower() not in others}


class EnvironmentSource(_Variables):
    """``RAGSTREAM_<SECTION>__<NAME>``."""


class DevelopmentSource(_Variables, DotEnvSettingsSource):
    """The same variables in a file that `ragstream dev` writes."""


class _Plain(PydanticBaseSettingsSource):
    """A source that has all of its values at once."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError  # the base class asks for it and never calls it


class OpenAISource(_Plain):
    """``OPENAI_*``, for the chat model."""

    def __call__(self) -> dict[str, Any]:
        names = {
            "base_url": "OPENAI_BASE_URL",
            "api_key": "OPENAI_API_KEY",
            "model": "OPENAI_MODEL",
        }
        given = {
            name: os.environ[variable] for name, variable in names.items() if variable in os.environ
        }
        given = {name: value for name, value in given.items() if value.strip()}
        return {"llm": given} if given else {}


class FileSource(_Plain):
    """``$RAGSTREAM_CONFIG``, else ``ragstream.toml`` in the working folder."""

    def __call__(self) -> dict[str, Any]:
        named = os.environ.get("RAGSTREAM_CONFIG")
        path = Path(named).expanduser() if named else CONFIG_FILE
        if not named and not path.exists():
            return {}
        try:
            return tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise ConfigurationError(
                f"RAGSTREAM_CONFIG: can't read {path}: {error.strerror}"
            ) from None
        except ValueError as error:
            raise ConfigurationError(f"{path} is not TOML: {error}") from None


class ProfileSource(_Plain):
    """What the profile says, and the built-in routes and products."""

    def __call__(self) -> dict[str, Any]:
        profile = PROFILES.get(str(self.current_state.get("profile", "embedded")), {})
        return _merged(BUILT_IN, profile)


class SharedEndpointSource(_Plain):
    """``OPENAI_BASE_URL`` and its key serve the embeddings too where these have no endpoint of
    their own; a key without an address is OpenAI's. A key never goes to an endpoint that it was
    not given for."""

    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        llm = self._section("llm")
        if llm.get("model") and llm.get("api_key") and not llm.get("base_url"):
            found["llm"] = {"base_url": OPENAI}
        embeddings = self._section("embeddings")
        if embeddings.get("provider", "openai") == "openai" and not embeddings.get("base_url"):
            key = os.environ.get("OPENAI_API_KEY", "").strip()
            url = os.environ.get("OPENAI_BASE_URL", "").strip() or (OPENAI if key else "")
            shared = {"base_url": url, "api_key": key}
            found["embeddings"] = {name: value for name, value in shared.items() if value}
        return found

    def _section(self, name: str) -> Mapping[str, Any]:
        """What the sources before this one give."""
        section = self.current_state.get(name, {})
        if isinstance(section, BaseModel):
            return dict(section)
        return section if isinstance(section, Mapping) else {}


class Normalised(_Plain):
    """Another source with its routes and products as tables by name. Lists of them are taken too;
    names of routes are upper case, those of products lower case, as variables know no case."""

    def __init__(self, settings: type[BaseSettings], source: PydanticBaseSettingsSource) -> None:
        super().__init__(settings)
        self._source = source
        self.__name__ = type(source).__name__

    def __call__(self) -> dict[str, Any]:
        self._source._set_current_state(self.current_state)
        values = dict(self._source())
        for table, spelled in (("routes", str.upper), ("products", str.lower)):
            entries = values.get(table)
            if isinstance(entries, list | tuple) and all(isinstance(e, Mapping) for e in entries):
                entries = {str(entry.get("name", "")): dict(entry) for entry in entries}
            if isinstance(entries, Mapping):
                values[table] = {spelled(str(name)): entry for name, entry in entries.items()}
        return values


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Both, mappings joined at every level; ``upper`` wins."""
    result = dict(lower)
    for name, value in upper.items():
        below = result.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = _merged(below, value)
        result[name] = value
    return result
