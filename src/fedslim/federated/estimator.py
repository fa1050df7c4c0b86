"""`FedSlim`: `Slim` for data that several members hold.

fed = FedSlim(variant="x").fit([rows_of_a, rows_of_b])
fed.codetable_           # with variant "x" the same as that of Slim on all rows
fed.communication_       # what the members and the server had to say for it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scipy.sparse import vstack

from fedslim.data import encode_together
from fedslim.errors import DataError
from fedslim.federated.simulation import prepare, simulate
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.mdl.estimator import CodeTableEstimator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy.sparse import csr_array

    from fedslim.federated.simulation import Simulation
    from fedslim.network.traffic import Communication


class FedSlim(CodeTableEstimator):
    """Find the itemsets that together describe the data of several members best, by a federation in this process.

    Items, and where columns of numbers are cut, are those that all rows in one place would have: this class sees all
    rows. Members on a network have to agree on both beforehand. `transform`, `score_samples` and all else that needs
    a table take rows as `Slim` does.

    Args:
        variant: "x" (exact: the table of all rows in one place), "sa" or "so" (the paper's, a table for each member).
        max_time: stop after so many seconds with the best table so far.
        max_rounds: stop after about so many rounds with the best table so far.
        min_count: the smallest count to show, for "x": rarer items are merged, and no itemset is used less often.
        min_members_with: how many members must have an itemset for it to be shown, for "x".
        masking: whether sums are masked; leave them unmasked only to measure what masks cost.
        seed: for keys and masks; the table does not depend on it.

    Attributes:
        table_: the `CodeTable`.
        encoding_: how the rows became items.
        codetable_: the same as a DataFrame (a list of dictionaries where neither pandas nor polars is installed).
        compression_: bits before and after, data and model apart, and both ratios.
        communication_: bytes by kind and direction, and rounds.
        simulation_: the whole result.
        converged_: whether the search came to its end by itself.
        candidates_: how many candidates were tried.
        n_iter_: how many itemsets were accepted.
        n_members_: how many members there were.

    Examples:
        >>> from fedslim import FedSlim, Slim
        >>> north = [["bread", "milk", "jam"], ["bread", "milk"]] * 8
        >>> south = [["bread", "milk"], ["jam", "tea"]] * 8
        >>> fed = FedSlim(variant="x").fit({"north": north, "south": south})
        >>> fed.table_ == Slim().fit(north + south).table_
        True
        >>> fed.communication_.rounds > 0
        True
    """

    simulation_: Simulation

    def __init__(  # noqa: PLR0913, PLR0917  # scikit-learn's flat parameters
        self,
        variant: str = "x",
        max_time: float | None = None,
        max_rounds: int | None = None,
        min_count: int = 1,
        min_members_with: int = 1,
        masking: bool = True,
        seed: int = 0,
    ) -> None:
        self.variant = variant
        self.max_time = max_time
        self.max_rounds = max_rounds
        self.min_count = min_count
        self.min_members_with = min_members_with
        self.masking = masking
        self.seed = seed

    def fit(self, X: Sequence[Any] | Mapping[str, Any], y: Any = None) -> FedSlim:  # noqa: ARG002, N803  # scikit-learn's
        """Mine the members' transactions; Ctrl-C ends the search early and keeps the best table so far.

        Args:
            X: The data of each member, in a list or by name. A member's data are whatever `Slim.fit` takes, of the same
                kind for all.
            y: Not used.
        """
        names, members = _members(X)
        databases, encoding = encode_together(members, names)
        prepare(self.variant)
        stop = Stop()
        with stopping_on_interrupt(stop):
            simulation = simulate(
                databases if names is None else dict(zip(names, databases, strict=True)),
                **self.get_params(),
                stop=stop,
            )
        self._fitted(simulation.table, encoding)
        self.simulation_ = simulation
        self.converged_ = simulation.converged
        self.candidates_ = simulation.tally.candidates
        self.n_iter_ = simulation.tally.accepted
        self.n_members_ = len(simulation.databases)
        return self

    def fit_transform(self, X: Sequence[Any] | Mapping[str, Any], y: Any = None) -> csr_array:  # noqa: ARG002, N803
        """Fit, and cover the rows of all members, one member after the other."""
        self.fit(X)
        return vstack([self.transform(database) for database in self.simulation_.databases.values()], format="csr")

    @property
    def communication_(self) -> Communication:
        """Bytes by kind and direction, and rounds."""
        self._check()
        return self.simulation_.communication


def _members(X: Any) -> tuple[list[str] | None, list[Any]]:  # noqa: N803  # scikit-learn's name
    """The members' names, where they have any, and their data."""
    if isinstance(X, Mapping):
        return list(X), list(X.values())
    if isinstance(X, (list, tuple)):
        return None, list(X)
    msg = (
        f"the members' data came as {type(X).__name__}; give a list with the data of each member, "
        "or a dictionary of them by name"
    )
    raise DataError(msg)
