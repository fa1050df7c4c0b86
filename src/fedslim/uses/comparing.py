"""How two sets of rows differ: a dissimilarity, and the itemsets whose usage differs, with an exact test.

The rows are covered with one table, mined from all of them. If it makes no difference to which side a row belongs, the
table does not depend on it either, and the usage of an itemset on one side has a hypergeometric distribution: Fisher's
test is exact, although the itemsets were found in the same rows. Usages compete for items, and may depend on each other
in any way; therefore the correction for many tests is that of Benjamini and Yekutieli.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedslim.data import TransactionDatabase, encode_together
from fedslim.errors import DataError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.mining import mine
from fedslim.metrics.differences import FALSE_DISCOVERY_RATE, differences
from fedslim.uses.cells import rows_of


@dataclass(frozen=True, slots=True)
class Contrast:
    """An itemset with its counts on both sides. `ratio` of the rates is the effect size (None if it is infinite)."""

    items: tuple[str, ...]
    count_a: int
    count_b: int
    ratio: float | None
    p: float
    q: float


@dataclass(frozen=True, slots=True)
class Differences:
    """The comparison of two sides. `rows` has all itemsets that were tested, the clearest difference first.

    `counts` says what was compared: usages in covers with one table or, where there are two tables and no rows, the
    supports that both know. `dissimilarity` is by how much the bits of one side grow with the other's table, relative
    to its own: the larger of the two growths, as far as both are known.
    """

    name_a: str
    name_b: str
    rows_a: int
    rows_b: int
    dissimilarity: float
    rows: tuple[Contrast, ...]
    fdr: float = FALSE_DISCOVERY_RATE
    counts: Literal["usage", "support"] = "usage"

    @property
    def found(self) -> tuple[Contrast, ...]:
        """The itemsets that differ, with at most a share of `fdr` false ones to expect."""
        return tuple(row for row in self.rows if row.q <= self.fdr)

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, ready for JSON."""
        return {**asdict(self), "found": len(self.found)}


def compare_data(
    a: Any, b: Any, *, names: tuple[str, str] = ("A", "B"), fdr: float = FALSE_DISCOVERY_RATE
) -> Differences:
    """Compare two sets of rows of the same kind.

    Args:
        a: Anything that `Slim.fit` accepts.
        b: The same, for the other side; tables with numbers are cut together.
        names: What to call them.
        fdr: The largest expected share of false discoveries.

    Examples:
        >>> from fedslim.data import builtin_members
        >>> from fedslim.uses import compare_data
        >>> hospitals = dict(builtin_members("encounters"))
        >>> [row.items for row in compare_data(hospitals["Harbour"], hospitals["Lakeside"]).found]
        [('abdominal pain', 'high blood lead', 'lead poisoning', 'chelation')]
    """
    databases, _ = encode_together([a, b], names)
    return compare_slices(databases, names, fdr=fdr)[0]


def compare_slices(
    databases: Sequence[TransactionDatabase], names: Sequence[str], *, fdr: float = FALSE_DISCOVERY_RATE
) -> list[Differences]:
    """Compare each slice with the one before it; slices of time show drift.

    All slices are covered with one table; the tests are corrected for each pair of slices by itself.
    """
    if len(databases) < 2:  # noqa: PLR2004  # two
        msg = f"there is only the slice {names[0]!r}; drift needs rows with at least two values in the column"
        raise DataError(msg)
    table = mine(TransactionDatabase.joined(databases)).table
    own = [mine(database).table for database in databases]
    usages = [_usages(table, database) for database in databases]
    found = []
    for (a, x, u, m), (b, y, v, n) in pairwise(zip(own, databases, usages, names, strict=True)):
        compared = _test(table, u, v, (m, n), (len(x), len(y)))
        found.append(replace(compared, dissimilarity=max(_growth(a, b, x), _growth(b, a, y)), fdr=fdr))
    return found


