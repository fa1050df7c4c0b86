"""The methods of an estimator with a code table: show it, cover with it, score with it.

`Slim` and `FedSlim` differ only in how they find the table.
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
from fedslim.format import as_html
from fedslim.mdl.covering import Covering

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.data import Encoding
    from fedslim.mdl.codetable import CodeTable, Compression

MATRIX = 2
"""The number of dimensions that `transform` returns."""


class CodeTableEstimator(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator whose `fit` ends with `_fitted`."""

    table_: CodeTable
    encoding_: Encoding

    def _fitted(self, table: CodeTable, encoding: Encoding) -> None:
        self.table_ = table
        self.encoding_ = encoding
        self.__dict__.pop("_covering", None)

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
        """Bits before and after, for data and model separately, and both ratios."""
        self._check()
        return self.table_.compression

    @cached_property
    def _covering(self) -> Covering:
        return Covering(self.table_)

    def _check(self) -> None:
        check_is_fitted(self, "table_")

    def _items(self, X: Any) -> TransactionDatabase:  # noqa: N803
        """Encode rows as in `fit`."""
        return encode(X, self.encoding_)[0]

    def _repr_html_(self) -> str:
        """Show the parameters, and the table once there is one."""
        from fedslim.mdl.notebook import styled, table_html  # noqa: PLC0415  # for notebooks only

        return styled(f"<p>{as_html(repr(self))}</p>", table_html(self.table_) if hasattr(self, "table_") else "")

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_covering"}

    def transform(self, X: Any) -> csr_array:  # noqa: N803
        """Return the covers: a sparse matrix with a row for each transaction and a column for each element, 1 if used.

        Columns are the itemsets in cover order, then every single item of the vocabulary.
        """
        self._check()
        ends, elements = self._covering.cover(self._items(X))
        shape = (len(ends), self._covering.n_elements)
        return csr_array((np.ones(len(elements), np.uint8), elements, np.concatenate(([0], ends))), shape=shape)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the columns of `transform`."""
        self._check()
        covering, vocabulary = self._covering, self.table_.vocabulary
        names = [" ".join(vocabulary[i] for i in covering.items_of(k)) for k in range(covering.n_elements)]
        return np.array(names, dtype=object)

    def reconstruct(self, covers: Any) -> TransactionDatabase:
        """Return exactly the transactions that `transform` turned into these covers."""
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
        """Return the bits of each transaction, seen or unseen: the more bits, the more unusual it is.

        Every element, and "unknown item", gets one more usage than it has, so that no length is infinite.
        """
        self._check()
        return self._covering.bits(self._items(X))
