"""Tables of the parts `federation` and `network`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from report import COARSE, FINE, Table, noise, s, times

if TYPE_CHECKING:
    from wire import Values

UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def tables(results: Values) -> list[Table]:
    """Return the tables of times and traffic; the itemsets found are in docs/results.md."""
    made = [_cpu(results), _kinds(results)]
    return [*made, *([_large(results)] if results["large"] else [])]


def _cpu(results: Values) -> Table:
    table = Table(
        f"CPU time of x with {results['members']} members beside one place",
        ["data set", "one place CPU s", "x CPU s", "times", "x without masks CPU s", "times", "rounds", "ms a round"],
    )
    counts = set()
    for name, one in results["sets"].items():
        turns = one["turns"]
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
        "work of the server and of all members; kernels were ready before."
    )
    table.remarks += [f"skipped: {reason}" for reason in results["skipped"]]
    return table


def _kinds(results: Values) -> Table:
    sets = {name: one["turns"][0]["masked"] for name, one in results["sets"].items()}
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
        arrow = "to the server" if direction == "up" else "to members"
        table.rows.append([f"{kind}, {arrow}", *(_bytes(rows.get(key, 0)) for rows in by_kind.values())])
    table.rows.append(["all", *(_bytes(ours["bytes_total"]) for ours in sets.values())])
    differing = [
        f"{name} {_bytes(turn['plain']['bytes_total'])}"
        for name, one in results["sets"].items()
        for turn in one["turns"][:1]
        if turn["plain"]["bytes_total"] != turn["masked"]["bytes_total"]
    ]
    table.remarks.append(
        f"Without masks: {', '.join(differing)}." if differing else "Without masks it is the same to the byte."
    )
    return table


def _large(results: Values) -> Table:
    table = Table(
        "x with many members, and with many items",
        [
            "data set",
            "members",
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
                f"{one['members']}",
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
        "One run each, masked. Peak memory is that of the process, in which the server and all members are."
    )
    return table


def network_tables(results: Values) -> list[Table]:
    """Return the table of the part `network`."""
    table = Table(
        f"A round of x over TLS, {results['members']} members on one machine",
        ["data set", "rounds", "computing ms", "over TLS ms", "beyond computing ms"],
    )
    for one in results["sets"]:
        figures = (one["computing_ms"], one["network_ms"], one["beyond_ms"])
        table.rows.append([one["data"], f"{one['rounds']:,}", *(f"{figure:.2f}" for figure in figures)])
        if not one["equal"]:
            table.remarks.append(f"{one['data']}: the tables are NOT the same.")
    table.remarks.append(
        "Medians for one round. Server and members share one process and one core; computing is the same run joined by "
        "queues instead of connections, with the same frames and masks."
    )
    table.remarks += results["skipped"]
    return [table]


def _bytes(size: float) -> str:
    """Format bytes with about three digits, in powers of ten."""
    unit, name = next(((unit, name) for unit, name in UNITS if size >= unit), (1.0, "B"))
    figure = size / unit
    digits = 0 if name == "B" or figure >= COARSE else 1 if figure >= FINE else 2
    return f"{figure:,.{digits}f} {name}"
