"""A member's own record: what it may know after a run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from fedslim.data import ItemSecret, TransactionDatabase, builtin_members
from fedslim.errors import InputError
from fedslim.federated import simulate
from fedslim.federated.loopback import Loopback
from fedslim.federated.own_record import compared_record, member_record, mined_record
from fedslim.federated.records import load_run, save_run
from fedslim.mdl import mine
from fedslim.protocol import framing, messages
from fedslim.safeguards.audit import AuditLog, summarise
from fedslim.settings.federation_file import FederationFile

LIMITS = {"min_count": 5, "min_members_with": 2}


@pytest.fixture(scope="module")
def parts():
    """Three hospitals, of which west has seen influenza more often than the others."""
    made = dict(zip(("north", "south", "west"), (db for _, db in builtin_members("encounters")), strict=False))
    rows = [made["west"].transaction(k) for k in range(len(made["west"]))]
    rows += [row for row in rows if "influenza" in row] * 2
    made["west"] = TransactionDatabase.from_transactions(rows, vocabulary=made["west"].vocabulary)
    return made


@pytest.fixture(scope="module")
def file(parts, tmp_path_factory):
    return FederationFile.read(Loopback.make(tmp_path_factory.mktemp("files"), parts, limits=LIMITS).file)


@pytest.fixture
def record_of(parts, file, tmp_path):
    """Returns a member's record and the table that it received."""

    def make(name, variant="x", kept=None):
        table = simulate(parts, variant=variant, **(LIMITS if variant == "x" else {})).table
        chosen = replace(file, federation=replace(file.federation, variant=variant))
        with AuditLog.of(tmp_path / f"{name}.jsonl", file, name) as audit:
            message = messages.Heard()
            audit.record(message, framing.to_bytes(message), now=datetime.now(UTC), run=b"1" * 16, peer="server")
        how = {
            "ending": "converged",
            "rounds": 7,
            "sent": summarise(tmp_path / f"{name}.jsonl"),
            "command": "fedslim member",
        }
        return member_record(chosen, name, table, kept(table) if kept else table, parts[name], **how), table

    return make


def test_the_members_counts_add_up_to_those_of_the_table(parts, record_of):
    records = {name: record_of(name) for name in parts}
    table = records["north"][1]
    for k, row in enumerate(table.itemsets):
        assert sum(record.own.usages[k] for record, _ in records.values()) == row.usage
        supports = sum(record.own.supports[k] for record, _ in records.values())
        assert row.support <= supports < row.support + table.min_count
    record, _ = records["north"]
    assert (record.own.transactions, record.kind) == (len(parts["north"]), "member")
    assert [member.transactions for member in record.members] == [len(parts["north"]), None, None]
    assert (record.own.sent["Heard"].messages, record.figures["bytes_up"]) == (1, record.own.sent["Heard"].bytes)


def test_what_a_member_does_not_find_alone(parts, record_of):
    record, table = record_of("north")
    alone = mine(parts["north"]).table
    found = compared_record(record, table, alone).own.found_alone
    local = {frozenset(row.labels) for row in alone.itemsets}
    assert found == [frozenset(row.labels) in local for row in table.itemsets]
    assert 0 < found.count(False) < len(found)


def test_what_is_different_at_a_member(record_of):
    west, table = record_of("west")
    tests = compared_record(west, table, None).own.differences
    flu = [each for row, each in zip(table.itemsets, tests, strict=True) if {"influenza", "fever"} <= {*row.labels}]
    assert sum(each.significant and each.ratio > 1.5 for each in flu) > len(flu) / 2
    assert all(each.ratio > 1 for each in flu)


def test_in_so_a_member_has_only_its_own_counts(record_of):
    record, table = record_of("south", "so")
    compared = compared_record(record, table, table)
    assert (compared.own.differences, compared.figures["not_found_alone"]) == (None, 0)


def test_a_server_that_lies_about_sums_does_not_stop_a_member(record_of):
    record, table = record_of("north")
    absurd = replace(table, transactions=10)
    assert all(each.p == 1.0 for each in compared_record(record, absurd, None).own.differences)


def test_a_record_has_no_label_that_the_policy_does_not_keep(parts, record_of):
    secret = ItemSecret.from_random(b"1" * 32)

    def by_ids(table):
        return replace(table, vocabulary=tuple(f"#{secret.id_of(label).hex()}" for label in table.vocabulary))

    record, table = record_of("north", kept=by_ids)
    data = msgspec.json.encode(compared_record(record, table, mine(parts["north"]).table))
    assert not [label for label in table.vocabulary if len(label) > 4 and f'"{label}"'.encode() in data]
    assert data.count(b'"#') > len(table)


def test_a_record_is_read_as_it_was_written(parts, record_of, tmp_path):
    record, table = record_of("west")
    compared = compared_record(record, table, mine(parts["west"]).table)
    save_run(compared, tmp_path / "run.json", private=True)
    read = load_run(tmp_path)
    assert (read.own, read.figures) == (compared.own, compared.figures)
    save_run(msgspec.structs.replace(read, own=msgspec.structs.replace(read.own, usages=[1])), tmp_path / "run.json")
    with pytest.raises(InputError, match=r"own\.usages has 1 values"):
        load_run(tmp_path)


def test_a_table_alone_is_a_record():
    table = mine(TransactionDatabase.from_transactions([list("ab"), list("ab"), list("c")] * 9)).table
    record = mined_record(table, "letters.csv")
    assert (record.code_table, record.figures["itemsets"], record.members) == (table, 1, [])
