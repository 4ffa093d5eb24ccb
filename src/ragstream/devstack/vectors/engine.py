"""Collections on disk: one folder each, with the engine's shard and what it was created with.

    <data>/<quoted name>/collection.json  the body of the request that created it
    <data>/<quoted name>/shard/           the engine's files

A collection is built under a name that starts with a dot and then renamed, and renamed so before
it is removed: a process that dies in between leaves no half collection behind.
"""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import qdrant_edge as edge
from qdrant_client.http import models

from ragstream.devstack.vectors.translate import VectorLayout, collection_config

__all__ = [
    "Collection",
    "CollectionExists",
    "Collections",
    "ShardUnavailable",
    "UnknownCollection",
]

#: Points written after which the segments are rewritten: deleted points go, statistics are right.
#: Takes about 50 ms per 1,000 points, during which nothing is served.
OPTIMIZE_AFTER = 20_000

_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


class UnknownCollection(LookupError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Collection `{name}` doesn't exist!")


class CollectionExists(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Collection `{name}` already exists!")


class ShardUnavailable(Exception):
    def __init__(self, error: BaseException) -> None:
        super().__init__(f"Service unavailable: {error}")


class Collection:
    """A shard, what it was created with, and how much was written since it was last tidied."""

    def __init__(self, folder: Path) -> None:
        description = (folder / "collection.json").read_text(encoding="utf-8")
        self.request = models.CreateCollection.model_validate_json(description)
        self.layout = VectorLayout.of(self.request)
        self._path = str(folder / "shard")
        self._shard: Any = edge.EdgeShard.load(self._path)
        self._failed = False
        self._dirty = True  # what the log replayed at start is not flushed yet
        self._written = 0

    @property
    def shard(self) -> Any:
        """Raises ``ShardUnavailable`` while it can't be opened again after a failure."""
        if self._shard is None:
            try:
                self._shard = edge.EdgeShard.load(self._path)
            except Exception as error:
                raise ShardUnavailable(error) from error
        return self._shard

    def update(self, operation: Any, *, points: int = 0) -> None:
        """Apply a write; it is in the write-ahead log when this returns."""
        if self._failed:
            # After a write that found no room the engine takes no other until it is opened anew.
            self.close()
            self._failed = False
        self._dirty = True
        self._written += points
        try:
            self.shard.update(operation)
        except Exception as error:
            self._failed = str(error).startswith("Service")
            raise

    def close(self) -> None:
        if self._shard is not None:
            self._shard.close()
            self._shard = None

    def tidy(self) -> None:
        """Flush what was written; rewrite the segments after many writes."""
        if self._written >= OPTIMIZE_AFTER:
            self._written = 0
            self.shard.optimize()
        if self._dirty:
            self.shard.flush()
            self._dirty = False


class Collections:
    """All collections of a data folder, which this process alone uses."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._open: dict[str, Collection] = {}
        for folder in sorted(path for path in data.iterdir() if path.is_dir()):
            if folder.name.startswith("."):
                shutil.rmtree(folder)
            else:
                self._open[unquote(folder.name)] = Collection(folder)

    def names(self) -> list[str]:
        return sorted(self._open)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def __getitem__(self, name: str) -> Collection:
        try:
            return self._open[name]
        except KeyError:
            raise UnknownCollection(name) from None

    def create(self, name: str, request: models.CreateCollection) -> None:
        if not name or len(name) > 255 or name.startswith(".") or _FORBIDDEN.search(name):
            raise ValueError(f"invalid collection name {name!r}")
        if name in self._open:
            raise CollectionExists(name)
        config = collection_config(request)
        building = self._hidden()
        try:
            building.mkdir()
            edge.EdgeShard.create(str(building / "shard"), config).close()
            description = request.model_dump_json(exclude_none=True)
            (building / "collection.json").write_text(description, encoding="utf-8")
            folder = building.rename(self._folder(name))
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        self._open[name] = Collection(folder)

    def delete(self, name: str) -> bool:
        collection = self._open.pop(name, None)
        if collection is None:
            return False
        collection.close()
        shutil.rmtree(self._folder(name).rename(self._hidden()))
        return True

    def tidy(self) -> None:
        for collection in self._open.values():
            collection.tidy()

    def close(self) -> None:
        for collection in self._open.values():
            try:
                collection.shard.flush()
            finally:
                collection.close()
        self._open.clear()

    def _folder(self, name: str) -> Path:
        return self._data / quote(name, safe="")

    def _hidden(self) -> Path:
        return self._data / f".{uuid.uuid4().hex}"
