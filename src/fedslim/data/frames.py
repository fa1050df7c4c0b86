"""Read DataFrames and Parquet files. The libraries are optional, so they are imported only when needed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from fedslim.data.columns import (
    MISSING,
    NumberColumn,
    TextColumn,
    check_names,
    long_columns,
    long_to_database,
)
from fedslim.data.discretise import DEFAULT_BINS, check_bins
from fedslim.data.encoding import Choices, EncodedTable, check_no_choices, encode_table
from fedslim.data.fimi import stem
from fedslim.data.labels import value_text
from fedslim.data.textstream import open_bytes
from fedslim.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from fedslim.data.columns import Column
    from fedslim.data.database import TransactionDatabase
    from fedslim.data.encoding import TableSchema


@dataclass(frozen=True, slots=True)
class _Raw:
    """Named columns of a library's own type, and the function that converts one."""

    named: Sequence[tuple[str, Any]]
    to_column: Callable[[str, Any], Column]
    name: str
    source: str

    def table(self) -> EncodedTable:
        check_names([label for label, _ in self.named], self.source)
        return EncodedTable([self.to_column(*pair) for pair in self.named], self.name, self.source)


def from_dataframe(  # noqa: PLR0913  # the options of a table, all by keyword
    df: Any,
    *,
    bins: int = DEFAULT_BINS,
    transaction_column: str | None = None,
    item_column: str | None = None,
    name: str | None = None,
    schema: TableSchema | None = None,
    **choices: Unpack[Choices],
) -> TransactionDatabase:
    """Convert a pandas or polars DataFrame to transactions, one per row.

    If every column is boolean, or has 0 and 1 only, the items are the column names (one-hot); otherwise
    every column is a categorical attribute, as in a CSV file. With `transaction_column` and `item_column`, the rows are
    (transaction, item) pairs. `schema` and `choices` are as for `read`.

    Examples:
        >>> import pandas as pd
        >>> from fedslim.data import from_dataframe
        >>> list(from_dataframe(pd.DataFrame({"bread": [True, False], "milk": [True, True]})))
        [('bread', 'milk'), ('milk',)]
        >>> list(from_dataframe(pd.DataFrame({"city": ["Bonn", "Ulm"]})))
        [('city=Bonn',), ('city=Ulm',)]
    """
    raw = _dataframe(df, name)
    if transaction_column is None and item_column is None:
        return encode_table(raw.table(), bins=bins, schema=schema, **choices)[0]
    check_no_choices("a long table", schema, choices)
    return _database(raw, transaction_column, item_column, bins)


def dataframe_table(df: Any, *, name: str | None = None) -> EncodedTable:
    """Return the columns of a DataFrame with one transaction per row."""
    return _dataframe(df, name).table()


def _dataframe(df: Any, name: str | None) -> _Raw:
    to_column = _adapter(df)
    if to_column is None:
        msg = f"{type(df).__name__} is not a pandas or polars DataFrame; convert it, or use fedslim.data.as_database"
        raise DataError(msg)
    named = [
        (str(label), df.iloc[:, i] if to_column is _from_pandas else df[label]) for i, label in enumerate(df.columns)
    ]
    return _Raw(named, to_column, name or "data", "the DataFrame")


def is_dataframe(value: Any) -> bool:
    """Return whether `value` is a pandas or polars DataFrame, without importing either library."""
    return _adapter(value) is not None


def read_parquet(
    path: str | os.PathLike[str],
    *,
    bins: int = DEFAULT_BINS,
    transaction_column: str | None = None,
    item_column: str | None = None,
    name: str | None = None,
) -> TransactionDatabase:
    """Read a Parquet file with pyarrow, or with polars if pyarrow is not installed."""
    raw = _parquet(Path(path), name, {transaction_column, item_column})
    return _database(raw, transaction_column, item_column, bins)


def parquet_table(path: str | os.PathLike[str], *, name: str | None = None) -> EncodedTable:
    """Return the columns of a Parquet file with one transaction per row."""
    return _parquet(Path(path), name, set()).table()


def _parquet(path: Path, name: str | None, wanted: set[str | None]) -> _Raw:
    """Return the columns of a file, without those of a pandas index unless they are wanted by name."""
    with open_bytes(path):  # reports a folder, a missing or an empty file with the same messages as for text
        pass
    library = next((found for found in ("pyarrow", "polars") if _find(found)), None)
    if library is None:
        msg = f"{path}: reading Parquet needs pyarrow or polars; install them with: pip install 'fedslim[tables]'"
        raise MissingExtraError(msg)
    read, to_column = (_arrow_table, _from_arrow) if library == "pyarrow" else (_polars_table, _from_polars)
    try:
        named, index = read(path)
    except Exception as error:  # noqa: BLE001  # each library has its own exceptions for a damaged file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = f"{path}: cannot be read as Parquet ({reason:.200}); check that the file is complete, or give --format"
        raise DataError(msg) from None
    if named and not len(named[0][1]):
        msg = f"{path}: the table has no rows; check that the file is complete"
        raise DataError(msg)
    kept = [(label, column) for label, column in named if label not in index - wanted]
    return _Raw(kept, to_column, name or stem(path), str(path))


def _find(library: str) -> bool:
    try:
        import_module(library)
    except ImportError:
        return False
    return True


