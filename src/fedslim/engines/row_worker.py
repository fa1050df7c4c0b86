"""The rows at one worker of an engine: it reads its part, agrees with the others on items, and answers questions.

This module knows no engine, and no worker knows of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedslim import __version__
from fedslim.data import TransactionDatabase, load
from fedslim.data.columns import MISSING, Column, EncodedTable, Wanted
from fedslim.data.encoding import Encoding
from fedslim.data.fimi import stem
from fedslim.data.frames import needed, parquet_tables
from fedslim.data.readers import parquet_files
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.mining import prepare
from fedslim.mdl.questions import Move, Question
from fedslim.protocol.bisection import ordered, value_of
from fedslim.schema import Agreed, Schema, conform, cut_ranks, keep_categories, round_cuts
from fedslim.schema.conforming import Conformed
from fedslim.schema.file import SchemaRules
from fedslim.schema.reading import text_of_value

_NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool")


class Part(NamedTuple):
    """What a worker has: files, or all data, of which it keeps each `of`-th row, or rows that were given to it."""

    source: str
    number: int
    of: int
    options: Mapping[str, Any]  # of `load`
    files: tuple[Path, ...] = ()
    places: tuple[range, ...] = ()  # of the rows of these files among all rows
    cells: int = 0  # in these files
    rows: TransactionDatabase | None = None


class Items(NamedTuple):
    """The items of all workers, and how rows become items."""

    vocabulary: tuple[str, ...]
    encoding: Encoding | None


def divide(source: str | TransactionDatabase, workers: int, options: Mapping[str, Any]) -> list[Part]:
    """Divide data among workers, at most as many as given.

    Parquet files with a schema are divided, the largest first, if what a value means does not depend on other files.
    Anything else every worker reads, and keeps a part of it.
    """
    if isinstance(source, TransactionDatabase):
        places = [np.arange(k, source.transactions, workers) for k in range(workers)]
        taken = [replace(source.take(place), encoding=source.encoding) for place in places]
        return [Part(source.name, k, workers, {}, rows=rows) for k, rows in enumerate(taken)]
    files, columns = _separate_files(Path(source), options.get("schema"))
    if len(files) < 2:  # noqa: PLR2004  # one file cannot be divided
        return [Part(source, k, workers, options) for k in range(workers)]
    hands: list[list[Path]] = [[] for _ in range(min(workers, len(files)))]
    rows = [0] * len(hands)
    for size, file in sorted(((len(place), file) for file, place in files.items()), reverse=True):
        least = rows.index(min(rows))
        hands[least].append(file)
        rows[least] += size
    return [
        Part(source, k, len(hands), options, tuple(hand), tuple(map(files.__getitem__, hand)), rows[k] * columns)
        for k, hand in enumerate(map(sorted, hands))
    ]


def _separate_files(path: Path, schema: Schema | None) -> tuple[dict[Path, range], int]:
    """Return the files that can be read one without the other, with the places of their rows, and their columns."""
    found = parquet_files(path)
    if found is None or schema is None or schema.is_long or any(rule.range for rule in schema.columns.values()):
        return {}, 0  # a plausible range is compared with the median of all rows
    place = list(map(str, found)) if isinstance(found, list) else str(found)
    parts = list(needed("pyarrow.dataset", str(path), "tables").dataset(place, format="parquet").get_fragments())
    fields = parts[0].physical_schema
    if any("=" in str(Path(part.path).parent) or not part.physical_schema.equals(fields) for part in parts):
        return {}, 0  # folders are named after values, or one file has numbers where another one has texts
    texts = {field.name for field in fields if not str(field.type).startswith(_NUMBERS)}
    nothing = EncodedTable([Column.of_texts(name, np.empty(0, np.int32), []) for name in fields.names], "", str(path))
    for column in Conformed(schema, nothing).report:
        if column.kind == "numeric" and column.found in texts and schema.columns[str(column.name)].decimal is None:
            return {}, 0  # the decimal mark of a text depends on all others
    ends = list(accumulate((part.count_rows() for part in parts), initial=0))
    places = {Path(part.path): range(*ends[k : k + 2]) for k, part in enumerate(parts)}
    return {file: place for file, place in places.items() if place}, len(fields)


class RowWorker:
    """The rows of one part, and their covers."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._table: EncodedTable  # of files, from `read` to `encode`
        self._site: Conformed

    def read(self) -> tuple[str, Items | None, int]:
        """Read the part; return the version of fedslim, the items, and how often they occur.

        The items are None if workers have to agree on them.
        """
        part = self._part
        if part.files:
            files = list(part.files) if len(part.files) > 1 else part.files[0]
            self._table = next(parquet_tables(files, Wanted(stem(Path(part.source)))))
            self._site = conform(part.options["schema"], self._table)
            return __version__, None, self._site.occurrences
        self._database = whole = load(part.source, **part.options) if part.rows is None else part.rows
        if part.rows is None:
            self._database = whole.take(np.arange(part.number, whole.transactions, part.of))
        return __version__, Items(whole.vocabulary, whole.encoding), self._database.occurrences

    def encode(self, items: Items) -> int:
        """Number the items as all workers do; return the number of transactions."""
        if self._part.files:
            rules: Any = items.encoding and items.encoding.rules
            own = self._site.items(rules.agreed)
            place = {label: number for number, label in enumerate(items.vocabulary)}
            numbers = np.array([place[label] for label in own.vocabulary], np.int32)
            vocabulary = items.vocabulary
            self._database = TransactionDatabase.from_rows(own.lengths, numbers[own.items], vocabulary, name=own.name)
            del self._table, self._site
        return self._database.transactions

    def begin(self, keep_pairs: bool) -> None:
        """Cover every transaction by single items."""
        prepare()
        self._state = CoverState(self._database, reuse_slots=False, keep_pairs=keep_pairs)

    def answer(self, moves: Sequence[Move], question: Question) -> Any:
        """Make the moves, then answer the question."""
        for move in moves:
            move.put_to(self._state)
        return question.put_to(self._state)

    def on_rows(self, function: Callable[..., Any], *about: Any) -> Any:
        """Call a function with the rows, their numbers among the rows of all workers, and the arguments."""
        part, n = self._part, self._database.transactions
        places = part.places or (range(part.number, part.number + part.of * n, part.of),)
        return function(self._database, np.concatenate([np.array(place, np.int64) for place in places]), *about)

    # -- agreeing on items --------------------------------------------------------------------------------------

    def order_values(self, columns: Sequence[str]) -> list[int]:
        """Sort the numbers of these columns; return how many each has."""
        self._keys = [np.sort(ordered(self._site.values(name))) for name in columns]
        return list(map(len, self._keys))

    def count_up_to(self, columns: Sequence[int], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return, for each column and key, how many of its numbers are not above it."""
        pairs = zip(columns, keys, strict=True)
        return np.array([np.searchsorted(self._keys[c], key, side="right") for c, key in pairs], np.int64)

    def categories(self, columns: Sequence[str]) -> list[dict[str, int]]:
        """Return the categories of these columns, with the number of rows of each."""
        return [self._site.categories(name) for name in columns]

    def examples(self, agreed: Agreed) -> dict[str, list[str]]:
        """Return, for each column, one text for each of its categories and intervals that occur."""
        found, rows = {}, self._site.first_rows(agreed)
        for column in self._table.columns:
            shown = column.codes[rows.get(column.name, [])].tolist()
            found[column.name] = [text_of_value(column.values[code]) for code in shown if code != MISSING]
        return found


def agree_on_items(schema: Schema, every: Callable[..., list[Any]]) -> Items:
    """Agree on what one place would find with all rows; `every` calls a method of all workers."""
    numeric, cuts = schema.open_columns, {}
    totals = [sum(column) for column in zip(*every("order_values", numeric), strict=True)]
    wanted = [cut_ranks(n, schema.columns[name].bins) for n, name in zip(totals, numeric, strict=True)]
    columns = [c for c, ranks in enumerate(wanted) for _ in ranks]
    ranks = np.array([rank for column in wanted for rank in column], np.int64)
    low, high = np.zeros(len(ranks), np.uint64), np.full(len(ranks), np.iinfo(np.uint64).max)
    while bool(np.any(low < high)):
        middle = low + (high - low) // np.uint64(2)
        reached = np.sum(every("count_up_to", columns, middle), axis=0) >= ranks
        low, high = np.where(reached, low, middle + np.uint64(1)), np.where(reached, middle, high)
    values = list(map(value_of, low.tolist()))
    for c, name in enumerate(numeric):
        statistics = [value for column, value in zip(columns, values, strict=True) if column == c]
        cuts[name] = round_cuts(statistics, schema.columns[name])
    counted = zip(*every("categories", schema.capped_columns), strict=True)  # by column, then by worker
    counts = zip(schema.capped_columns, (sum(map(Counter, each), Counter[str]()) for each in counted), strict=True)
    agreed = Agreed(cuts, {name: frozenset(keep_categories(n, schema.columns[name].cap)) for name, n in counts})
    texts: dict[str, dict[str, None]] = {}
    for found in every("examples", agreed):
        for name, shown in found.items():
            texts.setdefault(name, {}).update(dict.fromkeys(shown))
    rows = np.arange(max(map(len, texts.values())), dtype=np.int32)
    shown = [
        Column.of_texts(n, np.where(rows < len(all_), rows, MISSING).astype(np.int32), list(all_))
        for n, all_ in texts.items()
    ]
    vocabulary = conform(schema, EncodedTable(shown, "", "all files")).items(agreed).vocabulary
    return Items(vocabulary, Encoding("schema", rules=SchemaRules(schema, agreed)))
