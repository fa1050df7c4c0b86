"""`Slim`, the scikit-learn estimator.

    slim = Slim().fit([["bread", "milk"], ["bread", "milk", "jam"], ["jam"]])
    slim.codetable_          # itemset, usage, support, code_length as a DataFrame
    slim.code_lengths(X)     # bits of each transaction: the more bits, the more unusual

A thin layer over `mine`; the methods that use the table are in `estimator.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fedslim.data.encoding import ITEMS
from fedslim.mdl.estimator import CodeTableEstimator, convert, mine_for
from fedslim.mdl.policy import WIDTH
from fedslim.schema import Schema

if TYPE_CHECKING:
    from fedslim.mdl.policy import Order


class Slim(CodeTableEstimator):
    """Find the itemsets that together describe the data best (SLIM: minimum description length).

    Args:
        pruning: whether to remove itemsets that no longer save bits, after each step.
        order: "usage" (usage at entry) or "support": the second criterion of the cover order.
        max_time: stop after this many seconds with the best table so far.
        max_itemset_size: the largest itemset to consider.
        min_support: the smallest support of an itemset to consider.
        min_count: the smallest count to show: rarer items are merged, and no itemset is used less often.
        width: how many candidates each step tries before it ranks again, 1 to 64; 1 is SLIM as published.
        effort: how hard to search, from 1 (one greedy search) to 8; a higher effort never ends worse. None is 1, or
            with `max_time` as much as fits into the time.
        threads: the number of threads; by default as many as help. The result does not depend on it.
        seed: for the random choices of efforts from 3 on.
        schema: what the columns of a table mean: a `fedslim.schema.Schema`, or the path of a `schema.toml`.

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

    def fit(self, X: Any, y: Any = None) -> Slim:  # noqa: ARG002, N803  # scikit-learn's names
        """Mine the transactions; Ctrl-C ends the search early and keeps the best table so far."""
        schema = Schema.read(self.schema) if isinstance(self.schema, (str, os.PathLike)) else self.schema
        database = convert(self, X, schema=schema)
        (mined,) = mine_for(self, database, besides="schema")
        self._fitted(mined.table, database.encoding or ITEMS)
        self.converged_ = mined.converged
        self.candidates_ = mined.tally.candidates
        self.n_iter_ = mined.tally.accepted
        return self
