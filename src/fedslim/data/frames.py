"""Read tables in memory and Parquet files: DataFrames of pandas, and any Arrow stream, which needs pyarrow.

Arrow streams are objects of pyarrow, polars and DuckDB, and query results. Their columns are built batch by batch:
strings as codes and a dictionary, numbers in narrow arrays. No batch is kept. All these libraries are optional.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from fedslim.data.columns import MISSING, NO_PAIR, Column, EncodedTable, Pair, Wanted, positions, tables
from fedslim.data.database import TransactionDatabase
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.encoding import Choices, TableSchema, encode_table
from fedslim.data.parsing import text_of
from fedslim.data.textstream import is_folder, open_bytes
from fedslim.errors import DataError, MissingExtraError

ROWS_IN_BATCH = 1 << 16
_NO_TABLE = {"Series", "Index", "ChunkedArray"}  # Arrow streams of one column


def needed(module: str, source: str, extra: str) -> Any:
    """Import a module of an optional dependency, or say how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtraError(
            f"{source}: reading this needs {module.partition('.')[0]}; install it with: pip install 'fedslim[{extra}]'"
        ) from None


def is_stream(value: Any) -> bool:
    """Return whether `value` is a table that Arrow can read, without importing any library."""
    if _is(value, "polars", "LazyFrame") or _is(value, "pyarrow.dataset", "Dataset", "Scanner"):
        return True
    return hasattr(value, "__arrow_c_stream__") and type(value).__name__ not in _NO_TABLE


def stream_of(value: Any) -> Any:
    """Return a reader of record batches of a value for which `is_stream` is true."""
    arrow = needed("pyarrow", f"a {type(value).__name__}", "tables")
    if _is(value, "polars", "LazyFrame"):
        value = value.collect(engine="streaming")
    if _is(value, "polars", "DataFrame"):
        polars = sys.modules["polars"]
        wide = [name for name, kind in value.schema.items() if str(kind).endswith("Int128")]
        # Arrow has no integers of 128 bits; and older versions cannot encode its newer kind of strings.
        value = value.with_columns(polars.col(wide).cast(polars.String)) if wide else value
        return value.to_arrow(compat_level=polars.CompatLevel.oldest()).to_reader()
    if _is(value, "pyarrow.dataset", "Dataset", "Scanner"):
        return (value if hasattr(value, "to_reader") else value.scanner(batch_size=ROWS_IN_BATCH)).to_reader()
    try:
        return arrow.RecordBatchReader.from_stream(value)
    except (TypeError, ValueError, arrow.ArrowException) as error:
        msg = f"{type(value).__name__} is not a table ({reason_of(error)}); give a table with named columns"
        raise DataError(msg) from None


def _is(value: Any, module: str, *kinds: str) -> bool:
    """Return whether a value has a type of a library; one that is not loaded cannot have created it."""
    library = sys.modules.get(module)
    return isinstance(value, tuple(getattr(library, kind, ()) for kind in kinds))


def reason_of(error: BaseException) -> str:
    """Return the first line of a library's error, for a message."""
    return f"{next(iter(str(error).splitlines()), '') or type(error).__name__:.200}"


def arrow_tables(
    reader: Any, source: str, wanted: Wanted, categories: Mapping[str, bool] | None = None, *, empty: bool = False
) -> Iterator[EncodedTable]:
    """Read all batches of a `pyarrow.RecordBatchReader`; `categories` says which columns were stored as categories."""
    names = [str(label) for label in reader.schema.names]
    kinds = dict(zip(names, reader.schema.types, strict=True))
    batches = ((batch.num_rows, batch.columns) for batch in reader)
    yield from tables(names, batches, source, wanted, partial(_builder, kinds, categories or {}), empty=empty)


def _builder(kinds: Mapping[str, Any], categories: Mapping[str, bool], name: str) -> _Numbers | _Texts:
    types = import_module("pyarrow").types
    kind = getattr(kinds[name], "storage_type", kinds[name])  # of an extension, such as numeric of PostgreSQL
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return _Numbers(name, bool if types.is_boolean(kind) else np.float64 if types.is_floating(kind) else None)
    return _Texts(name, cut=not categories.get(name, types.is_dictionary(kind)))


class _Numbers:
    """Booleans, floats, and integers in 32 bits where they fit."""

    def __init__(self, name: str, kind: type[Any] | None) -> None:
        self._name, self._kind = name, kind  # no kind for integers
        self._parts: list[Any] = [np.empty(0, np.int32 if kind is None else kind)]
        self._missing: list[Any] = [np.empty(0, bool)]

    def add(self, array: Any, _before: int) -> None:
        array = getattr(array, "storage", array)
        gone = np.zeros(len(array), bool) if not array.null_count else array.is_null().to_numpy(zero_copy_only=False)
        values = (array.fill_null(False if self._kind is bool else 0) if array.null_count else array).to_numpy(
            zero_copy_only=False
        )
        if self._kind is not None:
            values = values.astype(self._kind)
        elif not len(values) or (values.min() >= -(2**31) and values.max() < 2**31):
            values = values.astype(np.int32)
        self._parts.append(values)
        self._missing.append(gone)

    def column(self) -> Column:
        wide = max((part.dtype for part in self._parts), key=lambda kind: kind.itemsize)
        values = np.concatenate(self._parts, dtype=wide, casting="unsafe")  # a narrow part fits a wide one
        self._parts.clear()
        return Column.of_numbers(self._name, values, missing=np.concatenate(self._missing))


