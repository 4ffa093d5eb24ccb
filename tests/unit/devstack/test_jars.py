from __future__ import annotations

import asyncio
import hashlib
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ragstream.devstack import jars
from ragstream.domain.errors import ConfigurationError

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}
WANTED = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


class Repository:
    """Delivers jars, and counts how often."""

    def __init__(self, content: dict[str, bytes] | None = None) -> None:
        self.content = CONTENT if content is None else content
        self.fetched = 0

    async def fetch(self, folder: Path) -> None:
        self.fetched += 1
        await asyncio.sleep(0)
        for name, content in self.content.items():
            (folder / name).write_bytes(content)

    async def ensure(self, cache: Path) -> list[Path]:
        return await jars.ensure(cache, wanted=WANTED, fetch=self.fetch)


async def test_fetches_once(tmp_path: Path) -> None:
    repository = Repository()
    paths = await repository.ensure(tmp_path)
    assert [path.name for path in paths] == ["a-1.jar", "b-2.jar"]
    assert [path.read_bytes() for path in paths] == [b"first", b"second"]
    assert await repository.ensure(tmp_path) == paths
    assert repository.fetched == 1


@pytest.mark.parametrize("damage", [b"fir", b"evil!", None])
async def test_fetches_anew_what_is_damaged(tmp_path: Path, damage: bytes | None) -> None:
    repository = Repository()
    path = (await repository.ensure(tmp_path))[0]
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    [fault] = jars.faults(path.parent, WANTED)
    assert fault.startswith("a-1.jar is")
    await repository.ensure(tmp_path)
    assert path.read_bytes() == b"first"
    assert repository.fetched == 2


async def test_concurrent_first_starts_fetch_once(tmp_path: Path) -> None:
    repository = Repository()
    results = await asyncio.gather(*(repository.ensure(tmp_path) for _ in range(4)))
    assert repository.fetched == 1
    assert all(result == results[0] for result in results)


async def test_a_wrong_delivery_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    repository = Repository({**CONTENT, "b-2.jar": b"tampered"})
    with pytest.raises(ConfigurationError, match=r"b-2\.jar is altered"):
        await repository.ensure(tmp_path)
    assert os.listdir(tmp_path) == ["kafka.lock"]


async def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="set RAGSTREAM_CACHE"):
        await Repository().ensure(tmp_path / "file" / "cache")


def test_only_listed_jars_reach_the_class_path(tmp_path: Path) -> None:
    async def both() -> list[Path]:
        await Repository().ensure(tmp_path)
        (jars.jar_folder(tmp_path) / "planted.jar").touch()
        return await Repository().ensure(tmp_path)

    assert {path.name for path in asyncio.run(both())} == set(CONTENT)


def test_the_packaged_list_names_every_pinned_artifact() -> None:
    listed = jars.pinned()
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in listed.values())
    for _, artifact, version in jars.ARTIFACTS:
        assert f"{artifact}-{version}.jar" in listed


def test_the_project_depends_on_the_pinned_artifacts() -> None:
    name = "{http://maven.apache.org/POM/4.0.0}"
    found = [
        tuple(dependency.findtext(name + part) for part in ("groupId", "artifactId", "version"))
        for dependency in ET.fromstring(jars.pom()).iter(f"{name}dependency")  # noqa: S314 - ours
    ]
    assert tuple(found) == jars.ARTIFACTS


def test_the_cache_is_chosen_by_the_environment_the_folder_and_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    home.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RAGSTREAM_CACHE", "/somewhere/cache")
    assert jars.cache_folder() == Path("/somewhere/cache")
    monkeypatch.setenv("RAGSTREAM_CACHE", "")
    assert jars.cache_folder() == home / ".cache" / "ragstream"
    (here / ".cache" / "ragstream").mkdir(parents=True)
    assert jars.cache_folder() == here / ".cache" / "ragstream"


@pytest.mark.parametrize("home", ["", "nowhere", "/nonexistent", "/dev/null"])
def test_without_a_home_the_cache_is_in_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", home)
    monkeypatch.delenv("RAGSTREAM_CACHE", raising=False)
    assert jars.cache_folder() == tmp_path / ".cache" / "ragstream"
    assert list(tmp_path.iterdir()) == []
