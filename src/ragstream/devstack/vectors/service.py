"""The REST endpoints, with Qdrant's envelope, error messages and status codes.

The engine is called on the event loop: it holds Python's global lock while it works, so a thread
would only add a wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from typing import Any, TypeVar

import orjson
import qdrant_edge as edge
from aiohttp import web
from pydantic import TypeAdapter, ValidationError
from qdrant_client.http import models

from ragstream.devstack.vectors import translate
from ragstream.devstack.vectors.engine import (
    Collection,
    CollectionExists,
    Collections,
    UnknownCollection,
)

__all__ = ["create_app"]

MAX_REQUEST_BYTES = 64 * 1024 * 1024
FLUSH_INTERVAL = 5.0  # seconds
DEFAULT_SCROLL_LIMIT = 10
DEFAULT_FACET_LIMIT = 10

log = logging.getLogger(__name__)

Body = TypeVar("Body")
Handler = Callable[[web.Request], Awaitable[object]]

_CREATE_COLLECTION = TypeAdapter(models.CreateCollection)
_CREATE_INDEX = TypeAdapter(models.CreateFieldIndex)
_UPSERT = TypeAdapter(models.PointsList)
_RETRIEVE = TypeAdapter(models.PointRequest)
_QUERY = TypeAdapter(models.QueryRequest)
_SCROLL = TypeAdapter(models.ScrollRequest)
_COUNT = TypeAdapter(models.CountRequest)
_FACET = TypeAdapter(models.FacetRequest)
_SELECTOR: TypeAdapter[models.PointsSelector] = TypeAdapter(models.PointsSelector)
_SET_PAYLOAD = TypeAdapter(models.SetPayload)

_COMPLETED = {"operation_id": None, "status": "completed"}


def create_app(collections: Collections) -> web.Application:
    """The application. It flushes the collections now and then and closes them at the end."""
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    service = Service(collections)
    one = "/collections/{collection}"
    app.add_routes(
        [
            web.get("/", _about),
            *(web.get(path, _healthy) for path in ("/healthz", "/livez", "/readyz")),
            web.get("/collections", _answer(service.list_collections)),
            web.get(one, _answer(service.get_collection)),
            web.put(one, _answer(service.create_collection)),
            web.delete(one, _answer(service.delete_collection)),
            web.get(f"{one}/exists", _answer(service.collection_exists)),
            web.put(f"{one}/index", _answer(service.create_index)),
            web.delete(f"{one}/index/{{field}}", _answer(service.delete_index)),
            web.put(f"{one}/points", _answer(service.upsert)),
            web.post(f"{one}/points", _answer(service.retrieve)),
            web.post(f"{one}/points/query", _answer(service.query)),
            web.post(f"{one}/points/scroll", _answer(service.scroll)),
            web.post(f"{one}/points/count", _answer(service.count)),
            web.post(f"{one}/points/delete", _answer(service.delete_points)),
            web.post(f"{one}/points/payload", _answer(service.set_payload)),
            web.post(f"{one}/facet", _answer(service.facet)),
        ]
    )
    app.cleanup_ctx.append(lambda _app: _flushing(collections))
    return app


async def _flushing(collections: Collections) -> AsyncIterator[None]:
    async def flush() -> None:
        while True:
            await asyncio.sleep(FLUSH_INTERVAL)
            try:
                collections.tidy()
            except Exception:
                log.exception("flush failed")

    task = asyncio.create_task(flush())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    collections.close()


def _answer(handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def respond(request: web.Request) -> web.Response:
        started = time.perf_counter()
        status, body = 200, {}
        try:
            body = {"result": await handler(request), "status": "ok"}
        except web.HTTPException as error:
            status, body = error.status, _error(error.reason)
        except UnknownCollection as error:
            status, body = 404, _error(f"Not found: {error}")
        except CollectionExists as error:
            status, body = 409, _error(f"Wrong input: {error}")
        except ValidationError as error:
            status, body = 400, _error(f"Format error in JSON body: {_first(error)}")
        except (ValueError, TypeError) as error:
            status, body = 400, _error(f"Wrong input: {error}")
        except Exception as error:
            # The binding raises plain exceptions; only the text tells whose fault it is.
            status = 500 if str(error).startswith("Service") else 400
            body = _error(str(error) if status == 500 else f"Wrong input: {error}")
            if status == 500:
                log.exception("%s %s failed", request.method, request.path)
        return _json({**body, "time": time.perf_counter() - started}, status)

    return respond


async def _read(request: web.Request, body: TypeAdapter[Body]) -> Body:
    return body.validate_json(await request.read())


def _json(body: object, status: int = 200) -> web.Response:
    encoded = orjson.dumps(body)
    return web.Response(body=encoded, status=status, content_type="application/json")


def _error(message: str) -> dict[str, object]:
    return {"status": {"error": message}}


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"


async def _about(_request: web.Request) -> web.Response:
    # The version is that of the REST interface: clients compare it with their own.
    engine = version("qdrant-edge-py")
    return _json(
        {
            "title": f"local vector store on Qdrant Edge {engine}",
            "version": version("qdrant-client"),
        }
    )


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="healthz check passed")


class Service:
    """One method per endpoint; each returns the ``result`` of the envelope."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections

    def _collection(self, request: web.Request) -> Collection:
        return self._collections[request.match_info["collection"]]

    # --- collections -----------------------------------------------------------------------

    async def list_collections(self, _request: web.Request) -> object:
        return {"collections": [{"name": name} for name in self._collections.names()]}

    async def get_collection(self, request: web.Request) -> object:
        return describe(self._collection(request))

    async def collection_exists(self, request: web.Request) -> object:
        return {"exists": request.match_info["collection"] in self._collections}

    async def create_collection(self, request: web.Request) -> object:
        body = await _read(request, _CREATE_COLLECTION)
        self._collections.create(request.match_info["collection"], body)
        return True

    async def delete_collection(self, request: web.Request) -> object:
        return self._collections.delete(request.match_info["collection"])

    async def create_index(self, request: web.Request) -> object:
        body = await _read(request, _CREATE_INDEX)
        schema = translate.field_schema(body.field_schema)
        operation = edge.UpdateOperation.create_field_index(body.field_name, schema)
        self._collection(request).update(operation)
        return _COMPLETED

    async def delete_index(self, request: web.Request) -> object:
        operation = edge.UpdateOperation.delete_field_index(request.match_info["field"])
        self._collection(request).update(operation)
        return _COMPLETED

    # --- points ----------------------------------------------------------------------------

    async def upsert(self, request: web.Request) -> object:
        body = await _read(request, _UPSERT)
        collection = self._collection(request)
        translate.reject(
            shard_key=body.shard_key,
            update_filter=body.update_filter,
            update_mode=body.update_mode,
        )
        points = [collection.layout.to_point(point) for point in body.points]
        collection.update(edge.UpdateOperation.upsert_points(points), points=len(points))
        return _COMPLETED

    async def retrieve(self, request: web.Request) -> object:
        body = await _read(request, _RETRIEVE)
        collection = self._collection(request)
        found = collection.shard.retrieve(
            body.ids,
            translate.with_payload(body.with_payload, default=True),
            body.with_vector or False,
        )
        return [translate.dump_point(point) for point in found]

    async def query(self, request: web.Request) -> object:
        body = await _read(request, _QUERY)
        collection = self._collection(request)
        found = collection.shard.query(translate.to_query_request(body))
        return {
            "points": [
                translate.dump_point(point, version=point.version, score=point.score)
                for point in found
            ]
        }

    async def scroll(self, request: web.Request) -> object:
        body = await _read(request, _SCROLL)
        collection = self._collection(request)
        translate.reject(order_by=body.order_by, shard_key=body.shard_key)
        points, following = collection.shard.scroll(
            edge.ScrollRequest(
                offset=body.offset,
                limit=DEFAULT_SCROLL_LIMIT if body.limit is None else body.limit,
                filter=translate.to_filter(body.filter),
                with_payload=translate.with_payload(body.with_payload, default=True),
                with_vector=body.with_vector or False,
            )
        )
        return {
            "points": [translate.dump_point(point) for point in points],
            "next_page_offset": None if following is None else translate.dump_id(following),
        }

    async def count(self, request: web.Request) -> object:
        body = await _read(request, _COUNT)
        collection = self._collection(request)
        exact = True if body.exact is None else body.exact
        condition = translate.to_filter(body.filter)
        counted = collection.shard.count(edge.CountRequest(exact=exact, filter=condition))
        return {"count": counted}

    async def facet(self, request: web.Request) -> object:
        body = await _read(request, _FACET)
        collection = self._collection(request)
        hits = collection.shard.facet(
            edge.FacetRequest(
                key=body.key,
                limit=DEFAULT_FACET_LIMIT if body.limit is None else body.limit,
                exact=bool(body.exact),
                filter=translate.to_filter(body.filter),
            )
        )
        return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits]}

    async def delete_points(self, request: web.Request) -> object:
        body = await _read(request, _SELECTOR)
        collection = self._collection(request)
        if isinstance(body, models.FilterSelector):
            condition = translate.to_filter(body.filter)
            collection.update(edge.UpdateOperation.delete_points_by_filter(condition), points=1)
        else:
            operation = edge.UpdateOperation.delete_points(body.points)
            collection.update(operation, points=len(body.points))
        return _COMPLETED

    async def set_payload(self, request: web.Request) -> object:
        body = await _read(request, _SET_PAYLOAD)
        collection = self._collection(request)
        if body.points is not None:
            operation = edge.UpdateOperation.set_payload(body.points, body.payload, body.key)
        elif body.filter is not None:
            condition = translate.to_filter(body.filter)
            operation = edge.UpdateOperation.set_payload_by_filter(
                condition, body.payload, body.key
            )
        else:
            raise ValueError("points or filter must be given")
        collection.update(operation)
        return _COMPLETED


def describe(collection: Collection) -> dict[str, Any]:
    """A collection's state in the shape of Qdrant's ``CollectionInfo``."""
    info = collection.shard.info()
    created = collection.request.model_dump(mode="json", exclude_none=True)
    return {
        "status": "green",
        "optimizer_status": "ok",
        "points_count": info.points_count,
        "indexed_vectors_count": 0,
        "segments_count": info.segments_count,
        "config": {
            "params": {
                "vectors": created.get("vectors", {}),
                "sparse_vectors": created.get("sparse_vectors"),
                "shard_number": 1,
                "replication_factor": 1,
                "write_consistency_factor": 1,
            },
            "hnsw_config": {"m": 0, "ef_construct": 100, "full_scan_threshold": 10_000},
            "optimizer_config": {
                "default_segment_number": 0,
                "flush_interval_sec": int(FLUSH_INTERVAL),
            },
        },
        "payload_schema": {
            field: {"data_type": translate.index_type(index.data_type), "points": index.points}
            for field, index in info.payload_schema.items()
        },
    }
