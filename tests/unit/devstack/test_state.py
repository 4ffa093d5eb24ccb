from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ragstream.devstack.state import (
    Endpoints,
    Lock,
    endpoints_of,
    is_running,
    password,
    write_env,
)
from ragstream.domain.errors import ConfigurationError

ENDPOINTS = Endpoints(
    kafka="127.0.0.1:20001",
    redis="redis://:secret@127.0.0.1:20002/0",
    postgres="postgresql://ragstream:secret@127.0.0.1:20003/ragstream",
    qdrant="http://127.0.0.1:20004",
)


def test_the_environment_file_leads_back_to_the_endpoints(tmp_path: Path) -> None:
    write_env(tmp_path / "dev.env", ENDPOINTS)
    assert endpoints_of(tmp_path) == ENDPOINTS
    text = (tmp_path / "dev.env").read_text()
    assert "RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS=127.0.0.1:20001\n" in text
    assert [path.name for path in tmp_path.iterdir()] == ["dev.env"]


def test_only_its_owner_reads_the_environment_file(tmp_path: Path) -> None:
    path = tmp_path / "dev.env"
    path.touch(mode=0o644)
    write_env(path, ENDPOINTS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_broker_there_is_no_broker_setting(tmp_path: Path) -> None:
    without = Endpoints(None, ENDPOINTS.redis, ENDPOINTS.postgres, ENDPOINTS.qdrant, "no Java")
    write_env(tmp_path / "dev.env", without)
    assert "KAFKA" not in (tmp_path / "dev.env").read_text()
    assert endpoints_of(tmp_path).kafka is None


def test_no_stack_no_endpoints(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="start one with `ragstream dev`"):
        endpoints_of(tmp_path)


def test_secrets_stay_out_of_the_representation() -> None:
    assert "secret" not in repr(ENDPOINTS)


def test_a_password_is_made_once_and_kept(tmp_path: Path) -> None:
    made = password(tmp_path / "one")
    assert len(made) >= 20
    assert password(tmp_path / "one") == made
    assert password(tmp_path / "other") != made
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o600


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "dev.lock"
    first, second = Lock(path), Lock(path)
    assert first.acquire() is False
    with pytest.raises(
        ConfigurationError, match=rf"already runs .* stop it with `kill {os.getpid()}"
    ):
        second.acquire()
    assert first.held
    assert not second.held
    first.release()
    assert second.acquire() is False


def test_a_holder_that_died_is_noticed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from ragstream.devstack.state import Lock;"
        "Lock(Path(sys.argv[1])).acquire(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "dev.lock")], check=False)
    lock = Lock(tmp_path / "dev.lock")
    assert lock.acquire() is True
    lock.release()
    assert lock.acquire() is False


def test_a_reused_pid_is_not_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "dev.lock"
    started = psutil.Process().create_time()
    path.write_text(json.dumps({"pid": os.getpid(), "started": started - 3600}))
    assert Lock(path).acquire() is True


def test_a_live_holder_is_respected_where_files_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(descriptor: int, operation: int) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr("fcntl.flock", unsupported)
    path = tmp_path / "dev.lock"
    path.write_text(json.dumps({"pid": 1, "started": psutil.Process(1).create_time()}))
    with pytest.raises(ConfigurationError, match=r"\(pid 1\)"):
        Lock(path).acquire()


def test_a_damaged_lock_file_is_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "dev.lock").write_text('{"pid":')
    assert Lock(tmp_path / "dev.lock").acquire() is False


def test_nobody_runs_without_a_record() -> None:
    assert not is_running({})
    assert not is_running({"pid": 2**22 + 1, "started": 0})
