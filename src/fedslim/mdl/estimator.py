"""`Slim`, the scikit-learn estimator, and what estimators with a code table share: show it, cover and score with it.

`Slim` and `FedSlim` differ only in how they find the table. `convert` is how every estimator reads what it is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pkgutil import resolve_name
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fedslim.data import Encoding, TransactionDatabase
from fedslim.data.coerce import encode_numbers, is_matrix
from fedslim.data.encoding import ITEMS, TableSchema
from fedslim.data.frames import is_dataframe
from fedslim.errors import MissingExtraError, ParameterError
from fedslim.format import as_html
from fedslim.mdl.codetable import CodeTable, Compression, styled, table_html
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.mdl.mining import Mined, mine, prepare
from fedslim.mdl.policy import WIDTH, Order
from fedslim.schema import Schema

ENGINES = {"ray": "fedslim.engines.rows:mine_on_ray"}
"""Who mines for an `engine`: by name, because engines are above this room and optional."""

_ELSEWHERE = ("engine", "workers", "address")


def convert(
    estimator: BaseEstimator,
    X: Any,  # noqa: N803  # scikit-learn's name
    encoding: Encoding | None = None,
    schema: TableSchema | None = None,
    *,
    long: bool | None = None,
) -> TransactionDatabase:
    """Convert what an estimator is given to transactions: as in fitting if there is an encoding.

    Fitting sets `n_features_in_` and `feature_names_in_` for arrays and DataFrames. Later, the columns of a DataFrame
    are found by name, in any order; arrays must have as many columns as before.
    """
    if hasattr(X, "__array__") and not is_dataframe(X):
        X = np.asarray(X)  # noqa: N806
    fitting, matrix = encoding is None, is_matrix(X)
    if matrix:
        X = check_array(X, accept_sparse=True, dtype=None, ensure_all_finite="allow-nan", estimator=estimator)  # noqa: N806
    if fitting:
        for name in ("n_features_in_", "feature_names_in_"):
            estimator.__dict__.pop(name, None)
    if (fitting and (matrix or is_dataframe(X))) or (matrix and not hasattr(estimator, "feature_names_in_")):
        validate_data(estimator, X, reset=fitting, skip_check_array=True)
    return encode_numbers(X, encoding, schema, long=long)[0]


def mine_for(
    estimator: BaseEstimator, *data: Any, besides: Collection[str], by: Callable[..., Mined] = mine
) -> list[Mined]:
    """Mine data with the parameters of an estimator, except for some; Ctrl-C keeps the best tables so far."""
    how = {name: value for name, value in estimator.get_params().items() if name not in besides}
    prepare()
    stop = Stop()
    with stopping_on_interrupt(stop):
        return [by(each, **how, stop=stop) for each in data]


class CodeTableEstimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator whose `fit` ends with `_fitted`."""

    table_: CodeTable
    encoding_: Encoding

    def _fitted(self, table: CodeTable, encoding: Encoding) -> None:
        self.table_ = table if encoding == ITEMS else replace(table, encoding=encoding)
        self.encoding_ = encoding

    def __sklearn_tags__(self) -> Any:
        return item_tags(super().__sklearn_tags__())

    @property
    def codetable_(self) -> Any:
        """The code table as a DataFrame, or as a list of dictionaries; what saves most comes first."""
        self._check()
        try:
            return self.table_.to_frame()
        except MissingExtraError:
            return self.table_.records()

    @property
    def compression_(self) -> Compression:
        """Bits before and after, for data and model separately, and both ratios."""
        self._check()
        return self.table_.compression

    def _check(self) -> None:
        check_is_fitted(self, "table_")

    def _items(self, X: Any) -> TransactionDatabase:  # noqa: N803
        """Encode rows as in `fit`."""
        self._check()
        return convert(self, X, self.encoding_)

    def _repr_html_(self) -> str:
        """Show the parameters, and the table once there is one."""
        return styled(f"<p>{as_html(repr(self))}</p>", table_html(self.table_) if hasattr(self, "table_") else "")

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Return the covers: a sparse matrix with a row for each transaction and a column for each element, 1 if used.

        Columns are the itemsets in cover order, then every single item of the vocabulary. After
        `set_output(transform="pandas")` or `"polars"` it is a DataFrame.
        """
        return self._covers(self._items(X))

    def _covers(self, database: TransactionDatabase) -> Any:
        covers = self.table_.covering.matrix(database)
        dense = getattr(self, "_sklearn_output_config", {}).get("transform", "default") != "default"
        return covers.toarray() if dense else covers

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the columns of `transform`: the items in braces, so that no two names are the same."""
        self._check()
        covering, vocabulary = self.table_.covering, self.table_.vocabulary
        escaped = [label.replace("\\", "\\\\").replace(",", "\\,") for label in vocabulary]
        names = ["{" + ", ".join(escaped[i] for i in covering.items_of(k)) + "}" for k in range(covering.n_elements)]
        return np.array(names, dtype=object)

    def reconstruct(self, covers: Any) -> TransactionDatabase:
        """Return exactly the transactions that `transform` turned into these covers."""
        self._check()
        return self.table_.reconstruct(covers)

    inverse_transform = reconstruct

    def code_lengths(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the bits of each transaction, seen or unseen: the more bits, the more unusual it is.

        Every element, and "unknown item", gets one more usage than it has, so that no length is infinite.
        """
        database = self._items(X)
        return self.table_.covering.bits(database)

    def score_samples(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return minus the bits of each transaction: as always in scikit-learn, higher is more normal."""
        return -self.code_lengths(X)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002, N803
        """Return the bits that a row saves on average, compared with spelling its items: higher is better.

        Their code lengths follow from the frequencies of fitting, one occurrence added. On held-out rows this
        compares tables, as in `cross_val_score`.
        """
        database = self._items(X)
        covering = self.table_.covering
        return float((covering.spelled(database) - covering.bits(database)).mean()) if len(database) else 0.0


def item_tags(tags: Any) -> Any:
    """Say in scikit-learn's tags what the estimators here take: text, missing values and sparse matrices of 0 and 1."""
    tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.allow_nan = True
    tags.input_tags.sparse = True
    if tags.transformer_tags is not None:
        tags.transformer_tags.preserves_dtype = []  # covers are flags
    return cast("Any", tags)


class Slim(CodeTableEstimator):
    """Find the itemsets that together describe the data best (SLIM: minimum description length).

    Args:
        pruning: whether to remove itemsets that no longer save bits, after each step.
        order: "usage" (usage at entry) or "support": the second criterion of the cover order.
        max_time: stop after this many seconds with the best table so far.
        max_itemset_size: the largest itemset to consider.
        min_support: the smallest support of an itemset to consider.
        min_count: the smallest count to show: rarer items are merged, and rarer itemsets left out.
        width: how many candidates each step tries before it ranks again, 1 to 64; 1 is SLIM as published.
        effort: how hard to search, from 1 (one greedy search) to 8; a higher effort is never worse. None is 1, or
            with `max_time` as much as fits into the time.
        threads: the number of threads; by default as many as help. The result does not depend on it.
        seed: for the random choices of efforts from 3 on.
        schema: what the columns of a table mean: a `fedslim.schema.Schema`, or the path of a `schema.toml`.
        engine: "ray" to search at the workers of a Ray cluster (`fedslim[ray]`); by default in this process. The table
            is the same. If `fit` is given a path, the workers read it; other data are sent to them in parts.
        workers: with an engine, the number of workers; by default as many as the cluster has CPUs.
        address: with an engine, the address of the cluster; without one, Ray is started on this machine.

    Attributes:
        table_: the `CodeTable`.
        encoding_: how rows are converted to items; `transform` and `code_lengths` convert new rows in the same way.
        codetable_: the table as a DataFrame, or as a list of dictionaries if neither pandas nor polars is installed.
        compression_: bits before and after, for data and model, and both ratios.
        converged_: whether the search ended by itself.
        candidates_: the number of candidates tried.
        n_iter_: the number of itemsets accepted.

    Examples:
        >>> from fedslim import Slim
        >>> rows = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8
        >>> slim = Slim().fit(rows)
        >>> [(row.labels, row.usage) for row in slim.table_]
        [(('bread', 'jam', 'milk'), 8), (('bread', 'milk'), 8), (('jam', 'tea'), 8)]
        >>> round(slim.compression_.L_percent, 1)
        44.9
        >>> slim.code_lengths([["bread", "milk"], ["bread", "tea"]]).round(1)
        array([ 1.8, 10. ])
    """

    def __init__(
        self,
        pruning: bool = True,
        order: Order = "usage",
        max_time: float | None = None,
        max_itemset_size: int | None = None,
        min_support: int = 1,
        min_count: int = 1,
        width: int = WIDTH,
        effort: int | None = None,
        threads: int | None = None,
        seed: int = 0,
        schema: Schema | str | os.PathLike[str] | None = None,
        engine: str | None = None,
        workers: int | None = None,
        address: str | None = None,
    ) -> None:
        self.pruning = pruning
        self.order = order
        self.max_time = max_time
        self.max_itemset_size = max_itemset_size
        self.min_support = min_support
        self.min_count = min_count
        self.width = width
        self.effort = effort
        self.threads = threads
        self.seed = seed
        self.schema = schema
        self.engine = engine
        self.workers = workers
        self.address = address

    def fit(self, X: Any, y: Any = None) -> Slim:  # noqa: ARG002, N803  # scikit-learn's names
        """Mine the transactions; Ctrl-C ends the search early and keeps the best table so far."""
        schema = Schema.read(self.schema) if isinstance(self.schema, (str, os.PathLike)) else self.schema
        by = self._miner(schema)
        read_there = self.engine is not None and isinstance(X, (str, os.PathLike))
        data = X if read_there else convert(self, X, schema=schema)
        if read_there:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)  # of an earlier fit
        (mined,) = mine_for(self, data, besides={"schema", *_ELSEWHERE}, by=by)
        self._fitted(mined.table, mined.table.encoding or ITEMS)
        self.converged_ = mined.converged
        self.candidates_ = mined.tally.candidates
        self.n_iter_ = mined.tally.accepted
        return self

    def _miner(self, schema: Schema | None) -> Callable[..., Mined]:
        """Return what mines: this process, or the engine."""
        if self.engine is None:
            for name in _ELSEWHERE:
                if getattr(self, name) is not None:
                    raise ParameterError(f"{name} is for an engine only; leave it out, or give engine='ray'")
            return mine
        if self.engine not in ENGINES:
            raise ParameterError(f"there is no engine {self.engine!r}; choose one of {', '.join(ENGINES)}, or None")
        if self.threads is not None:
            raise ParameterError("threads is not for an engine, whose workers have one each; leave it out")
        found: Callable[..., Mined] = resolve_name(ENGINES[self.engine])
        return partial(found, workers=self.workers, address=self.address, reading={"schema": schema})
