"""A local vector store for development: Qdrant's engine behind a few of Qdrant's REST endpoints.

``python -m ragstream.devstack.vectors --host 127.0.0.1 --port 6333 --data DIR`` serves until
SIGTERM and prints ``ready http://HOST:PORT`` when it can be used (port 0 takes a free one). The
official qdrant-client talks to it over REST as to a server.

It is a stand-in, not a server to deploy. What differs from a Qdrant server:

- One node, one shard per collection, one process per data folder; no authentication, TLS, gRPC,
  aliases, snapshots, quantisation, strict mode, inference or shard keys.
- Served: ``/``, ``/healthz``; collections: list, get, exists, create, delete; payload indexes:
  create, delete; points: upsert, retrieve, query, scroll, count, facet, delete, set payload.
  Anything else is a 404, and a feature that the engine would have but this service does not
  translate is a 400 that names it. Nothing is ignored silently except ``timeout``,
  ``consistency`` and ``ordering``, which have no meaning on one node, and the storage and
  optimizer parameters of a new collection.
- Every write is in the write-ahead log before it is acknowledged, with ``wait=false`` too. Killing
  the process loses nothing that was acknowledged; the log is not fsynced before the next flush
  (every five seconds), so a power cut may.
- Dense vectors are scanned, not searched through an HNSW graph: exact, and about 0.2 ms per 1,000
  vectors of 384 dimensions. The engine holds Python's global lock while it works, and building a
  graph would stop all requests for half a second per 1,000 vectors. For some hundred thousand
  chunks use a Qdrant server.
- For the same reason requests are worked on one after the other.
- The statistics of the IDF modifier count deleted points until the segment is rewritten.
"""
