"""`fedslim data`: list, fetch, describe and generate data sets."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.options import Reading, reads_data, whole
from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.progress import reporter
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, print_rich, print_text, say, stdout_console
from fedslim.cli.console.text import count, printable, shown_label
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from fedslim.data import PublicSet, TransactionDatabase

app = typer.Typer(help="List, fetch, describe and generate data sets.", rich_markup_mode=None, add_completion=False)

FIMI_NAMES = (".dat", ".txt", ".fimi", ".dat.gz", ".txt.gz", ".fimi.gz")
"""The extensions of FIMI files, which `make` writes."""

ROOM_FOR_ALL = 100
"""The terminal width from which the list shows all its columns."""

TITLES = {"encounters": "Synthetic patient encounters of six hospitals, with planted syndromes"}


@app.callback(invoke_without_command=True)
def data(context: typer.Context) -> None:
    """Print the help if no command is given."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


@app.command("list", short_help="List the data sets that have a name.")
def list_(from_: options.From = None, json: options.Json = False) -> None:
    """List the data sets that have a name: built in, public, and generated."""
    sets = _describe_known_sets(from_)
    if json:
        print_json({"sets": sets})
    else:
        _print_known(sets)


@app.command(short_help="Fetch a public data set into the cache, and check it.")
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="A public data set.")],
    from_: options.From = None,
    quiet: options.Quiet = False,
) -> None:
    """Fetch a public data set into the cache, check it, and print its path.

    It comes from FOLDER, from the folders in FEDSLIM_DATA, or from its URL.
    """
    with reporter(quiet=quiet).stage(f"getting {shown_label(name)}"):
        from fedslim.data import get as fetch

        path = fetch(name, folder=from_)
    print_text(f"{path}\n")


