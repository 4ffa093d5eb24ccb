"""Models behind an OpenAI-compatible endpoint.

``connect`` makes the client that everything at one base URL shares; close it with
``await client.close()``. It never retries by itself: the delivery does, with the query's deadline
in mind. How failures are reported:

    no connection, 502, 503, 504, 529, no credit   DependencyUnavailable
    429, 408, 409, other 5xx, too slow             TransientError (with ``retry_after`` if told)
    prompt longer than the model's context         ContextDoesNotFit
    other 4xx                                      PermanentError
    content filter, no choices, broken stream      GenerationFailed
"""

from ragstream.adapters.openai.embeddings import OpenAIEmbeddings
from ragstream.adapters.openai.endpoint import connect, first_model, ping
from ragstream.adapters.openai.generator import OpenAIGenerator
from ragstream.adapters.openai.judges import OpenAIIntentClassifier, OpenAIReranker

__all__ = [
    "OpenAIEmbeddings",
    "OpenAIGenerator",
    "OpenAIIntentClassifier",
    "OpenAIReranker",
    "connect",
    "first_model",
    "ping",
]