def compare_site(
    table: CodeTable,
    X: Any,  # noqa: N803  # scikit-learn's name
    *,
    name: str = "this site",
    new: bool = False,
    fdr: float = FALSE_DISCOVERY_RATE,
) -> Differences:
    """Compare the rows of one site with those of all others, by the usages of the table that they found together.

    A site does this alone: the table has the sums, and its own usages are subtracted.

    Args:
        table: The common table.
        X: The rows of the site.
        name: What to call the site.
        new: Whether the table was not mined from these rows. Then they are compared with the mined rows; it fits
            those better than new ones, so small differences may be found where there are none.
        fdr: The largest expected share of false discoveries.

    Raises:
        DataError: The rows cannot have been among those mined, and `new` does not say so.
    """
    database = table.items_of(X)
    own, others = _usages(table, database), _known_usages(table)
    rows = table.transactions
    if not new:
        others, rows = others - own, rows - len(database)
    if table.min_count > 1 or table.other:  # the usages of items are incomplete
        own, others = own[: len(table)], others[: len(table)]
    if rows < 0 or bool((others < 0).any()):
        msg = (
            f"{name} has more rows or usages than the code table knows of, so these rows were not among those mined; "
            "name the table of a federation that they were part of, or say that they are new (--new, new=True)"
        )
        raise DataError(msg)
    compared = _test(table, own, others, (name, "the mined rows" if new else "the others"), (len(database), rows))
    return replace(compared, dissimilarity=_growth(mine(database).table, table, database), fdr=fdr)


def compare_tables(
    a: CodeTable, b: CodeTable, *, names: tuple[str, str] = ("A", "B"), fdr: float = FALSE_DISCOVERY_RATE
) -> Differences:
    """Compare two code tables without their rows.

    The tests compare the supports of items, and of itemsets in both tables. For the dissimilarity, each code in
    the data of one table is covered with the other table by itself: the bits are an upper bound of those of the rows.
    """
    known = [dict(zip(table.vocabulary, table.supports, strict=True)) for table in (a, b)]
    merged = any(table.min_count > 1 or table.other for table in (a, b))  # then an item that is absent may just be rare
    both = [i for i in dict.fromkeys((*a.vocabulary, *b.vocabulary)) if not merged or (i in known[0] and i in known[1])]
    counted: list[tuple[tuple[str, ...], int, int]]
    counted = [((item,), known[0].get(item, 0), known[1].get(item, 0)) for item in both]
    found = {frozenset(e.labels): e for e in b.itemsets}
    shared = ((e, found[frozenset(e.labels)]) for e in a.itemsets if frozenset(e.labels) in found)
    counted += [(one.labels, one.support, other.support) for one, other in shared]
    rows = _contrasts(counted, (a.transactions, b.transactions))
    codes = [rows_of(table, [table.covering.items_of(k) for k in range(table.covering.n_elements)]) for table in (a, b)]
    grown = _growth(a, b, codes[0], _known_usages(a)), _growth(b, a, codes[1], _known_usages(b))
    return Differences(*names, a.transactions, b.transactions, max(grown), rows, fdr, "support")


def _growth(own: CodeTable, other: CodeTable, rows: TransactionDatabase, times: Any = 1) -> float:
    """Return by how much the bits of rows, each counted so many times, grow with another table; 0 if they do not."""
    bits, others = (float((times * table.covering.bits(rows)).sum()) for table in (own, other))
    return max(0.0, (others - bits) / bits) if bits else 0.0


def _known_usages(table: CodeTable) -> NDArray[np.int64]:
    return np.array([*(usage for _, usage, _, _ in table.found), *table.singleton_usages], np.int64)


def _usages(table: CodeTable, database: TransactionDatabase) -> NDArray[np.int64]:
    covering = table.covering
    _, elements = covering.elements(covering.known(database)[0])
    return np.bincount(elements, minlength=covering.n_elements).astype(np.int64)


def _test(
    table: CodeTable, a: NDArray[np.int64], b: NDArray[np.int64], names: tuple[str, str], sizes: tuple[int, int]
) -> Differences:
    """Compare usages of the elements of a table; the dissimilarity is left open."""
    labels = [tuple(table.vocabulary[i] for i in table.covering.items_of(k)) for k in range(len(a))]
    counted = [one for one in zip(labels, a.tolist(), b.tolist(), strict=True) if one[1] or one[2]]
    return Differences(*names, *sizes, math.nan, _contrasts(counted, sizes))


def _contrasts(counted: Sequence[tuple[tuple[str, ...], int, int]], sizes: tuple[int, int]) -> tuple[Contrast, ...]:
    here, there = [a for _, a, _ in counted], [b for _, _, b in counted]
    tested = differences(here, sizes[0], there, sizes[1], independent=False)
    rows = [Contrast(*one, found.ratio, found.p, found.q) for one, found in zip(counted, tested, strict=True)]
    return tuple(sorted(rows, key=lambda row: (row.q, row.p, row.items)))
