"""Asking a running worker whether it is ready."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from ragstream.domain.errors import ConfigurationError, PermanentError
from ragstream.settings import Settings

__all__ = ["NobodyAnswers", "Readiness", "readiness"]


class NobodyAnswers(PermanentError):
    """Nothing listens at the health endpoint of the settings."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a worker reports of itself."""

    pid: int
    bootstrap_servers: str
    prefix: str
    stages: dict[str, dict[str, Any]]

    def problems(self) -> list[str]:
        """Why it is not ready: a phrase for each reason."""
        found = [
            f"{name} is paused: {stage['paused']}"
            for name, stage in self.stages.items()
            if stage["paused"]
        ]
        if waiting := [name for name, stage in self.stages.items() if stage["partitions"] is None]:
            found.append(f"{', '.join(waiting)}: no partitions yet")
        return found

    def elsewhere(self, settings: Settings) -> str | None:
        """Which other topics or broker it is on, if it is not on those of the settings."""
        kafka = settings.kafka
        if self.prefix != kafka.prefix:
            return f"topics {self.prefix}.*, not {kafka.prefix}.*"
        if kafka.bootstrap_servers and self.bootstrap_servers != kafka.bootstrap_servers:
            return f"Kafka {self.bootstrap_servers}, not {kafka.bootstrap_servers}"
        return None


def readiness(settings: Settings) -> Readiness:
    """What the worker at the health endpoint of the settings says.

    Raises ``NobodyAnswers``, ``PermanentError`` where something else than a worker answers, and
    ``ConfigurationError`` where no port is set.
    """
    host, port = settings.worker.health_host, settings.worker.health_port
    if port == 0:
        raise ConfigurationError("RAGSTREAM_WORKER__HEALTH_PORT is 0: set the port to be asked")
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=3) as response:
            body = response.read()
    except urllib.error.HTTPError as error:
        body = error.read()
    except HTTPException:
        body = b""
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise NobodyAnswers(f"no worker answers on {url} ({reason})") from None
    try:
        report = json.loads(body)
        return Readiness(
            int(report["pid"]),
            str(report["bootstrap_servers"]),
            str(report["prefix"]),
            dict(report["stages"]),
        )
    except (ValueError, TypeError, KeyError):
        raise PermanentError(
            f"what answers on {url} is no worker: set RAGSTREAM_WORKER__HEALTH_PORT to the "
            "worker's port, for the worker as well"
        ) from None
