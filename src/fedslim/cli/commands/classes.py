"""`fedslim simulate --classes`: a classifier from a federation, one run for each class over the same members."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim.cli.console.output import grid
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, print_rich
from fedslim.cli.console.text import count, shown_label, size
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.cli.console.options import Reading
    from fedslim.cli.console.progress import Reporter

CLASSIFIER = "classifier.json"


def check_classes(left_out: dict[str, bool], out: Path | None, data: str) -> None:
    """Check what does not go with --classes: options by name, and whether they were given."""
    if (given := next((name for name, is_given in left_out.items() if is_given), None)) is not None:
        msg = f"--classes does not go with {given}; leave one of them out"
        raise ParameterError(msg)
    if out is not None:
        check_place(out / CLASSIFIER, besides=data)


def simulate_classifier(
    reading: Reading, column: str, report: Reporter, divided: dict[str, Any], how: dict[str, Any], **shown: Any
) -> None:
    """Divide the rows, run a federation for each class, compare with all rows in one place, save and show it."""
    import numpy as np

    from fedslim.federated.classifier import FedSlimClassifier
    from fedslim.federated.dividing import divide
    from fedslim.uses.cells import labelled
    from fedslim.uses.classifier import SlimClassifier

    out, compare, json = shown["out"], shown["compare"], shown["json"]
    with report.stage(f"reading {shown_label(reading.source)}"):
        database, labels = labelled(reading.source if Path(reading.source).is_file() else reading.load(), column)
    y = np.array(labels)
    partition = divide(database, **divided)
    own = [np.flatnonzero(partition.assignment == member) for member in range(len(partition.parts))]
    with report.stage(f"x over {count(len(own), 'member')}, once for each class"):
        model = FedSlimClassifier(**how).fit([database.take(rows) for rows in own], [y[rows] for rows in own])
    equal = None
    if compare:
        with report.stage("mining in one place, for comparison"):
            equal = SlimClassifier(**how).fit(database, y).tables_ == model.tables_
    if out is not None:
        model.save(out / CLASSIFIER)
    records = [
        {
            "class": label,
            "transactions": run.table.transactions,
            "itemsets": len(run.table),
            "L_percent": run.table.compression.L_percent,
            "rounds": run.communication.rounds,
            "bytes": run.communication.bytes_total,
        }
        for label, run in zip(model.classes_.tolist(), model.simulations_, strict=True)
    ]
    correct = float(model.score(database, y))
    if json:
        print_json({"data": reading.source, "classes": records, "equal": equal, "accuracy_on_these_rows": correct})
        return
    rows = [
        (f"{r['transactions']:,}", f"{r['itemsets']:,}", f"{r['L_percent']:.2f}", f"{r['rounds']:,}", size(r["bytes"]))
        for r in records
    ]
    named = [(*row, shown_label(r["class"])) for row, r in zip(rows, records, strict=True)]
    lines = [f"{100 * correct:.1f}% of these rows, which the tables were mined from, are given their class"]
    if equal is not None:
        lines.append(f"{'equal' if equal else 'NOT equal'} to the classifier of all rows in one place")
    if out is not None:
        lines.append(f"saved as {out / CLASSIFIER}; use it with SlimClassifier.load")
    print_rich(grid(("rows", "itemsets", "L%", "rounds", "sent", "class"), named, right=5), "\n".join(lines))
