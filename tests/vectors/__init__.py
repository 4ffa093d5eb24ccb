"""Acceptance vectors: cases worked out from the reference pipelines, one rule or more each."""
