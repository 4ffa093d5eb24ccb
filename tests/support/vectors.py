"""The local vector store as a process, and chunks to put into a store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from ragstream.domain.evidence import Chunk, IndexedChunk, Metadata, SparseVector

__all__ = ["NO_TERMS", "LocalVectors", "chunk_id", "indexed_chunk", "sparse", "start"]


class LocalVectors:
    """``python -m ragstream.devstack.vectors`` on a free port, ready when constructed."""

    def __init__(self, data: Path) -> None:
        self.process = start(data)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        assert ready.startswith("ready http://127.0.0.1:"), ready
        self.url = ready.split()[1]

    def kill(self) -> None:
        """SIGKILL: no chance to flush."""
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self._reap()

    def _reap(self) -> int:
        code = self.process.wait(timeout=20)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


def start(data: Path, port: int = 0) -> subprocess.Popen[str]:
    module = [sys.executable, "-m", "ragstream.devstack.vectors"]
    return subprocess.Popen(
        [*module, "--port", str(port), "--data", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


NO_TERMS = SparseVector((), ())


def chunk_id(number: int) -> str:
    return str(UUID(int=number))


def sparse(**weights: float) -> SparseVector:
    """``sparse(t3=1.0)``: term 3 with weight 1."""
    terms = sorted((int(name[1:]), weight) for name, weight in weights.items())
    return SparseVector(tuple(term for term, _ in terms), tuple(weight for _, weight in terms))


def indexed_chunk(
    number: int,
    *,
    dense: Sequence[float] = (1.0, 0.0, 0.0),
    sparse: SparseVector = NO_TERMS,
    tenant: str = "acme",
    access: tuple[str, ...] = (),
    document_id: str | None = None,
    **metadata: object,
) -> IndexedChunk:
    text = f"text {number}"
    return IndexedChunk(
        chunk=Chunk(
            id=chunk_id(number),
            document_id=document_id or f"document-{number}",
            index=0,
            text=text,
            embed_text=text,
            metadata=Metadata.model_validate({"hash": f"hash-{number}", **metadata}),
        ),
        dense=tuple(dense),
        sparse=sparse,
        tenant=tenant,
        access=access,
    )
