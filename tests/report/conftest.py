"""Fixtures of the report tests: real runs, a minimal record, and one with hostile labels."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import combinations, islice

import msgspec
import pytest

from fedslim.data import TransactionDatabase, builtin_members
from fedslim.federated import compare, simulate
from fedslim.federated.loopback import Loopback
from fedslim.federated.own_record import compared_record, member_record
from fedslim.federated.records import (
    Agreement,
    AloneRecord,
    GapRow,
    HistoryStep,
    KindTraffic,
    MemberRecord,
    Missed,
    RunRecord,
    simulation_record,
)
from fedslim.mdl import mine
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.files import code_table_document
from fedslim.mdl.itemsets import order_key
from fedslim.protocol import framing, messages
from fedslim.safeguards.audit import AuditLog, summarise
from fedslim.settings.federation_file import FederationFile

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<script>document.title='taken'</script>",
    '"><svg onload=alert(2)>',
    "{{script}}",
    "<!--",
    "two\u2028lines\u2029and \u202eturned",
    "&lt;b&gt; &amp;",
    "javascript:alert(3)",
    "x" * 400,
    "__proto__",
    "=1+1",
)
ITEMSETS = 2_000
MEMBERS = ("north", "south", "west")


@pytest.fixture(scope="session")
def records():
    """The built-in hospital data, mined with each variant."""
    made = []
    for variant in ("x", "sa", "so"):
        simulation = simulate(dict(builtin_members()), variant=variant)
        command = f"fedslim simulate encounters --variant {variant}"
        made.append(simulation_record(simulation, compare(simulation), data="encounters", command=command))
    return made


@pytest.fixture(scope="session")
def parts():
    """Three hospitals, of which west has seen influenza more often than the others."""
    made = dict(zip(MEMBERS, (db for _, db in builtin_members("encounters")), strict=False))
    rows = [made["west"].transaction(k) for k in range(len(made["west"]))]
    rows += [row for row in rows if "influenza" in row] * 2
    made["west"] = TransactionDatabase.from_transactions(rows, vocabulary=made["west"].vocabulary)
    return made


@pytest.fixture(scope="session")
def west(parts, tmp_path_factory):
    """The record of a member, and that of the server, which knows items by numbers."""
    folder = tmp_path_factory.mktemp("federation")
    file = FederationFile.read(Loopback.make(folder, parts, limits={"min_count": 5, "min_members_with": 2}).file)
    simulation = simulate(parts, min_count=5, min_members_with=2)
    with AuditLog.of(folder / "audit.jsonl", file, "west") as audit:
        for message in (messages.Heard(), messages.Confirm(0, b"signature")):
            audit.record(message, framing.to_bytes(message), now=datetime.now(UTC), run=b"1" * 16, peer="server")
    how = {
        "ending": "converged",
        "rounds": 83,
        "sent": summarise(folder / "audit.jsonl"),
        "command": "fedslim member --name west",
    }
    member = member_record(file, "west", simulation.table, simulation.table, parts["west"], **how)
    member = compared_record(member, simulation.table, mine(parts["west"]).table)
    numbers = {label: f"item {k}" for k, label in enumerate(simulation.table.vocabulary)}
    table = msgspec.Raw(msgspec.json.encode(code_table_document(simulation.table.renamed(numbers))))
    server = simulation_record(simulation, None, data="Study", command="fedslim server")
    server = msgspec.structs.replace(server, kind="server", table=table)
    return member, server


@pytest.fixture(scope="session")
def large():
    """A table of 2,000 itemsets with two to eight items."""
    draw = random.Random(1)
    sets = {tuple(sorted(draw.sample(range(120), draw.randint(2, 8)))) for _ in range(3 * ITEMSETS)}
    found = sorted(
        ((items, 5 + k % 90, 100, 5 + k % 90) for k, items in enumerate(sorted(sets)[:ITEMSETS])), key=_place
    )
    supports = [1] * 120
    for items, usage, _, _ in found:
        for item in items:
            supports[item] += usage
    labels = tuple(f"finding {k % 40} of organ {k // 40}" for k in range(120))
    return CodeTable(labels, max(supports), tuple(supports), (1,) * 120, tuple(found))


@pytest.fixture(scope="session")
def bare(records):
    """A minimal record, as of a server that was stopped before its first round."""
    table = msgspec.Raw(msgspec.json.encode(code_table_document(CodeTable(("a",), 0, (0,), (0,), ()))))
    empty = {"history": [], "traffic": [], "members": [], "agreements": [], "gap": None, "figures": {}, "settings": {}}
    return msgspec.structs.replace(records[0], kind="server", machine={}, versions={}, table=table, **empty)


@pytest.fixture(scope="session")
def hostile():
    """A record with 2,000 itemsets, and with hostile labels and names."""
    labels = (*HOSTILE, *(f"item {k}" for k in range(60)))
    pairs = list(islice(combinations(range(len(labels)), 2), ITEMSETS))
    found = sorted(((pair, 1 + k % 50, 60, 1 + k % 50) for k, pair in enumerate(pairs)), key=_place)
    supports = [0] * len(labels)
    for items, usage, _, _ in found:
        for item in items:
            supports[item] += usage
    transactions = max(supports)
    table = CodeTable(labels, transactions, tuple(supports), (0,) * len(labels), tuple(found))
    members = [MemberRecord(name, 9, None, AloneRecord(3, 90.0)) for name in HOSTILE]
    gap = [GapRow([labels[a], labels[b]], 5, [k % 7 for k in range(len(members))], a % 3 > 0) for a, b in pairs[:300]]
    usages = [None if k % 5 == 0 else usage for k, (_, usage, _, _) in enumerate(found)]
    missed = [Missed([labels[0], f"unknown <b>{k}</b>"], k + 1) for k in range(40)]
    return RunRecord(
        kind="simulation",
        data=HOSTILE[0],
        variant="x",
        command=f"fedslim simulate {HOSTILE[0]!r}",
        made="2026-01-01T00:00:00+00:00",
        versions={"<b>": HOSTILE[1]},
        machine={"cpu": HOSTILE[2], "cores": 2},
        settings={"masked": True, "seed": 0, "<i>": HOSTILE[3]},
        figures={"rounds": 9, "bytes_total": 9000, "seconds": 0.5, "ending": HOSTILE[1]},
        history=[HistoryStep(k, k / 10, k, 100.0 - k, 100.0 - k / 30, 100 * k) for k in range(1, 1500)],
        traffic=[KindTraffic(HOSTILE[1], "up", 3, 300, 400), KindTraffic("Ask", "down", 3, 30, 40)],
        members=members,
        table=msgspec.Raw(msgspec.json.encode(code_table_document(table))),
        agreements=[Agreement(HOSTILE[2], {"f1": 0.5}, usages, missed)],
        gap=gap,
    )


def _place(row):
    return order_key(row[0], row[3])
