"""Embeddings that are remembered by their text."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.adapters.embedding_cache import CachedEncoder
from ragstream.domain.errors import DependencyUnavailable
from tests.support.stages import WordEncoder


def cached(limit: int = 100) -> tuple[CachedEncoder, WordEncoder]:
    words = WordEncoder()
    return CachedEncoder(words, limit=limit), words


async def plain(*texts: str) -> list[object]:
    """What the encoder itself makes of them, in single precision."""
    return [pytest.approx(v, abs=1e-6) for v in await WordEncoder().encode_passages(texts)]


async def test_a_passage_is_encoded_once() -> None:
    encoder, words = cached()
    first = await encoder.encode_passages(["one", "two"])
    again = await encoder.encode_passages(["two", "three", "one"])
    assert words.encoded == ["one", "two", "three"]
    assert again[0] == pytest.approx(first[1], abs=1e-6)
    assert again[2] == pytest.approx(first[0], abs=1e-6)
    assert encoder.hits == 2


async def test_a_passage_that_stands_twice_is_encoded_once() -> None:
    encoder, words = cached()
    one, other, same = await encoder.encode_passages(["one", "two", "one"])
    assert one == same != other
    assert words.encoded == ["one", "two"]


async def test_remembered_or_not_a_text_has_one_vector() -> None:
    encoder, _ = cached()
    text = "three words here"  # their weights have no short form
    assert await encoder.encode_passages([text]) == await encoder.encode_passages([text])


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), max_size=6), st.integers(1, 4))
async def test_vectors_are_those_of_the_encoder_in_its_order(
    batches: list[list[str]], limit: int
) -> None:
    encoder, _ = cached(limit)
    for batch in batches:
        expected = await WordEncoder().encode_passages(batch)
        assert await encoder.encode_passages(batch) == [
            pytest.approx(v, abs=1e-6) for v in expected
        ]


async def test_the_latest_used_are_kept() -> None:
    encoder, words = cached(limit=2)
    await encoder.encode_passages(["a", "b"])
    await encoder.encode_passages(["a"])  # used again: b is now the oldest
    await encoder.encode_passages(["c"])
    words.encoded.clear()
    await encoder.encode_passages(["a", "c"])
    assert words.encoded == []
    await encoder.encode_passages(["b"])
    assert words.encoded == ["b"]


async def test_a_batch_larger_than_the_cache_is_complete() -> None:
    encoder, words = cached(limit=1)
    vectors = await encoder.encode_passages(["a", "b", "c"])
    assert vectors == [
        pytest.approx(v) for v in await WordEncoder().encode_passages(["a", "b", "c"])
    ]
    words.encoded.clear()
    await encoder.encode_passages(["c"])
    assert words.encoded == []


async def test_texts_are_told_apart_exactly() -> None:
    encoder, words = cached()
    texts = ["a", "a ", "A", "", "a\n"]
    await encoder.encode_passages(texts)
    assert words.encoded == texts


async def test_a_failure_is_not_remembered() -> None:
    encoder, words = cached()
    words.down = True
    with pytest.raises(DependencyUnavailable):
        await encoder.encode_passages(["a"])
    words.down = False
    await encoder.encode_passages(["a"])
    assert words.encoded == ["a"]


async def test_questions_are_not_remembered() -> None:
    encoder, words = cached()
    for _ in range(2):
        assert await encoder.encode_query("a") == await words.encode_query("a")
    assert words.queries == ["a"] * 4
    assert (encoder.dimensions, encoder.model) == (words.dimensions, words.model)


async def test_calls_side_by_side_get_their_own() -> None:
    encoder, _ = cached(limit=2)
    batches = [["a", "b"], ["b", "c"], ["c", "a"]]
    found = await asyncio.gather(*map(encoder.encode_passages, batches))
    for batch, vectors in zip(batches, found, strict=True):
        assert vectors == await plain(*batch)
