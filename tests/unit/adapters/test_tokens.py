from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstream.adapters.tokens import TiktokenCounter


@pytest.fixture(scope="module", params=["o200k_base", "cl100k_base"])
def counter(request: pytest.FixtureRequest) -> TiktokenCounter:
    return TiktokenCounter(request.param)


def test_known_counts() -> None:
    assert TiktokenCounter("cl100k_base").encode("hello world") == [15339, 1917]
    assert TiktokenCounter("o200k_base").count("hello world") == 2


def test_special_tokens_are_plain_text(counter: TiktokenCounter) -> None:
    assert counter.count("<|endoftext|>") > 1
    assert counter.decode(counter.encode("a<|endoftext|>b")) == "a<|endoftext|>b"


@given(text=st.text() | st.text(alphabet="a \n字", min_size=150, max_size=900))
def test_decoding_gives_the_text_back(text: str) -> None:
    counter = TiktokenCounter()
    assert counter.decode(counter.encode(text)) == text


def test_long_runs_are_cut(counter: TiktokenCounter) -> None:
    # Uncut, this alone takes seconds.
    text = "a" * 20_000 + " " * 20_000 + "字" * 3_000
    assert counter.decode(counter.encode(text)) == text