class _Texts:
    """Strings, categories, dates and all else that has a string, as codes."""

    def __init__(self, name: str, *, cut: bool) -> None:
        self._name, self._cut = name, cut
        self._index: dict[str, int] = {}
        self._codes: list[Any] = [np.empty(0, np.int32)]
        self._last: Any = None  # the dictionary of the last batch, which the next one often has too
        self._places = np.empty(0, np.int32)

    def add(self, array: Any, before: int) -> None:
        arrow, array = import_module("pyarrow"), getattr(array, "storage", array)
        if arrow.types.is_null(array.type):
            self._codes.append(np.full(len(array), MISSING, np.int32))
            return
        if not arrow.types.is_dictionary(array.type):
            try:
                array = array.dictionary_encode()
            except arrow.ArrowNotImplementedError:  # lists and structures
                value = next(value for value in array.to_pylist() if value is not None)
                text_of(self._name, value)  # says what is wrong
        indices = array.indices.cast(arrow.int64()).fill_null(MISSING).to_numpy(zero_copy_only=False)
        if self._last is None or not array.dictionary.equals(self._last):
            self._last, self._places = array.dictionary, self._coded(array.dictionary.to_pylist(), indices, before)
        self._codes.append(self._places[indices])

    def _coded(self, values: list[Any], indices: Any, before: int) -> Any:
        """Return the code of each value of a batch's dictionary, and `MISSING` in the end."""
        index, places = self._index, []
        for number, value in enumerate(values):
            if value is None:
                places.append(MISSING)
                continue
            try:
                text = text_of(self._name, value)
            except DataError:
                text = text_of(self._name, value, f" (row {before + int(np.argmax(indices == number)) + 1})")
            places.append(index.setdefault(text, len(index)))
        return np.array([*places, MISSING], np.int32)

    def column(self) -> Column:
        codes = np.concatenate(self._codes)
        self._codes.clear()
        return Column.of_texts(self._name, codes, list(self._index), cut=self._cut)


# -- Parquet ---------------------------------------------------------------------------------------------------------


def _parquet_stream(source: Path | list[Path], wanted: Collection[str | None]) -> tuple[Any, dict[str, bool]]:
    """Return the batches of Parquet files with the same columns, strings as dictionaries; and which were categories."""
    library = import_module("pyarrow.dataset")
    types = import_module("pyarrow").types
    place = [str(path) for path in source] if isinstance(source, list) else str(source)
    hive = "hive" if not isinstance(source, list) and is_folder(source) else None
    plain = library.dataset(place, format="parquet", partitioning=hive)
    names = plain.schema.names
    for fragment in plain.get_fragments():
        own = [label for label in names if label in fragment.physical_schema.names]
        # Names of folders are columns too, as in year=2024/part-0.parquet.
        in_path = library.get_partition_keys(fragment.partition_expression)
        if fragment.physical_schema.names != own or set(names) - set(own) - set(in_path):
            msg = f"{fragment.path}: this file has other columns than the first; read files with the same columns"
            raise DataError(msg)
    texts = {f.name for f in plain.schema if types.is_string(f.type) or types.is_large_string(f.type)}
    about = (plain.schema.metadata or {}).get(b"pandas")  # written by pandas: which columns were the index
    stored = [] if about is None else json.loads(about).get("index_columns", [])
    index = {label for label in stored if isinstance(label, str)} - set(wanted)  # a range is described, not stored
    coded = library.ParquetFileFormat(dictionary_columns=texts)
    scanner = library.dataset(place, format=coded, partitioning=hive).scanner(
        columns=[label for label in names if label not in index],
        batch_size=ROWS_IN_BATCH,
        batch_readahead=2,
        fragment_readahead=1,
    )
    return scanner.to_reader(), {field.name: types.is_dictionary(field.type) for field in plain.schema}


def parquet_tables(source: Path | list[Path], wanted: Wanted) -> Iterator[EncodedTable]:
    """Read a Parquet file, or several: a folder or a list, in the order of their names."""
    shown = f"{source[0]} and {len(source) - 1} more" if isinstance(source, list) else str(source)
    first = source[0] if isinstance(source, list) else source
    if not is_folder(first) or next(first.rglob("*.parquet"), None) is None:
        with open_bytes(first):  # reports a missing or an empty file with the same messages as for text
            pass
    arrow = needed("pyarrow", shown, "tables")
    try:
        stream, categories = _parquet_stream(source, wanted.pair)
        yield from arrow_tables(stream, shown, wanted, categories)
    except (arrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        why = "not a Parquet file, or cut off" if "Is this a 'parquet' file" in str(error) else reason_of(error)
        advice = "have only Parquet files in the folder" if is_folder(first) else "check that it is complete"
        raise DataError(f"{shown}: cannot be read as Parquet ({why}); {advice}, or give --format") from None


# -- tables in memory -------------------------------------------------------------------------------------------------


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
    return encode_table(dataframe_table(df, name=name, pair=pair), bins=bins, schema=schema, **choices)[0]


def is_dataframe(value: Any) -> bool:
    """Return whether `value` is a table in memory, without importing a library."""
    return _is(value, "pandas", "DataFrame") or is_stream(value)


def dataframe_table(df: Any, *, name: str | None = None, pair: Pair = NO_PAIR) -> EncodedTable:
    """Return the columns of a table in memory; of a long table only the two."""
    source, name = "the DataFrame", name or "data"
    if not _is(df, "pandas", "DataFrame"):
        if not is_stream(df):
            msg = f"{type(df).__name__} is not a DataFrame or an Arrow stream; convert it, or use as_database"
            raise DataError(msg)
        return next(arrow_tables(stream_of(df), source, Wanted(name, pair), empty=True))
    names = [str(label) for label in df.columns]
    chosen = positions(names, pair, source)
    columns = [_from_pandas(names[k], df.iloc[:, k]) for k in chosen]
    return EncodedTable(columns, name, source, is_pair=pair != NO_PAIR)


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
