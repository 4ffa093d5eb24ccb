"""``ragstream contract`` and ``ragstream settings``: what the topics and settings are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ragstream.cli.console import err, out, print_table
from ragstream.cli.exits import FAILED
from ragstream.contract import check as check_contract
from ragstream.contract import freeze as freeze_contract
from ragstream.contract import write as write_contract
from ragstream.settings import describe, markdown

__all__ = ["contract", "settings"]


def contract(
    check: Annotated[
        bool, typer.Option("--check", help="Only tell what differs from the types that run.")
    ] = False,
    freeze: Annotated[
        bool, typer.Option("--freeze", help="Take the present contract for v1 from now on.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Freeze even what breaks the present v1.")
    ] = False,
    root: Annotated[Path, typer.Option(help="Folder that holds topics/.")] = Path(),
) -> None:
    """Write the schemas, examples' checks and asyncapi.yaml of the topics to topics/.

    Example: [bold]ragstream contract --check[/]
    """
    if check:
        problems = check_contract(root)
        for problem in problems:
            err.print(problem, markup=False)
        if problems:
            raise typer.Exit(FAILED)
        out.print("the contract is what runs")
    elif freeze:
        for change in freeze_contract(root, force=force):
            err.print(f"breaks v1: {change}", markup=False)
    else:
        for path in write_contract(root):
            out.print(str(path), markup=False)


def settings(
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="As the page docs/settings.md.")
    ] = False,
) -> None:
    """List every setting with its variable, default and meaning.

    Example: [bold]ragstream settings | grep CACHE[/]
    """
    if as_markdown:
        out.print(markdown(), markup=False, end="")
        return
    table = Table("variable", "default", "meaning", box=None)
    for variable in describe():
        table.add_row(variable.name, str(variable.default), variable.description)
    print_table(table)
