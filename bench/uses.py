"""Measure what code tables are good for, beside scikit-learn on the same items, the same folds and the same rows.

    python bench/uses.py accuracy                     stratified ten-fold, SlimClassifier and others
    python bench/uses.py outliers                     planted rows, AUC beside an isolation forest
    python bench/uses.py differences                  planted differences, discoveries over 100 repetitions
    python bench/uses.py scoring                      `fedslim score` on ten million rows
    python bench/uses.py accuracy --sets chess,adult --widths 1,8 --efforts 1,2 --peer 600

Each part prints a Markdown table and saves it as bench/results/uses-PART.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import BernoulliNB
from sklearn.tree import DecisionTreeClassifier

from fedslim import SlimClassifier, SlimOutlierDetector
from fedslim.data import TransactionDatabase, encode_together, load, write_fimi
from fedslim.mdl import mine
from fedslim.uses import compare_data
from fedslim.uses.cells import labelled
from runner import HERE, ROOT, peer_python, set_up_peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Rows = list[dict[str, Any]]

CLASSES = {
    "mushroom": range(1, 3),
    "pendigits": range(80, 90),
    "letter": range(81, 107),
    "chess": range(1, 3),
    "ionosphere": range(156, 158),
    "adult": range(96, 98),
}
"""The class items of each set; that of chess is its first attribute, as in earlier measurements."""
FOLDS = 10
REPETITIONS = 100
PLANTED = 20
LARGE = 10_000_000


def one_hot(database: TransactionDatabase) -> csr_matrix:
    """Return the rows as a sparse 0/1 matrix."""
    ones = np.ones(database.occurrences, np.float32)
    return csr_matrix((ones, database.items, database.offsets), shape=(len(database), database.n_items))


# -- accuracy --------------------------------------------------------------------------------------------------------


def accuracy(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compare classifiers: percent of the rows of ten held-out folds; scikit-mine last, small sets first."""
    rows, sizes = [], {}
    for name in options.sets or CLASSES:
        database, y, folds = _folds(name, options.data)
        sizes[name] = len(y)
        flags = one_hot(database)
        row: dict[str, Any] = {"data": name}
        rows.append(row)
        for width, effort in itertools.product(options.widths, options.efforts):
            title = f"width {width}, effort {effort}"
            model = SlimClassifier(width=width, effort=effort)
            right, plain = 0, 0
            for train, test in folds:
                model.set_params(prior=True).fit(database.take(train), y[train])
                unseen = database.take(test)
                right += int((model.predict(unseen) == y[test]).sum())
                plain += int((model.set_params(prior=False).predict(unseen) == y[test]).sum())
            row |= {title: _percent(right, y), f"{title}, no prior": _percent(plain, y)}
            print(name, title, row[title], file=sys.stderr)
        others = {
            "naive Bayes": BernoulliNB(),
            "decision tree": DecisionTreeClassifier(random_state=0),
            "random forest": RandomForestClassifier(random_state=0),
        }
        for title, other in others.items():
            hits = (other.fit(flags[train], y[train]).predict(flags[test]) == y[test] for train, test in folds)
            row[title] = _percent(sum(int(hit.sum()) for hit in hits), y)
            print(name, title, row[title], file=sys.stderr)
        yield row
    for row in sorted(rows, key=lambda row: sizes[row["data"]]) if options.peer else ():
        row["scikit-mine"] = _peer(*_folds(row["data"], options.data), options.peer)
        print(row["data"], "scikit-mine", row["scikit-mine"], file=sys.stderr)
        yield row


def _folds(name: str, folder: str | Path | None) -> tuple[TransactionDatabase, NDArray[Any], list[Any]]:
    """Return the rows without their class items, the classes, and the rows to fit and to predict of each fold."""
    database, labels = labelled(load(name, folder=folder), ",".join(map(str, CLASSES[name])))
    y = np.array(labels)
    return database, y, list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y))


def _percent(right: int, y: Sequence[Any] | NDArray[Any]) -> float:
    return round(100 * right / len(y), 1)


