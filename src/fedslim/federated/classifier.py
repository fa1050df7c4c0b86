"""`FedSlimClassifier`: `SlimClassifier` for data that several members hold: a federation for each class.

model = FedSlimClassifier().fit({"north": rows_a, "south": rows_b}, {"north": classes_a, "south": classes_b})
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from fedslim.data import TransactionDatabase, encode_together
from fedslim.errors import DataError
from fedslim.federated.estimator import members_of
from fedslim.federated.simulation import prepare, simulate
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.uses.classifier import ClassTables, classes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from fedslim.federated.simulation import Simulation


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
        self.prior, self.width, self.effort = prior, width, effort
        self.max_time, self.seed = max_time, seed

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
