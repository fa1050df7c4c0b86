"""Whatever people hold their transactions in, as a transaction database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedslim.data.database import TransactionDatabase
from fedslim.data.encoding import ITEMS, Encoding, encode_table
from fedslim.data.frames import dataframe_table, is_dataframe
from fedslim.data.loading import load
from fedslim.data.readers import read_table
from fedslim.data.textstream import is_file
from fedslim.errors import DataError

_TAKEN = (
    "a TransactionDatabase, a list of lists of items, a pandas or polars DataFrame, "
    "a 2-D array or sparse matrix of 0 and 1, or the path of a file or the name of a data set"
)
_MATRIX_DIMENSIONS = 2


def as_database(X: Any, *, name: str | None = None) -> TransactionDatabase:  # noqa: N803  # scikit-learn's name
    """Make a transaction database of `X`, which may already be one.

    Columns of arrays and sparse matrices have no names: their items are '0', '1', ... by position.

    Raises:
        DataError: `X` is none of the things that can be taken; the message lists them.
    """
    return encode(X, name=name)[0]


def encode(
    X: Any,  # noqa: N803  # scikit-learn's name
    encoding: Encoding | None = None,
    *,
    name: str | None = None,
) -> tuple[TransactionDatabase, Encoding]:
    """Make a transaction database of `X`, and say how: apply that to other data and equal rows have equal items.

    Without `encoding`, a table decides for itself whether it is one-hot and where its numbers are cut. With the
    encoding of a table, another table is taken in the same way: numbers beyond the outermost bounds belong to the
    outermost interval, and a value never seen is the item `column=value`. The vocabulary is that of `X` all the same.
    Lists of items, databases and FIMI files are taken by their labels, whatever the encoding.

    Raises:
        DataError: `X` cannot be taken, or not in the way of the encoding; the message names the column.
    """
    if isinstance(X, (str, os.PathLike)):
        table = read_table(X, name=name) if is_file(Path(X)) else None
        return (load(X, name=name), encoding or ITEMS) if table is None else encode_table(table, encoding=encoding)
    if is_dataframe(X):
        return encode_table(dataframe_table(X, name=name), encoding=encoding)
    if is_matrix(X):
        return _from_matrix(X, encoding, name or "data")
    return _from_items(X, name), encoding or ITEMS


def _from_items(X: Any, name: str | None) -> TransactionDatabase:  # noqa: N803  # as above
    if isinstance(X, TransactionDatabase):
        return X if name is None or name == X.name else replace(X, name=name)
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype != object):
        _two_dimensions(X)
        return TransactionDatabase.from_transactions(X.tolist(), name=name or "data")  # a row of texts is a transaction
    if isinstance(X, Iterable) and not isinstance(X, (bytes, bytearray)):
        return TransactionDatabase.from_transactions(X, name=name or "data")
    msg = f"cannot take transactions from {type(X).__name__}; give {_TAKEN}"
    raise DataError(msg)


def is_matrix(value: Any) -> bool:
    """Whether this is a sparse matrix or an array of numbers, whose columns are items.

    Sparse matrices exist only where scipy is loaded, so it is never imported for this.
    """
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and bool(sparse.issparse(value)):
        return True
    return isinstance(value, np.ndarray) and value.dtype.kind not in "OUS"


def _from_matrix(X: Any, encoding: Encoding | None, name: str) -> tuple[TransactionDatabase, Encoding]:  # noqa: N803
    """A matrix is a one-hot table whose columns are called after their positions."""
    _two_dimensions(X)
    own = Encoding("one-hot", tuple(str(column) for column in range(X.shape[1])))
    if encoding is not None and encoding != own:
        fitted = "lists of items" if encoding.kind == "items" else f"a table with {len(encoding.columns)} columns"
        called = f" the first of which is {encoding.columns[0]!r}" if encoding.columns else ""
        msg = (
            f"the matrix has {X.shape[1]} columns without names, but the model was fitted on {fitted}{called}; "
            "give the same kind of data as in fitting"
        )
        raise DataError(msg)
    rows, columns = _positions(X)
    return TransactionDatabase.from_pairs(rows, columns, own.columns, transactions=X.shape[0], name=name), own


def _two_dimensions(array: Any) -> None:
    if array.ndim != _MATRIX_DIMENSIONS:
        msg = f"the array has {array.ndim} dimension(s); give one row for each transaction and one column for each item"
        raise DataError(msg)


def _positions(matrix: Any) -> tuple[Any, Any]:
    """The rows and columns of all ones."""
    if isinstance(matrix, np.ndarray):
        _only_flags(matrix)
        rows, columns = np.nonzero(matrix)
        return rows, columns
    pairs = matrix.tocoo()
    _only_flags(pairs.data)
    here = pairs.data.astype(bool)
    return pairs.row[here], pairs.col[here]


def _only_flags(values: np.ndarray[Any, Any]) -> None:
    if values.dtype != bool and not (values.dtype.kind in "iuf" and bool(((values == 0) | (values == 1)).all())):
        msg = (
            "the array holds values other than 0 and 1; give a 0/1 matrix with a column for each item, "
            "a list of lists of items, or a DataFrame whose columns are attributes"
        )
        raise DataError(msg)
