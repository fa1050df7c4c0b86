"""`fedslim data`: which data there are, and what is in them."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import Annotated

import typer

from fedslim.cli.console import options
from fedslim.cli.console.options import Reading, whole
from fedslim.cli.console.progress import reporter
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, print_text, say
from fedslim.cli.console.text import count, printable, shown_label
from fedslim.errors import ParameterError

app = typer.Typer(help="See, fetch, describe and make data.", rich_markup_mode=None, add_completion=False)

FIMI_NAMES = (".dat", ".txt", ".fimi", ".dat.gz", ".txt.gz", ".fimi.gz")
"""How a file must be called to be read as what `make` writes."""


@app.callback(invoke_without_command=True)
def data(context: typer.Context) -> None:
    """What there is to say before the command; without a command, the help."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


@app.command("list", short_help="List the data sets known by name.")
def list_(from_: options.From = None, json: options.Json = False) -> None:
    """List the data sets known by name: built in, public, and made to order."""
    from fedslim.cli.console.datasets import known, print_known

    sets = known(from_)
    if json:
        print_json({"sets": sets})
    else:
        print_known(sets)


@app.command(short_help="Check a public set and keep it in the cache.")
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="A public set.")],
    from_: options.From = None,
    quiet: options.Quiet = False,
) -> None:
    """Check a public set, keep it in the cache, and print where it is.

    It is taken from FOLDER, from the folders in FEDSLIM_DATA, or from its address on the network.
    """
    with reporter(quiet=quiet).stage(f"getting {shown_label(name)}"):
        from fedslim.data import get as fetch

        path = fetch(name, folder=from_)
    print_text(f"{path}\n")


@app.command(short_help="Say what is in a data set or file.")
def describe(
    data: options.Data,
    *,
    format: options.Format = None,  # noqa: A002  # the word that users type
    bins: options.Bins = None,
    transaction_column: options.TransactionColumn = None,
    item_column: options.ItemColumn = None,
    from_: options.From = None,
    seed: options.Seed = None,
    top: Annotated[
        int, typer.Option(metavar="N", callback=whole(0), help="How many of the most frequent items to show.")
    ] = 10,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what is in DATA: how many transactions and items, how long, how dense, and which items are frequent."""
    reading = Reading(data, format, bins, transaction_column, item_column, from_, seed)
    with reporter(quiet=quiet).stage(f"reading {shown_label(data)}"):
        from fedslim.cli.console.datasets import description, print_description

        record = description(data, reading.load(), top)
    if json:
        print_json(record)
    else:
        print_description(record)


@app.command(short_help="Make data from a seed.")
def make(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", show_default=False, help="accidents-like, wide-sparse or encounters."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", show_default=False, help="Where to write it, as FIMI: .dat or .dat.gz.")
    ],
    transactions: Annotated[
        int | None, typer.Option(metavar="N", callback=whole(1), help="How many; fewer are the head of more.")
    ] = None,
    seed: options.Seed = None,
    quiet: options.Quiet = False,
) -> None:
    """Make data from a seed and write them to a file."""
    if not out.name.lower().endswith(FIMI_NAMES):
        msg = f"--out {out}: the file is written as FIMI; give it a name that ends in .dat or .dat.gz"
        raise ParameterError(msg)
    check_place(out)
    with reporter(quiet=quiet).stage(f"making {shown_label(kind)}"):
        from fedslim.cli.console.datasets import describe_generated
        from fedslim.data import write_fimi

        database = describe_generated(kind, transactions, seed)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_fimi(database, out)
    if not quiet and not all(map(str.isdigit, database.vocabulary)):
        say(f"fedslim: FIMI has no labels, so the items are numbered: 1 is {database.vocabulary[0]!r}, and so on")
    print_text(
        printable(f"{out}: {count(database.transactions, 'transaction')}, {count(database.n_items, 'item')}") + "\n"
    )