def _arrow_table(path: Path) -> tuple[list[tuple[str, Any]], set[str]]:
    table = import_module("pyarrow.parquet").read_table(path)
    about = (table.schema.metadata or {}).get(b"pandas")
    return list(zip(table.column_names, table.columns, strict=True)), _index_columns(about)


def _polars_table(path: Path) -> tuple[list[tuple[str, Any]], set[str]]:
    polars = import_module("polars")
    metadata = getattr(polars, "read_parquet_metadata", None)  # missing in older versions
    about = metadata(path).get("pandas") if metadata else None
    return [(series.name, series) for series in polars.read_parquet(path).get_columns()], _index_columns(about)


def _index_columns(about: str | bytes | None) -> set[str]:
    """Return the index columns of a DataFrame, from the metadata that pandas wrote to the file."""
    index = [] if about is None else json.loads(about).get("index_columns", [])
    return {label for label in index if isinstance(label, str)}  # a plain range is described, not stored


def _database(raw: _Raw, transaction: str | None, item: str | None, bins: int) -> TransactionDatabase:
    check_bins(bins)
    if transaction is None and item is None:
        return encode_table(raw.table(), bins=bins)[0]
    names = [label for label, _ in raw.named]
    check_names(names, raw.source)
    chosen = long_columns(names, transaction, item, raw.source)
    rows, items = (raw.to_column(*raw.named[position]) for position in chosen)
    return long_to_database(rows, items, name=raw.name, source=raw.source)


def _adapter(value: Any) -> Callable[[str, Any], Column] | None:
    """Return the column converter for a DataFrame; a library that is not loaded cannot have created it."""
    for library, adapter in (("pandas", _from_pandas), ("polars", _from_polars)):
        frame = getattr(sys.modules.get(library), "DataFrame", None)
        if frame is not None and isinstance(value, frame):
            return adapter
    return None


# -- one adapter per library: booleans and numbers as arrays, everything else as distinct strings ------------------


def _from_pandas(name: str, series: Any) -> Column:
    types = import_module("pandas").api.types
    missing = series.isna().to_numpy(dtype=bool)
    if types.is_bool_dtype(series.dtype) and not isinstance(series.dtype, types.CategoricalDtype):
        return NumberColumn(name, series.fillna(value=False).to_numpy(dtype=bool), missing)
    if types.is_integer_dtype(series.dtype):
        return NumberColumn(name, series.fillna(0).to_numpy(dtype=_integer(str(series.dtype))), missing)
    if types.is_float_dtype(series.dtype):
        return NumberColumn(name, series.to_numpy(dtype=np.float64, na_value=np.nan), missing)
    if isinstance(series.dtype, types.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.int32)
        return TextColumn(name, codes, [_text(name, value) for value in series.cat.categories], cut=False)
    return _from_objects(name, series.tolist(), missing)


def _from_polars(name: str, series: Any) -> Column:
    polars = import_module("polars")
    missing = series.is_null().to_numpy()
    if series.dtype == polars.Boolean:
        return NumberColumn(name, series.fill_null(value=False).to_numpy().astype(bool), missing)
    if str(series.dtype).endswith("Int128"):  # numpy has no such integers: convert to strings
        return _from_objects(name, series.to_list(), missing)
    if series.dtype.is_integer():
        return NumberColumn(name, series.fill_null(0).to_numpy().astype(_integer(str(series.dtype))), missing)
    if series.dtype.is_numeric():
        return NumberColumn(name, series.cast(polars.Float64).fill_null(float("nan")).to_numpy(), missing)
    whole = series.dtype in (polars.Categorical, polars.Enum)
    return _from_objects(name, series.to_list(), missing, cut=not whole)


def _from_arrow(name: str, column: Any) -> Column:
    types = import_module("pyarrow").types
    missing = column.is_null().to_numpy()
    if types.is_boolean(column.type):
        return NumberColumn(name, column.fill_null(False).to_numpy().astype(bool), missing)
    if types.is_integer(column.type):
        return NumberColumn(name, column.fill_null(0).to_numpy().astype(_integer(str(column.type))), missing)
    if types.is_floating(column.type):
        return NumberColumn(name, column.to_numpy().astype(np.float64), missing)
    return _from_objects(name, column.to_pylist(), missing, cut=not types.is_dictionary(column.type))


def _integer(dtype: str) -> type[np.int64 | np.uint64]:
    """Return the 64-bit type of an integer column; only uint64 values may not fit int64."""
    return np.uint64 if dtype.lower().startswith("uint64") else np.int64


def _from_objects(name: str, values: list[Any], missing: Any, *, cut: bool = True) -> TextColumn:
    """Convert values of any type to strings first: as dictionary keys, 1, 1.0 and True would be equal."""
    index: dict[str, int] = {}
    codes = np.full(len(values), MISSING, np.int32)
    for row in np.flatnonzero(~missing).tolist():
        codes[row] = index.setdefault(_text(name, values[row], f" (row {row + 1})"), len(index))
    return TextColumn(name, codes, list(index), cut=cut)


def _text(name: str, value: Any, where: str = "") -> str:
    try:
        return value_text(value)
    except ValueError as error:
        msg = (
            f"column {name!r} has {error}{where}; convert it to text or numbers, split it into columns, "
            "or give a table of (transaction, item) rows"
        )
        raise DataError(msg) from None
