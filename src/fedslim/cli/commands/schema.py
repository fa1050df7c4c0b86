"""`fedslim schema`: agree with the other members on what the columns mean."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedslim.cli.console import options
from fedslim.cli.console.groups import command_group
from fedslim.cli.console.options import Reading
from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.progress import reporter
from fedslim.cli.console.stream import print_json, print_rich, print_text
from fedslim.cli.console.text import count, printable, shown_label
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.data.encoding import EncodedTable
    from fedslim.schema.conforming import ColumnReport

app = command_group("Agree with the other members on what the columns mean.")

UNFIT = 1

SchemaArgument = Annotated[Path, typer.Argument(metavar="SCHEMA", show_default=False, help="The schema file.")]


@app.command(short_help="Propose a schema for a file.")
def make(
    data: options.Data,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The new file. Without it, the schema is printed.")
    ] = None,
    with_values: Annotated[
        bool, typer.Option("--with-values", help="List the categories that are in DATA; by default, no value is shown.")
    ] = False,
    format: options.Format = None,  # noqa: A002  # the option's name
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    table: options.Table = None,
    quiet: options.Quiet = False,
) -> None:
    """Propose a schema for DATA, to edit and agree on with the other members."""
    from fedslim.data.atomic import creating
    from fedslim.schema.proposal import propose

    reading = Reading(data, format, separator=separator, encoding=encoding, query=query, table=table)
    text = propose(_table(reading, quiet=quiet), with_values=with_values)
    if out is None:
        print_text(text)
        return
    with creating(out, private=False) as stream:
        stream.write(text.encode())
    print_text(printable(f"{out}: edit it, then run `fedslim schema check {out} {data!s}`") + "\n")


@app.command(short_help="Check whether a file fits a schema.")
def check(
    schema: SchemaArgument,
    data: options.Data,
    *,
    format: options.Format = None,  # noqa: A002  # the option's name
    separator: options.Separator = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    table: options.Table = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say column by column what DATA becomes by the schema, and what does not fit; change nothing.

    Exit with 0 if the data can be used, and with 1 if not.
    """
    from fedslim.schema import Conformed, Schema

    agreed = Schema.read(schema)
    reading = Reading(data, format, separator=separator, encoding=encoding, query=query, table=table)
    report = Conformed(agreed, _table(reading, quiet=quiet)).report
    unfit = sum(bool(column.errors) for column in report)
    if json:
        print_json(
            {"schema": str(schema), "data": str(data), "usable": not unfit, "columns": list(map(asdict, report))}
        )
    else:
        print_report(report)
    if unfit:
        raise typer.Exit(UNFIT)


def print_report(report: "list[ColumnReport]") -> None:
    """Print column by column what a table becomes."""
    unfit = sum(bool(column.errors) for column in report)
    rows = [
        (shown_label(each.name or "-"), shown_label(each.found or "-"), each.kind, f"{each.missing:,}", each.becomes)
        for each in report
    ]
    remarks = [
        (f"{sign} {shown_label(str(each.found or each.name))}", text)
        for each in report
        for sign, texts in (("error", each.errors), ("note", each.notes))
        for text in texts
    ]
    verdict = f"no: {count(unfit, 'column')} of the schema must be corrected" if unfit else "yes"
    table = grid(("column", "in the data", "kind", "missing", "becomes"), rows, left=3, right=4)
    print_rich(table, summary([*remarks, ("usable", verdict)]))


@app.command(short_help="Show what a schema says.")
def show(schema: SchemaArgument, json: options.Json = False) -> None:
    """Show what a schema says, without defaults and comments, and its digest, which members compare."""
    from fedslim.schema import Schema

    agreed = Schema.read(schema)
    if json:
        print_json({"schema": str(schema), "digest": agreed.digest().hex(), **agreed.to_dict()})
    else:
        print_text("".join(f"{printable(line)}\n" for line in agreed.text().splitlines()))
        print_rich(summary([("digest", agreed.digest().hex())]))


def _table(reading: Reading, *, quiet: bool) -> "EncodedTable":
    with reporter(quiet=quiet).stage(f"reading {shown_label(str(reading.source))}"):
        table = reading.read_columns()
    if table is None:
        msg = f"{reading.source}: a schema is for tables with columns; name a file such as CSV or Parquet"
        raise ParameterError(msg)
    return table
