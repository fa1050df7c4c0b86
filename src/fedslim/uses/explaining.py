"""Why a row takes the bits that it takes: its cover, what it lacks, and what rarely goes together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fedslim.data import TransactionDatabase
from fedslim.errors import DataError
from fedslim.format import count, printable
from fedslim.mdl.codetable import CodeTable
from fedslim.uses.cells import column_names, columns_of, rows_of
from fedslim.uses.scoring import Scores, score_chunks

MAX_SHOWN = 5  # how many missed itemsets and unlikely pairs an explanation has


@dataclass(frozen=True, slots=True)
class Part:
    """An element of the cover, or an item that the table does not know, with its bits."""

    items: tuple[str, ...]
    usage: int
    bits: float


@dataclass(frozen=True, slots=True)
class Missed:
    """An itemset that would fit but for one item; with this item, in place of `instead`, the row saves bits."""

    items: tuple[str, ...]
    item: str
    instead: str | None
    bits_fewer: float


@dataclass(frozen=True, slots=True)
class Unlikely:
    """Two parts of the cover, each common and rarely together: log2 P(X)·P(Y)/P(XY) bits of surprise."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    together: int
    bits: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a row. `cover` has the itemsets in use, `spelled` the items that had to be spelled."""

    row: int
    bits: float
    expected: float
    beyond: float
    rank: int
    rows: int
    cover: tuple[Part, ...]
    spelled: tuple[Part, ...]
    unknown: tuple[Part, ...]
    missed: tuple[Missed, ...]
    unlikely: tuple[Unlikely, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        head = f"row {self.row}: {self.bits:.1f} bits, {self.expected:.1f} expected, {self.beyond:+.1f} beyond; "
        lines = [head + f"number {self.rank:,} of {self.rows:,}, the most unusual first"]
        for title, parts in (("itemsets", self.cover), ("spelled", self.spelled), ("unknown", self.unknown)):
            lines += [f"{title}:"] * bool(parts)
            lines += [
                f"  {part.bits:6.1f} bits  {_text(part.items)}  (used {count(part.usage, 'time')})" for part in parts
            ]
        lines += ["missed by one item:"] * bool(self.missed)
        for one in self.missed:
            instead = f" in place of {printable(one.instead)}" if one.instead else ""
            lines.append(f"  {one.bits_fewer:6.1f} fewer  {_text(one.items)}  with {printable(one.item)}{instead}")
        lines += ["each common, rarely together:"] * bool(self.unlikely)
        lines += [f"  {u.bits:6.1f} bits  {_text(u.first)} and {_text(u.second)}" for u in self.unlikely]
        return "\n".join(lines)


def _text(items: tuple[str, ...]) -> str:
    return "{" + ", ".join(map(printable, items)) + "}"


def explain(table: CodeTable, X: Any, row: int) -> Explanation:  # noqa: N803  # scikit-learn's name
    """Explain one row of `X`, counted from 1, in comparison with all of them.

    Raises:
        DataError: There is no such row.

    Examples:
        >>> from fedslim import Slim
        >>> from fedslim.uses import explain
        >>> rows = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8
        >>> print(explain(Slim().fit(rows).table_, [*rows, ["bread", "tea"]], 25))
        row 25: 10.0 bits, 2.0 expected, +8.0 beyond; number 1 of 25, the most unusual first
        spelled:
             5.0 bits  {bread}  (used 0 times)
             5.0 bits  {tea}  (used 0 times)
        missed by one item:
             3.2 fewer  {bread, milk}  with milk
             3.2 fewer  {jam, tea}  with jam
    """
    return explain_rows(table, table.items_of(X), [row])[0]


def explain_rows(table: CodeTable, database: TransactionDatabase, rows: Sequence[int]) -> list[Explanation]:
    """Explain several rows of a database; see `explain`."""
    if (lost := next((row for row in rows if not 1 <= row <= len(database)), None)) is not None:
        raise DataError(f"there is no row {lost} in {database.name}; give a number from 1 to {len(database)}")
    taken, scores = database.take(np.array(rows, np.int64) - 1), score_chunks(table, [database])
    return explain_taken(table, taken, rows, scores, partial(count_together, table, database))


def explain_taken(
    table: CodeTable,
    database: TransactionDatabase,
    rows: Sequence[int],
    scores: Scores,
    count: Callable[[Sequence[int]], csr_array],
) -> list[Explanation]:
    """Explain rows that were taken from others.

    `rows` has their numbers, `scores` are those of all rows, and `count` does in all rows what `count_together` does.
    """
    covering, n = table.covering, len(scores.bits)
    known, _ = covering.known(database)
    ends, elements = covering.elements(known)
    covers = [each.tolist() for each in np.split(elements, ends[:-1])]
    items = [set(known.item_ids(k).tolist()) for k in range(len(rows))]
    ranks = np.empty(n, np.int64)
    ranks[scores.ranking] = np.arange(1, n + 1)
    usages = (*(usage for _, usage, _, _ in table.found), *table.singleton_usages)
    chosen = sorted({element for cover in covers for element in cover})
    vocabulary, unlikely = set(table.vocabulary), _unlikely(table, covers, chosen, count(chosen), n)
    found = []
    for k, (row, cover, missed, rare) in enumerate(zip(rows, covers, _missed(table, items), unlikely, strict=True)):
        parts = [Part(_labels(table, element), usages[element], float(covering.lengths[element])) for element in cover]
        strange = [label for label in database.transaction(k) if label not in vocabulary]
        found.append(
            Explanation(
                row,
                float(scores.bits[row - 1]),
                float(scores.expected[row - 1]),
                float(scores.beyond[row - 1]),
                int(ranks[row - 1]),
                n,
                tuple(part for part in parts if len(part.items) > 1),
                tuple(part for part in parts if len(part.items) == 1),
                tuple(Part((label,), table.other, float(covering.lengths[-1])) for label in strange),
                missed,
                rare,
            )
        )
    return found


def _labels(table: CodeTable, element: int) -> tuple[str, ...]:
    return tuple(table.vocabulary[i] for i in table.covering.items_of(element))


def _missed(table: CodeTable, rows: Sequence[set[int]]) -> Iterator[tuple[Missed, ...]]:
    """Yield the missing items that would save most bits, each with the most used itemset that it completes."""
    column = columns_of(column_names(table.encoding), table.vocabulary)
    sizes = np.array([len(itemset) for itemset, *_ in table.found], np.int64)
    members = [item for itemset, *_ in table.found for item in itemset]
    shape = len(sizes), len(table.vocabulary)
    within = csr_array((np.ones(len(members), np.int64), members, np.append(0, sizes.cumsum())), shape=shape)
    for items in rows:
        present = np.zeros(len(table.vocabulary), np.int64)
        present[list(items)] = 1
        lacking: dict[int, int] = {}
        for k in np.flatnonzero(within @ present == sizes - 1).tolist():
            (item,) = (i for i in table.found[k][0] if i not in items)
            if table.found[k][1] > (table.found[lacking[item]][1] if item in lacking else 0):
                lacking[item] = k
        # In a table, the row has another value in the column of the missing item, if any: that one gives way.
        others = {i: {j for j in items if column[i] == column[j] >= 0} for i in lacking}
        variants = [sorted(items - others[item] | {item}) for item in lacking]
        now, *then = table.covering.bits(rows_of(table, [sorted(items), *variants])).tolist()
        found = [
            Missed(
                _labels(table, k),
                table.vocabulary[item],
                next((table.vocabulary[i] for i in others[item]), None),
                now - bits,
            )
            for (item, k), bits in zip(lacking.items(), then, strict=True)
            if bits < now
        ]
        yield tuple(sorted(found, key=lambda one: (-one.bits_fewer, one.items))[:MAX_SHOWN])


def count_together(table: CodeTable, database: TransactionDatabase, chosen: Sequence[int]) -> csr_array:
    """Return, for each two of these elements, how many covers have both."""
    known, _ = table.covering.known(database)
    ends, elements = table.covering.elements(known)
    shape = len(ends), table.covering.n_elements
    used = csr_array((np.ones(len(elements), np.int64), elements, np.append(0, ends)), shape=shape).tocsc()[:, chosen]
    return (used.T @ used).tocsr()


def _unlikely(
    table: CodeTable, covers: Sequence[list[int]], chosen: Sequence[int], counts: csr_array, rows: int
) -> Iterator[tuple[Unlikely, ...]]:
    """Yield the pairs of each cover that meet more rarely in all rows than if they were independent."""
    for cover in covers:
        places = np.searchsorted(chosen, cover)
        together = counts[places][:, places].toarray().tolist()
        found = []
        for x, y in combinations(range(len(cover)), 2):
            surprise = float(np.log2(together[x][x] * together[y][y] / rows / together[x][y]))
            if surprise >= 1:  # at most half as often as by chance
                found.append(Unlikely(_labels(table, cover[x]), _labels(table, cover[y]), together[x][y], surprise))
        yield tuple(sorted(found, key=lambda u: (-u.bits, u.first, u.second))[:MAX_SHOWN])
