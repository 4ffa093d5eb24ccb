"""Where the commands print, and how the process logs."""

from __future__ import annotations

import io
import logging

from rich.console import Console
from rich.table import Table

from ragstream.cli.repeats import Repeats

__all__ = ["err", "out", "print_table", "setup_logging"]

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

#: They keep their loggers at DEBUG and build records that nobody reads.
_NOISY = (
    "faust",
    "mode",
    "aiokafka",
    "httpx",
    "httpx2",
    "httpcore",
    "openai",
    "qdrant_client",
    "asyncio",
)


def print_table(table: Table) -> None:
    """To the terminal's width; where the output goes elsewhere, each row as one whole line."""
    if out.is_terminal:
        out.print(table)
        return
    lines = Console(file=io.StringIO(), width=100_000, highlight=False)
    with lines.capture() as captured:
        lines.print(table)
    for line in captured.get().splitlines():
        out.print(line.rstrip(), markup=False)


def setup_logging(*, verbose: bool = False, level: int = logging.WARNING) -> None:
    """Log to stderr, a line a record. Libraries at WARNING; aiokafka not even that where nothing
    of ours is told either, as the command says itself what its errors come to."""
    logging.basicConfig(
        level=logging.INFO if verbose else level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        force=True,
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(Repeats("aiokafka", "faust", "mode"))
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    if not verbose and level >= logging.WARNING:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
