"""Read DataFrames of pandas, and whatever Arrow can read. The libraries are optional: nothing here imports them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from fedslim.data.arrow import arrow_tables, is_stream, stream_of
from fedslim.data.columns import MISSING, NO_PAIR, Column, EncodedTable, long_to_database, positions, text_of
from fedslim.data.discretise import DEFAULT_BINS, check_bins
from fedslim.data.encoding import Choices, check_no_choices, encode_table
from fedslim.errors import DataError

if TYPE_CHECKING:
    from fedslim.data.columns import Pair
    from fedslim.data.database import TransactionDatabase
    from fedslim.data.encoding import TableSchema


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
    """Convert a table in memory to transactions, one per row.

    It may be a DataFrame of pandas or polars, a table or data set of pyarrow, a relation of DuckDB, or any other object
    with an Arrow stream. If every column is boolean, or has 0 and 1 only, the items are the column names (one-hot);
    otherwise every column is a categorical attribute, as in a CSV file. With `transaction_column` and `item_column`,
    the rows are (transaction, item) pairs. `schema` and `choices` are as for `read`.

    Examples:
        >>> import pandas as pd
        >>> from fedslim.data import from_dataframe
        >>> list(from_dataframe(pd.DataFrame({"bread": [True, False], "milk": [True, True]})))
        [('bread', 'milk'), ('milk',)]
        >>> list(from_dataframe(pd.DataFrame({"city": ["Bonn", "Ulm"]})))
        [('city=Bonn',), ('city=Ulm',)]
    """
    pair = (transaction_column, item_column)
    return database_of(dataframe_table(df, name=name, pair=pair), pair, bins=bins, schema=schema, **choices)


def database_of(
    table: EncodedTable,
    pair: Pair,
    *,
    bins: int,
    schema: TableSchema | None = None,
    **choices: Unpack[Choices],
) -> TransactionDatabase:
    """Convert a table to transactions: one per row, or one for each value of the first of a pair of columns."""
    check_bins(bins)
    if pair == NO_PAIR:
        return encode_table(table, bins=bins, schema=schema, **choices)[0]
    check_no_choices("a long table", schema, {**choices, "long": None})
    return long_to_database(*table.columns, name=table.name, source=table.source, place=table.place)


def is_dataframe(value: Any) -> bool:
    """Return whether `value` is a table in memory, without importing a library."""
    return _is_pandas(value) or is_stream(value)


def dataframe_table(df: Any, *, name: str | None = None, pair: Pair = NO_PAIR) -> EncodedTable:
    """Return the columns of a table in memory; of a long table only the two."""
    source, name = "the DataFrame", name or "data"
    if not _is_pandas(df):
        if not is_stream(df):
            msg = f"{type(df).__name__} is not a DataFrame or an Arrow stream; convert it, or use as_database"
            raise DataError(msg)
        return next(arrow_tables(stream_of(df), name=name, source=source, pair=pair, empty=True))
    names = [str(label) for label in df.columns]
    chosen = positions(names, pair, source)
    return EncodedTable([_from_pandas(names[k], df.iloc[:, k]) for k in chosen], name, source)


def _is_pandas(value: Any) -> bool:
    """Return whether `value` is a DataFrame of pandas; if pandas is not loaded, it cannot be one."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return frame is not None and isinstance(value, frame)


def _from_pandas(name: str, series: Any) -> Column:
    """Convert booleans and numbers to arrays, everything else to distinct strings."""
    types = sys.modules["pandas"].api.types
    missing, kind = series.isna().to_numpy(dtype=bool), series.dtype
    if isinstance(kind, types.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.int32)
        return Column.of_texts(name, codes, [text_of(name, value) for value in series.cat.categories], cut=False)
    if types.is_bool_dtype(kind):
        return Column.of_numbers(name, series.fillna(value=False).to_numpy(dtype=bool), missing=missing)
    if types.is_integer_dtype(kind):
        whole = np.uint64 if str(kind).lower().startswith("uint64") else np.int64
        return Column.of_numbers(name, series.fillna(0).to_numpy(dtype=whole), missing=missing)
    if types.is_float_dtype(kind):
        return Column.of_numbers(name, series.to_numpy(dtype=np.float64, na_value=np.nan), missing=missing)
    # Strings before anything is compared: as dictionary keys, 1, 1.0 and True would be equal.
    index: dict[str, int] = {}
    values, coded = series.tolist(), np.full(len(series), MISSING, np.int32)
    for row in np.flatnonzero(~missing).tolist():
        coded[row] = index.setdefault(text_of(name, values[row], f" (row {row + 1})"), len(index))
    return Column.of_texts(name, coded, list(index))
