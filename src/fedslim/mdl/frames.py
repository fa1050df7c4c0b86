"""DataFrames of pandas or polars, whichever is installed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedslim.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence


def frame_of(records: list[dict[str, Any]], columns: Sequence[str]) -> Any:
    """Return records as a pandas DataFrame, or a polars one if only polars is installed."""
    data = {name: [record[name] for record in records] for name in columns}
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame(data)
        except ImportError:
            continue
    msg = "a DataFrame needs pandas or polars: pip install 'fedslim[tables]' (or use .records())"
    raise MissingExtraError(msg)
