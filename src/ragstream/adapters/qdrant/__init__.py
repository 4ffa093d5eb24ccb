"""The vector store on Qdrant, through the official client."""

from ragstream.adapters.qdrant.store import QdrantVectorStore

__all__ = ["QdrantVectorStore"]
