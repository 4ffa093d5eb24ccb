from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from ragstream.adapters.onnx import OnnxMiniLM
from ragstream.domain.errors import ConfigurationError

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def encoder() -> OnnxMiniLM:
    return OnnxMiniLM(threads=1)


def cosines(encoder: OnnxMiniLM, *texts: str) -> np.ndarray:
    vectors = encoder.embed(texts)
    return vectors @ vectors.T


def test_paraphrases_are_nearer_than_other_subjects(encoder: OnnxMiniLM) -> None:
    likeness = cosines(
        encoder,
        "How do I reset my password?",
        "I forgot my login password, how can I change it?",
        "The broker stores log segments on disk.",
    )
    assert likeness[0, 1] > 0.7
    assert likeness[0, 2] < 0.3


def test_vectors_have_unit_length_and_do_not_depend_on_their_batch(encoder: OnnxMiniLM) -> None:
    texts = ["short", "a somewhat longer text about Kafka " * 8, ""]
    together = encoder.embed(texts)
    assert together.shape == (3, encoder.dimensions)
    assert np.linalg.norm(together, axis=1) == pytest.approx(1.0, abs=1e-5)
    for row, text in zip(together, texts, strict=True):
        assert float(row @ encoder.embed([text])[0]) > 0.999


def test_the_end_of_a_long_text_counts(encoder: OnnxMiniLM) -> None:
    filler = "Kafka stores records in partitions. " * 80
    likeness = cosines(
        encoder, filler, filler + "Bananas are yellow fruit. " * 80, "Bananas are yellow fruit."
    )
    assert likeness[1, 2] > likeness[0, 2] + 0.2


async def test_the_loop_runs_on_meanwhile(encoder: OnnxMiniLM) -> None:
    work = asyncio.create_task(encoder.encode_passages(["some text " * 60] * 8))
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    vectors = await work
    assert turns > 10
    assert len(vectors) == 8
    assert isinstance(vectors[0][0], float)
    assert await encoder.encode_passages([]) == []
    assert len(await encoder.encode_query("x")) == encoder.dimensions


def test_windows_cover_every_token() -> None:
    encoder = OnnxMiniLM(window=10, overlap=3)
    for length in range(3, 60):
        ids = [101, *range(1000, 1000 + length), 102]
        windows = encoder._windows(ids)
        assert all(len(w) <= 10 and w[0] == 101 and w[-1] == 102 for w in windows)
        assert {token for w in windows for token in w} == set(ids)


def test_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError):
        OnnxMiniLM(window=10, overlap=9)


def test_the_model_is_loaded_late(tmp_path: Path) -> None:
    absent = OnnxMiniLM(model_path=tmp_path / "none.onnx")
    with pytest.raises(Exception, match=r"none\.onnx"):
        absent.embed(["x"])
