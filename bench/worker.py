"""Measure one run of fedslim in its own process.

    python bench/worker.py mine '{"data": "chess", "threads": 1}'

Times are for mining alone, from the database in memory; imports, kernels and loading precede the clock and are reported
separately. `compiled` lists kernels that were compiled while the clock ran, which invalidates a measurement.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from numba.core import event

from fedslim.data import load, locate
from fedslim.errors import DataError
from fedslim.federated.records import machine, versions
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.driver import Progress, Stop, drive
from fedslim.mdl.effort import TaskOutcome, carry_out, parts, plan
from fedslim.mdl.local_search import LocalSearch
from fedslim.mdl.mining import mine as mine_it
from fedslim.mdl.objective import description_length, standard_length, standard_lengths
from fedslim.mdl.policy import Policy
from fedslim.mdl.search import SlimSearch
from warm import every_kernel
from wire import Clock, Teller, Values, peak_mb, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fedslim.data import TransactionDatabase
    from fedslim.mdl.effort import Task


TURN = 0.1
"""CPU seconds after which it is the other chain's turn."""


def look(names: Sequence[str]) -> Values:
    """Return the machine, the versions, and for each public data set its file, or why there is none."""
    found, missing = {}, {}
    for name in names:
        try:
            load(name)
            found[name] = str(locate(name))
        except DataError as error:
            missing[name] = str(error)
    return {"found": found, "missing": missing, "versions": versions(), "machine": machine()}


def mine(data: str, threads: int | None) -> Values:
    """Run plain greedy search to convergence."""
    database, before = _ready(data)
    tell = Teller()
    with compilations() as compiled:
        clock = Clock()
        mined = mine_it(
            database,
            threads=threads,
            on_progress=lambda p: tell(f"{p.itemsets} itemsets, {p.percent:.2f} %, {p.seconds:.0f} s"),
        )
        times = clock.read()
    return {
        **before,
        **times,
        "L_percent": mined.table.compression.L_percent,
        "itemsets": len(mined.table),
        "candidates": mined.tally.candidates,
        "converged": mined.converged,
        "compiled": compiled,
    }


def grow(data: str, threads: int | None, marks: Sequence[int]) -> Values:
    """Run plain greedy search until the code table reaches the last mark; return the time at every mark."""
    database, before = _ready(data)
    waiting, points = list(marks), []
    tell, stop = Teller(), Stop()

    def watch(now: Progress) -> None:
        tell(f"{now.itemsets} itemsets, {now.percent:.2f} %, {now.seconds:.0f} s")
        if waiting and now.itemsets >= waiting[0]:
            while waiting and now.itemsets >= waiting[0]:
                waiting.pop(0)
            points.append(
                {
                    **clock.read(),
                    "itemsets": now.itemsets,
                    "accepted": now.accepted,
                    "candidates": now.candidates,
                    "L_percent": now.percent,
                    "peak_mb": peak_mb(),
                }
            )
            if not waiting:
                stop.ask()

    with compilations() as compiled:
        clock = Clock()
        mined = mine_it(database, threads=threads, stop=stop, on_progress=watch)
        times = clock.read()
    return {
        **before,
        **times,
        "points": points,
        "L_percent": mined.table.compression.L_percent,
        "itemsets": len(mined.table),
        "converged": mined.converged,
        "compiled": compiled,
    }


def accept(data: str, accepted: int) -> Values:
    """Run plain greedy search, single-threaded, until a number of itemsets was accepted."""
    database, before = _ready(data)
    with compilations() as compiled:
        clock = Clock()
        search = SlimSearch(database.n_items, Policy())
        source = CoverState(database)
        prepared = clock.read()
        tell = Teller()
        result = drive(
            search,
            source,
            stop=_until(lambda: search.tally.accepted >= accepted),
            report=lambda: tell(f"{search.tally.accepted} accepted"),
        )
        times = clock.read()
    return {
        **before,
        **times,
        "prepared": prepared,
        "accepted": search.tally.accepted,
        "candidates": search.tally.candidates,
        "L_percent": 100 * result.bits.total / result.bits_standard.total,
        "compiled": compiled,
    }


def score(data: str, table: str) -> Values:
    """Return L% of another system's code table, from its usages, with our objective."""
    database, _ = loaded(data)
    number = {label: item for item, label in enumerate(database.vocabulary)}
    rows = [([number[str(label)] for label in labels], usage) for labels, usage in json.loads(Path(table).read_text())]
    covered = [0] * database.n_items
    for items, usage in rows:
        for item in items:
            covered[item] += usage
    if covered != database.supports.tolist():
        msg = f"{data}: the usages of this table do not add up to the supports of the items"
        raise ValueError(msg)
    lengths = standard_lengths(database.supports)
    bits = description_length([usage for _, usage in rows], [standard_length(items, lengths) for items, _ in rows])
    standard = description_length(database.supports.tolist(), lengths)
    return {
        "L_percent": 100 * bits.total / standard.total,
        "L_data_percent": 100 * bits.data / standard.data,
        "bits": bits.total,
        "itemsets": sum(len(items) > 1 for items, _ in rows),
    }


