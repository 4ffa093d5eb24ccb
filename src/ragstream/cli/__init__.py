"""The ``ragstream`` command.

Exit codes: 0 done · 1 it failed, or problems were found · 2 wrong usage or settings · 3 a component
can't be reached · 4 no answer in time · 5 nothing was found that answers · 130 interrupted
"""

from __future__ import annotations

import errno
import os
import sys

import typer
from rich.markup import escape

from ragstream.cli import (
    ask,
    contract,
    demo,
    dev,
    dlt,
    doctor,
    ingest,
    remove,
    replay,
    topics,
    worker,
)
from ragstream.cli.console import err, out, setup_logging
from ragstream.cli.exits import FAILED, exit_code
from ragstream.cli.told import told
from ragstream.domain.errors import DependencyUnavailable
from ragstream.version import __version__

__all__ = ["app", "main"]

#: Where the output goes takes no more.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

app = typer.Typer(
    name="ragstream",
    help="Retrieval-augmented question answering that lives on an event bus.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 a component can't be "
    "reached, 4 no answer in time, 5 nothing found, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(dev.dev)
app.command()(worker.worker)
app.add_typer(topics.app, name="topics")
app.add_typer(dlt.app, name="dlt")
app.command()(replay.replay)
app.command()(ingest.ingest)
app.command()(remove.remove)
app.command()(ask.ask)
app.command()(doctor.doctor)
app.command()(demo.demo)
app.command()(contract.contract)
app.command()(contract.settings)


def _version(wanted: bool) -> None:
    if wanted:
        out.print(__version__, markup=False)
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log what happens, to stderr."),
) -> None:
    setup_logging(verbose=verbose)


def main() -> None:
    """Run the command; errors made on purpose are one message and an exit code."""
    try:
        try:
            app(prog_name="ragstream")
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes there
        err.print(f"[red]can't write:[/] {error.strerror}")
        sys.exit(FAILED)
    except Exception as error:
        code = exit_code(error)
        if code is None:
            raise
        name = type(error).__name__.removesuffix("Error")
        said = told(error) if isinstance(error, DependencyUnavailable) else f"{name}: {error}"
        kind, _, rest = said.partition(": ")
        err.print(f"[red]{kind}:[/] {escape(rest)}", highlight=False)
        sys.exit(code)
