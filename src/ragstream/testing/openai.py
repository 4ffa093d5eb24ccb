"""A real HTTP server that speaks the OpenAI API, for tests and for work without a model.

It serves ``POST /v1/chat/completions`` (whole and streamed), ``POST /v1/embeddings`` and
``GET /v1/models`` on 127.0.0.1. Without rules its replies are deterministic (see
``ragstream.testing.defaults``); rules script replies and faults, and ``calls`` holds what was
asked.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import orjson
from aiohttp import web

from ragstream.testing import defaults
from ragstream.testing.script import Call, Endpoint, Reply, Rule, When

__all__ = ["OpenAIServer"]

_PIECES = re.compile(r"\s*\S+(?:\s+$)?|\s+")


class OpenAIServer:
    """An OpenAI-compatible server on this machine.

    The methods that script it share two arguments. ``when`` says which calls are meant: all
    (None), those whose messages or inputs hold a string, or those a function accepts. ``times``
    says how often the rule applies before it is used up (None: always). Of several rules that
    match, the one added last applies.

    ``api_key``: when given, calls without it are refused with status 401. ``dimensions``: length
    of the embeddings where the request does not say. ``port``: 0 takes a free one.
    """

    def __init__(self, *, port: int = 0, api_key: str | None = None, dimensions: int = 384) -> None:
        self.calls: list[Call] = []
        self._port = port
        self._api_key = api_key
        self._dimensions = dimensions
        self._rules: list[Rule] = []
        self._called = asyncio.Event()
        self._runner: web.AppRunner | None = None

    # --- life ------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """What a client takes as its base URL, such as ``http://127.0.0.1:8000/v1``."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def start(self) -> None:
        """Listen. The port stays the same over ``stop`` and a further ``start``."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_get("/v1/models", self._models)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = runner.addresses[0][1]
        self._runner = runner

    async def stop(self) -> None:
        """Stop listening and drop open connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- script ----------------------------------------------------------------------------

    def reply(
        self,
        text: str | Callable[[Call], str] | None = None,
        *,
        when: When = None,
        times: int | None = None,
        finish_reason: str = "stop",
        first_delay: float = 0.0,
        piece_delay: float = 0.0,
    ) -> None:
        """Answer chat calls with a text, or with what a function makes of the call.

        None keeps the default text, so that only the ending or the delays change. A
        ``finish_reason`` of ``content_filter`` or ``length`` is how OpenAI reports those.
        ``first_delay`` and ``piece_delay``: seconds before the first piece of a stream and
        before each further one; a whole reply waits for ``first_delay``.
        """
        reply = Reply(
            text=text,
            finish_reason=finish_reason,
            first_delay=first_delay,
            piece_delay=piece_delay,
        )
        self._add(reply, when, times)

    def fail(
        self,
        status: int,
        *,
        when: When = None,
        times: int | None = None,
        endpoint: Endpoint = "chat",
        retry_after: float | str | None = None,
        code: str | None = None,
        message: str = "scripted failure",
    ) -> None:
        """Answer with an error status, as OpenAI words it.

        ``retry_after``: seconds or an HTTP date. ``code``: such as ``context_length_exceeded``.
        """
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self._add(
            Reply(status=status, error=message, code=code, headers=headers), when, times, endpoint
        )

    def hang(
        self, *, when: When = None, times: int | None = None, endpoint: Endpoint = "chat"
    ) -> None:
        """Take the request and never answer."""
        self._add(Reply(hang=True), when, times, endpoint)

    def break_off(
        self,
        text: str | None = None,
        *,
        after: int = 1,
        when: When = None,
        times: int | None = None,
    ) -> None:
        """Close the connection of a stream after so many pieces; of a whole reply, at once."""
        self._add(Reply(text=text, break_after=after), when, times)

    def garble(
        self,
        body: bytes = b'{"choices": [',
        *,
        when: When = None,
        times: int | None = None,
        endpoint: Endpoint = "chat",
    ) -> None:
        """Answer with status 200 and a body (in a stream, one event) that is not valid."""
        self._add(Reply(raw=body), when, times, endpoint)

    def no_choices(self, *, when: When = None, times: int | None = None) -> None:
        """Answer with an empty list of choices."""
        self._add(Reply(choices=False), when, times)

    def clear(self) -> None:
        """Forget all rules and calls."""
        self._rules.clear()
        self.calls.clear()

    async def next_call(self) -> Call:
        """The next call that comes in, which may not be answered yet."""
        self._called.clear()
        await self._called.wait()
        return self.calls[-1]

    def calls_of(self, endpoint: Endpoint) -> list[Call]:
        return [call for call in self.calls if call.endpoint == endpoint]

    def _add(
        self, reply: Reply, when: When, times: int | None, endpoint: Endpoint = "chat"
    ) -> None:
        self._rules.append(Rule(reply, when, endpoint, times))

    def _reply_to(self, call: Call) -> Reply:
        for rule in reversed(self._rules):
            if rule.matches(call):
                if rule.left is not None:
                    rule.left -= 1
                return rule.reply
        return Reply()

    # --- serve -----------------------------------------------------------------------------

    @asynccontextmanager
    async def _record(self, request: web.Request, endpoint: Endpoint) -> AsyncIterator[Call]:
        body = orjson.loads(await request.read()) if request.method == "POST" else {}
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Call(endpoint, headers, body)
        self.calls.append(call)
        self._called.set()
        try:
            yield call
        except (asyncio.CancelledError, ConnectionError):
            call.abandoned = True
            raise
        finally:
            call.over.set()

    def _refusal(self, call: Call, reply: Reply) -> web.Response | None:
        """The response when it is a failure or a fixed body, else None."""
        if self._api_key and call.headers.get("authorization") != f"Bearer {self._api_key}":
            return _error(401, "Incorrect API key provided.", "invalid_api_key", {})
        if reply.status != 200:
            return _error(reply.status, reply.error, reply.code, reply.headers)
        if reply.raw is not None and not call.body.get("stream"):
            return web.Response(body=reply.raw, content_type="application/json")
        return None

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        async with self._record(request, "chat") as call:
            reply = self._reply_to(call)
            if reply.hang:
                await asyncio.Event().wait()
            if (refusal := self._refusal(call, reply)) is not None:
                return refusal
            text = _text_of(reply, call)
            if call.body.get("stream"):
                return await _stream(request, call, reply, text)
            await asyncio.sleep(reply.first_delay)
            if reply.break_after is not None:
                return _cut(request, web.Response())
            choice = {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": reply.finish_reason,
            }
            return _json(
                {
                    **_head(call, "chat.completion"),
                    "choices": [choice] if reply.choices else [],
                    "usage": _usage(call, text),
                }
            )

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        async with self._record(request, "embeddings") as call:
            reply = self._reply_to(call)
            if reply.hang:
                await asyncio.Event().wait()
            if (refusal := self._refusal(call, reply)) is not None:
                return refusal
            dimensions = call.body.get("dimensions") or self._dimensions
            vectors = [defaults.embed(text, dimensions) for text in call.inputs]
            base64 = call.body.get("encoding_format") == "base64"
            data = [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": defaults.encode_base64(vector) if base64 else vector,
                }
                for index, vector in enumerate(vectors)
            ]
            tokens = sum(len(text.split()) for text in call.inputs)
            usage = {"prompt_tokens": tokens, "total_tokens": tokens}
            return _json({"object": "list", "data": data, "model": call.model, "usage": usage})

    async def _models(self, request: web.Request) -> web.StreamResponse:
        async with self._record(request, "models") as call:
            reply = self._reply_to(call)
            if reply.hang:
                await asyncio.Event().wait()
            if (refusal := self._refusal(call, reply)) is not None:
                return refusal
            model = {"id": "local", "object": "model", "created": 0, "owned_by": "ragstream"}
            return _json({"object": "list", "data": [model]})


