"""Documents read from files, and files that hold none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.domain.events import DocumentEvent
from ragstream.sources import Unreadable, read_documents
from ragstream.wire import encode
from tests.support.stages import NOW


def read(path: Path, base: dict[str, Any] | None = None, **metadata: Any) -> list[Any]:
    return list(read_documents(path, base=base or {}, metadata=metadata))


def one(path: Path, base: dict[str, Any] | None = None, **metadata: Any) -> DocumentEvent:
    (found,) = read(path, base, **metadata)
    assert isinstance(found, DocumentEvent), found
    return found


def problem(path: Path) -> str:
    (found,) = read(path)
    assert isinstance(found, Unreadable), found
    return str(found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; paths below are relative to it."""
    monkeypatch.chdir(tmp_path)
    return Path()


def lines(folder: Path, *entries: object) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    return path


# --- files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.md", "text/markdown"),
        ("a.markdown", "text/markdown"),
        ("a.txt", "text/plain"),
        ("a.html", "text/html"),
        ("a.HTM", "text/html"),
    ],
)
def test_a_file_is_a_document(folder: Path, name: str, media_type: str) -> None:
    (folder / "docs").mkdir()
    path = folder / "docs" / name
    path.write_text("Größe ✓", "utf-8")
    found = one(path)
    assert (found.document_id, found.media_type) == (f"docs/{name}", media_type)
    assert found.text == "Größe ✓"
    assert (found.metadata.doc_path, found.metadata.source_name) == (f"docs/{name}", name)
    assert found.metadata.source_kind == "file"


def test_base_and_metadata_are_added_to_every_document(folder: Path) -> None:
    path = folder / "a.md"
    path.write_text("text")
    base = {"kind": "articles", "tenant": "acme", "access": ["ann"]}
    found = one(path, base, product="kafka", docVersion="3.7", colour="red")
    assert (found.kind, found.tenant, found.access) == ("articles", "acme", ("ann",))
    assert (found.metadata.product, found.metadata.doc_version) == ("kafka", "3.7")
    assert (found.metadata.model_extra or {})["colour"] == "red"


def test_a_byte_order_mark_is_no_text(folder: Path) -> None:
    for name in ("a.txt", "a.jsonl"):
        text = "hello" if name == "a.txt" else '{"_id": "a", "text": "hello"}'
        (folder / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert one(folder / name).text == "hello"


def test_a_folder_is_all_that_is_known_below_it(folder: Path) -> None:
    for name in (
        "docs/b.md",
        "docs/a.txt",
        "docs/deep/er/c.HTML",
        "docs/.git/hidden.md",
        "docs/.hidden.md",
        "docs/code.py",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")
    (folder / "docs/folder.md").mkdir()
    assert [document.document_id for document in read(folder / "docs")] == [
        "docs/a.txt",
        "docs/b.md",
        "docs/deep/er/c.HTML",
    ]


def test_a_hidden_folder_that_is_named_is_read(folder: Path) -> None:
    (folder / ".notes").mkdir()
    (folder / ".notes/a.md").write_text("text")
    assert one(folder / ".notes").document_id == ".notes/a.md"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("missing.md", None, "missing.md: no such file"),
        ("code.py", b"print()", "code.py: not one of .md"),
        ("binary.txt", b"a\x00b", "binary.txt: a binary file"),
        ("latin.txt", "Größe".encode("latin-1"), "latin.txt: not UTF-8 at byte 2"),
        ("empty.md", b" \n", "empty.md: text: text is empty"),
    ],
)
def test_what_is_no_document_is_told(
    folder: Path, name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (folder / name).write_bytes(content)
    assert problem(folder / name).startswith(reason)


@pytest.mark.parametrize("name", ["a.md", "a.jsonl"])
def test_a_file_that_can_not_be_read_is_told(folder: Path, name: str) -> None:
    unreadable = Path("/proc/self/mem")  # whoever reads its first byte gets an error
    if not unreadable.exists():
        pytest.skip("needs Linux")
    (folder / name).symlink_to(unreadable)
    assert problem(folder / name).startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["a.md", "a.jsonl"])
def test_a_pipe_is_not_waited_for(folder: Path, name: str) -> None:
    os.mkfifo(folder / name)
    assert problem(folder / name).startswith(f"{name}: not a file or folder")


def test_the_rest_goes_on(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"\xff")
    (folder / "b.txt").write_text("text")
    (folder / "c.jsonl").write_bytes(b'{"_id": "1", "text": "\xff"}\n{"_id": "2", "text": "ok"}\n')
    (folder / "d.txt").write_text("text")
    found = [getattr(item, "document_id", "problem") for item in read(folder)]
    assert found == ["problem", "b.txt", "problem", "2", "d.txt"]


