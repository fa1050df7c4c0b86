"""The parts of the benchmark: functions that collect their results and save them after every run."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from federations import federation, network
from runner import median, repeated, save_json, set_up_peer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner import Runner
    from wire import Values

PEER_SETS = ("chess", "mushroom")
PEER_RUNS = 5
STARTUPS = 5
EFFORTS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Converging:
    """A data set mined to convergence, with the CPU seconds of other programs for one run on a similar machine."""

    name: str
    original: float | None  # the C++ SLIM, its fastest algorithm
    prototype: float  # the feasibility prototype, single-threaded and untuned
    runs: int = 3


CONVERGING = (
    Converging("ionosphere", 0.5, 0.2),
    Converging("chess", 0.4, 0.3),
    Converging("mushroom", 1.1, 0.4),
    Converging("adult", 29, 2.5),
    Converging("pendigits", 71, 3.1),
    Converging("letter", 109, 4.4),
    Converging("connect", 106, 12.5),
    Converging("accidents_head", None, 34, runs=1),
)
QUICK_SETS = ("ionosphere", "chess", "mushroom", "adult")
PUBLIC = tuple(one.name for one in CONVERGING)

LOCAL_MARKS = (5, 10, 20, 30, 60, 120, 300, 600, 1_200)
LARGE_MARKS = (100, 250, 500, 1_000, 1_500, 2_000)
GROWTH_SIZES = (10_000, 20_000, 40_000, 80_000)
GROWTH_ACCEPTED = 500


@dataclass(frozen=True)
class Settings:
    """How much to run."""

    quick: bool
    peer_seconds: float
    missing: dict[str, str]  # data sets that were not found, with the reason
    sets: tuple[str, ...] = ()  # for the federation and the local search, instead of the default ones
    most: float = 120.0  # CPU seconds of each local search

    @property
    def marks(self) -> list[float]:
        """The times at which to record scikit-mine's code table during its run."""
        return [self.peer_seconds / part for part in (12, 4, 2)]


def peers(runner: Runner, settings: Settings) -> Values:
    """Run scikit-mine for some time, then fedslim until it compresses as well."""
    results: Values = {"seconds": settings.peer_seconds, "sets": {}, "skipped": []}
    set_up_peer()
    for name in PEER_SETS:
        if name in settings.missing:
            results["skipped"].append(f"{name}: {settings.missing[name]}")
            continue
        path = runner.fedslim(f"{name}: finding it", "look", names=[name])["found"][name]
        theirs = runner.peer(f"{name}: scikit-mine", path=path, seconds=settings.peer_seconds, marks=settings.marks)
        snapshots = theirs.pop("snapshots")
        for snapshot in snapshots:
            table = runner.results / f"{name}.scikit-mine.json"
            save_json(table, snapshot.pop("table"))
            scored = runner.fedslim(f"{name}: scoring scikit-mine's table", "score", data=name, table=str(table))
            snapshot.update(scored)
        targets = sorted({snapshot["bits"] for snapshot in snapshots}, reverse=True)
        ours = _reach(runner, settings, name, targets)
        results["sets"][name] = {"theirs": theirs, "snapshots": snapshots, "ours": ours}
        runner.save("peers", results)
    return results


def _reach(runner: Runner, settings: Settings, name: str, targets: Sequence[float]) -> Values:
    """Return the times at which each target was reached, with the lowest effort that reaches the last one."""
    tried = {}
    for effort in EFFORTS:
        first = runner.fedslim(f"{name}: fedslim, effort {effort}", "reach", data=name, targets=targets, effort=effort)
        tried[effort] = first["best_percent"]
        if not first["missed"]:
            break
    more = repeated(
        1 if settings.quick else PEER_RUNS - 1,
        lambda run: runner.fedslim(
            f"{name}: fedslim, effort {effort}, run {run + 1}", "reach", data=name, targets=targets, effort=effort
        ),
    )
    runs = [first, *more]
    times = [
        {key: median([run["reached"][place] for run in runs], key) for key in ("wall", "cpu", "bits", "itemsets")}
        for place in range(len(first["reached"]))
    ]
    return {"effort": effort, "tried": tried, "targets": list(targets), "reached": times, "runs": runs}


