from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragstream.domain.evidence import Document, Metadata
from ragstream.prompting.citations import (
    SNIPPET_LENGTH,
    citations,
    cited_numbers,
    quoted,
    resolve_markers,
    snippet,
)


def doc(name: str, url: str | None = None, anchor: str | None = None) -> Document:
    return Document(
        id=name,
        document_id=name,
        collection="docs",
        text=f"text of {name}",
        metadata=Metadata(url=url, anchor=anchor),
    )


DOCS = [doc("a", "https://x/p#s"), doc("b", "https://x/p", "s"), doc("c", "https://x/q"), doc("d")]


def test_same_place_is_cited_once_under_its_first_number() -> None:
    made = citations([*DOCS, doc("e")])
    assert [(one.number, one.url, one.anchor) for one in made] == [
        (1, "https://x/p", "s"),
        (3, "https://x/q", None),
        (4, None, None),
        (5, None, None),
    ]


def test_limit_comes_after_dedupe_and_only_what_is_cited_is_kept() -> None:
    assert [one.chunk_id for one in citations(DOCS, limit=2)] == ["a", "c"]
    assert [one.number for one in citations(DOCS, only=frozenset({2, 4, 9}))] == [1, 4]
    assert citations(DOCS, limit=0) == ()


def test_own_anchor_wins_over_the_fragment() -> None:
    (made,) = citations([doc("a", "https://x/p#other", "mine")])
    assert (made.url, made.anchor) == ("https://x/p", "mine")


def test_snippet() -> None:
    assert snippet("x" * 500) == "x" * 500
    assert len(snippet("x" * 501)) == SNIPPET_LENGTH
    assert snippet("x" * 501).endswith("…")


def test_markers_are_resolved_to_retained_documents() -> None:
    resolved = resolve_markers("One [2]. Two [3, 9][CTX 4]. Made up [12].", DOCS)
    assert resolved.text == "One [1]. Two [3][4]. Made up."
    assert resolved.numbers == (1, 3, 4)
    assert resolved.invented == 2


def test_code_and_links_are_left_alone() -> None:
    text = "Use `list[9]` and [8](https://x).\n```\na[7]\n```\nDone [1]."
    resolved = resolve_markers(text, DOCS)
    assert resolved.text == text
    assert resolved.invented == 0
    assert cited_numbers(text) == (1,)


def test_intervals_are_no_references() -> None:
    resolved = resolve_markers("Between [0, 1] and [0]. See [1].", DOCS)
    assert resolved.text == "Between [0, 1] and [0]. See [1]."
    assert resolved.numbers == (1,)


def test_a_quotation_keeps_its_brackets() -> None:
    text = f"{quoted('Valid values: [1, 2] or `[3]`')} [1]"
    assert text == "Valid values: `[1, 2]` or `[3]` [1]"
    assert resolve_markers(text, DOCS).text == text
    assert cited_numbers(text) == (1,)


@given(st.text(alphabet="ab [](),.0123456789`\n", max_size=60))
def test_only_known_numbers_remain(text: str) -> None:
    resolved = resolve_markers(text, DOCS)
    assert set(cited_numbers(resolved.text)) <= {1, 3, 4}
    assert set(resolved.numbers) <= {1, 3, 4}
