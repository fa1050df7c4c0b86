"""`fedslim data`: list, fetch, describe and generate data sets."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim.cli.console import options
from fedslim.cli.console.options import Reading, argument, command_group, option, reads_data, whole
from fedslim.cli.console.output import grid, print_line, print_result, print_text, rich_console, say, shown_label
from fedslim.cli.console.progress import reporter
from fedslim.cli.console.saving import check_place
from fedslim.errors import DataError, ParameterError
from fedslim.format import count

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

app = command_group("List, fetch, describe and generate data sets.")

FIMI_NAMES = (".dat", ".txt", ".fimi", ".dat.gz", ".txt.gz", ".fimi.gz")
"""The extensions of FIMI files, which `make` writes."""

ROOM_FOR_ALL = 100  # the terminal width from which the list shows all its columns
TITLES = {"encounters": "Synthetic patient encounters of six hospitals, with planted syndromes"}


@app.command("list", short_help="List the data sets that have a name.")
def list_(from_: str | None = options.FROM, json: bool = options.JSON) -> None:
    """List the data sets that have a name: built in, public, and generated."""
    sets = _known_sets(from_)
    print_result(json, {"sets": sets}, *_known(sets))


@app.command(short_help="Fetch a public data set into the cache, and check it.")
def get(
    name: str = argument("NAME", "A public data set."),
    from_: str | None = options.FROM,
    quiet: bool = options.QUIET,
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
    data: str = options.DATA,
    *,
    reading: Reading,
    seed: int | None = options.SEED,
    top: int = option("N", "How many of the most frequent items to show.", whole(0), default=10),
    json: bool = options.JSON,
    quiet: bool = options.QUIET,
) -> None:
    """Describe DATA: how its columns are read, its transactions and items, and the most frequent items."""
    with reporter(quiet=quiet).stage(f"reading {shown_label(data)}"):
        database = replace(reading, seed=seed).load()
        record = _content(data, database, top) | {"columns": _columns(reading, database)}
    print_result(json, record, *_description(record))


@app.command(short_help="Generate data from a seed.")
def make(
    kind: str = argument("KIND", "accidents-like, wide-sparse or encounters."),
    out: Path = option("FILE", "The FIMI file to write: .dat or .dat.gz.", default=...),
    transactions: int | None = option(
        "N", "Number of transactions; the first N are the same for any larger N.", whole(1)
    ),
    seed: int | None = options.SEED,
    quiet: bool = options.QUIET,
) -> None:
    """Generate data from a seed and write them to a file."""
    if not out.name.lower().endswith(FIMI_NAMES):
        raise ParameterError(f"--out {out}: the file is written as FIMI; give it a name that ends in .dat or .dat.gz")
    check_place(out)
    with reporter(quiet=quiet).stage(f"generating {shown_label(kind)}"):
        from fedslim.data import write_fimi

        database = _make_database(kind, transactions, seed)
        out.parent.mkdir(parents=True, exist_ok=True)
        write_fimi(database, out)
    if not quiet and not all(map(str.isdigit, database.vocabulary)):
        say(f"fedslim: FIMI has no labels, so the items are numbered: 1 is {database.vocabulary[0]!r}, and so on")
    print_line(f"{out}: {count(database.transactions, 'transaction')}, {count(database.n_items, 'item')}")


def _known_sets(folder: str | None) -> list[dict[str, Any]]:
    """Return a record of each data set that has a name."""
    from fedslim.data import builtin_database, locate, public_sets
    from fedslim.data.generators import BUILTIN_NAMES, KINDS
    from fedslim.data.store import data_folders

    known = []
    for name in BUILTIN_NAMES:
        database = builtin_database(name)
        length = f"{database.lengths.min()}-{database.lengths.max()}"
        figures = {"transactions": database.transactions, "items": database.n_items, "length": length}
        known.append({"name": name, "kind": "built in", "title": TITLES.get(name, name), **figures})
    data_folders(folder)  # a missing folder is an error, a missing file is not
    for public in public_sets():
        record = _fields(public, "public") | {"path": None}
        with suppress(DataError):
            record["path"] = str(locate(public.name, folder=folder))
        more = ("source", "url", "licence", "citation", "partial")
        known.append(record | {field: getattr(public, field) for field in more})
    return [*known, *(_fields(kind, "generated") for kind in KINDS.values())]


def _fields(known: Any, kind: str) -> dict[str, Any]:
    figures = {field: getattr(known, field) for field in ("title", "transactions", "items", "length")}
    return {"name": known.name, "kind": kind, **figures}


def _known(sets: list[dict[str, Any]]) -> tuple[Any, list[tuple[str, str]]]:
    """Return the list as a table, and the licences below it: they are few, but long."""
    columns = {name: [record[name] for record in sets] for name in ("name", "transactions", "items", "length")}
    columns["available"] = [("yes" if r["path"] else "no") if "path" in r else r["kind"] for r in sets]
    columns["description"] = [record["title"] for record in sets]
    if rich_console().width < ROOM_FOR_ALL:
        del columns["length"]
    licences = [
        ("licence", f"{licence} ({', '.join(r['name'] for r in sets if r.get('licence') == licence)})")
        for licence in dict.fromkeys(record["licence"] for record in sets if "licence" in record)
    ]
    get = "fedslim data get NAME fetches and checks a set; --from FOLDER or FEDSLIM_DATA names a folder with files"
    more = "append a size to the name if you like: fedslim mine wide-sparse:20000"
    table = grid(tuple(columns), zip(*columns.values(), strict=True), left=1, right=3)
    return table, [("public", get), ("generated", more), *licences]


def _content(source: str, database: "TransactionDatabase", top: int) -> dict[str, Any]:
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


def _columns(reading: Reading, database: "TransactionDatabase") -> list[dict[str, str]]:
    """Return what each column of a table was taken as without a schema, and what is unusual about it."""
    from fedslim.data.discretise import DEFAULT_BINS
    from fedslim.data.encoding import Choices, by_attribute, find_long
    from fedslim.data.guessing import guess_column

    pair = reading.transaction_column is not None or reading.item_column is not None
    once = reading.source == "-"  # standard input cannot be read again
    table = None if pair or once or reading.schema is not None else reading.read_columns()
    if table is None:
        return []
    choices: Any = {name: getattr(reading, name) for name in Choices.__annotations__}
    long = [table.columns[place] for place in find_long(table, None, choices) or ()]
    roles = ("transaction", "item") if len(long) == 2 else ("transaction", "attribute", "value")  # noqa: PLR2004
    found = [{"name": c.name, "kind": role, "note": "of a long table"} for c, role in zip(long, roles, strict=False)]
    encoding = database.encoding
    if encoding is None:
        return found
    if long:
        table = by_attribute(table, long)
    one_hot = encoding.kind == "one-hot"
    how = encoding.intervals or [None] * len(encoding.columns)
    kinds: dict[str, str] = {
        name: "boolean" if one_hot else each if isinstance(each, str) else "numeric" if each else "categorical"
        for name, each in zip(encoding.columns, how, strict=True)
    }
    guesses = {column.name: guess_column(column, reading.bins or DEFAULT_BINS) for column in table.columns}
    taken = {name: kinds.get(name, "ignore") for name in guesses}
    return found + [
        {"name": name, "kind": taken[name], "note": guess.note if taken[name] == guess.kind else ""}
        for name, guess in guesses.items()
    ]


def _description(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return what is in a database as facts and tables."""
    r, transactions = record, record["transactions"]
    rows = [
        (each["support"], f"{100 * each['support'] / transactions:.1f}", shown_label(each["item"]))
        for each in r["frequent"]
    ]
    facts = [
        ("data", r["data"]),
        ("transactions", f"{transactions:,}, of which {r['empty']:,} empty"),
        ("items", f"{r['items']:,}, which occur {r['occurrences']:,} times"),
        ("length", f"{r['length_min']:,} to {r['length_max']:,} items, {r['length_mean']:.2f} on average"),
        ("density", f"{100 * r['density']:.3g} %"),
        ("duplicates", f"{r['duplicates_removed']:,} removed inside transactions"),
    ]
    looks = [(shown_label(each["name"]), each["kind"], each["note"]) for each in r["columns"]]
    columns = grid(("column", "taken as", ""), looks, right=0)
    return facts, columns, grid(("support", "%", "most frequent items"), rows, right=2)


def _make_database(kind: str, transactions: int | None, seed: int | None) -> "TransactionDatabase":
    """Return built-in or generated data by the name of its kind; a file of that name does not count."""
    from fedslim.data.generators import BUILTIN_NAMES, KINDS
    from fedslim.data.readers import make_data
    from fedslim.data.store import did_you_mean

    if kind not in {*KINDS, *BUILTIN_NAMES}:
        raise ParameterError(f"KIND: there is no kind of data {kind!r}{did_you_mean(kind, [*KINDS, *BUILTIN_NAMES])}")
    made = make_data(kind if transactions is None else f"{kind}:{transactions}", seed)
    if made is None:
        raise ParameterError(f"--transactions: {kind} has a fixed size; leave the option out")
    return made