@app.command(short_help="Describe a data set or file.")
@reads_data
def describe(
    data: options.Data,
    *,
    reading: Reading,
    seed: options.Seed = None,
    top: Annotated[
        int, typer.Option(metavar="N", callback=whole(0), help="How many of the most frequent items to show.")
    ] = 10,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Describe DATA: its columns as they are understood, transactions and items, and the most frequent items."""
    with reporter(quiet=quiet).stage(f"reading {shown_label(data)}"):
        database = replace(reading, seed=seed).load()
        record = _describe_content(data, database, top)
        record["columns"] = _describe_columns(reading, database)
    if json:
        print_json(record)
    else:
        _print_description(record)


@app.command(short_help="Generate data from a seed.")
def make(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", show_default=False, help="accidents-like, wide-sparse or encounters."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", show_default=False, help="The FIMI file to write: .dat or .dat.gz.")
    ],
    transactions: Annotated[
        int | None,
        typer.Option(
            metavar="N", callback=whole(1), help="Number of transactions; the first N are the same for any larger N."
        ),
    ] = None,
    seed: options.Seed = None,
    quiet: options.Quiet = False,
) -> None:
    """Generate data from a seed and write them to a file."""
    if not out.name.lower().endswith(FIMI_NAMES):
        msg = f"--out {out}: the file is written as FIMI; give it a name that ends in .dat or .dat.gz"
        raise ParameterError(msg)
    check_place(out)
    with reporter(quiet=quiet).stage(f"generating {shown_label(kind)}"):
        from fedslim.data import write_fimi

        database = _make_database(kind, transactions, seed)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_fimi(database, out)
    if not quiet and not all(map(str.isdigit, database.vocabulary)):
        say(f"fedslim: FIMI has no labels, so the items are numbered: 1 is {database.vocabulary[0]!r}, and so on")
    print_text(
        printable(f"{out}: {count(database.transactions, 'transaction')}, {count(database.n_items, 'item')}") + "\n"
    )


def _describe_known_sets(folder: str | None) -> list[dict[str, Any]]:
    """Return a record of each data set that has a name."""
    from fedslim.data import BUILTIN_NAMES, KINDS, public_sets

    return [
        *map(_built_in, BUILTIN_NAMES),
        *(_public(record, folder) for record in public_sets()),
        *(
            {
                "name": kind.name,
                "kind": "generated",
                "title": kind.title,
                "transactions": kind.transactions,
                "items": kind.items,
                "length": kind.length,
            }
            for kind in KINDS.values()
        ),
    ]


def _built_in(name: str) -> dict[str, Any]:
    from fedslim.data import builtin_database

    database = builtin_database(name)
    return {
        "name": name,
        "kind": "built in",
        "title": TITLES.get(name, name),
        "transactions": database.transactions,
        "items": database.n_items,
        "length": f"{database.lengths.min()}-{database.lengths.max()}",
    }


def _public(record: "PublicSet", folder: str | None) -> dict[str, Any]:
    return {
        "name": record.name,
        "kind": "public",
        "title": record.title,
        "transactions": record.transactions,
        "items": record.items,
        "length": record.length,
        "path": _path(record.name, folder),
        "source": record.source,
        "url": record.url,
        "licence": record.licence,
        "citation": record.citation,
        "partial": record.partial,
    }


def _path(name: str, folder: str | None) -> str | None:
    """Return the unchecked path of a public set; a missing folder is an error, a missing file is not."""
    from fedslim.data import locate
    from fedslim.data.store import data_folders

    data_folders(folder)
    try:
        return str(locate(name, folder=folder))
    except DataError:
        return None


def _print_known(sets: list[dict[str, Any]]) -> None:
    """Print the list, with the licences below it: they are few, but long."""
    columns = {
        "name": [record["name"] for record in sets],
        "transactions": [f"{record['transactions']:,}" for record in sets],
        "items": [f"{record['items']:,}" for record in sets],
        "length": [record["length"] for record in sets],
        "available": [_available(record) for record in sets],
        "description": [record["title"] for record in sets],
    }
    if stdout_console().width < ROOM_FOR_ALL:
        del columns["length"]
    licences = [
        ("licence", f"{licence} ({', '.join(r['name'] for r in sets if r.get('licence') == licence)})")
        for licence in dict.fromkeys(record["licence"] for record in sets if "licence" in record)
    ]
    ways = [
        (
            "public",
            "fedslim data get NAME fetches and checks a set; --from FOLDER or FEDSLIM_DATA names a folder with files",
        ),
        ("generated", "append a size to the name if you like: fedslim mine wide-sparse:20000"),
    ]
    rows = zip(*columns.values(), strict=True)
    print_rich(grid(tuple(columns), rows, left=1, right=3), summary([*ways, *licences]))


def _available(record: dict[str, Any]) -> str:
    if record["kind"] != "public":
        return str(record["kind"])
    return "yes" if record["path"] else "no"


def _describe_content(source: str, database: "TransactionDatabase", top: int) -> dict[str, Any]:
    """Return a record of what is in a database."""
    import numpy as np

    lengths = database.lengths
    cells = database.transactions * database.n_items
    frequent = np.argsort(-database.supports, kind="stable")[:top].tolist()
    return {
        "data": source,
        "transactions": database.transactions,
        "items": database.n_items,
        "occurrences": database.occurrences,
        "length_min": int(lengths.min()) if len(lengths) else 0,
        "length_mean": float(lengths.mean()) if len(lengths) else 0.0,
        "length_max": int(lengths.max(initial=0)),
        "density": database.occurrences / cells if cells else 0.0,
        "empty": int(np.count_nonzero(lengths == 0)),
        "duplicates_removed": database.duplicates_removed,
        "frequent": [{"item": database.vocabulary[i], "support": int(database.supports[i])} for i in frequent],
    }


def _describe_columns(reading: Reading, database: "TransactionDatabase") -> list[dict[str, str]]:
    """Return what each column of a table was taken as without a schema, and what is unusual about it."""
    from fedslim.data.discretise import DEFAULT_BINS
    from fedslim.data.guessing import guess_column

    long = reading.transaction_column is not None or reading.item_column is not None
    once = reading.source == "-"  # standard input cannot be read again
    table = None if long or once or reading.schema is not None else reading.read_columns()
    encoding = database.encoding
    if table is None or encoding is None:
        return []
    one_hot = encoding.kind == "one-hot"
    how = encoding.intervals or [None] * len(encoding.columns)
    kinds: dict[str, str] = {
        name: "boolean" if one_hot else each if isinstance(each, str) else "numeric" if each else "categorical"
        for name, each in zip(encoding.columns, how, strict=True)
    }
    guesses = {column.name: guess_column(column, reading.bins or DEFAULT_BINS) for column in table.columns}
    taken = {name: kinds.get(name, "ignore") for name in guesses}
    return [
        {"name": name, "kind": taken[name], "note": guess.note if taken[name] == guess.kind else ""}
        for name, guess in guesses.items()
    ]


def _print_description(record: dict[str, Any]) -> None:
    """Print what is in a database."""
    transactions = record["transactions"]
    rows = [
        (f"{each['support']:,}", f"{100 * each['support'] / transactions:.1f}", shown_label(each["item"]))
        for each in record["frequent"]
    ]
    facts = [
        ("data", record["data"]),
        ("transactions", f"{transactions:,}, of which {record['empty']:,} empty"),
        ("items", f"{record['items']:,}, which occur {record['occurrences']:,} times"),
        (
            "length",
            f"{record['length_min']:,} to {record['length_max']:,} items, {record['length_mean']:.2f} on average",
        ),
        ("density", f"{100 * record['density']:.3g} %"),
        ("duplicates", f"{record['duplicates_removed']:,} removed inside transactions"),
    ]
    frequent = [grid(("support", "%", "most frequent items"), rows, right=2)] if rows else []
    looks = [(shown_label(each["name"]), each["kind"], each["note"]) for each in record["columns"]]
    columns = [grid(("column", "taken as", ""), looks, right=0)] if looks else []
    print_rich(summary(facts), *columns, *frequent)


def _make_database(kind: str, transactions: int | None, seed: int | None) -> "TransactionDatabase":
    """Return built-in or generated data by the name of its kind; a file of that name does not count."""
    from fedslim.data import BUILTIN_NAMES, KINDS, builtin_database, generate
    from fedslim.data.registry import did_you_mean

    chosen = {} if seed is None else {"seed": seed}
    if kind in KINDS:
        return generate(kind, transactions=transactions, **chosen)
    if kind not in BUILTIN_NAMES:
        msg = f"KIND: there is no kind of data {kind!r}{did_you_mean(kind, [*KINDS, *BUILTIN_NAMES])}"
        raise ParameterError(msg)
    if transactions is not None:
        msg = f"--transactions: {kind} has a fixed size; leave the option out"
        raise ParameterError(msg)
    return builtin_database(kind, **chosen)
