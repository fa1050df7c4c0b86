"""What the commands of `fedslim data` have to say about data sets. Loads numpy: imported by commands only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.stream import print_rich, stdout_console
from fedslim.cli.console.text import shown_label
from fedslim.data import BUILTIN_NAMES, KINDS, builtin_database, generate, locate, public_sets
from fedslim.data.registry import did_you_mean
from fedslim.data.store import data_folders
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from fedslim.data import PublicSet, TransactionDatabase

ROOM_FOR_ALL = 100
"""The width from which on the list has room for all its columns."""

TITLES = {"encounters": "Patient encounters of six hospitals, with planted syndromes; made up"}


def known(folder: str | None) -> list[dict[str, Any]]:
    """A record of each data set that has a name."""
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
    database = builtin_database(name)
    return {
        "name": name,
        "kind": "built in",
        "title": TITLES.get(name, name),
        "transactions": database.transactions,
        "items": database.n_items,
        "length": f"{database.lengths.min()}-{database.lengths.max()}",
    }


def _public(record: PublicSet, folder: str | None) -> dict[str, Any]:
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
    """Where the file of a public set is, unchecked; a folder that is none is worth an error, a missing file is not."""
    data_folders(folder)
    try:
        return str(locate(name, folder=folder))
    except DataError:
        return None


def print_known(sets: list[dict[str, Any]]) -> None:
    """Show the list, with the licences below it: they are long, and few."""
    columns = {
        "name": [record["name"] for record in sets],
        "transactions": [f"{record['transactions']:,}" for record in sets],
        "items": [f"{record['items']:,}" for record in sets],
        "length": [record["length"] for record in sets],
        "at hand": [_at_hand(record) for record in sets],
        "what it is": [record["title"] for record in sets],
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
            "fedslim data get NAME fetches and checks a set; --from FOLDER or FEDSLIM_DATA says where files are",
        ),
        ("generated", "a size may follow the name: fedslim mine wide-sparse:20000"),
    ]
    rows = zip(*columns.values(), strict=True)
    print_rich(grid(tuple(columns), rows, left=1, right=3), summary([*ways, *licences]))


def _at_hand(record: dict[str, Any]) -> str:
    if record["kind"] != "public":
        return str(record["kind"])
    return "yes" if record["path"] else "no"


def description(source: str, database: TransactionDatabase, top: int) -> dict[str, Any]:
    """What is in a database."""
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


def print_description(record: dict[str, Any]) -> None:
    """Show what is in a database."""
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
    print_rich(summary(facts), *frequent)


def describe_generated(kind: str, transactions: int | None, seed: int | None) -> TransactionDatabase:
    """Built-in or generated data, by the name of its kind alone: a file of that name is not meant here."""
    chosen = {} if seed is None else {"seed": seed}
    if kind in KINDS:
        return generate(kind, transactions=transactions, **chosen)
    if kind not in BUILTIN_NAMES:
        msg = f"there is no kind of data {kind!r} to make{did_you_mean(kind, [*KINDS, *BUILTIN_NAMES])}"
        raise ParameterError(msg)
    if transactions is not None:
        msg = f"{kind} has a size of its own; leave out --transactions"
        raise ParameterError(msg)
    return builtin_database(kind, **chosen)
