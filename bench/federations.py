"""The parts `federation`, the cost of ten members compared with one place, and `network`, the cost of a round over TLS.

The itemsets that federations find are in docs/results.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parts import Settings
    from runner import Runner
    from wire import Values

SETS = ("ionosphere", "chess", "mushroom", "adult", "pendigits", "letter", "connect")
QUICK = SETS[:3]
MEMBERS = 10
RUNS = 3
NETWORK, NETWORK_RUNS = ("encounters", "chess", "mushroom"), 5
LARGE = (("adult", 128), ("wide-sparse", MEMBERS))


def federation(runner: Runner, settings: Settings) -> Values:
    """Compare the time of `x` with one place on every data set, and measure two large federations."""
    sets = settings.sets or (QUICK if settings.quick else SETS)
    results: Values = {"members": MEMBERS, "sets": {}, "large": [], "skipped": []}
    results["skipped"] += [f"{name}: {settings.missing[name]}" for name in sets if name in settings.missing]
    for name in sets:
        if name in settings.missing:
            continue
        label = f"{name}: x beside one place, {RUNS} times"
        results["sets"][name] = runner.federation(label, "ratio", data=name, members=MEMBERS, runs=RUNS)
        runner.save("federation", results)
    for name, members in () if settings.quick else LARGE:
        if name in settings.missing:
            results["skipped"].append(f"{name} with {members} members: {settings.missing[name]}")
            continue
        label = f"{name}: x, {members} members"
        results["large"].append(
            {"data": name, **runner.federation(label, "large", data=name, members=members)},
        )
        runner.save("federation", results)
    return results


def network(runner: Runner, settings: Settings) -> Values:
    """Measure the cost of a round over TLS on one machine, beyond computation."""
    results: Values = {"members": MEMBERS, "sets": [], "skipped": []}
    for name in NETWORK[:1] if settings.quick else NETWORK:
        if name in settings.missing:
            results["skipped"].append(f"{name}: {settings.missing[name]}")
            continue
        label = f"{name}: x over TLS, {MEMBERS} members, {NETWORK_RUNS} times"
        results["sets"].append(
            runner.network(label, "latency", data=name, members=MEMBERS, runs=1 if settings.quick else NETWORK_RUNS)
        )
        runner.save("network", results)
    return results
