"""Documents that travel by reference, because the event would have become too large."""

from __future__ import annotations

from collections.abc import Sequence

from ragstream.domain.evidence import Document
from ragstream.domain.ports import DocumentRef, VectorStore

__all__ = ["resolved"]


async def resolved(
    documents: Sequence[Document], store: VectorStore, tenant: str
) -> list[Document]:
    """The documents with their texts; one that is gone from the store is left out."""
    missing = [DocumentRef(d.collection, d.id) for d in documents if d.by_reference]
    if not missing:
        return list(documents)
    fetched = await store.fetch(missing, tenant)
    result = []
    for document in documents:
        if not document.by_reference:
            result.append(document)
        elif (found := fetched.get(DocumentRef(document.collection, document.id))) is not None:
            update = {"text": found.text, "by_reference": False}
            result.append(document.model_copy(update=update))
    return result