def convergence(runner: Runner, settings: Settings) -> Values:
    """Run plain greedy search to convergence on the public data sets, and measure the start-up of a process."""
    results: Values = {"startup": _startup(runner, settings), "sets": {}, "skipped": []}
    runner.save("convergence", results)
    for one in CONVERGING:
        if settings.quick and one.name not in QUICK_SETS:
            continue
        if one.name in settings.missing:
            results["skipped"].append(f"{one.name}: {settings.missing[one.name]}")
            continue
        times = 1 if settings.quick else one.runs

        def run(number: int, name: str = one.name, threads: int | None = 1) -> Values:
            label = f"{name}: {'one thread' if threads == 1 else 'default threads'}, run {number}"
            return runner.fedslim(label, "mine", data=name, threads=threads)

        single = repeated(times, run)
        default = repeated(times, lambda number, run=run: run(number, threads=None))  # type: ignore[misc]
        results["sets"][one.name] = {
            "cpu": median(single, "cpu"),
            "wall": median(single, "wall"),
            "wall_default": median(default, "wall"),
            "cpu_default": median(default, "cpu"),
            "L_percent": single[0]["L_percent"],
            "itemsets": single[0]["itemsets"],
            "candidates": single[0]["candidates"],
            "same": len({(r["L_percent"], r["itemsets"], r["candidates"]) for r in (*single, *default)}) == 1,
            "original": one.original,
            "prototype": one.prototype,
            "runs": single,
            "runs_default": default,
        }
        runner.save("convergence", results)
    return results


def local(runner: Runner, settings: Settings) -> Values:
    """Search locally, and note the best table after so many CPU seconds of both chains.

    Results of the same sources for other sets are kept, so that the sets may be run one at a time.
    """
    results: Values = {"marks": LOCAL_MARKS, "sets": runner.saved("local").get("sets", {})}
    marks = LOCAL_MARKS[:2] if settings.quick else [mark for mark in LOCAL_MARKS if mark <= settings.most]
    for name in settings.sets or (QUICK_SETS if settings.quick else PUBLIC[:-1]):
        if name not in settings.missing:
            results["sets"][name] = runner.fedslim(f"{name}: local search", "improve", data=name, marks=marks)
            runner.save("local", results)
    return results


def _startup(runner: Runner, settings: Settings) -> Values:
    with tempfile.TemporaryDirectory() as folder:
        cold = runner.startup("start-up: kernels compiled", folder)
        warm = repeated(
            1 if settings.quick else STARTUPS,
            lambda run: runner.startup(f"start-up: kernels from the cache, run {run}", folder),
        )
    found = {f"{what}_{kind}": median(warm, what, kind) for what in ("import", "kernels") for kind in ("wall", "cpu")}
    return {**found, "compile_wall": cold["kernels"]["wall"], "compile_cpu": cold["kernels"]["cpu"]}


def large(runner: Runner, settings: Settings) -> Values:
    """Measure time and memory of accidents-like until 2,000 itemsets, and of wide-sparse to convergence."""
    dense, wide = ("accidents-like:20000", "wide-sparse:20000") if settings.quick else ("accidents-like", "wide-sparse")
    marks = LARGE_MARKS[:3] if settings.quick else LARGE_MARKS
    results: Values = {"dense": runner.fedslim(dense, "grow", data=dense, threads=None, marks=marks)}
    runner.save("large", results)
    results["wide"] = runner.fedslim(wide, "mine", data=wide, threads=None)
    runner.save("large", results)
    return results


def growth(runner: Runner, settings: Settings) -> Values:
    """Run accidents-like at doubling sizes, to the same number of accepted itemsets."""
    sizes = GROWTH_SIZES[:2] if settings.quick else GROWTH_SIZES
    results: Values = {"accepted": GROWTH_ACCEPTED, "sizes": {}}
    for size in sizes:
        data = f"accidents-like:{size}"

        def run(number: int, data: str = data) -> Values:
            return runner.fedslim(f"{data}, run {number}", "accept", data=data, accepted=GROWTH_ACCEPTED)

        runs = repeated(1 if settings.quick else 3, run)
        results["sizes"][str(size)] = {
            "wall": median(runs, "wall"),
            "cpu": median(runs, "cpu"),
            "candidates": runs[0]["candidates"],
            "L_percent": runs[0]["L_percent"],
            "peak_mb": median(runs, "peak_mb"),
            "runs": runs,
        }
        runner.save("growth", results)
    return results


PARTS: dict[str, Callable[[Runner, Settings], Values]] = {
    "peers": peers,
    "convergence": convergence,
    "local": local,
    "large": large,
    "growth": growth,
    "federation": federation,
    "network": network,
}
