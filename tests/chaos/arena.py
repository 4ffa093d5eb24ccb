"""Where a scenario takes place: services of its own, a deployment on them, workers and a load."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragstream.adapters.kafka_admin import TopicAdmin
from ragstream.domain.declarations import groups
from ragstream.domain.errors import DependencyUnavailable
from ragstream.testing import OpenAIServer
from tests.chaos.invariants import Origin
from tests.chaos.load import Load
from tests.chaos.saboteur import SABOTAGED, Sabotage
from tests.chaos.services import Services
from tests.chaos.waiting import PATIENCE, eventually
from tests.support.corpus import DOCUMENTS
from tests.support.deployment import Deployment, Worker, deployed

__all__ = ["Arena", "Scenario", "arena"]

#: Where the saboteur is found.
REPOSITORY = Path(__file__).parents[2]

VARIABLES = {
    "RAGSTREAM_EMBEDDINGS__PROVIDER": "openai",
    "RAGSTREAM_DELIVERY__DRAIN": "1",
    "RAGSTREAM_DELIVERY__SESSION_TIMEOUT": "6",
    "RAGSTREAM_DELIVERY__RETRY_MAX": "0.5",
    # So that a slow machine fails no query.
    "RAGSTREAM_DELIVERY__DEFAULT_DEADLINE": "600",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault. ``queries``: in the full form, and in the short one that the tests run;
    ``statuses``: what outcomes may be; ``load``: options of the ``Load``."""

    name: str
    run: Callable[[Arena], Awaitable[None]]
    queries: tuple[int, int] = (2000, 200)
    variables: Mapping[str, str] = field(default_factory=dict)
    statuses: frozenset[str] = frozenset({"answered"})
    load: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return (self.run.__doc__ or "").partition("\n")[0]


class Arena:
    """What a scenario acts on. ``short``: whether this is the short form; ``faults``: when each
    happened; ``poison``: what was published to be dead-lettered; ``notes``: for the report."""

    def __init__(
        self,
        site: Deployment,
        services: Services,
        model: OpenAIServer,
        load: Load,
        rng: random.Random,
        *,
        short: bool,
    ) -> None:
        self.site = site
        self.services = services
        self.model = model
        self.load = load
        self.rng = rng
        self.short = short
        self.faults: list[float] = []
        self.poison: dict[Origin, bytes | None] = {}
        self.notes: list[str] = []
        self.workers: list[Worker] = []

    async def begin(self, sabotage: Sabotage | None = None, **variables: str) -> Worker:
        """The first worker, when it is ready and the corpus is indexed."""
        worker = await self.launch(sabotage, **variables)
        await worker.ready()
        await self.site.index(*DOCUMENTS)
        return worker

    async def launch(
        self, sabotage: Sabotage | None = None, *stages: str, **variables: str
    ) -> Worker:
        """A further worker, which may not be ready yet."""
        program = sabotage.program if sabotage else ("ragstream", "worker")
        worker = await self.site.launch(*stages, program=program, **variables)
        self.workers.append(worker)
        return worker

    @asynccontextmanager
    async def loading(self) -> AsyncIterator[Load]:
        """Queries come while the context lasts, and on its exit all are asked."""
        asking = asyncio.create_task(self.load.run())
        try:
            yield self.load
            await asking
        finally:
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking

    def fault(self) -> None:
        """Say that it happens now."""
        self.faults.append(time.time())

    async def kill(self, worker: Worker) -> None:
        """SIGKILL; returns when it is gone."""
        self.fault()
        worker.process.kill()
        await worker.process.wait()

    async def sabotaged(self, worker: Worker, code: int = -signal.SIGKILL) -> str:
        """Wait until a saboteur has ended itself; what it was at."""
        await eventually(
            lambda: worker.process.returncode is not None,
            f"the saboteur's end; its log ends with {worker.log[-500:]!r}",
        )
        self.fault()
        assert worker.process.returncode == code, worker.log[-2000:]
        _, found, rest = worker.log.rpartition(SABOTAGED)
        assert found, f"it ended, but not by sabotage: {worker.log[-2000:]}"
        return rest.partition("\n")[0].partition(": ")[2]

    async def lag(self) -> dict[str, int]:
        """Records that each group has not acknowledged."""
        found = {}
        async with TopicAdmin(self.site.connection) as admin:
            for group, topic in groups(self.site.declared).items():
                found[group] = sum((await admin.lag(group, topic)).values())
        return found

    async def settle(self) -> None:
        """Wait until everything is answered and acknowledged. What does not come in time is for
        the invariants to tell."""

        async def no_lag() -> bool:
            try:
                return not any((await self.lag()).values())
            except DependencyUnavailable:
                return False

        with suppress(AssertionError):
            await self.load.until_answered(self.load.total)
            await eventually(no_lag, "all groups to acknowledge")

    async def stop(self) -> None:
        """End all workers, in order where they can."""
        living = [one for one in self.workers if one.process.returncode is None]
        for worker in living:
            worker.process.send_signal(signal.SIGCONT)
            worker.process.send_signal(signal.SIGTERM)
        ends = [asyncio.create_task(one.process.wait()) for one in living]
        if ends:
            _, late = await asyncio.wait(ends, timeout=30)
            self.notes += [f"{len(late)} workers did not stop within 30 s"] if late else []
        codes = Counter(one.process.returncode for one in living)
        if wrong := {code: n for code, n in codes.items() if code != 0}:
            self.notes.append(f"exit codes after SIGTERM: {wrong}")
        for worker in living:
            if worker.process.returncode is None:
                worker.process.kill()
                await worker.process.wait()


@asynccontextmanager
async def arena(
    scenario: Scenario, folder: Path, *, seed: int, queries: int, short: bool
) -> AsyncIterator[Arena]:
    """An arena in an empty folder, before its first worker; nothing outlives the context."""
    rng = random.Random(seed)
    async with OpenAIServer() as model, Services(folder / "state") as services:
        variables: dict[str, Any] = {
            **VARIABLES,
            "RAGSTREAM_EMBEDDINGS__BASE_URL": model.base_url,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
            **{k: v.format(model=model.base_url) for k, v in scenario.variables.items()},
        }
        async with deployed(services.endpoints, folder, patience=PATIENCE, **variables) as site:
            load = Load(site, rng, total=queries, **scenario.load)
            stage = Arena(site, services, model, load, rng, short=short)
            try:
                yield stage
            finally:
                await stage.stop()
