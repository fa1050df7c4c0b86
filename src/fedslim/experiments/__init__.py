"""The experiments room: the paper's tables as declarations, what runs them, and where their records are kept.

    experiment = EXPERIMENTS["iid"]
    cells = experiment.cells(resolve(experiment.datasets).names)
    store = Store("results")
    Runner(store).run(cells, jobs=2)
    table = tabulate(experiment, cells, store)

A cell is one run: data, variant, members, how the data are dealt out, seed. Equal cells of two experiments are one
record. Formulas are in `metrics`; here they are only asked for.
"""

from __future__ import annotations

from fedslim.experiments.declarations import EXPERIMENTS, Cell, Experiment, Setting, resolve
from fedslim.experiments.store import Store

__all__ = ["EXPERIMENTS", "Cell", "Experiment", "Setting", "Store", "resolve"]
