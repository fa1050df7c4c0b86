"""`--classes`: a classifier from a federation, simulated or deployed; one run for each class over the same members.

This loads the engine, and scikit-learn if there are classes: the commands import it when they run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.cli.console.options import CHOICES, Reading
from fedslim.cli.console.output import grid, print_result, say, shown_label
from fedslim.cli.console.progress import Reporter, compile_with_progress, traffic_too
from fedslim.cli.console.saving import check_place
from fedslim.data import TransactionDatabase
from fedslim.errors import ParameterError
from fedslim.federated.dividing import divide
from fedslim.federated.folder import PREPARATION, keep_preparation
from fedslim.federated.records import simulation_record
from fedslim.federated.simulation import prepare
from fedslim.format import count, size
from fedslim.mdl import CodeTable
from fedslim.mdl.driver import Stop, stopping_on_interrupt
from fedslim.protocol.preparation import Preparation
from fedslim.protocol.prepare import Site
from fedslim.report.view import ReportView, view
from fedslim.schema import Schema
from fedslim.settings.federation_file import FederationFile
from fedslim.uses.cells import labelled, labels_in

Members = Mapping[str, Any]

CLASSIFIER = "classifier.json"


def check_classes(left_out: dict[str, bool], out: Path | None, data: str) -> None:
    """Check what does not go with --classes: options by name, and whether they were given."""
    if (given := next((name for name, is_given in left_out.items() if is_given), None)) is not None:
        raise ParameterError(f"--classes does not go with {given}; leave one of them out")
    if out is not None:
        check_place(out / CLASSIFIER, besides=data)


def simulate_classifier(
    reading: Reading, column: str, report: Reporter, members: Members, how: dict[str, Any], **shown: Any
) -> Callable[[], ReportView]:
    """Run a federation for each class, compare with all rows in one place, save and show it; return what reports it."""
    # `members` says how to divide the rows, or has those of members with a file each, who have prepared them.
    from fedslim.federated.estimator import simulate_classes
    from fedslim.uses.classifier import SlimClassifier

    with report.stage(f"reading {shown_label(reading.source)}"):
        database, y, own = _rows_of_members(reading, column, members, shown["more"])
    compile_with_progress(report, prepare)

    @contextmanager
    def each(label: str) -> Iterator[dict[str, Any]]:
        """Show the progress of one class, which Ctrl-C or the live page can stop."""
        stop = Stop(how["max_time"])
        doing = f"x over {count(len(own), 'member')}, class {shown_label(label)} of"
        with stopping_on_interrupt(stop), report.mining(reading.source, stop, doing) as show:
            yield {"stop": stop, "on_progress": show and traffic_too(show)}

    parts = {name: database.take(rows) for name, rows in own.items()}
    classes, runs = simulate_classes(parts, [y[rows].tolist() for rows in own.values()], each, **how)
    model = SlimClassifier.of(classes, [run.table for run in runs])
    equal = None
    if shown["compare"]:
        with report.stage("mining in one place, for comparison"):
            equal = SlimClassifier(**how).fit(database, y).tables_ == model.tables_
    if (out := shown["out"]) is not None:
        model.save(out / CLASSIFIER)
    named, correct = dict(zip(classes.tolist(), runs, strict=True)), float(model.score(database, y))
    records = [
        {
            "class": label,
            "transactions": run.table.transactions,
            "itemsets": len(run.table),
            "L_percent": run.table.compression.L_percent,
            "rounds": run.communication.rounds,
            "bytes": run.communication.bytes_total,
        }
        for label, run in named.items()
    ]
    lines = [f"{100 * correct:.1f}% of the rows that the tables were mined from are assigned to their class"]
    if equal is not None:
        lines.append(f"{'equal' if equal else 'NOT equal'} to the classifier of all rows in one place")
    if out is not None:
        lines.append(f"saved as {out / CLASSIFIER}; use it with SlimClassifier.load")
    rows = [
        (transactions, itemsets, f"{percent:.2f}", rounds, size(sent), shown_label(label))
        for label, transactions, itemsets, percent, rounds, sent in (one.values() for one in records)
    ]
    print_result(
        shown["json"],
        {"data": reading.source, "classes": records, "equal": equal, "accuracy_on_these_rows": correct},
        grid(("rows", "itemsets", "L%", "rounds", "sent", "class"), rows, right=5),
        "\n".join(lines),
    )
    data, command = reading.source, shown["command"]
    made = [simulation_record(run, None, data=f"{data}, {label}", command=command) for label, run in named.items()]
    return lambda: view(made, title=data)


def _rows_of_members(
    reading: Reading, column: str, members: Members, more: list[str]
) -> tuple[TransactionDatabase, NDArray[Any], dict[str, NDArray[Any]]]:
    """Return all rows, the class of each, and which are those of each member."""
    if reading.schema is None:
        database, labels = labelled(reading.rows(), column, **reading.given(CHOICES))
    else:
        files = [replace(reading, source=source) for source in (reading.source, *more)]
        labels = [label for file in files for label in class_labels(file, column)]
        database = TransactionDatabase.joined(list(members.values())) if more else reading.load()
    if more:
        ends = np.cumsum([len(rows) for rows in members.values()])
        return database, np.array(labels), dict(zip(members, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    partition = divide(database, **members)
    own = [np.flatnonzero(partition.assignment == member) for member in range(len(partition.parts))]
    return database, np.array(labels), {str(number): rows for number, rows in enumerate(own, 1)}


def class_labels(reading: Reading, column: str) -> list[str]:
    """Return the class of each row of a table with a schema, which must make no items of the classes."""
    schema, table = Schema.read(reading.schema or ""), reading.read_columns()
    if table is None or schema.is_long:
        raise ParameterError("--classes with --schema needs a table with a row for each transaction, not for each item")
    if any(one.found == column and one.kind != "ignore" for one in reading.conformed(schema).report):
        msg = f"{reading.schema}: the schema makes items of the classes in {column!r}; let the column be of kind ignore"
        raise ParameterError(msg)
    return labels_in(table, column)


# -- over the network --------------------------------------------------------------------------------------------------


def class_runs(
    federation: FederationFile, classes: str | None, out: Path
) -> list[tuple[str | None, FederationFile, Path]]:
    """Return the runs of a command: the class of each, if any, its federation and its folder."""
    if classes is None:
        return [(None, federation, out)]
    labels = classes.split(",")
    if len(set(labels)) != len(labels) or not all(labels):
        raise ParameterError(f"--classes {classes}: give different classes, separated by commas")
    # The class is in the name of the federation, and so in the digest that members sign: nobody mixes up two runs.
    return [
        (label, replace(federation, federation=replace(federation.federation, name=label)), out / f"class-{number}")
        for number, label in enumerate(labels, 1)
    ]


def rows_of_class(
    reading: Reading, read: TransactionDatabase | Site, classes: str, column: str | None, label: str
) -> TransactionDatabase | Site:
    """Return a member's rows of one class; with a schema, all rows for the preparation, and those for the search."""
    if not isinstance(read, Site):
        rows = read if column is None else reading.rows()
        database, labels = labelled(rows, column or classes, **reading.given(CHOICES))
    elif column is None:
        raise ParameterError("--classes with --schema needs --class-column: name the column that has the classes")
    else:
        labels = class_labels(reading, column)
    if (odd := next((one for one in labels if one not in classes.split(",")), None)) is not None:
        msg = f"{reading.source}: a row has the class {odd!r}, which is not in --classes; add it at all members"
        raise ParameterError(msg)
    own = [t for t, one in enumerate(labels) if one == label]
    return replace(read, searched=own) if isinstance(read, Site) else database.take(own)


def share_preparation(federation: FederationFile, first: Path, out: Path) -> None:
    """Let the run of a class start from the preparation of the first one: it is about the rows of all classes."""
    if federation.prepares and out != first and (first / PREPARATION).exists() and not (out / PREPARATION).exists():
        keep_preparation(Preparation.read(first / PREPARATION), federation, out)


def save_classifier(tables: list[tuple[str | None, Path]], out: Path) -> None:
    """Save the tables that a member has received as a classifier, unless its policy keeps none."""
    from fedslim.uses.classifier import SlimClassifier

    if all(path.exists() for _, path in tables):
        ordered = sorted(tables, key=lambda one: one[0] or "")
        model = SlimClassifier.of([label for label, _ in ordered], [CodeTable.load(path) for _, path in ordered])
        model.save(out / CLASSIFIER, private=True)
        say(f"the classifier is saved as {out / CLASSIFIER}; use it with SlimClassifier.load")
