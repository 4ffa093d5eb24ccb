from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragstream.domain.evidence import Document, Metadata, VersionRelation
from ragstream.prompting.extractive import extract
from ragstream.prompting.sentences import is_value_line, sentences
from ragstream.retrieval.analysis import default


def doc(title: str, text: str, release: str | None = None) -> Document:
    name = f"{title}-{release}"
    return Document(
        id=name,
        document_id=name,
        collection="docs",
        text=text,
        metadata=Metadata(title=title, product="kafka", doc_version=release),
    )


ACKS = "The number of acknowledgments the producer requires the leader to have received."
OLD = doc(
    "producer configuration: acks", f"{ACKS}\nDefault: 1\nValid values: [all, -1, 0, 1]", "2.8"
)
NEW = doc("producer configuration: acks", f"{ACKS}\nDefault: all\nValid values: [all, -1]", "3.8")
LINGER = doc("producer configuration: linger.ms", "How long batches wait.\nDefault: 0", "2.8")
PROSE = doc(
    "Log compaction",
    "Compaction keeps the latest value of every key. It runs in the background. "
    "A tombstone is a record without a value, which marks its key as deleted. "
    "Segments are rewritten by cleaner threads.",
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One (e.g. this). See Dr. Who, i.e. him. Is it? Yes.", 4),
        ("J. R. Tolkien wrote it! v2.8.1 is out. It has 3.5 MB.", 3),
        ("wrapped\nprose goes on.\nNext one.", 2),
        ("- one\n- two\n1. three\n\nfour", 4),
        ("Text.\nDefault: 1\nValid values: [0,...]\nMore text.", 4),
        ("Note: it is\nwrapped here", 1),
        ("Before.\n```\nx = 1. Y\ny = 2\n```\nAfter.", 2),
        ("Before.\n```\nNever closed.\nAfter.", 3),
        ("| name | value |\n| --- | ---: |\n| a | 1 |\n| b | 2 |", 2),
        ("他来了。你好吗？好。", 3),
        ("", 0),
    ],
)
def test_sentences(text: str, expected: int) -> None:
    assert len(sentences(text)) == expected


def test_value_lines() -> None:
    assert is_value_line("Default: 1")
    assert is_value_line("Valid values: [0,...]")
    assert not is_value_line("Note: do this. Then do that.")
    assert not is_value_line("https://example.org")


@given(st.text())
def test_no_character_is_lost(text: str) -> None:
    assume("```" not in text and "~~~" not in text and "--" not in text)
    marks = set("-*+•#`~|.)0123456789")
    kept = set("".join(sentences(text)))
    assert {c for c in text if not c.isspace()} - kept <= marks


def test_a_value_is_named_by_its_title() -> None:
    found = extract(
        "What is the default of acks for the producer in Kafka 2.8?", [OLD, LINGER, PROSE], default
    )
    assert found is not None
    assert found.text == "producer configuration: acks – Default: 1 [1]"
    assert found.sentences == ("Default: 1",)
    assert found.numbers == (1,)


def test_only_the_release_that_was_asked_for() -> None:
    found = extract("default of acks for the producer in Kafka 3.8?", [OLD, NEW], default)
    assert found is not None
    assert found.text == "producer configuration: acks – Default: all [2]"


def test_a_comparison_cites_both_releases() -> None:
    found = extract("Compare the default of acks in Kafka 2.8 and 3.8", [OLD, NEW, LINGER], default)
    assert found is not None
    assert found.text.splitlines() == [
        "producer configuration: acks (kafka 2.8) – Default: 1 [1]",
        "producer configuration: acks (kafka 3.8) – Default: all [2]",
    ]


def test_evidence_of_another_release_is_named() -> None:
    relation = VersionRelation(product="kafka", requested=("2.9",), evidence="2.8", exact=False)
    found = extract(
        "default of acks in Kafka 2.9?", [OLD.model_copy(update={"version": relation})], default
    )
    assert found is not None
    assert "(kafka 2.8)" in found.text


def test_prose_is_quoted_with_its_number() -> None:
    found = extract("What does a tombstone mark?", [LINGER, PROSE], default)
    assert found is not None
    assert found.text.startswith("A tombstone is a record without a value")
    assert "[2]" in found.text


@pytest.mark.parametrize("question", ["How do I bake sourdough bread?", "Who won the cup in 1998?"])
def test_nothing_is_said_when_nothing_answers(question: str) -> None:
    assert extract(question, [OLD, LINGER, PROSE], default) is None
    assert extract(question, [], default) is None
    assert extract(question, [OLD, PROSE], default, lambda texts: [0.0] * len(texts)) is None


def test_similarity_decides_between_equal_words() -> None:
    def cleaner(texts: object) -> list[float]:
        return [0.9 if "cleaner" in text else 0.0 for text in texts]  # type: ignore[attr-defined]

    found = extract("cleaner or tombstone?", [PROSE], default, cleaner)
    assert found is not None
    assert "cleaner threads" in found.sentences[0]


@given(st.text(max_size=200), st.text(max_size=200))
def test_every_quotation_stands_in_its_document(question: str, text: str) -> None:
    document = doc("title", text)
    found = extract(question, [document], default)
    if found is not None:
        assert set(found.sentences) <= set(sentences(text))
        assert found.numbers == (1,)
