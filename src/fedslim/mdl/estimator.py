"""The methods of an estimator with a code table: show it, cover with it, score with it.

`Slim` and `FedSlim` differ only in how they find the table. `convert` is how every estimator reads what it is given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from fedslim.data.coerce import encode_numbers, is_matrix
from fedslim.data.encoding import ITEMS
from fedslim.data.frames import is_dataframe
from fedslim.errors import MissingExtraError
from fedslim.format import as_html
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.mdl.mining import mine, prepare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.data import Encoding, TransactionDatabase
    from fedslim.data.encoding import TableSchema
    from fedslim.mdl.codetable import CodeTable, Compression
    from fedslim.mdl.mining import Mined


def convert(
    estimator: BaseEstimator,
    X: Any,  # noqa: N803  # scikit-learn's name
    encoding: Encoding | None = None,
    schema: TableSchema | None = None,
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
    return encode_numbers(X, encoding, schema)[0]


def mine_for(estimator: BaseEstimator, *databases: TransactionDatabase, besides: str) -> list[Mined]:
    """Mine databases with the parameters of an estimator, except for one; Ctrl-C keeps the best tables so far."""
    how = {name: value for name, value in estimator.get_params().items() if name != besides}
    prepare()
    stop = Stop()
    with stopping_on_interrupt(stop):
        return [mine(database, **how, stop=stop) for database in databases]


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
        from fedslim.mdl.notebook import styled, table_html  # noqa: PLC0415  # for notebooks only

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

        Spelled are the items by their frequency in fitting, one occurrence added to each. On held-out rows this
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
