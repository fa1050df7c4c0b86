"""`SlimClassifier`: a code table for each class; a row belongs to the class whose table takes the fewest bits.

All tables have the vocabulary of all rows, and a federation finds the same tables, one class after the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fedslim.data import Encoding, TransactionDatabase
from fedslim.data.atomic import write_whole
from fedslim.data.documents import Format
from fedslim.data.encoding import ITEMS
from fedslim.errors import CodeTableError, DataError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.estimator import convert, item_tags, mine_for
from fedslim.mdl.files import MAX_BYTES, code_table_document, code_table_of
from fedslim.mdl.objective import log2
from fedslim.uses.explaining import Explanation, explain_rows


class ClassTables(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier whose `fit` ends with `_fitted`."""

    tables_: tuple[CodeTable, ...]
    classes_: NDArray[Any]
    encoding_: Encoding
    prior: bool

    def __sklearn_tags__(self) -> Any:
        return item_tags(super().__sklearn_tags__())

    def _fitted(self, classes: Any, tables: Sequence[CodeTable]) -> None:
        self.classes_ = np.asarray(classes)
        self.tables_ = tuple(tables)
        self.encoding_ = tables[0].encoding or ITEMS
        self.class_count_ = np.array([table.transactions for table in tables])

    def _items(self, X: Any) -> TransactionDatabase:  # noqa: N803
        check_is_fitted(self, "tables_")
        return convert(self, X, self.encoding_)

    def code_lengths(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the bits of each row with the table of each class, and with `prior` those of the class itself."""
        return self._bits(self._items(X))

    def _bits(self, database: TransactionDatabase) -> NDArray[np.float64]:
        bits = np.stack([table.covering.bits(database) for table in self.tables_], axis=1)
        if not self.prior:
            return bits
        total = log2(int(self.class_count_.sum()))
        return np.asarray(bits + [total - log2(int(count)) for count in self.class_count_], np.float64)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class: 2 to the minus of its bits, divided by their sum."""
        bits = self.code_lengths(X)
        weights = np.exp2(bits.min(axis=1, keepdims=True) - bits)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the class with the fewest bits for each row."""
        best = self.code_lengths(X).argmin(axis=1)
        return np.asarray(self.classes_[best])

    def explain(self, X: Any, row: int) -> ClassExplanation:  # noqa: N803
        """Explain the class of a row, counted from 1: its cover with the best two tables."""
        database = self._items(X)
        if not 1 <= row <= len(database):
            raise DataError(f"there is no row {row}; give a number from 1 to {len(database)}")
        bits = self._bits(database.take([row - 1]))[0]
        best = np.argsort(bits, kind="stable").tolist()
        return ClassExplanation(
            {self.classes_[k]: float(bits[k]) for k in best},
            {self.classes_[k]: explain_rows(self.tables_[k], database, [row])[0] for k in best[:2]},
        )

    def save(self, path: str | Path, *, private: bool = False) -> None:
        """Write the classes and their tables as JSON; equal classifiers are equal files."""
        check_is_fitted(self, "tables_")
        head = {"format": FORMAT, "version": VERSION, "prior": self.prior}
        rows = [
            json.dumps({"class": label, "table": code_table_document(table)}, ensure_ascii=False)
            for label, table in zip(self.classes_.tolist(), self.tables_, strict=True)
        ]
        text = json.dumps(head)[:-1] + ', "classes": [\n' + ",\n".join(rows) + "\n]}\n"
        write_whole(Path(path), text.encode(), private=private)


class ClassExplanation:
    """The bits of a row with the table of each class, the best first, and its cover with the best two."""

    def __init__(self, bits: Mapping[Any, float], covers: Mapping[Any, Explanation]) -> None:
        self.bits, self.covers = bits, covers

    def __str__(self) -> str:
        lines = [", ".join(f"{label}: {bits:.1f} bits" for label, bits in self.bits.items())]
        for label, cover in self.covers.items():
            lines += [f"with the table of {label}:"]
            parts = sorted((*cover.cover, *cover.spelled, *cover.unknown), key=lambda part: -part.bits)
            lines += [f"  {part.bits:6.1f} bits  {{{', '.join(part.items)}}}" for part in parts]
            prior = self.bits[label] - cover.bits
            lines += [f"  {prior:6.1f} bits  because of its share of all rows"] * (prior > 0)
        return "\n".join(lines)


class SlimClassifier(ClassTables):
    """Classify rows by one code table for each class: the one that takes the fewest bits wins.

    Args:
        prior: whether to add the bits of the class itself, which are fewer for frequent classes.
        width: see `Slim`; narrow steps classify slightly better.
        effort: see `Slim`.
        max_time: see `Slim`; the seconds for each class.
        seed: see `Slim`.

    Attributes:
        classes_: the classes, sorted.
        tables_: the `CodeTable` of each class, all over the vocabulary of all rows.
        class_count_: the number of rows of each class.

    Examples:
        >>> from fedslim import SlimClassifier
        >>> rows = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"], ["tea"]] * 8
        >>> model = SlimClassifier().fit(rows, ["morning", "morning", "evening", "evening"] * 8)
        >>> model.predict([["bread", "milk"], ["tea", "jam"]]).tolist()
        ['morning', 'evening']
    """

    def __init__(  # scikit-learn's flat parameters
        self,
        prior: bool = True,
        width: int = 1,
        effort: int | None = None,
        max_time: float | None = None,
        seed: int = 0,
    ) -> None:
        self.prior, self.width, self.effort = prior, width, effort
        self.max_time, self.seed = max_time, seed

    def fit(self, X: Any, y: Any) -> SlimClassifier:  # noqa: N803  # scikit-learn's names
        """Mine the table of each class; Ctrl-C ends the search of each early and keeps the best table so far."""
        database = convert(self, X, long=False)  # each row has a class
        classes, groups = classes_of(y, len(database))
        mined = mine_for(self, *(database.take(group) for group in groups), besides={"prior"})
        self._fitted(classes, [one.table for one in mined])
        return self

    @classmethod
    def load(cls, path: str | Path) -> SlimClassifier:
        """Read a classifier that `save` wrote, also one that a federation found."""
        path = Path(path)
        try:
            data = FILES.read(path, MAX_BYTES)
        except OSError as error:
            msg = f"{path}: the classifier cannot be read: {error.strerror or error}; check the path"
            raise CodeTableError(msg) from error
        file = FILES.decode(data, path, _ClassifierFile)
        labels = [one.label for one in file.classes]
        if len(set(labels)) != len(labels) or len({type(label) for label in labels}) != 1:
            raise FILES.bad(path, "its classes are not different values of one type")
        tables = [code_table_of(bytes(one.table), f"{path}, class {one.label!r:.60}") for one in file.classes]
        if any(table.encoding != tables[0].encoding for table in tables):
            raise FILES.bad(path, "its tables have different encodings")
        return cls.of(labels, tables, prior=file.prior)

    @classmethod
    def of(cls, classes: Sequence[Any], tables: Sequence[CodeTable], *, prior: bool = True) -> SlimClassifier:
        """Return a classifier with given tables, such as those that a federation found; the classes are sorted."""
        model = cls(prior=prior)
        model._fitted(classes, tables)
        return model


def classes_of(y: Any, rows: int) -> tuple[NDArray[Any], list[NDArray[np.int64]]]:
    """Return the classes, sorted, and the rows of each; refuse numbers to predict."""
    if y is None:
        raise DataError("this classifier requires y to be passed, but the target y is None; give the class of each row")
    labels = column_or_1d(y, warn=True)
    if len(labels) != rows:
        raise DataError(f"there are {rows} rows but {len(labels)} classes; give one class for each row")
    if not rows:
        raise DataError("there are no rows to learn from; give at least one, and its class")
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, [np.flatnonzero(codes == k) for k in range(len(classes))]


FORMAT, VERSION = "fedslim-classifier", 1


class _Class(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    label: str | int | float | bool = msgspec.field(name="class")
    table: msgspec.Raw


class _ClassifierFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    format: str
    version: int
    prior: bool
    classes: list[_Class]


_BAD = "{path} is not a classifier that fedslim can use: {why}; write it again with `save`"
FILES = Format(FORMAT, VERSION, CodeTableError, _BAD)
