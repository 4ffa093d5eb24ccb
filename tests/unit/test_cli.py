"""The command line: its help, its exit codes, and what it prints."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import ragstream
from ragstream.__main__ import main as entry_point
from ragstream.cli import app
from ragstream.cli.exits import exit_code
from ragstream.domain.errors import (
    ConfigurationError,
    DependencyUnavailable,
    InvalidEvent,
    PartialFailure,
    PermanentError,
    TransientError,
)
from tests.support.commandline import run_command

REPOSITORY = Path(__file__).parents[2]
Run = Callable[..., int]


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return partial(run_command, monkeypatch)


# --- help ----------------------------------------------------------------------------------


def commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """Every command without commands of its own."""
    inner = getattr(command, "commands", {})
    if not inner:
        yield path
    for name, one in inner.items():
        yield from commands(one, *path, name)


COMMANDS = list(commands(get_command(app)))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_help_of_every_command_has_an_example(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert f"Example: ragstream {' '.join(command)}" in " ".join(result.output.split())


def test_the_help_lists_commands_and_exit_codes() -> None:
    text = CliRunner().invoke(app, ["--help"]).output
    assert {name for name, *_ in COMMANDS} <= set(text.split())
    assert "130 interrupted" in text


# --- exit codes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("wrong"), 2),
        (InvalidEvent("must not be empty", field="text"), 2),
        (DependencyUnavailable("kafka", "refused"), 3),
        (PartialFailure({"docs": DependencyUnavailable("qdrant", "refused")}), 3),
        (PartialFailure({"docs": PermanentError("gone")}), 1),
        (TransientError("busy"), 1),
        (PermanentError("no"), 1),
        (KeyError("defect"), None),
    ],
)
def test_errors_made_on_purpose_have_a_code(error: Exception, code: int | None) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nonsense", "No such command 'nonsense'"),
        ("ask", "Missing argument"),
        ("ask What? --top-k 0", "--top-k"),
        ("ask What? --top-k 101", "--top-k"),
        ("ask What? --timeout -1", "--timeout"),
        ("ask What? --timeout soon", "--timeout"),
        ("ask What? --timeout nan", "--timeout"),
        ("ask What? --timeout 1e12", "--timeout"),
        ("ask What? --filter product", "must be FIELD=VALUE"),
        ("ask What? --filter =kafka", "must be FIELD=VALUE"),
        ("ingest a.md --set product", "must be FIELD=VALUE"),
        ("worker plumbing", "no such stage: plumbing"),
        ("worker --from yesterday", "Invalid value for '--from'"),
        ("ingest a.md --kind letters", "'letters' is not one of books, docs, articles, pdfs, news"),
        ("dev --port kafka", "must be NAME=PORT"),
        ("dev --port door=1", "must be NAME=PORT"),
        ("dev --port kafka=²", "must be NAME=PORT"),
        ("dev --port kafka=65536", "must be 1 to 65535"),
        ("dev --port kafka=0", "must be 1 to 65535"),
        ("dev --state file", "file can't be the state folder (File exists)"),
        ("dev --state file/in", "can't be the state folder (Not a directory)"),
        ("demo --corpus file --state file", "file can't be the state folder (File exists)"),
        ("dev --port [/red]=1", "--port [/red]=1: must be"),
        ("demo", "name files with --corpus"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: str, said: str
) -> None:
    Path("file").touch()
    assert run(*arguments.split()) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("arguments", ["ask What?", "ingest a.md", "topics apply", "topics check"])
def test_without_an_address_of_kafka_it_says_which_setting(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    assert run(*arguments.split()) == 2
    said = capsys.readouterr().err
    assert (
        "RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS is not set, and there is no .ragstream/dev.env" in said
    )


@pytest.mark.parametrize("stack", [False, True], ids=["no stack", "a stack"])
@pytest.mark.parametrize(
    "arguments", ["ask What?", "ingest a.md", "topics apply", "dlt list", "remove a"]
)
def test_a_kafka_that_is_not_there_is_one_line(
    run: Run,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    stack: bool,
) -> None:
    with socket.socket() as closed:  # bound and not listening: nobody else takes it meanwhile
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS", address)
        if stack:
            Path(".ragstream").mkdir()
            Path(".ragstream/dev.env").touch()
        assert run(*arguments.split()) == 3
    why = (
        "is `ragstream dev` running?" if stack else "there is no .ragstream/dev.env in this folder"
    )
    said = f"kafka: can't reach {address} (RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS); {why}"
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(said)


def test_a_stack_without_kafka_is_told(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path(".ragstream").mkdir()
    Path(".ragstream/dev.env").touch()
    assert run("topics", "check") == 2
    assert ".ragstream/dev.env names no Kafka" in capsys.readouterr().err


def test_wrong_settings_are_told_whatever_they_say(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGSTREAM_RERANK__PROVIDER", "[bold]or[/red]")
    monkeypatch.setenv("RAGSTREAM_RAG__SEARCH_TOP_K", "0")
    assert run("topics", "check") == 2
    said = capsys.readouterr().err
    assert "'[bold]or[/red]'" in said
    assert "RAGSTREAM_RAG__SEARCH_TOP_K" in said


def test_no_command_is_wrong_usage(run: Run) -> None:
    for command in ((), ("topics",), ("dlt",)):
        assert run(*command) == 2


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (EOFError(), 1)])
def test_an_interruption(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("ragstream.cli.topics.load_settings", interrupted)
    assert run("topics", "check") == code


def test_an_interruption_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "ragstream.cli":
                raise KeyboardInterrupt

    for name in [name for name in sys.modules if name.startswith("ragstream.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as caught:
        entry_point()
    assert caught.value.code == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_takes_no_more_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ragstream", "settings"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (1, "can't write: No space left on device\n")


def test_a_defect_shows_where_it_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect() -> None:
        raise KeyError("defect")

    monkeypatch.setattr("ragstream.cli.topics.load_settings", defect)
    with pytest.raises(KeyError):
        run("topics", "check")


# --- commands that need nothing ------------------------------------------------------------


def test_the_contract_is_written_and_checked(
    run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("contract", "--check") == 1  # there is none here
    assert "topics/examples/Query.json" in capsys.readouterr().err
    shutil.copytree(REPOSITORY / "topics" / "examples", tmp_path / "topics" / "examples")
    assert run("contract") == 0
    assert "asyncapi.yaml" in capsys.readouterr().out
    (tmp_path / "topics" / "asyncapi.yaml").write_text("asyncapi: 1.0")
    assert run("contract", "--check") == 1
    assert "asyncapi.yaml" in capsys.readouterr().err


def test_settings_as_a_table_and_as_a_page(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("settings") == 0
    assert "RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS" in capsys.readouterr().out
    assert run("settings", "--markdown") == 0
    assert "`RAGSTREAM_KAFKA__BOOTSTRAP_SERVERS`" in capsys.readouterr().out


def test_rows_that_go_elsewhere_are_whole_lines(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert run("settings") == 0
    (line,) = (row for row in capsys.readouterr().out.splitlines() if "STALL_TIMEOUT" in row)
    name, default, *meaning = line.split()
    assert (name, default) == ("RAGSTREAM_WORKER__STALL_TIMEOUT", "30s")
    assert " ".join(meaning).endswith("to be started anew")


def test_the_version(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"{ragstream.__version__}\n"
