"""Removing documents that say the same thing."""

from __future__ import annotations

from collections.abc import Sequence

from ragstream.domain.evidence import Document

__all__ = ["dedupe"]


def dedupe(documents: Sequence[Document]) -> list[Document]:
    """Keep the first document of each content, order kept.

    Same content: same release and hash, so that one passage can stand once for each release.
    The URL decides only between documents without a hash; with neither, a document is kept.
    """
    seen: set[tuple[str, ...]] = set()
    kept = []
    for document in documents:
        key = _identity(document)
        if key is not None:
            if key in seen:
                continue
            seen.add(key)
        kept.append(document)
    return kept


def _identity(document: Document) -> tuple[str, ...] | None:
    metadata = document.metadata
    if content := (metadata.hash or "").strip():
        return ("hash", metadata.doc_version or "", content)
    if url := (metadata.url or "").strip():
        return ("url", url)
    return None
