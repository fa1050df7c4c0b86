"""`FedSlim` and `FedSlimClassifier`: `Slim` and `SlimClassifier` for data that several members hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from fedslim.data import ItemSecret, TransactionDatabase, encode_together
from fedslim.data.encoding import Encoding
from fedslim.data.frames import dataframe_table, is_dataframe
from fedslim.errors import DataError
from fedslim.federated.simulation import Simulation, entropy_of, prepare, prepare_together, simulate
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.mdl.estimator import CodeTableEstimator
from fedslim.network.traffic import Communication
from fedslim.schema import Schema, conform, conform_file
from fedslim.uses.classifier import ClassTables, classes_of


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
        self.variant, self.max_time, self.max_rounds = variant, max_time, max_rounds
        self.min_count, self.min_members_with, self.width, self.effort = min_count, min_members_with, width, effort
        self.masking, self.seed, self.schema = masking, seed, schema

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
    raise DataError(
        f"the members' data are of type {type(X).__name__}; give a list with the data of each member, "
        "or a dictionary by member name"
    )


class FedSlimClassifier(ClassTables):
    """Classify rows with a code table for each class that several members find together, in this process.

    The members run a federation (variant `x`) for each class, over their rows of this class and the vocabulary of all
    rows. So the classifier is that of `SlimClassifier` for all rows in one place, with the same settings.

    Args:
        prior: see `SlimClassifier`.
        width: see `SlimClassifier`.
        effort: see `SlimClassifier`.
        max_time: see `SlimClassifier`.
        seed: see `SlimClassifier`; also for keys and masks.

    Attributes:
        classes_: the classes, sorted.
        tables_: the `CodeTable` of each class.
        simulations_: the `Simulation` of each class.

    Examples:
        >>> from fedslim.federated import FedSlimClassifier
        >>> north, south = [["bread", "milk"], ["tea"]] * 9, [["bread", "milk", "jam"], ["tea", "jam"]] * 9
        >>> model = FedSlimClassifier().fit([north, south], [["morning", "evening"] * 9] * 2)
        >>> model.predict([["milk", "bread"]]).tolist()
        ['morning']
    """

    simulations_: tuple[Simulation, ...]

    def __init__(  # scikit-learn's flat parameters
        self, prior: bool = True, width: int = 1, effort: int = 1, max_time: float | None = None, seed: int = 0
    ) -> None:
        self.prior, self.width, self.effort, self.max_time, self.seed = prior, width, effort, max_time, seed

    def fit(self, X: Sequence[Any] | Mapping[str, Any], y: Sequence[Any] | Mapping[str, Any]) -> FedSlimClassifier:  # noqa: N803
        """Find the table of each class with all members; `y` has the classes of each member's rows, as `X` the rows."""
        names, members = members_of(X)
        labels = members_of(y)[1] if names is None or not hasattr(y, "keys") else [y[name] for name in names]  # type: ignore[call-overload]
        databases, _ = encode_together(members, names, long=False)
        if len(labels) != len(databases):
            msg = f"there are {len(databases)} members, but classes of {len(labels)}; give the classes of each member"
            raise DataError(msg)
        named = dict(zip(names or map(str, range(1, len(databases) + 1)), databases, strict=True))
        how = {name: value for name, value in self.get_params().items() if name != "prior"}
        prepare()
        stop = Stop()
        with stopping_on_interrupt(stop):
            classes, self.simulations_ = simulate_classes(named, labels, **how, stop=stop)
        self._fitted(classes, [simulation.table for simulation in self.simulations_])
        return self


def simulate_classes(
    databases: Mapping[str, TransactionDatabase],
    labels: Sequence[Sequence[Any]],
    each: Callable[[Any], AbstractContextManager[dict[str, Any]]] = lambda _: nullcontext({}),
    **how: Any,
) -> tuple[Any, tuple[Simulation, ...]]:
    """Return the classes, sorted, and the run of a federation for each; `labels` has the classes of each member's rows.

    Every member takes part in every run, also without rows of the class: who has rows of it stays hidden. `each` is
    entered for the run of each class, and yields further options of it.
    """
    whole = [label for own in labels for label in own]
    classes, _ = classes_of(whole, sum(map(len, databases.values())))
    runs = []
    for one in classes:
        parts = {
            name: database.take(np.flatnonzero(np.asarray(own) == one), name=database.name)
            for (name, database), own in zip(databases.items(), labels, strict=True)
        }
        with each(one) as more:
            runs.append(simulate(parts, **how, **more))
    return classes, tuple(runs)
