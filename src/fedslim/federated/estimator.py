"""`FedSlim`: `Slim` for data that several members hold.

fed = FedSlim(variant="x").fit([rows_of_a, rows_of_b])
fed.codetable_           # with variant "x" the same as that of Slim on all rows
fed.communication_       # bytes and rounds between the members and the server
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedslim.data import ItemSecret, TransactionDatabase, encode_together
from fedslim.data.frames import dataframe_table, is_dataframe
from fedslim.errors import DataError
from fedslim.federated.preparing import prepare_together
from fedslim.federated.simulation import entropy_of, prepare, simulate
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.mdl.estimator import CodeTableEstimator
from fedslim.schema import Schema, conform, conform_file

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from fedslim.data.encoding import Encoding
    from fedslim.federated.simulation import Simulation
    from fedslim.network.traffic import Communication


class FedSlim(CodeTableEstimator):
    """Find the itemsets that together best describe the data of several members, by a federation in this process.

    This class sees all rows, so it determines the items and the bins of numeric columns from all of them; members on a
    network have to agree on both beforehand. `transform`, `code_lengths` and the other methods that use the table
    take rows as `Slim` does.

    Args:
        variant: "x" (exact: the table of all rows in one place), "sa" or "so" (as in the paper, a table per member).
        max_time: stop after this many seconds with the best table so far.
        max_rounds: stop after about this many rounds with the best table so far.
        min_count: the smallest count to publish, for "x": rarer items are merged, and rarer itemsets left out.
        min_members_with: how many members must have an itemset for it to be published, for "x".
        width: how many candidates each step tries, for "x": 1 to 64, by default 8; 1 is SLIM as published.
        effort: how hard to search, for "x": 1 to 8, as for `Slim`; a higher one takes many more rounds.
        masking: whether answers are masked; turn it off only to measure what masking costs.
        seed: the seed for keys and masks; the table depends on it only from effort 3 on.
        schema: what the columns of the members' tables mean: a `fedslim.schema.Schema`, or the path of a `schema.toml`.
            The members then agree on cuts and items in a preparation, as in a real federation. Items are numbered by
            keyed ids, so the table may differ from that of `Slim` where two candidates are equally good.

    Attributes:
        table_: the `CodeTable`.
        encoding_: how the rows were converted to items.
        codetable_: the table as a DataFrame, or as a list of dictionaries if neither pandas nor polars is installed.
        compression_: bits before and after, for data and model, and both ratios.
        communication_: bytes by kind and direction, and rounds.
        simulation_: the full `Simulation`.
        converged_: whether the search ended by itself.
        candidates_: the number of candidates tried.
        n_iter_: the number of itemsets accepted.
        n_members_: the number of members.

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
        width: int | None = None,
        effort: int = 1,
        masking: bool = True,
        seed: int = 0,
        schema: Schema | str | os.PathLike[str] | None = None,
    ) -> None:
        self.variant = variant
        self.max_time = max_time
        self.max_rounds = max_rounds
        self.min_count = min_count
        self.min_members_with = min_members_with
        self.width = width
        self.effort = effort
        self.masking = masking
        self.seed = seed
        self.schema = schema

    def fit(self, X: Sequence[Any] | Mapping[str, Any], y: Any = None) -> FedSlim:  # noqa: ARG002, N803  # scikit-learn's
        """Mine the members' transactions; Ctrl-C ends the search early and keeps the best table so far.

        Args:
            X: A list with the data of each member, or a mapping from member names to their data. A member's data can
                be anything that `Slim.fit` takes, of the same kind for all members.
            y: Ignored.
        """
        names, members = members_of(X)
        how = self.get_params()
        schema = how.pop("schema")
        given: Mapping[str, TransactionDatabase] | list[TransactionDatabase]
        if schema is None:
            databases, encoding = encode_together(members, names)
            given = databases if names is None else dict(zip(names, databases, strict=True))
        else:
            given, encoding = self._prepared(schema, names, members)
        prepare(self.variant)
        stop = Stop()
        with stopping_on_interrupt(stop):
            simulation = simulate(given, **how, stop=stop)
        self._fitted(simulation.table, encoding)
        self.simulation_ = simulation
        self.converged_ = simulation.converged
        self.candidates_ = simulation.tally.candidates
        self.n_iter_ = simulation.tally.accepted
        self.n_members_ = len(simulation.databases)
        return self

    def _prepared(
        self, schema: Schema | str | os.PathLike[str], names: list[str] | None, members: list[Any]
    ) -> tuple[Mapping[str, TransactionDatabase], Encoding]:
        """Let the members agree on items in a preparation."""
        read = schema if isinstance(schema, Schema) else Schema.read(schema)
        names = names or [f"member-{number:0{len(str(len(members)))}}" for number in range(1, len(members) + 1)]
        sites = {}
        for name, data in zip(names, members, strict=True):
            framed = conform(read, dataframe_table(data, name=name)) if is_dataframe(data) else None
            sites[name] = framed or conform_file(read, data)
        entropy = entropy_of(self.seed)
        made = prepare_together(read, sites, ItemSecret.from_random(entropy(32)), entropy, masking=self.masking)
        return made.databases, made.encoding

    def fit_transform(self, X: Sequence[Any] | Mapping[str, Any], y: Any = None) -> Any:  # noqa: ARG002, N803
        """Fit, then cover the rows of all members, one member after the other."""
        self.fit(X)
        return self._covers(TransactionDatabase.joined(list(self.simulation_.databases.values())))

    @property
    def communication_(self) -> Communication:
        """Bytes by kind and direction, and rounds."""
        self._check()
        return self.simulation_.communication


def members_of(X: Any) -> tuple[list[str] | None, list[Any]]:  # noqa: N803  # scikit-learn's name
    """Return the members' names, if they have any, and their data."""
    if isinstance(X, Mapping):
        return list(X), list(X.values())
    if isinstance(X, (list, tuple)):
        return None, list(X)
    msg = (
        f"the members' data are of type {type(X).__name__}; give a list with the data of each member, "
        "or a dictionary by member name"
    )
    raise DataError(msg)
