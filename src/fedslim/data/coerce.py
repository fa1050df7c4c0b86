"""Whatever people hold their transactions in, as a transaction database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from fedslim.data.database import TransactionDatabase
from fedslim.data.frames import from_dataframe, is_dataframe
from fedslim.data.loading import load
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
    if isinstance(X, TransactionDatabase):
        return X if name is None or name == X.name else replace(X, name=name)
    if isinstance(X, (str, os.PathLike)):
        return load(X, name=name)
    if is_dataframe(X):
        return from_dataframe(X, name=name)
    if isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype != object):
        return _from_array(X, name or "data")
    if _is_sparse(X):
        return _from_sparse(X, name or "data")
    if isinstance(X, Iterable) and not isinstance(X, (bytes, bytearray)):
        return TransactionDatabase.from_transactions(X, name=name or "data")
    msg = f"cannot take transactions from {type(X).__name__}; give {_TAKEN}"
    raise DataError(msg)


def _is_sparse(value: Any) -> bool:
    """Sparse matrices exist only where scipy is loaded, so it is never imported for this."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(value))


def _from_array(array: np.ndarray[Any, Any], name: str) -> TransactionDatabase:
    if array.ndim != _MATRIX_DIMENSIONS:
        msg = f"the array has {array.ndim} dimension(s); give one row for each transaction and one column for each item"
        raise DataError(msg)
    if array.dtype.kind in "OUS":  # texts: each row is a transaction of as many items
        return TransactionDatabase.from_transactions(array.tolist(), name=name)
    _only_flags(array)
    rows, columns = np.nonzero(array)
    return _from_positions(rows, columns, array.shape, name)


def _from_sparse(matrix: Any, name: str) -> TransactionDatabase:
    pairs = matrix.tocoo()
    if pairs.ndim != _MATRIX_DIMENSIONS:
        msg = "the sparse array has one dimension; give one row for each transaction and one column for each item"
        raise DataError(msg)
    _only_flags(pairs.data)
    here = pairs.data.astype(bool)
    return _from_positions(pairs.row[here], pairs.col[here], pairs.shape, name)


def _only_flags(values: np.ndarray[Any, Any]) -> None:
    if values.dtype != bool and not (values.dtype.kind in "iuf" and bool(((values == 0) | (values == 1)).all())):
        msg = (
            "the array holds values other than 0 and 1; give a 0/1 matrix with a column for each item, "
            "a list of lists of items, or a DataFrame whose columns are attributes"
        )
        raise DataError(msg)


def _from_positions(rows: Any, columns: Any, shape: tuple[int, int], name: str) -> TransactionDatabase:
    labels = [str(column) for column in range(shape[1])]
    return TransactionDatabase.from_pairs(rows, columns, labels, transactions=shape[0], name=name)
