"""Documents that travel by reference, because the event would have become too large."""

from __future__ import annotations

from collections.abc import Sequence

from ragstream.domain.evidence import Document, Metadata
from ragstream.domain.ports import DocumentRef, VectorStore

__all__ = ["resolved", "within_budget"]


def within_budget(documents: Sequence[Document], budget: int) -> list[Document]:
    """Documents that exceed the budget of bytes give up text and metadata and go by reference."""
    kept = []
    for document in documents:
        # What the event holds of them; the other fields are small.
        size = len(document.text.encode()) + len(document.metadata.model_dump_json().encode())
        if size <= budget:
            budget -= size
            kept.append(document)
        else:
            bare = {"text": "", "metadata": Metadata(), "by_reference": True}
            kept.append(document.model_copy(update=bare))
    return kept


async def resolved(
    documents: Sequence[Document], store: VectorStore, tenant: str
) -> list[Document]:
    """The documents with text and metadata; one that is gone from the store is left out."""
    missing = [DocumentRef(d.collection, d.id) for d in documents if d.by_reference]
    if not missing:
        return list(documents)
    fetched = await store.fetch(missing, tenant)
    result = []
    for document in documents:
        if not document.by_reference:
            result.append(document)
        elif (found := fetched.get(DocumentRef(document.collection, document.id))) is not None:
            read = {"text": found.text, "metadata": found.metadata, "by_reference": False}
            result.append(document.model_copy(update=read))
    return result
