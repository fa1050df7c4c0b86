"""Tables of the part `federation`, one for each question, with the paper's figures beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paper
from report import COARSE, FINE, Table, noise, s, times

if TYPE_CHECKING:
    from wire import Values

WORSE_BY = 0.2
"""L% of `sa` and `so` may be so much above the paper's."""

LESS_X, LESS = 100, 10
"""`x` says at least so many times less than the paper's SA, `sa` and `so` so many times less than the paper's own."""

BESIDE = {"x": "sa", "sa": "sa", "so": "so"}
"""The paper's variant that each of ours stands beside."""

SYSTEMS = {
    "centralised": "our centralised",
    "slim-cpp-2012": "C++ SLIM 2012",
    "slim-cpp-2014": "C++ SLIM 2014",
    "scikit-mine": "scikit-mine",
}


UNITS = ((paper.GIGA, "GB"), (paper.MEGA, "MB"), (paper.KILO, "kB"))


def tables(results: Values) -> list[Table]:
    """What was found and said, how true that is, and what it took."""
    made = [_found(results), _fidelity(results), _cpu(results), _kinds(results)]
    return [*made, *([_large(results)] if results["large"] else [])]


def _found(results: Values) -> Table:
    table = Table(
        f"{results['clients']} IID clients: what is found and said, beside the paper's",
        [
            "data set, variant",
            "L%",
            "paper",
            "itemsets",
            "paper",
            "candidates",
            "paper",
            "rounds",
            "paper",
            "bytes",
            "paper",
            "times less",
            "goals",
        ],
    )
    missed, above = [], []
    for name, one in results["sets"].items():
        for variant, ours in one["compared"]["variants"].items():
            theirs = paper.FEDERATED[name][BESIDE[variant]]
            problems = _missed(variant, ours, theirs)
            if ours["L_percent"] > theirs.L_percent:
                above.append(f"{name}, {variant} by {ours['L_percent'] - theirs.L_percent:.2f}")
            missed += [f"{name}, {variant}: {problem}" for problem in problems]
            table.rows.append(
                [
                    f"{name}, {variant}",
                    f"{ours['L_percent']:.2f}",
                    f"{theirs.L_percent:.2f}",
                    f"{ours['itemsets']:,}",
                    f"{theirs.itemsets:,}",
                    f"{ours['candidates']:,}",
                    f"{theirs.candidates:,}",
                    f"{ours['rounds']:,}",
                    f"{theirs.rounds:,}",
                    _bytes(ours["bytes_total"]),
                    _bytes(theirs.bytes_total),
                    times(theirs.bytes_total / ours["bytes_total"]),
                    "MISSED" if problems else "met",
                ]
            )
            if not ours["converged"]:
                table.remarks.append(f"{name}, {variant}: did NOT converge.")
        if not one["compared"]["variants"]["x"]["equal"]:
            table.remarks.append(f"{name}: the table of x is NOT that of all data in one place.")
    goals = (
        f"Goals: L% of sa and so at most {WORSE_BY} above the paper's; bytes of x at most 1/{LESS_X} of the paper's "
        f"SA, of sa and so at most 1/{LESS} of the paper's own (its MB and GB taken as powers of ten)."
    )
    verdict = f"Missed: {'; '.join(missed)}." if missed else "All are met." if table.rows else ""
    table.remarks[:0] = ["x stands beside the paper's SA.", f"{goals} {verdict}".rstrip()]
    if above:
        table.remarks.append(f"L% above the paper's: {'; '.join(above)}.")
    table.remarks += [f"skipped: {reason}" for reason in results["skipped"]]
    return table


def _missed(variant: str, ours: Values, theirs: paper.Federated) -> list[str]:
    """The goals that are not met, with the figures."""
    problems = []
    if variant != "x" and ours["L_percent"] > theirs.L_percent + WORSE_BY:
        problems.append(f"L% {ours['L_percent']:.2f}, {ours['L_percent'] - theirs.L_percent:.2f} above the paper's")
    less = LESS_X if variant == "x" else LESS
    if ours["bytes_total"] > theirs.bytes_total / less:
        problems.append(f"{_bytes(ours['bytes_total'])}, {times(theirs.bytes_total / ours['bytes_total'])} times less")
    return problems


def _fidelity(results: Values) -> Table:
    sets = results["sets"]
    known = {name for one in sets.values() for name in one["compared"]["variants"]["x"]["fidelity"]}
    systems: list[str] = [name for name in SYSTEMS if name in known] + sorted(known - SYSTEMS.keys())
    table = Table(
        "Agreement with tables of all data in one place: F1 / WR@50 / ρ",
        ["data set, variant", *(SYSTEMS.get(name, name) for name in systems), "paper"],
    )
    for name, one in sets.items():
        for variant, ours in one["compared"]["variants"].items():
            found = ours["fidelity"]
            theirs = paper.FEDERATED[name].get(variant)
            table.rows.append(
                [
                    f"{name}, {variant}",
                    *(
                        _three(*(found[to][key] for key in ("f1", "wr50", "rho"))) if to in found else "-"
                        for to in systems
                    ),
                    "-" if theirs is None else _three(theirs.f1, theirs.wr50, theirs.rho),
                ]
            )
    table.remarks += _below(sets)
    table.remarks.append(
        "The paper's are against its centralised run, which is the C++ SLIM of 2012. x finds what we find in one "
        "place, so its row is also how far our centralised table agrees with those of the others."
    )
    return table


