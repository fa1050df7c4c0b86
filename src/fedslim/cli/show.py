"""`fedslim show`: a saved code table."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import Annotated

import typer

from fedslim.cli import options
from fedslim.cli.output import print_code_table, table_record
from fedslim.cli.stream import print_json


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="What mine --out saved.")],
    top: options.Top = 20,
    json: options.Json = False,
) -> None:
    """Show a saved code table: the most useful itemsets, and how well they compress."""
    from fedslim.mdl.codetable import CodeTable  # noqa: PLC0415  # see fedslim.cli

    table = CodeTable.load(file)
    if json:
        print_json({"file": str(file), **table_record(table, top)})
    else:
        print_code_table(table, top, str(file))