def _peer(database: TransactionDatabase, y: NDArray[Any], folds: Sequence[Any], seconds: int) -> float | str:
    """Return the accuracy of scikit-mine's classifier, or how far it came in this much CPU time."""
    set_up_peer()
    rows = [database.item_ids(t).tolist() for t in range(len(database))]
    given = {"rows": rows, "labels": y.tolist(), "folds": [[one.tolist() for one in fold] for fold in folds]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(given, file)
        file.flush()
        command = [str(peer_python()), str(HERE / "skmine_worker.py"), "classify", json.dumps({"path": file.name})]
        limit = (seconds, seconds)
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),  # on a busy machine too
        )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode < 0:
        return f"{messages[-1]['progress'] if messages else 'no fold'} in {seconds} CPU s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    return round(float(messages[-1]["result"]["percent"]), 1)


# -- outliers --------------------------------------------------------------------------------------------------------


def outliers(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Find planted rows among real ones that were not mined; AUC for each kind of planted row."""
    for name in options.sets or ("encounters", *CLASSES):
        database = load(name, folder=options.data)
        random = np.random.default_rng(0)
        order = random.permutation(len(database))
        train, test = database.take(order[: len(order) * 2 // 3]), database.take(order[len(order) * 2 // 3 :])
        detector = SlimOutlierDetector().fit(train)
        forest = IsolationForest(random_state=0).fit(one_hot(train))
        normal = -detector.score_samples(test)
        spread = test.lengths.std()
        row: dict[str, Any] = {"data": name}
        row["correlation with length"] = round(float(np.corrcoef(normal, test.lengths)[0, 1]), 3) if spread else None
        row["of raw bits"] = (
            round(float(np.corrcoef(detector.code_lengths(test), test.lengths)[0, 1]), 3) if spread else None
        )
        usual = -forest.score_samples(one_hot(test))
        for kind, planted in _plant(test, random).items():
            truth = np.r_[np.zeros(len(test)), np.ones(len(planted))]
            odd, strange = -detector.score_samples(planted), -forest.score_samples(one_hot(planted))
            row[kind] = round(float(roc_auc_score(truth, np.r_[normal, odd])), 3)
            row[f"{kind}, forest"] = round(float(roc_auc_score(truth, np.r_[usual, strange])), 3)
        yield row


def _plant(database: TransactionDatabase, random: np.random.Generator, n: int = 200) -> dict[str, TransactionDatabase]:
    """Return spoilt rows: an item replaced by one that occurs elsewhere, an item removed, halves of two rows joined."""
    frequency = database.supports / database.supports.sum()
    spoilt: dict[str, list[list[int]]] = {"swapped": [], "deleted": [], "joined": []}
    for t, u in random.integers(len(database), size=(n, 2)).tolist():
        row, other = database.item_ids(t).tolist(), database.item_ids(u).tolist()
        if not row:
            continue
        gone = int(random.choice(row))
        left = [item for item in row if item != gone]
        rest = frequency.copy()
        rest[row] = 0
        spoilt["swapped"].append(sorted({*left, int(random.choice(len(rest), p=rest / rest.sum()))}))
        spoilt["deleted"].append(left)
        spoilt["joined"].append(sorted({*row[: len(row) // 2], *other[len(other) // 2 :]}))
    return {
        kind: TransactionDatabase.from_rows(
            np.array([len(row) for row in rows]), np.array([i for row in rows for i in row]), database.vocabulary
        )
        for kind, rows in spoilt.items()
    }


# -- differences -----------------------------------------------------------------------------------------------------


def differences(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Plant pairs of new items in random halves, half of the pairs with different rates; count discoveries.

    New items are independent of everything else, so an itemset differs if and only if it has an item with different
    rates. Without planted differences, every discovery is false.
    """
    for name in options.sets or ("encounters", "mushroom"):
        database = load(name, folder=options.data)
        for planted in (True, False):
            found, false, power, spurious = 0, 0, [], 0
            shares = []
            for repetition in range(options.repetitions):
                random = np.random.default_rng(repetition)
                halves, different = _halves(database, random, planted=planted)
                compared = compare_data(*halves)
                wrong = [row for row in compared.found if not different & set(row.items)]
                hit = {item for row in compared.found for item in row.items} & different
                found, false = found + len(compared.found), false + len(wrong)
                shares.append(len(wrong) / max(len(compared.found), 1))
                spurious += bool(wrong)
                power.append(len(hit) / max(len(different), 1))
            yield {
                "data": name,
                "planted pairs, half of them different": PLANTED if planted else 0,
                "repetitions": options.repetitions,
                "found on average": round(found / options.repetitions, 2),
                "share of planted found": round(float(np.mean(power)), 3) if planted else None,
                "false discovery rate": round(float(np.mean(shares)), 4),
                "repetitions with a false discovery": spurious,
            }


def _halves(
    database: TransactionDatabase, random: np.random.Generator, *, planted: bool
) -> tuple[list[list[list[str]]], set[str]]:
    order = random.permutation(len(database))[: min(len(database), 4000)]
    halves: list[list[list[str]]] = [[], []]
    rates = random.uniform(0.02, 0.1, size=PLANTED)
    factor = np.where(np.arange(PLANTED) % 2 == 0, 2.5, 1.0) if planted else np.ones(PLANTED)
    for place, t in enumerate(order.tolist()):
        side = place % 2
        here = random.random(PLANTED) < (rates * factor if side else rates)
        pairs = [label for k in np.flatnonzero(here).tolist() for label in (f"new {k}a", f"new {k}b")]
        halves[side].append([*database.transaction(t), *pairs])
    different = {f"new {k}{x}" for k in range(0, PLANTED, 2) for x in "ab"} if planted else set()
    return halves, different


# -- scoring ---------------------------------------------------------------------------------------------------------


def scoring(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Score many rows with the command, in a process of its own: rows a second, and the peak of its memory."""
    database = load("encounters")
    (numbered,), _ = encode_together([database])
    labels = [str(i + 1) for i in range(database.n_items)]
    small = TransactionDatabase.from_rows(numbered.lengths, numbered.items, labels)
    times = -(-options.rows // len(small))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        mine(small).table.save(place / "table.json")
        write_fimi(small, place / "small.dat")
        content = (place / "small.dat").read_bytes()
        with (place / "large.dat").open("wb") as stream:
            for _ in range(times):
                stream.write(content)
        for out in ((), ("--out", str(place / "scores.parquet"))):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            began = time.perf_counter()
            command = [sys.executable, "-m", "fedslim", "score", "table.json", "large.dat", "--top", "3", "-q", *out]
            subprocess.run(command, check=True, cwd=place, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - began
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            yield {
                "rows": times * len(small),
                "file, MB": round((place / "large.dat").stat().st_size / 1e6),
                "written to": "scores.parquet" if out else None,
                "wall s": round(seconds, 1),
                "CPU s": round(cpu, 1),
                "rows a second (CPU)": round(times * len(small) / cpu),
                "peak memory, MB": round(after.ru_maxrss * 1024 / 1e6),
            }


# --------------------------------------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[argparse.Namespace], Iterator[dict[str, Any]]]] = {
    "accuracy": accuracy,
    "outliers": outliers,
    "differences": differences,
    "scoring": scoring,
}


def main() -> int:
    """Run the parts given on the command line."""
    parser = argparse.ArgumentParser(description="What code tables are good for, measured.")
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--sets", type=lambda text: text.split(","), help="names of data sets, separated by commas")
    parser.add_argument("--widths", type=_numbers, default=[8], help="widths for accuracy")
    parser.add_argument("--efforts", type=_numbers, default=[1], help="efforts for accuracy")
    parser.add_argument("--peer", type=int, default=0, help="CPU seconds for scikit-mine's classifier, for each set")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--rows", type=int, default=LARGE)
    shared = ROOT.parent / "shared" / "data"
    parser.add_argument("--data", default=shared if shared.is_dir() else None, help="the folder of public data sets")
    options = parser.parse_args()
    for part in options.parts:
        rows: Rows = []
        for row in PARTS[part](options):
            if row not in rows:  # otherwise, it has a column more
                rows.append(row)
            (HERE / "results").mkdir(exist_ok=True)
            (HERE / "results" / f"uses-{part}.json").write_text(json.dumps(rows, indent=2) + "\n")
        print(_table(rows))
    return 0


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def _table(rows: Sequence[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in names) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    sys.exit(main())
