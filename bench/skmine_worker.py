"""Run scikit-mine's SLIM once, in the peers' environment.

    python bench/skmine_worker.py mine '{"path": "chess.dat.gz", "seconds": 120, "marks": [10, 30, 60]}'

`seconds` and `marks` are CPU time, so that it gets its full time on a busy machine too. It checks its `max_time` after
each accepted itemset, and the run ends there.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wire import Clock, Teller, Values, serve

if TYPE_CHECKING:
    from collections.abc import Sequence


def mine(path: str, seconds: float, marks: Sequence[float]) -> Values:
    """Mine one FIMI file; return the code tables at the marks and at the end, with the time of each."""
    importing = Clock()
    from skmine.itemsets import SLIM  # noqa: PLC0415  # the import is measured

    imported = importing.read()
    with gzip.open(path, "rt") if path.endswith(".gz") else Path(path).open() as lines:
        transactions = [[int(item) for item in line.split()] for line in lines]

    clock, tell = Clock(), Teller()
    waiting, snapshots = sorted(marks), []

    class Watched(SLIM):  # type: ignore[misc]  # untyped
        """Records the time of each accepted itemset."""

        def update(self, *args: Any, **values: Any) -> None:
            super().update(*args, **values)
            now = clock.read()
            self.accepted += 1
            self.reached_ = now
            tell(f"{self.accepted} accepted, {now['cpu']:.0f} s of {seconds:.0f} s CPU")
            if waiting and now["cpu"] >= waiting[0]:
                waiting[:] = [mark for mark in waiting if mark > now["cpu"]]
                snapshots.append({**now, "table": self.usages()})
            if now["cpu"] >= seconds:
                self.stopped = True
                self.max_time = 0

        def usages(self) -> list[tuple[list[int], int]]:
            return [(sorted(items), len(tids)) for items, tids in self.codetable_.items() if tids]

    slim = Watched(pruning=True)
    slim.accepted, slim.stopped = 0, False
    clock.restart()
    slim.fit(transactions)
    ended = clock.read()
    snapshots.append({**slim.reached_, "table": slim.usages()})
    return {
        "snapshots": snapshots,
        "ended": ended,
        "converged": not slim.stopped,
        "accepted": slim.accepted,
        "import": imported,
    }


def classify(path: str) -> Values:
    """Return the accuracy of its classifier over the folds in a file, in percent; report it after each fold."""
    import pandas as pd  # noqa: PLC0415
    from skmine.itemsets.slim_classifier import SlimClassifier  # noqa: PLC0415

    given = json.loads(Path(path).read_text())
    rows, labels = pd.Series(given["rows"]), pd.Series(given["labels"])
    items = sorted({item for row in given["rows"] for item in row})
    right, seen, tell = 0, 0, Teller()
    for number, (train, test) in enumerate(given["folds"], start=1):
        model = SlimClassifier(items=items)
        model.fit(rows.iloc[train], labels.iloc[train])
        right += int((model.predict(rows.iloc[test]) == labels.iloc[test].to_numpy()).sum())
        seen += len(test)
        tell(f"{100 * right / seen:.1f}: {number} of {len(given['folds'])} folds")
    return {"percent": 100 * right / len(labels)}


if __name__ == "__main__":
    serve({"mine": mine, "classify": classify})