def _below(sets: Values) -> list[str]:
    """Where we agree less with our centralised table than the paper does with its own."""
    names = {"f1": "F1", "wr50": "WR@50", "rho": "ρ"}
    below = []
    for name, one in sets.items():
        for variant, theirs in paper.FEDERATED[name].items():
            ours = one["compared"]["variants"][variant]["fidelity"]["centralised"]
            if less := [title for key, title in names.items() if ours[key] < getattr(theirs, key)]:
                below.append(f"{name}, {variant} ({', '.join(less)})")
    return [f"Lower than the paper's, each against its own centralised table: {'; '.join(below)}."] if below else []


def _three(*figures: float) -> str:
    return " / ".join(f"{figure:.3f}" for figure in figures)


def _cpu(results: Values) -> Table:
    table = Table(
        f"CPU time of x with {results['clients']} clients beside one place",
        ["data set", "one place CPU s", "x CPU s", "times", "x without masks CPU s", "times", "rounds", "ms a round"],
    )
    counts = set()
    for name, one in results["sets"].items():
        if "times" not in one:
            continue
        turns = one["times"]["turns"]
        counts.add(len(turns))
        central, masked, plain = (
            min(turn[kind]["cpu"] for turn in turns) for kind in ("centralised", "masked", "plain")
        )
        rounds = turns[0]["masked"]["rounds"]
        table.rows.append(
            [
                name,
                s(central),
                s(masked),
                times(masked / central),
                s(plain),
                times(plain / central),
                f"{rounds:,}",
                f"{1000 * masked / rounds:.2f}",
            ]
        )
        for kind, what in (("centralised", "one place"), ("masked", "x"), ("plain", "x without masks")):
            table.remarks += noise(f"{name}, {what}", [turn[kind] for turn in turns])
    table.remarks.append(
        f"Best of {' or '.join(map(str, sorted(counts)))} runs, in turn in one process with one thread, which does the "
        "work of the server and of all clients one after the other; kernels were ready before."
    )
    return table


def _kinds(results: Values) -> Table:
    sets = {name: one["compared"]["variants"]["x"] for name, one in results["sets"].items()}
    by_kind = {
        name: {(row["kind"], row["direction"]): row["bytes"] for row in ours["by_kind"]} for name, ours in sets.items()
    }
    most: dict[tuple[str, str], int] = {}
    for rows in by_kind.values():
        for key, size in rows.items():
            most[key] = max(size, most.get(key, 0))
    table = Table("Bytes of x by kind of message", ["message", *sets])
    for key in sorted(most, key=lambda key: -most[key]):
        kind, direction = key
        arrow = "to the server" if direction == "up" else "to clients"
        table.rows.append([f"{kind}, {arrow}", *(_bytes(rows.get(key, 0)) for rows in by_kind.values())])
    table.rows.append(["all", *(_bytes(ours["bytes_total"]) for ours in sets.values())])
    differing = [
        f"{name} {_bytes(turn['plain']['bytes_total'])}"
        for name, one in results["sets"].items()
        if "times" in one
        for turn in one["times"]["turns"][:1]
        if turn["plain"]["bytes_total"] != turn["masked"]["bytes_total"]
    ]
    table.remarks.append(
        f"Without masks: {', '.join(differing)}." if differing else "Without masks it is the same to the byte."
    )
    return table


def _large(results: Values) -> Table:
    table = Table(
        "x with many clients, and with many items",
        [
            "data set",
            "clients",
            "wall s",
            "CPU s",
            "one place CPU s",
            "times",
            "L%",
            "itemsets",
            "rounds",
            "bytes",
            "peak MB, loaded",
            "peak MB",
        ],
    )
    for one in results["large"]:
        ran, central = one["x"], one["centralised"]
        table.rows.append(
            [
                f"{one['data']} {one['transactions']:,} x {one['items']:,}",
                f"{one['clients']}",
                s(ran["wall"]),
                s(ran["cpu"]),
                s(central["cpu"]),
                times(ran["cpu"] / central["cpu"]),
                f"{ran['L_percent']:.2f}",
                f"{ran['itemsets']:,}",
                f"{ran['rounds']:,}",
                _bytes(ran["bytes_total"]),
                f"{one['peak_mb_loaded']:,.0f}",
                f"{ran['peak_mb']:,.0f}",
            ]
        )
        table.remarks += noise(one["data"], [ran])
    table.remarks.append(
        "One run each, masked. Peak memory is that of the process, in which the server and all clients are."
    )
    return table


def network_tables(results: Values) -> list[Table]:
    """The table of the part `network`."""
    table = Table(
        f"A round of x over TLS, {results['clients']} clients on one machine",
        ["data set", "rounds", "computing ms", "over TLS ms", "beyond computing ms"],
    )
    for one in results["sets"]:
        figures = (one["computing_ms"], one["network_ms"], one["beyond_ms"])
        table.rows.append([one["data"], f"{one['rounds']:,}", *(f"{figure:.2f}" for figure in figures)])
        if not one["equal"]:
            table.remarks.append(f"{one['data']}: the tables are NOT the same.")
    table.remarks.append(
        "Medians for one round. Server and clients share one process and one core; computing is the same run joined by "
        "queues instead of lines, with the same frames and masks."
    )
    table.remarks += results["skipped"]
    return [table]


def _bytes(size: float) -> str:
    """Bytes with three digits or so, in powers of ten."""
    unit, name = next(((unit, name) for unit, name in UNITS if size >= unit), (1.0, "B"))
    figure = size / unit
    digits = 0 if name == "B" or figure >= COARSE else 1 if figure >= FINE else 2
    return f"{figure:,.{digits}f} {name}"
