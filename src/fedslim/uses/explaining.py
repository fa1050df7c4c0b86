"""Why a row takes the bits that it takes: its cover, what it lacks, and what rarely goes together.

print(explain(table, rows, 17))
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.errors import DataError
from fedslim.format import printable
from fedslim.uses.cells import column_names, columns_of, rows_of
from fedslim.uses.scoring import score_chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.data import TransactionDatabase
    from fedslim.mdl.codetable import CodeTable
    from fedslim.mdl.itemsets import Itemset

MAX_SHOWN = 5
"""How many missed itemsets and unlikely pairs an explanation has."""


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
            lines += [f"  {part.bits:6.1f} bits  {_text(part.items)}  (used {part.usage:,} times)" for part in parts]
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
    return explain_transaction(table, table.items_of(X), row)


def explain_transaction(table: CodeTable, database: TransactionDatabase, row: int) -> Explanation:
    """See `explain`; for transactions."""
    if not 1 <= row <= len(database):
        msg = f"there is no row {row} in {database.name}; give a number from 1 to {len(database)}"
        raise DataError(msg)
    covering, scores = table.covering, score_chunks(table, [database])
    known, strange = covering.known(database)
    ends, elements = covering.elements(known)
    begin = int(ends[row - 2]) if row > 1 else 0
    own = elements[begin : int(ends[row - 1])].tolist()
    items = set(known.item_ids(row - 1).tolist())
    parts = [_part(table, element) for element in own]
    labels = [label for label in database.transaction(row - 1) if strange[row - 1] and label not in table.vocabulary]
    return Explanation(
        row,
        float(scores.bits[row - 1]),
        float(scores.expected[row - 1]),
        float(scores.beyond[row - 1]),
        1 + int(np.flatnonzero(scores.ranking == row - 1)[0]),
        len(database),
        tuple(part for part in parts if len(part.items) > 1),
        tuple(part for part in parts if len(part.items) == 1),
        tuple(Part((label,), table.other, float(covering.lengths[-1])) for label in labels),
        _missed(table, items),
        _unlikely(table, own, ends, elements),
    )


def _part(table: CodeTable, element: int) -> Part:
    usages = (*(usage for _, usage, _, _ in table.found), *table.singleton_usages)
    return Part(_labels(table, element), usages[element], float(table.covering.lengths[element]))


def _labels(table: CodeTable, element: int) -> tuple[str, ...]:
    return tuple(table.vocabulary[i] for i in table.covering.items_of(element))


def _missed(table: CodeTable, items: set[int]) -> tuple[Missed, ...]:
    """Return the missing items that would save most bits, each with the most frequent itemset that it completes."""
    column = columns_of(column_names(table.encoding), table.vocabulary)
    lacking: dict[int, tuple[Itemset, int]] = {}
    for itemset, usage, _, _ in table.found:
        gone = [i for i in itemset if i not in items]
        if len(gone) == 1 and usage > lacking.get(gone[0], ((), 0))[1]:
            lacking[gone[0]] = (itemset, usage)
    # In a table, the row has another value in the column of the missing item, if any: that one gives way.
    others = {i: {j for j in items if column[i] == column[j] >= 0} for i in lacking}
    variants = [sorted(items - others[item] | {item}) for item in lacking]
    now, *then = table.covering.bits(rows_of(table, [sorted(items), *variants])).tolist()
    found = [
        Missed(
            tuple(table.vocabulary[i] for i in itemset),
            table.vocabulary[item],
            next((table.vocabulary[i] for i in others[item]), None),
            now - bits,
        )
        for (item, (itemset, _)), bits in zip(lacking.items(), then, strict=True)
        if bits < now
    ]
    return tuple(sorted(found, key=lambda one: (-one.bits_fewer, one.items)))[:MAX_SHOWN]


def _unlikely(
    table: CodeTable, own: list[int], ends: NDArray[np.int64], elements: NDArray[np.int64]
) -> tuple[Unlikely, ...]:
    """Return the pairs of the cover that meet more rarely in these rows than if they were independent."""
    tids = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    used = {element: np.zeros(len(ends), bool) for element in own}
    for element, rows in used.items():
        rows[tids[elements == element]] = True
    found = []
    for x, y in combinations(own, 2):
        together = int((used[x] & used[y]).sum())
        chance = int(used[x].sum()) * int(used[y].sum()) / len(ends)
        surprise = float(np.log2(chance / together))
        if surprise >= 1:  # at most half as often as by chance
            found.append(Unlikely(_labels(table, x), _labels(table, y), together, surprise))
    return tuple(sorted(found, key=lambda u: (-u.bits, u.first, u.second)))[:MAX_SHOWN]
