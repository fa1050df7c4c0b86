"""`--classes`: a classifier from a federation, simulated or deployed; one run for each class over the same members."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedslim.cli.console.output import grid
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, print_rich, say
from fedslim.cli.console.text import count, shown_label, size
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.cli.console.options import Reading
    from fedslim.cli.console.progress import Reporter
    from fedslim.data import TransactionDatabase
    from fedslim.settings.federation_file import FederationFile

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
        tuple(
            map(
                str,
                (
                    *list(r.values())[1:3],
                    f"{r['L_percent']:.2f}",
                    r["rounds"],
                    size(r["bytes"]),
                    shown_label(r["class"]),
                ),
            )
        )
        for r in records
    ]
    lines = [f"{100 * correct:.1f}% of these rows, which the tables were mined from, are given their class"]
    if equal is not None:
        lines.append(f"{'equal' if equal else 'NOT equal'} to the classifier of all rows in one place")
    if out is not None:
        lines.append(f"saved as {out / CLASSIFIER}; use it with SlimClassifier.load")
    print_rich(grid(("rows", "itemsets", "L%", "rounds", "sent", "class"), rows, right=5), "\n".join(lines))


# -- over the network --------------------------------------------------------------------------------------------------


def class_runs(
    federation: FederationFile, classes: str | None, out: Path
) -> list[tuple[str | None, FederationFile, Path]]:
    """Return the runs of a command: the class of each, if any, its federation and its folder.

    The class is in the name of the federation, and so in the digest that members sign: nobody mixes up two runs.
    """
    if classes is None:
        return [(None, federation, out)]
    labels = classes.split(",")
    if len(set(labels)) != len(labels) or not all(labels):
        msg = f"--classes {classes}: give different classes, separated by commas"
        raise ParameterError(msg)
    return [
        (label, replace(federation, federation=replace(federation.federation, name=label)), out / f"class-{number}")
        for number, label in enumerate(labels, 1)
    ]


def rows_of_class(reading: Reading, read: Any, classes: str, column: str | None, label: str) -> TransactionDatabase:
    """Return a member's rows of one class, without the column or the items that say so."""
    from fedslim.data import TransactionDatabase
    from fedslim.uses.cells import labelled

    if not isinstance(read, TransactionDatabase):
        msg = "--classes does not go with --schema yet; give data whose items all members name alike"
        raise ParameterError(msg)
    database, labels = labelled(read if column is None else reading.source, column or classes)
    if (odd := next((one for one in labels if one not in classes.split(",")), None)) is not None:
        msg = f"{reading.source}: a row has the class {odd!r}, which is not in --classes; add it at all members"
        raise ParameterError(msg)
    return database.take([t for t, own in enumerate(labels) if own == label])


def save_classifier(tables: list[tuple[str | None, Path]], out: Path) -> None:
    """Save the tables that a member has received as a classifier, unless its policy keeps none."""
    from fedslim.mdl import CodeTable
    from fedslim.uses.classifier import SlimClassifier

    if all(path.exists() for _, path in tables):
        ordered = sorted(tables, key=lambda one: one[0] or "")
        model = SlimClassifier.of([label for label, _ in ordered], [CodeTable.load(path) for _, path in ordered])
        model.save(out / CLASSIFIER, private=True)
        say(f"the classifier is saved as {out / CLASSIFIER}; use it with SlimClassifier.load")
