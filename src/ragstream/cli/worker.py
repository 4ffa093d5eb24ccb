"""``ragstream worker``: running stages."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from ragstream.cli.console import err, out, setup_logging
from ragstream.cli.exits import FAILED, exit_code
from ragstream.cli.readiness import readiness
from ragstream.pipeline import STAGES
from ragstream.settings import Settings, load_settings

__all__ = ["worker"]

log = logging.getLogger(__name__)


class Start(StrEnum):
    """Where a group that never read anything begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


def worker(
    stages: Annotated[
        list[str] | None,
        typer.Argument(help=f"Stages to run, of {', '.join(STAGES)}; all by default."),
    ] = None,
    start: Annotated[
        Start | None, typer.Option("--from", help="Where a group without offsets starts.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Ask a running worker whether it is ready, and exit.")
    ] = False,
) -> None:
    """Run the stages on Kafka until SIGTERM or Ctrl-C; they drain before they end.

    All stages in one process, or one a process in production:

    Example: [bold]ragstream worker route retrieve[/]
    """
    settings = load_settings(delivery={"start": start.value}) if start else load_settings()
    if check:
        raise typer.Exit(_check(settings))
    setup_logging(level=logging.INFO)
    code = 0
    try:
        asyncio.run(_run(settings, stages or []))
    except Exception as error:
        if not _threads_hang():
            raise
        log.error("%s", error)
        code = exit_code(error) or FAILED
    if _threads_hang():
        # A consumer's thread still waits for a broker that is gone; it would hold up the exit.
        logging.shutdown()
        os._exit(code)


async def _run(settings: Settings, stages: list[str]) -> None:
    from ragstream.serve import run_worker  # the whole pipeline: takes seconds to import

    stop = asyncio.Event()

    def stopping(signum: signal.Signals) -> None:
        log.info("stopping: %s", signum.name)
        stop.set()

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopping, signum)
    await run_worker(settings, stages, stop=stop)


def _threads_hang() -> bool:
    main = threading.main_thread()
    return any(thread is not main and not thread.daemon for thread in threading.enumerate())


def _check(settings: Settings) -> int:
    """Whether the worker of these settings is ready. For health checks of containers."""
    found = readiness(settings)
    out.print(json.dumps(asdict(found)), markup=False)
    if place := found.elsewhere(settings):
        err.print(f"the worker is on {place}", markup=False)
        return FAILED
    for problem in found.problems():
        err.print(problem, markup=False)
    return FAILED if found.problems() else 0
