"""What the profiles say where nobody says otherwise. The models' own defaults are production's."""

from __future__ import annotations

from typing import Any

__all__ = ["BUILT_IN", "PROFILES", "REQUIRED"]

_DOCUMENTATION = ["books", "docs", "articles", "pdfs"]

#: Entries of the tables that can be extended, in every profile.
BUILT_IN: dict[str, Any] = {
    "routes": {
        "DOCS": {
            "description": "Questions about documentation, products, APIs and how things work",
            "collections": _DOCUMENTATION,
        },
        "NEWS": {
            "description": "Questions about current events, companies and markets",
            "collections": ["news"],
            "candidates": 20,
            "keep": 5,
            "prefetch": 20,
            "cache_ttl": "10m",
            "decay": True,
            "patterns": [
                r"\b(?:news|headlines?)\b",
                r"\bwhat(?:'s| is| has| was)? happen(?:s|ed|ing)\b",
                r"\b(?:stocks?|share price|shares|earnings)\b",
                "新闻|新聞",
            ],
        },
        "ACCOUNT": {
            "description": "Questions about the user's own account, orders and documents",
            "collections": _DOCUMENTATION,
            "private": True,
            "patterns": [
                r"\bmy (?:own )?(?:account|orders?|invoices?|subscription|plan|profile|documents?"
                r"|files?|uploads?|notes?|history|conversations?)\b",
            ],
        },
    },
    "products": {
        "java": {
            "aliases": ["java se", "jdk"],
            "boost": "JDK {v} Java SE {v} Java {v} release documentation",
            "dotted": False,
            "plausible": [6, 40],
            "legacy_prefix": "1.",
        },
        "kafka": {
            "aliases": ["apache kafka", "kafka streams", "kafka connect"],
            "boost": "Apache Kafka {v} Kafka {v} release documentation",
            "plausible": [0, 9],
        },
    },
    "rag": {
        "models": {
            "gpt-5.4": {"prompt_tokens": 100_000, "max_documents": 3, "document_tokens": 600}
        },
    },
}

PROFILES: dict[str, dict[str, Any]] = {
    "production": {},
    "embedded": {
        "kafka": {"replication": 1},
        "qdrant": {
            "prefer_grpc": False,
            "ensure_collections": True,
            "collections": {
                "books": "ragstream-books",
                "docs": "ragstream-docs",
                "articles": "ragstream-articles",
                "pdfs": "ragstream-pdfs",
                "news": "ragstream-news",
            },
        },
        "embeddings": {"provider": "onnx", "model": "all-MiniLM-L6-v2", "dimensions": 384},
        # One process encodes, and the local store searches one at a time: more would only wait.
        "delivery": {"concurrency": {"retrieve": 8}},
    },
}

#: What a profile can't do without.
REQUIRED: dict[str, tuple[tuple[str, str], ...]] = {
    "embedded": (),
    "production": (
        ("kafka", "bootstrap_servers"),
        ("redis", "url"),
        ("postgres", "dsn"),
        ("qdrant", "url"),
    ),
}
