from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.retrieval import analysis
from ragstream.retrieval.analysis import default, standard, standard_tokens
from ragstream.retrieval.sparse import MAX_TERMS, Bm25Encoder, TfEncoder, murmur3_32
from ragstream.retrieval.stemming import stem


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a:b c::d x'y 3,000.5 1.a", ["a:b", "c", "d", "x'y", "3,000.5", "1", "a"]),
        ("_x_ __ x__y", ["_x_", "x__y"]),
        ("👍🏽 a🏽 🇩🇪🇫🇷 1️⃣ #️⃣ ❤️", ["👍🏽", "a", "🏽", "🇩🇪", "🇫🇷", "1️⃣", "#️⃣", "❤️"]),
        ("한국어abc テストa 人々", ["한국어abc", "テスト", "a", "人", "々"]),
        ("ภาษาไทย", ["ภาษาไทย"]),
        ("שלום\"ל ול' ", ['שלום"ל', "ול'"]),
        ("cafe\u0301 a\u200db", ["cafe\u0301", "a\u200db"]),
        ("İstanbul ΣΑΣ", ["i\u0307stanbul", "σας"]),
    ],
)
def test_word_segmentation(text: str, tokens: list[str]) -> None:
    assert standard_tokens(text) == tokens


def test_length_counts_utf16_units() -> None:
    assert standard("仮 𠮷 😀 x") == ["𠮷", "😀"]
    assert [len(token) for token in standard_tokens("𐐨" * 130)] == [127, 3]


@given(st.text(alphabet="ab1_.,:;'-A \n", max_size=30))
def test_ascii_grammar_is_the_same_grammar(text: str) -> None:
    full = [match[0] for match in analysis._TOKEN.finditer(text.lower())]
    assert standard_tokens(text) == full


@given(st.text())
def test_tokens_come_from_the_text_in_order(text: str) -> None:
    lowered, position = text.lower(), 0
    for token in standard_tokens(text):
        position = lowered.index(token, position) + len(token)


def test_default_keeps_identifiers_whole_and_splits_them() -> None:
    assert default("fetch.min.bytes") == ["fetch.min.bytes", "fetch", "min", "byt"]
    assert default("KafkaConsumer") == ["kafkaconsumer", "kafka", "consumer"]
    assert default("release 2.8.1") == ["releas", "2.8.1"]


def test_default_makes_bigrams_of_cjk() -> None:
    assert default("仮想スレッド Java 中") == ["仮想", "想ス", "スレ", "レッ", "ッド", "java", "中"]


@pytest.mark.parametrize(
    "family",
    [
        "use used using uses",
        "commit commits committed committing",
        "configure configured configuring configures",
        "policy policies",
        "retry retries retried",
        "size sizes sized",
        "class classes",
        "batch batches batched",
    ],
)
def test_inflections_share_a_stem(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


def test_other_words_keep_apart() -> None:
    assert stem("status") == "status"
    assert stem("string") == "string"
    assert stem("configuration") != stem("configure")


def test_tf_takes_the_most_frequent_terms() -> None:
    words = [f"w{i}" for i in range(300)]
    vector = TfEncoder().encode_passage(" ".join([*words, "w299", "w299"]))
    assert len(vector.indices) == MAX_TERMS
    assert list(vector.indices) == sorted(set(vector.indices))
    assert dict(zip(vector.indices, vector.values, strict=True))[murmur3_32("w299")] == 3.0


def test_bm25_saturates_and_normalises() -> None:
    encoder = Bm25Encoder(average_length=10)
    once = encoder.encode_passage("kafka " + "x1 " * 9).values
    weight = {
        n: max(encoder.encode_passage("kafka " * n + "other " * (10 - n)).values)
        for n in (1, 5, 10)
    }
    assert weight[5] < weight[10] < 2.2
    assert (
        max(encoder.encode_passage("kafka").values)
        > encoder.encode_passage("kafka " + " ".join(f"w{i}" for i in range(40))).values[0]
    )
    assert once
    assert set(encoder.encode_query("kafka kafka topic").values) == {1.0}
    assert not encoder.encode_query("  ")


def test_bm25_weight_of_one_term_at_average_length_is_one() -> None:
    (value,) = Bm25Encoder(average_length=1).encode_passage("kafka").values
    assert value == pytest.approx(1.0)


def test_bm25_refuses_a_senseless_average() -> None:
    with pytest.raises(ValueError, match="average_length"):
        Bm25Encoder(average_length=0)


@pytest.mark.parametrize("part", ["_", "a_", "\u200d", "👨\u200d", "🇩", "1.", "ש'", "a\u0301"])
def test_hostile_text_takes_no_longer(part: str) -> None:
    """With quadratic time these would take minutes."""
    text = part * 20_000
    assert all(analysis._units(token) <= 255 for token in standard_tokens(text))
    default(text)
