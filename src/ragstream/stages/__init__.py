"""The stages: pure logic on domain types and ports. A stage takes one event and comes to one.

route → retrieve → rerank → answer work on queries; ingest and history beside them.
"""
