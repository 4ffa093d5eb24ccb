"""`ragstream remove`, without the pipeline behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragstream.cli import remove
from ragstream.cli.documents import Done
from ragstream.domain.events import DocumentAction, DocumentEvent
from ragstream.wire import record_key
from tests.support.commandline import run_command


class Published:
    """What was published. ``there``: ids of documents in the index; ``code``: how it went."""

    def __init__(self) -> None:
        self.events: list[DocumentEvent] = []
        self.there: set[str] = set()
        self.code = 0

    async def __call__(
        self,
        _settings: object,
        found: Iterator[DocumentEvent],
        verb: str,
        *,
        wait: bool,
        **_options: Any,
    ) -> Done:
        assert verb == "removed"
        self.events = list(found)
        removed = [event for event in self.events if event.document_id in self.there]
        return Done(
            code=self.code,
            found=len(self.events),
            count=len(self.events),
            read=wait and self.code != 4,
            changed=frozenset(record_key(e.tenant, e.document_id) for e in removed),
        )


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Published:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    published = Published()
    monkeypatch.setattr(remove, "publish_documents", published)
    return published


def test_an_event_for_each_document(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    published.there = {"a.md", "b"}
    code = run_command(monkeypatch, "remove", "a.md", "b", "--kind", "books", "--tenant", "acme")
    assert code == 0
    assert [event.document_id for event in published.events] == ["a.md", "b"]
    for event in published.events:
        assert (event.action, event.kind, event.tenant) == (DocumentAction.DELETE, "books", "acme")


def test_what_was_not_there_is_told(
    published: Published, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    published.there = {"a.md"}
    assert run_command(monkeypatch, "remove", "a.md", "[b]") == 5
    said = capsys.readouterr()
    assert said.out == "1 document removed\n"
    assert said.err == "was not there: [b] (kind docs, tenant default)\n"


def test_without_waiting_nothing_is_known(
    published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command(monkeypatch, "remove", "a.md", "--no-wait") == 0


@pytest.mark.parametrize("code", [1, 4])
def test_failures_come_first(
    published: Published, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    published.code = code
    assert run_command(monkeypatch, "remove", "a.md") == code


@pytest.mark.parametrize("arguments", [["a", "--kind", "letters"], ["x" * 2000], [""], []])
def test_what_can_not_be_asked_for(
    published: Published, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    assert run_command(monkeypatch, "remove", *arguments) == 2
    assert published.events == []
