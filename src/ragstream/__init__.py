"""Retrieval-augmented question answering that lives on an event bus."""

__version__ = "0.1.0"