async def _stream(request: web.Request, call: Call, reply: Reply, text: str) -> web.StreamResponse:
    """Server-sent events, one piece of the text each, as OpenAI orders them."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    counts_usage = bool((call.body.get("stream_options") or {}).get("include_usage"))
    head = _head(call, "chat.completion.chunk")
    if counts_usage:
        head["usage"] = None

    async def send(choices: Sequence[Mapping[str, Any]], **extra: Any) -> None:
        await _send(response, orjson.dumps({**head, "choices": choices, **extra}))

    if reply.raw is not None:
        await _send(response, reply.raw)
        return response
    await asyncio.sleep(reply.first_delay)
    if reply.choices:
        await send([_delta({"role": "assistant", "content": ""})])
        for number, piece in enumerate(_PIECES.findall(text)):
            if number == reply.break_after:
                return _cut(request, response)
            if number:
                await asyncio.sleep(reply.piece_delay)
            await send([_delta({"content": piece})])
        if reply.break_after is not None:
            return _cut(request, response)
        await send([_delta({}, reply.finish_reason)])
    if counts_usage:
        await send([], usage=_usage(call, text))
    await _send(response, b"[DONE]")
    return response


def _text_of(reply: Reply, call: Call) -> str:
    if isinstance(reply.text, str):
        return reply.text
    if reply.text is not None:
        return reply.text(call)
    return defaults.chat_text(call.messages, json=call.wants_json)


async def _send(response: web.StreamResponse, data: bytes) -> None:
    await response.write(b"data: " + data + b"\n\n")


def _cut(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.close()
    return response


def _head(call: Call, kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-local", "object": kind, "created": 0, "model": call.model}


def _delta(delta: Mapping[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}


def _usage(call: Call, text: str) -> dict[str, int]:
    asked, said = len(call.text.split()), len(text.split())
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _json(body: Mapping[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def _error(status: int, message: str, code: str | None, headers: Mapping[str, str]) -> web.Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return web.Response(
        status=status,
        body=orjson.dumps({"error": error}),
        content_type="application/json",
        headers=headers,
    )
