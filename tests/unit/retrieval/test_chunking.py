from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.domain.evidence import Chunk, Metadata
from ragstream.retrieval.chunking import chunk_document, chunk_windows
from ragstream.retrieval.parsing import BlockKind, parse


class Words:
    """Counts words and marks; enough like a tokenizer to cut by."""

    def count(self, text: str) -> int:
        return len(re.findall(r"\w{1,8}|[^\w\s]", text))

    def encode(self, text: str) -> list[int]:
        return [hash(part) for part in re.findall(r"\w{1,8}|[^\w\s]", text)]

    def decode(self, tokens: object) -> str:
        raise NotImplementedError


def chunks(text: str, size: int = 40, overlap: int = 10, **given: object) -> list[Chunk]:
    options = {"document_id": "d", "tenant": "t", "collection": "docs"} | given
    return chunk_document(text, counter=Words(), max_tokens=size, overlap=overlap, **options)  # type: ignore[arg-type]


@given(st.integers(0, 3000), st.integers(1, 900), st.integers(0, 899))
def test_windows_cover_everything(tokens: int, size: int, overlap: int) -> None:
    if overlap >= size:
        with pytest.raises(ValueError, match="overlap"):
            chunk_windows(tokens, size, overlap)
        return
    windows = chunk_windows(tokens, size, overlap)
    assert sorted({n for start, end in windows for n in range(start, end)}) == list(range(tokens))
    assert all(end - start <= size for start, end in windows)
    assert all(a[1] - b[0] == overlap for a, b in itertools.pairwise(windows))


MARKDOWN = """---
author: someone
---
# Kafka *producer* {#prod}

Intro `acks` text.

## acks

- one
- two

```java
int x = 1;

int y;
```

| a | b |
|---|---|
| 1 | 2 |

### Deeper

Deep text.

## linger

Other text.
"""


def test_markdown_blocks() -> None:
    parsed = parse(MARKDOWN, "text/markdown")
    assert parsed.title == "Kafka producer"
    assert [(block.kind, block.headings) for block in parsed.blocks] == [
        (BlockKind.TEXT, ("Kafka producer",)),
        (BlockKind.TEXT, ("Kafka producer", "acks")),
        (BlockKind.CODE, ("Kafka producer", "acks")),
        (BlockKind.TABLE, ("Kafka producer", "acks")),
        (BlockKind.TEXT, ("Kafka producer", "acks", "Deeper")),
        (BlockKind.TEXT, ("Kafka producer", "linger")),
    ]
    assert parsed.blocks[0].anchor == "prod"
    assert "int y;" in parsed.blocks[2].text


def test_html_blocks() -> None:
    parsed = parse(
        "<html><head><title>The  title</title><script>x()</script></head><body><nav>menu</nav>"
        "<h1 id=top>Head <b>bold</b></h1>loose<p>one<br>two &amp; <code>c</code></p><ul><li>a<li>b"
        "</ul><pre>x = 1\n y</pre><section id=sub><h2>Sub</h2><p>Para.</p></section>"
        "<table><tr><th>A</th><td>1</td></tr></table><footer>legal</footer></body></html>",
        "text/html",
    )
    assert parsed.title == "The title"
    assert [(block.text, block.anchor) for block in parsed.blocks] == [
        ("loose", "top"),
        ("one\ntwo & c", "top"),
        ("- a", "top"),
        ("- b", "top"),
        ("x = 1\n y", "top"),
        ("Para.", "sub"),
        ("A | 1", "sub"),
    ]


@given(st.text(), st.sampled_from(["text/plain", "text/markdown", "text/html"]))
def test_any_text_can_be_parsed(text: str, media_type: str) -> None:
    assert all(block.text.strip() for block in parse(text, media_type).blocks)


def test_unknown_media_type() -> None:
    with pytest.raises(ValueError, match="application/pdf"):
        parse("x", "application/pdf")


def test_chunks_keep_to_sections_and_carry_their_headings() -> None:
    made = chunks(MARKDOWN, 60, media_type="text/markdown", metadata=Metadata(url="https://x/p"))
    assert [chunk.index for chunk in made] == [0, 1, 2, 3]
    deep = made[2]
    assert deep.text == "Deep text."
    assert deep.embed_text == "Kafka producer\nacks\nDeeper\nDeep text."
    assert deep.metadata.headings == ("Kafka producer", "acks", "Deeper")
    assert made[0].metadata.anchor == "prod"
    assert made[0].metadata.url == "https://x/p"


def test_long_sections_overlap_by_whole_sentences() -> None:
    text = " ".join(f"Sentence {i} is about partitions." for i in range(30))
    made = chunks(text, 40, 12)
    assert len(made) > 2
    for before, after in itertools.pairwise(made):
        first = after.text.split(". ")[0]
        assert first in before.text
    assert all(f"Sentence {i} " in " ".join(c.text for c in made) for i in range(30))


def test_ids_outlive_changes_elsewhere() -> None:
    before = chunks("# A\n\nalpha\n\n# B\n\nbeta\n\n# C\n\ngamma", media_type="text/markdown")
    after = chunks("# A\n\nchanged\n\n# B\n\nbeta\n\n# C\n\ngamma", media_type="text/markdown")
    assert [c.id for c in before][1:] == [c.id for c in after][1:]
    assert before[0].id != after[0].id
    assert before[0].id != chunks("alpha", tenant="other")[0].id
    assert before[0].metadata.hash != after[0].metadata.hash


def test_repeated_content_has_distinct_ids() -> None:
    made = chunks("# A\n\nsame\n\n# B\n\nother\n\n# A\n\nsame", media_type="text/markdown")
    assert len({chunk.id for chunk in made}) == 3


@given(
    st.text(alphabet="ab .\n字。#-`", max_size=400),
    st.integers(4, 40),
    st.sampled_from(["text/plain", "text/markdown"]),
)
def test_no_chunk_is_too_large_and_no_word_is_lost(text: str, size: int, media: str) -> None:
    made = chunks(text, size, size // 4, media_type=media)
    assert all(Words().count(chunk.text) <= size for chunk in made)
    assert len({chunk.id for chunk in made}) == len(made)
    if media == "text/plain":
        kept = "".join(sorted(set("".join(c.text for c in made))))
        assert {c for c in text if not c.isspace()} == {c for c in kept if not c.isspace()}


@pytest.mark.parametrize("tag", ["div", "b"])
def test_deep_nesting_is_read_as_text(tag: str) -> None:
    (block,) = parse(f"<{tag}>" * 3000 + "inside", "text/html").blocks
    assert block.text == "inside"
