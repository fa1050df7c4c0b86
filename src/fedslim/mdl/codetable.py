"""The code table: the result of mining, which can be saved, and can cover and score transactions.

It holds nothing that depends on how it was found: the same table mined in one place, by two threads or by a federation
is the same file, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import MissingExtraError
from fedslim.format import as_html
from fedslim.mdl import objective
from fedslim.mdl.objective import Bits

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from fedslim.data import TransactionDatabase
    from fedslim.data.encoding import Encoding
    from fedslim.mdl.covering import Covering
    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.policy import Order

COLUMNS: tuple[str, ...] = ("itemset", "usage", "support", "code_length", "bits_saved")

SHOWN = 20
STYLE = """<style>
.fedslim { font-family: system-ui, sans-serif; overflow-x: auto; }
.fedslim p { font: 600 1.15em/1.5 ui-serif, Georgia, serif; margin: .4em 0; }
.fedslim table { border-collapse: collapse; }
.fedslim th, .fedslim td { text-align: right; padding: .3em .9em .3em 0; border-bottom: 1px solid #8884; }
.fedslim td { vertical-align: top; font-variant-numeric: tabular-nums; }
.fedslim td:first-child, .fedslim th:first-child, .fedslim th + td { text-align: left; }
.fedslim span { display: inline-block; border: 1px solid #8886; border-radius: .3em; padding: 0 .4em; margin: .1em 0; }
</style>"""


@dataclass(frozen=True, slots=True)
class Element:
    """One row of the code table. `entry` is the count with which it entered: part of the cover order."""

    items: Itemset
    labels: tuple[str, ...]
    usage: int
    support: int
    entry: int
    code_length: float
    bits_saved: float

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Compression:
    """Bits before (standard code table) and after, data and model apart, and both ratios in percent."""

    before: Bits
    after: Bits

    @property
    def L_percent(self) -> float:  # noqa: N802  # the paper's name
        """L% of data and table together, as reported in the literature."""
        return objective.percent_of_standard(self.after.total, self.before.total)

    @property
    def L_data_percent(self) -> float:  # noqa: N802  # the paper's name
        """L% of the data alone, as in the paper's formula."""
        return objective.percent_of_standard(self.after.data, self.before.data)


@dataclass(frozen=True)
class CodeTable:
    """A code table in cover order. `found` has (items, usage, support, entry) of each itemset; singletons are separate.

    No count in it is below `min_count`; `other` says how many occurrences of items were merged for that (`release.py`).
    `encoding` says how the rows of a table became items (None: they were lists of items), so that new rows can be
    covered. Tables with the same counts are equal, however their rows were written.

    Examples:
        >>> from fedslim import CodeTable, Slim
        >>> table = Slim().fit([["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8).table_
        >>> best = table.top(1)[0]
        >>> best.labels, best.usage, best.support
        (('bread', 'jam', 'milk'), 8, 8)
        >>> table.save("table.json")
        >>> CodeTable.load("table.json") == table
        True
    """

    vocabulary: tuple[str, ...]
    transactions: int
    supports: tuple[int, ...]
    singleton_usages: tuple[int, ...]
    found: tuple[tuple[Itemset, int, int, int], ...]
    order: Order = "usage"
    min_count: int = 1
    other: int = 0
    encoding: Encoding | None = field(default=None, compare=False)

    # -- rows ---------------------------------------------------------------------------------------------------

    @cached_property
    def itemsets(self) -> tuple[Element, ...]:
        """The itemsets in cover order, without singletons."""
        return tuple(self._element(items, usage, support, entry) for items, usage, support, entry in self.found)

    @cached_property
    def singletons(self) -> tuple[Element, ...]:
        """The single items that are still used, in the order of the vocabulary."""
        return tuple(
            self._element((i,), usage, self.supports[i], 0) for i, usage in enumerate(self.singleton_usages) if usage
        )

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Element]:
        return iter(self.itemsets)

    def top(self, k: int | None = None) -> list[Element]:
        """Return the itemsets that save most bits, best first; all of them if `k` is None."""
        ranked = sorted(self.itemsets, key=lambda e: (-e.bits_saved, -len(e), e.items))
        return ranked if k is None else ranked[:k]

    def __repr__(self) -> str:
        return (
            f"CodeTable({len(self):,} itemsets, {len(self.vocabulary):,} items, {self.transactions:,} transactions, "
            f"L% = {self.compression.L_percent:.2f})"
        )

    def _element(self, items: Itemset, usage: int, support: int, entry: int) -> Element:
        length = objective.code_length(usage, self.total_usage)
        # Compared with spelling out the same occurrences item by item, less the cost of the row itself.
        spelled = objective.standard_length(items, self.standard_lengths)
        saved = usage * (spelled - length) - (length + spelled) if len(items) > 1 else 0.0
        return Element(items, tuple(self.vocabulary[i] for i in items), usage, support, entry, length, saved)

    # -- lengths ------------------------------------------------------------------------------------------------

    @cached_property
    def standard_lengths(self) -> list[float]:
        """The code length of each item in the standard code table."""
        return objective.standard_lengths((*self.supports, self.other))[:-1]

    @cached_property
    def total_usage(self) -> int:
        """U, the number of codes in the encoded database."""
        return sum(self.singleton_usages) + sum(usage for _, usage, _, _ in self.found) + self.other

    @cached_property
    def compression(self) -> Compression:
        """How well the table compresses the data it was mined from."""
        supports = (*self.supports, self.other)
        single = objective.standard_lengths(supports)
        usages = [*self.singleton_usages, self.other, *(usage for _, usage, _, _ in self.found)]
        standard = [*single, *(objective.standard_length(items, single) for items, _, _, _ in self.found)]
        return Compression(
            objective.description_length(supports, single), objective.description_length(usages, standard)
        )

    def renamed(self, names: Mapping[str, str]) -> CodeTable:
        """Return the same table with other labels; items that are not in `names` keep theirs."""
        return replace(self, vocabulary=tuple(names.get(label, label) for label in self.vocabulary))

    # -- new rows -----------------------------------------------------------------------------------------------

    @cached_property
    def covering(self) -> Covering:
        """The table prepared for covering."""
        from fedslim.mdl.covering import Covering  # noqa: PLC0415  # reading a table needs no numba

        return Covering(self)

    def items_of(self, X: Any) -> TransactionDatabase:  # noqa: N803  # scikit-learn's name
        """Convert new rows to transactions as the mined rows were converted; `X` is what `Slim.fit` accepts."""
        from fedslim.data.coerce import encode_numbers  # noqa: PLC0415
        from fedslim.data.encoding import ITEMS  # noqa: PLC0415

        return encode_numbers(X, self.encoding or ITEMS)[0]

    def code_lengths(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the bits of each row, seen or unseen.

        Every element, and "unknown item", gets one more usage than it has, so that no length is infinite.
        """
        return self.covering.bits(self.items_of(X))

    def transform(self, X: Any) -> csr_array:  # noqa: N803
        """Return the covers: a sparse matrix with a row for each transaction and a column for each element, 1 if used.

        Columns are the itemsets in cover order, then every single item of the vocabulary.
        """
        return self.covering.matrix(self.items_of(X))

    def reconstruct(self, covers: Any) -> TransactionDatabase:
        """Return exactly the transactions that `transform` turned into these covers."""
        return self.covering.reconstruct(covers)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "covering"}

    # -- files and frames ---------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, private: bool = False) -> None:
        """Write the table as readable JSON; the file is written atomically.

        Args:
            path: The file to write.
            private: Whether only its owner may read the file (mode 600), even if it replaces a readable one.
        """
        from fedslim.mdl.files import save_code_table  # noqa: PLC0415  # msgspec is needed for files only

        save_code_table(self, path, private=private)

    @classmethod
    def load(cls, path: str | Path) -> CodeTable:
        """Read a table that `save` wrote; raise `CodeTableError` for anything else."""
        from fedslim.mdl.files import load_code_table  # noqa: PLC0415

        return load_code_table(path)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain dictionaries: itemsets by the bits that they save, then singletons in use."""
        elements = (*self.top(), *self.singletons)
        return [{"itemset": list(e.labels)} | {name: getattr(e, name) for name in COLUMNS[1:]} for e in elements]

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame, or a polars one if only polars is installed."""
        return frame_of(self.records(), COLUMNS)

    def _repr_html_(self) -> str:
        return styled(table_html(self))


# -- how tables are shown: as a DataFrame, and in a notebook in the style of reports, without scripts ------------------


def styled(*parts: str) -> str:
    """Return parts of HTML as one, with the style."""
    return f'<div class="fedslim">{STYLE}{"".join(parts)}</div>'


def table_html(table: CodeTable) -> str:
    """Return the itemsets of a table that save most, as HTML."""
    c, shown = table.compression, table.top(SHOWN)
    number = f"{len(table):,} itemsets" if len(shown) == len(table) else f"{len(table):,} itemsets, {SHOWN} shown"
    rows = "".join(
        f"<tr><td>{' '.join(f'<span>{as_html(label)}</span>' for label in e.labels)}</td>"
        f"<td>{e.bits_saved:,.0f}</td><td>{e.usage:,}</td><td>{e.support:,}</td>"
        f"<td>{e.code_length:.2f}</td></tr>"
        for e in shown
    )
    return (
        f"<p>{number}, L% = {c.L_percent:.2f} ({c.before.total:,.0f} → {c.after.total:,.0f} bits)</p>"
        "<table><thead><tr><th>itemset</th><th>bits saved</th><th>usage</th><th>support</th><th>code bits</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
    )


def frame_of(records: list[dict[str, Any]], columns: Sequence[str]) -> Any:
    """Return records as a pandas DataFrame, or a polars one if only polars is installed."""
    data = {name: [record[name] for record in records] for name in columns}
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame(data)
        except ImportError:
            continue
    raise MissingExtraError("a DataFrame needs pandas or polars: pip install 'fedslim[tables]' (or use .records())")