def reach(data: str, targets: Sequence[float], effort: int) -> Values:
    """Run single-threaded until the code table reaches each target in bits (decreasing); return the time at each."""
    database, before = _ready(data)
    waiting, reached = list(targets), []
    best: list[float] = []
    tell = Teller()

    searches: list[SlimSearch] = []

    def there() -> bool:
        search = searches[-1]
        while waiting and 0 < search.bits_now <= waiting[0]:
            waiting.pop(0)
            reached.append({**clock.read(), "bits": search.bits().total, "itemsets": search.itemsets})
        return not waiting

    def watch(search: SlimSearch) -> Callable[[], None]:
        searches.append(search)
        return lambda: tell(f"effort {effort}, {search.itemsets} itemsets")

    def go(tasks: Sequence[Task]) -> list[TaskOutcome]:
        outcomes = []
        for task in tasks:
            outcomes.append(carry_out(task, database, _until(there), watch=watch))
            if there():
                break
        return outcomes

    with compilations() as compiled:
        clock = Clock()
        work = parts(Policy(), plan(effort, limited=False), 0)
        tasks = next(work)
        with suppress(StopIteration):
            while waiting or not best:
                outcomes = go(tasks)
                best += [100 * o.bits / o.result.bits_standard.total for o in outcomes]
                tasks = work.send(outcomes)
        times = clock.read()
    return {
        **before,
        **times,
        "reached": reached,
        "missed": len(waiting),
        "policies": len(searches),
        "best_percent": min(best),
        "compiled": compiled,
    }


def improve(data: str, marks: Sequence[float]) -> Values:
    """Search locally, and return the best L% after so many CPU seconds of both chains, which take turns."""
    database, before = _ready(data)
    waiting, best, iterations = list(marks), float("inf"), 0
    points: list[Values] = []
    tell = Teller()

    def look(searches: Sequence[SlimSearch]) -> None:
        nonlocal best
        local = [search for search in searches if isinstance(search, LocalSearch)]
        best = min([best, *[s.best_bits for s in local], *[s.bits_now for s in searches if s.bits_now and not local]])
        now = {**clock.read(), "L_percent": 100 * best / searches[0].bits_standard.total}
        now["iterations"] = iterations + sum(search.iterations for search in local)
        tell(f"{now['L_percent']:.3f} %, {now['cpu']:.0f} CPU s")
        while waiting and now["cpu"] >= waiting[0]:
            waiting.pop(0)
            points.append(now)

    def take_turns(searches: Sequence[SlimSearch]) -> None:
        going = [_steps(search, database) for search in searches]
        while going and waiting:
            for one in list(going):
                until = clock.read()["cpu"] + TURN
                while clock.read()["cpu"] < until:
                    if next(one, going) is going:
                        going.remove(one)
                        break
            look(searches)

    with compilations() as compiled:
        clock = Clock()
        work = parts(Policy(), plan(None, limited=True), 0)
        tasks = next(work)
        while waiting:
            searches = [task.search(database.n_items) for task in tasks]
            take_turns(searches)
            iterations += sum(search.iterations for search in searches if isinstance(search, LocalSearch))
            tasks = work.send([TaskOutcome.of(search) for search in searches])
    return {**before, **clock.read(), "points": points, "compiled": compiled}


# -- help ----------------------------------------------------------------------------------------------------------


def loaded(data: str) -> tuple[TransactionDatabase, Values]:
    """Return the database, and how long it took to read."""
    clock = Clock()
    database = load(data)
    return database, {"load": clock.read(), "transactions": database.transactions, "items": database.n_items}


def _ready(data: str) -> tuple[TransactionDatabase, Values]:
    """Return the database, after everything that must not be measured."""
    every_kernel()
    database, before = loaded(data)
    return database, {**before, "peak_mb_loaded": peak_mb(), "load_average": os.getloadavg()[0]}


def _steps(search: SlimSearch, database: TransactionDatabase) -> Iterator[None]:
    """Answer the questions of a search, one for each step."""
    run, source = search.run(), CoverState(database)
    question = next(run)
    with suppress(StopIteration):
        while True:
            question = run.send(question.put_to(source))
            yield


def _until(reached: Callable[[], bool]) -> Stop:
    """Stop at the first question at which the condition holds."""

    class Until(Stop):
        def now(self) -> bool:
            return reached() or super().now()

    return Until()


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Record what numba compiles inside the block: ideally nothing."""
    compiled: list[str] = []
    with event.install_recorder("numba:compile") as recorder:
        yield compiled
    compiled += [str(what.data["dispatcher"].py_func.__name__) for _, what in recorder.buffer if what.is_start]


if __name__ == "__main__":
    serve(
        {
            "look": look,
            "mine": mine,
            "grow": grow,
            "accept": accept,
            "score": score,
            "reach": reach,
            "improve": improve,
        }
    )