def test_a_name_that_is_not_unicode_is_told(folder: Path) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    (folder / name).write_text("text")
    assert isinstance(read(folder)[0], Unreadable)


# --- lines ---------------------------------------------------------------------------------


def test_a_line_is_a_document(folder: Path) -> None:
    entry = {
        "_id": "d1",
        "title": "Title",
        "text": "Text.",
        "metadata": {"url": "https://docs.example", "colour": "red"},
    }
    first, second = read(lines(folder, entry, {"_id": 7, "text": "Other."}), {"kind": "news"})
    assert (first.document_id, first.text, first.kind) == ("d1", "Text.", "news")
    assert (first.metadata.title, first.metadata.url) == ("Title", "https://docs.example")
    assert (first.metadata.model_extra or {})["colour"] == "red"
    assert (second.document_id, second.metadata.title) == ("7", None)


def test_what_the_command_says_counts_more_than_the_line(folder: Path) -> None:
    path = lines(folder, {"_id": "d", "text": "Text.", "metadata": {"product": "flink"}})
    assert one(path, product="kafka").metadata.product == "kafka"


@pytest.mark.parametrize("name", ["version", "release"])
def test_usual_names_become_ours(folder: Path, name: str) -> None:
    for value in ("2.8", 2.8):
        entry = {"_id": "d", "text": "Text.", "metadata": {name: value, "lang": "en"}}
        metadata = one(lines(folder, entry)).metadata
        assert (metadata.doc_version, metadata.language) == ("2.8", "en")


def test_our_own_name_counts_more_than_a_usual_one(folder: Path) -> None:
    entry = {"_id": "d", "text": "Text.", "metadata": {"version": "1", "docVersion": "2"}}
    metadata = one(lines(folder, entry)).metadata
    assert metadata.doc_version == "2"
    assert (metadata.model_extra or {})["version"] == "1"


@pytest.mark.parametrize(
    ("date", "published"),
    [
        ("2026-01-10", "2026-01-10T00:00:00+00:00"),
        ("2026-01-10T12:00:00+02:00", "2026-01-10T12:00:00+02:00"),
        ("last week", None),
        (7, None),
    ],
)
def test_a_date_that_can_be_read_is_when_it_was_published(
    folder: Path, date: object, published: str | None
) -> None:
    metadata = one(
        lines(folder, {"_id": "d", "text": "Text.", "metadata": {"date": date}})
    ).metadata
    if published is None:
        assert metadata.published_at is None
        assert (metadata.model_extra or {})["date"] == date
    else:
        assert metadata.published_at is not None
        assert metadata.published_at.isoformat() == published


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "no _id"),
        ("{}", "no _id"),
        ('{"_id": null}', "no _id"),
        ('{"_id": true}', "no _id"),
        ('{"_id": "", "text": "x"}', "document_id"),
        ('{"_id": "d"}', "text is empty"),
        ('{"_id": "d", "text": 5}', "text: "),
        ('{"_id": "d", "text": "x", "title": 5}', "metadata.title: "),
        ('{"_id": "d", "text": "x", "metadata": {"publishedAt": "soon"}}', "metadata.publishedAt"),
        ('{"_id": "d", "text": "\\ud800"}', "not JSON"),
        ('{"_id": "d", "text": "x", "metadata": {"colour": "\\ud800"}}', "not JSON"),
        ('{"_id": "d", "text": "x", "metadata": {"size": NaN}}', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_line_that_is_no_document_is_told(folder: Path, line: str, reason: str) -> None:
    path = folder / "corpus.jsonl"
    path.write_text(f'\n{line}\n\n{{"_id": "good", "text": "x"}}')
    bad, good = read(path)
    assert isinstance(bad, Unreadable)
    assert str(bad).startswith("corpus.jsonl:2: ")
    assert reason in str(bad)
    assert good.document_id == "good"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    entry=st.fixed_dictionaries({"_id": st.text() | st.integers(), "text": JSON, "metadata": JSON})
)
def test_whatever_a_line_says_it_is_told_or_can_be_published(
    tmp_path_factory: pytest.TempPathFactory, entry: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(json.dumps(entry))
    (found,) = read(path)
    if isinstance(found, DocumentEvent):
        assert encode(found, topic="t", key=None, id="1", time=NOW).value
    else:
        assert str(found).startswith(f"{path}:1: ")
