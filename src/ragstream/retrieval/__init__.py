"""The algorithms of retrieval: pure functions over domain types.

Versions, analysis and sparse encoding, fusion, deduplication, coverage, recency, parsing and
chunking. Nothing here does input or output.
"""
