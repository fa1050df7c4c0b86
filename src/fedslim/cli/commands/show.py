"""`fedslim show`: a saved code table, or the record of a run."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import Annotated

import typer

from fedslim.cli.console import options
from fedslim.cli.console.output import print_code_table, table_record
from fedslim.cli.console.shown import print_run, print_runs, run_record
from fedslim.cli.console.stream import print_json, say
from fedslim.errors import ParameterError


def show(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", show_default=False, help="What mine --out or simulate --out saved; a run by its folder too."
        ),
    ],
    top: options.Top = 20,
    json: options.Json = False,
) -> None:
    """Show a saved code table: the most useful itemsets, and how well they compress.

    Of a run also how it went, what no member finds alone, how well it agrees, what it cost, and how to do it again.
    """
    from fedslim.experiments import EXPERIMENTS
    from fedslim.report.finding import find_records, is_record

    if not file.exists() and str(file) in EXPERIMENTS:
        msg = f"{file} is an experiment; see it with `fedslim experiment show {file}`"
        raise ParameterError(msg)
    if not (file.is_dir() or is_record(file)):
        _show_table(file, top, json=json)
        return
    found = find_records([file])
    records = found.records
    for remark in found.remarks:
        say(f"fedslim: warning: {remark}")
    if json:
        shown = [{"file": str(file), **run_record(record, top)} for record in records]
        print_json(shown[0] if len(shown) == 1 else {"file": str(file), "runs": shown})
    elif len(records) == 1:
        print_run(records[0], top)
    else:
        print_runs(records)


def _show_table(file: Path, top: int, *, json: bool) -> None:
    from fedslim.mdl.codetable import CodeTable

    table = CodeTable.load(file)
    if json:
        print_json({"file": str(file), **table_record(table, top)})
    else:
        print_code_table(table, top, str(file))
