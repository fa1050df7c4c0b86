"""`Slim`, the scikit-learn estimator.

    slim = Slim().fit([["bread", "milk"], ["bread", "milk", "jam"], ["jam"]])
    slim.codetable_          # itemset, usage, support, code_length as a DataFrame
    slim.score_samples(X)    # bits for each transaction: many bits, unusual transaction

A thin coat over `mine` and `Covering`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fedslim.data import TransactionDatabase, encode
from fedslim.errors import DataError, MissingExtraError
from fedslim.mdl.covering import Covering
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.mdl.mining import mine, prepare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.mdl.codetable import Compression
    from fedslim.mdl.search import Order


MATRIX = 2
"""Dimensions of what transform returns."""


class Slim(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Find the itemsets that together describe the data best (SLIM: minimum description length).

    Args:
        pruning: remove itemsets that stopped paying after each step.
        order: "usage" (usage at entry) or "support": the second criterion of the cover order.
        max_time: stop after so many seconds with the best table so far.
        max_itemset_size: the largest itemset to consider.
        min_support: the smallest support of an itemset to consider.
        effort: 1 is the plain greedy; higher efforts look harder and never end worse.
        threads: how many threads to use; by default as many as pay. The result does not depend on it.

    Attributes:
        table_: the `CodeTable`.
        encoding_: how the rows became items; `transform` and `score_samples` make items of new rows in the same way.
        codetable_: the same as a DataFrame (a list of dictionaries where neither pandas nor polars is installed).
        compression_: bits before and after, data and model apart, and both ratios.
        converged_: whether the search came to its end by itself.
        candidates_: how many candidates were tried.
        n_iter_: how many itemsets were accepted.
    """

    def __init__(
        self,
        pruning: bool = True,
        order: Order = "usage",
        max_time: float | None = None,
        max_itemset_size: int | None = None,
        min_support: int = 1,
        effort: int = 1,
        threads: int | None = None,
    ) -> None:
        self.pruning = pruning
        self.order = order
        self.max_time = max_time
        self.max_itemset_size = max_itemset_size
        self.min_support = min_support
        self.effort = effort
        self.threads = threads

    def fit(self, X: Any, y: Any = None) -> Slim:  # noqa: ARG002, N803  # scikit-learn's names
        """Mine the transactions; Ctrl-C ends the search early and keeps the best table so far."""
        database, encoding = encode(X)
        prepare()
        stop = Stop()
        with stopping_on_interrupt(stop):
            mined = mine(database, **self.get_params(), stop=stop)
        self.table_ = mined.table
        self.encoding_ = encoding
        self.converged_ = mined.converged
        self.candidates_ = mined.tally.candidates
        self.n_iter_ = mined.tally.accepted
        self.__dict__.pop("_covering", None)
        return self

    @property
    def codetable_(self) -> Any:
        """The code table as a DataFrame, or as a list of dictionaries."""
        self._check()
        try:
            return self.table_.to_frame()
        except MissingExtraError:
            return self.table_.records()

    @property
    def compression_(self) -> Compression:
        """Bits before and after, data and model apart, and both ratios."""
        self._check()
        return self.table_.compression

    @cached_property
    def _covering(self) -> Covering:
        return Covering(self.table_)

    def _check(self) -> None:
        check_is_fitted(self, "table_")

    def _items(self, X: Any) -> TransactionDatabase:  # noqa: N803
        """Rows as the items that they would have been in fitting."""
        return encode(X, self.encoding_)[0]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_covering"}

    def transform(self, X: Any) -> csr_array:  # noqa: N803
        """The covers: a sparse matrix with a row for each transaction and a column for each element, 1 where used.

        Columns are the itemsets in cover order, then every single item of the vocabulary.
        """
        self._check()
        ends, elements = self._covering.cover(self._items(X))
        shape = (len(ends), self._covering.n_elements)
        return csr_array((np.ones(len(elements), np.uint8), elements, np.concatenate(([0], ends))), shape=shape)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """The names of the columns of `transform`."""
        self._check()
        covering, vocabulary = self._covering, self.table_.vocabulary
        names = [" ".join(vocabulary[i] for i in covering.items_of(k)) for k in range(covering.n_elements)]
        return np.array(names, dtype=object)

    def reconstruct(self, covers: Any) -> TransactionDatabase:
        """The transactions that `transform` turned into these covers, exactly."""
        self._check()
        if not issparse(covers) or covers.ndim != MATRIX or covers.shape[1] != self._covering.n_elements:
            msg = (
                f"reconstruct takes what transform returns: a sparse matrix with {self._covering.n_elements} columns, "
                "one for each element of the code table"
            )
            raise DataError(msg)
        rows = csr_array(covers)
        rows.eliminate_zeros()
        sizes = [len(self._covering.items_of(k)) for k in range(self._covering.n_elements)]
        tids = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        lengths = np.array(sizes, np.int64)[rows.indices]
        items = [i for element in rows.indices for i in self._covering.items_of(element)]
        return TransactionDatabase.from_pairs(
            np.repeat(tids, lengths),
            np.array(items, np.int64),
            self.table_.vocabulary,
            transactions=rows.shape[0],
        )

    inverse_transform = reconstruct

    def score_samples(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The bits that each transaction takes, seen or unseen: the more, the more unusual it is.

        Every element, and "an item never seen", gets one usage more than it has, so that no length is infinite.
        """
        self._check()
        return self._covering.bits(self._items(X))
