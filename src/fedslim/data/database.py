"""The transaction database: two flat arrays and a vocabulary.

An item is its index in the vocabulary, and the method uses the order of the vocabulary as the order of items: the same
transactions over the same vocabulary give the same code table.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedslim.data.parsing import plain_rows
from fedslim.errors import DataError

if TYPE_CHECKING:
    from fedslim.data.encoding import Encoding

ItemArray = np.int32  # type of item ids: room for 2^31 items in half the memory of int64


@dataclass(frozen=True, slots=True, eq=False)
class TransactionDatabase:
    """An immutable list of transactions over a vocabulary; memory is linear in the number of item occurrences.

    `items[offsets[t]:offsets[t + 1]]` are the items of transaction `t`, ascending and without duplicates.
    Empty transactions are kept and counted, though they cost no bits.

    Examples:
        >>> from fedslim import TransactionDatabase
        >>> db = TransactionDatabase.from_transactions([["bread", "milk"], ["milk"], []])
        >>> len(db), db.n_items
        (3, 2)
        >>> list(db)
        [('bread', 'milk'), ('milk',), ()]
        >>> dict(zip(db.vocabulary, db.supports.tolist()))
        {'bread': 1, 'milk': 2}
    """

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    vocabulary: tuple[str, ...]
    duplicates_removed: int = 0
    name: str = "data"
    encoding: Encoding | None = None  # how the rows of a table became items; None for lists of items
    supports: NDArray[np.int64] = field(init=False, repr=False)  # of each item of the vocabulary

    def __post_init__(self) -> None:
        _check_arrays(self.offsets, self.items, self.vocabulary)
        supports = np.bincount(self.items, minlength=len(self.vocabulary)).astype(np.int64)
        object.__setattr__(self, "supports", supports)
        for array in (self.offsets, self.items, supports):
            array.setflags(write=False)

    def digest(self) -> str:
        """Return a SHA-256 hash of the transactions and the vocabulary."""
        digest = sha256()
        labels = "\0".join(self.vocabulary).encode("utf-8", "surrogatepass")
        for part in (labels, self.offsets.tobytes(), self.items.tobytes()):
            digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()

    @classmethod
    def from_pairs(
        cls,
        transaction_ids: NDArray[np.integer[Any]],
        item_ids: NDArray[np.integer[Any]],
        vocabulary: Sequence[str],
        *,
        transactions: int,
        name: str = "data",
    ) -> TransactionDatabase:
        """Build from (transaction, item) index pairs in any order, duplicates allowed; linear apart from one sort."""
        width = max(len(vocabulary), 1)
        _check_range("transaction", transaction_ids, transactions)
        _check_range("item", item_ids, len(vocabulary))
        keys = np.asarray(transaction_ids, np.int64) * width
        keys += item_ids  # in place: keys are the largest arrays here
        if keys.size > 1 and not bool(np.all(keys[1:] > keys[:-1])):
            keys.sort()
            keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        offsets = _ends(np.bincount(keys // width, minlength=transactions))
        items = (keys % width).astype(ItemArray)
        return cls(offsets, items, tuple(vocabulary), len(transaction_ids) - len(keys), name)

    @classmethod
    def from_rows(
        cls,
        lengths: NDArray[np.integer[Any]],
        item_ids: NDArray[np.integer[Any]],
        vocabulary: Sequence[str],
        *,
        name: str = "data",
    ) -> TransactionDatabase:
        """Build from the concatenated items of all transactions and their lengths; fast if items are sorted already."""
        offsets = _ends(lengths)
        if _ascending(offsets, item_ids):
            return cls(offsets, np.asarray(item_ids, ItemArray), tuple(vocabulary), name=name)
        tids = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        return cls.from_pairs(tids, item_ids, vocabulary, transactions=len(lengths), name=name)

    @classmethod
    def from_transactions(
        cls, transactions: Iterable[Iterable[Hashable]], *, vocabulary: Sequence[str] | None = None, name: str = "data"
    ) -> TransactionDatabase:
        """Build from any iterable of iterables of items.

        Items are strings, numbers, booleans or dates. Numbers are labelled by value, whatever their type: 1, 1.0 and
        numpy's 1 are the item '1', while True is the item 'True'. Without a vocabulary, items are sorted: numbers by
        value, then everything else as strings.
        """
        rows = plain_rows([_row(number, row) for number, row in enumerate(transactions, 1)])
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        if vocabulary is None:
            distinct = _distinct(rows)
            labels = tuple(map(str, distinct))
            index = {item: position for position, item in enumerate(distinct)}
        else:
            labels = tuple(str(label) for label in vocabulary)
            index = {label: position for position, label in enumerate(labels)}
            rows = [list(map(str, row)) for row in rows]
        try:
            ids = np.fromiter(map(index.__getitem__, chain.from_iterable(rows)), np.int64, int(lengths.sum()))
        except KeyError as error:
            msg = f"item {error.args[0]!r} is not in the given vocabulary; add it, or omit the vocabulary"
            raise DataError(msg) from None
        return cls.from_rows(lengths, ids, labels, name=name)

    @classmethod
    def joined(cls, databases: Sequence[TransactionDatabase], *, name: str = "data") -> TransactionDatabase:
        """Concatenate databases, at least one, over the same vocabulary."""
        if not databases:
            raise DataError("no databases to join; give at least one")
        vocabulary = databases[0].vocabulary
        for number, database in enumerate(databases[1:], 2):
            if database.vocabulary != vocabulary:
                raise DataError(
                    f"the vocabulary of database {number} ({database.name}) differs from that of the first; "
                    "create the databases with fedslim.data.encode_together"
                )
        offsets = _ends(np.concatenate([database.lengths for database in databases]))
        items = np.concatenate([database.items for database in databases])
        return cls(offsets, items, vocabulary, name=name, encoding=databases[0].encoding)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def transactions(self) -> int:
        """The number of transactions, including empty ones."""
        return len(self)

    @property
    def n_items(self) -> int:
        """The size of the vocabulary, including items that never occur."""
        return len(self.vocabulary)

    @property
    def occurrences(self) -> int:
        """The number of (transaction, item) pairs, which determines memory and time."""
        return len(self.items)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of items in each transaction."""
        return np.diff(self.offsets)

    def item_ids(self, t: int) -> NDArray[np.int32]:
        """Return the item ids of transaction `t`, ascending."""
        return self.items[self.offsets[t] : self.offsets[t + 1]]

    def transaction(self, t: int) -> tuple[str, ...]:
        """Return the labels of transaction `t`, in vocabulary order."""
        return tuple(self.vocabulary[i] for i in self.item_ids(t))

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return (self.transaction(t) for t in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Compare transactions, their order and the vocabulary; names are ignored."""
        if not isinstance(other, TransactionDatabase):
            return NotImplemented
        return (
            self.vocabulary == other.vocabulary
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.items, other.items)
        )

    __hash__ = None  # type: ignore[assignment]  # equality compares large arrays, so databases are no keys

    def take(self, tids: Sequence[int] | NDArray[np.integer[Any]], *, name: str | None = None) -> TransactionDatabase:
        """Return the given transactions, in the given order, over the same vocabulary."""
        chosen = np.asarray(tids, np.int64)
        lengths = self.lengths[chosen]
        offsets = _ends(lengths)
        source = np.repeat(self.offsets[chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return replace(self, offsets=offsets, items=self.items[source], duplicates_removed=0, name=name or self.name)

    def without(self, items: Sequence[int]) -> TransactionDatabase:
        """Return the same transactions without these items; the vocabulary stays the same."""
        stays = np.ones(self.n_items, bool)
        stays[list(items)] = False
        kept = stays[self.items]
        return replace(self, offsets=_ends(kept)[self.offsets], items=self.items[kept], duplicates_removed=0)


def _ends(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return 0, and where each transaction ends if they follow each other."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def _row(number: int, row: Iterable[Hashable]) -> list[Hashable]:
    """Return a transaction as a list; errors name it by its number, counted from 1."""
    if isinstance(row, (str, bytes)):
        raise DataError(
            f"transaction {number} is the string {row!r:.60}, whose letters would become items; "
            "give each transaction as a list of items, e.g. [['bread', 'milk'], ['milk']]"
        )
    if isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "biufU":
        return row.tolist()  # type: ignore[no-any-return]  # Python's own numbers are processed faster
    try:
        return list(row)
    except TypeError:
        msg = f"transaction {number} is {row!r:.60}, not a collection of items; give a list of lists"
        raise DataError(msg) from None


def _distinct(rows: list[list[Any]]) -> list[Any]:
    """Return the distinct items, numbers by value and then strings; check that their labels differ."""
    items = set(chain.from_iterable(rows))
    distinct = sorted(items, key=lambda item: (isinstance(item, str), item))
    twin = first_repeat([str(item) for item in distinct])
    if twin is not None:
        msg = f"two different items have the same label {twin!r} (such as 1 and '1'); convert all items to one type"
        raise DataError(msg)
    return distinct


def first_repeat(labels: Sequence[str]) -> str | None:
    """Return the first repeated label, or None if all labels differ."""
    if len(set(labels)) == len(labels):
        return None
    seen: set[str] = set()
    return next(label for label in labels if label in seen or seen.add(label))  # type: ignore[func-returns-value]


def _check_range(what: str, ids: NDArray[np.integer[Any]], size: int) -> None:
    if len(ids) and (int(np.min(ids)) < 0 or int(np.max(ids)) >= size):
        raise DataError(f"{what} ids must be between 0 and {size - 1}; these range from {np.min(ids)} to {np.max(ids)}")


def _ascending(offsets: NDArray[np.int64], items: NDArray[np.integer[Any]]) -> bool:
    """Return whether the items of every transaction are strictly ascending."""
    rising = items[1:] > items[:-1]
    starts = offsets[1:-1]
    rising[starts[(starts > 0) & (starts < len(items))] - 1] = True  # where a new transaction begins
    return bool(rising.all())


def _check_arrays(offsets: NDArray[np.int64], items: NDArray[np.int32], vocabulary: tuple[str, ...]) -> None:
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(items) or bool(np.any(np.diff(offsets) < 0)):
        raise DataError("offsets must start at 0, never decrease, and end at the number of item occurrences")
    _check_range("item", items, len(vocabulary))
    if not _ascending(offsets, items):
        raise DataError("the items of a transaction must be strictly ascending; use from_pairs or from_transactions")
    twin = first_repeat(vocabulary)
    if twin is not None:
        raise DataError(f"the vocabulary has {twin!r} twice; give every item its own label")
