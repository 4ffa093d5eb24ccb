"""The worker's health endpoint: ``/healthz`` says that it lives, ``/readyz`` that it works."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

from aiohttp import web

from ragstream.delivery.dispatcher import Dispatcher
from ragstream.domain.errors import ConfigurationError
from ragstream.pipeline import StageUnit
from ragstream.settings import Settings
from ragstream.worker import FaustRunner

__all__ = ["Health"]


class Health:
    """Serves while the context lasts. ``port``: where, also when a free one was asked for."""

    def __init__(self, settings: Settings, units: Sequence[StageUnit], runner: FaustRunner) -> None:
        self._settings = settings.worker
        self._kafka = settings.kafka
        self._units = units
        self._runner = runner
        self._site: web.AppRunner | None = None
        self.port = settings.worker.health_port

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)
        self._site = web.AppRunner(app, access_log=None)
        await self._site.setup()
        host, port = self._settings.health_host, self._settings.health_port
        try:
            await web.TCPSite(self._site, host, port).start()
        except OSError as error:
            await self._site.cleanup()
            raise ConfigurationError(
                f"the health endpoint can't listen on {host}:{port} ({error.strerror}): set "
                "RAGSTREAM_WORKER__HEALTH_PORT to another port, or to 0 for a free one"
            ) from None
        self.port = self._site.addresses[0][1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._site is not None:
            await self._site.cleanup()

    async def _alive(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _ready(self, _request: web.Request) -> web.Response:
        stages = self.report()
        ready = all(
            stage["partitions"] is not None and not stage["paused"] for stage in stages.values()
        )
        return web.json_response(
            {
                "status": "ready" if ready else "not ready",
                "pid": os.getpid(),
                "bootstrap_servers": self._kafka.bootstrap_servers,
                "prefix": self._kafka.prefix,
                "stages": stages,
            },
            status=200 if ready else 503,
        )

    def report(self) -> dict[str, dict[str, Any]]:
        """By stage: partitions held (None before the first assignment), records in flight, and
        why it waits, if it does."""
        report = {}
        for unit in self._units:
            dispatcher = self._runner.dispatchers[unit.stage]
            report[unit.stage] = {
                "partitions": len(dispatcher.assigned()) if dispatcher.was_assigned else None,
                "in_flight": dispatcher.in_flight,
                "paused": unit.handler.paused or self._unheard(dispatcher),
            }
        return report

    def _unheard(self, dispatcher: Dispatcher) -> str | None:
        if dispatcher.was_assigned and not dispatcher.certain:
            return "kafka: the broker has not confirmed our partitions within the session timeout"
        return None
