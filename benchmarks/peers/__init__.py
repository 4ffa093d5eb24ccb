"""Four-hop chains, one module a peer, each run as a process of its own.

queries → routed → retrieved → reranked → answers, one consumer group a hop, at least once as the
peer's own documentation says it is done. Each module names that document.
"""
