"""A classifier from a federation of real processes: one run for each class, one command for each process."""

from __future__ import annotations

import numpy as np
import pytest
from prepared import MEMBERS, SCHEMA, PreparedLoopback, rows_of

from fedslim import SlimClassifier
from fedslim.data import ItemSecret, TransactionDatabase, Vocabulary, load, over
from fedslim.federated.loopback import Loopback
from fedslim.schema import Schema
from fedslim.uses.cells import labelled

CLASSES = ("--classes", "well,ill")


def rows(random, n):
    """Rows of both classes with patterns of their own, and all items somewhere."""
    made = [[label, *(f"i{k}" for k in range(8))] for label in ("well", "ill")]
    for _ in range(n):
        ill = random.random() < 0.4
        pattern = ["i0", "i1", "i2"] if ill else ["i3", "i4"]
        noise = [f"i{k}" for k in range(8) if random.random() < 0.2]
        made.append(["ill" if ill else "well", *pattern, *noise])
    return made


@pytest.mark.slow
def test_every_member_has_the_classifier_of_all_rows_in_one_place(tmp_path):
    random = np.random.default_rng(0)
    whole = TransactionDatabase.from_transactions(rows(random, 78) + rows(random, 58) + rows(random, 98))
    parts = np.split(np.arange(len(whole)), [80, 140])
    databases = {name: whole.take(part) for name, part in zip(("north", "south", "west"), parts, strict=True)}
    federation = Loopback.make(tmp_path, databases, grace=60.0)
    try:
        started = [federation.start_server(*CLASSES)]
        started += [federation.start_member(name, *CLASSES) for name in databases]
        codes = [process.wait(240) for process in started]
        assert codes == [0] * 4, [federation.said(who)[-2000:] for who in ("server", *databases)]
    finally:
        federation.close()
    # In one place, with the items in the order that the members agreed on, and with their settings.
    agreed, secret = Vocabulary.read(tmp_path / "vocabulary.json"), ItemSecret.read(tmp_path / "secret.txt")
    rest, y = labelled(whole, "well,ill")
    model = SlimClassifier(width=8).fit(over(rest, agreed, secret), y)
    assert all(len(table) for table in model.tables_)
    model.save(tmp_path / "one.json")
    saved = [(federation.out(name) / "classifier.json").read_bytes() for name in databases]
    assert saved == [(tmp_path / "one.json").read_bytes()] * 3


@pytest.mark.slow
def test_with_a_schema_too_after_one_preparation(tmp_path):
    rows = [row | {"outcome": "ill" if float(row["hb"]) < 12 else "well"} for row in rows_of(240)]
    schema = SCHEMA + '\n[columns.outcome]\nkind = "ignore"\n'
    federation = PreparedLoopback.of(tmp_path, {name: rows[k::3] for k, name in enumerate(MEMBERS)}, schema, grace=60.0)
    try:
        started = [federation.start_server(*CLASSES)]
        started += [federation.start_member(name, *CLASSES, "--class-column", "outcome") for name in MEMBERS]
        codes = federation.wait(*started, seconds=240)
        assert codes == [0] * 4, [federation.said(who)[-2000:] for who in ("server", *MEMBERS)]
    finally:
        federation.close()
    whole, secret = tmp_path / "all.csv", ItemSecret.read(tmp_path / "secret.txt")
    database = load(whole, schema=Schema.read(tmp_path / "schema.toml"))
    agreed = Vocabulary.merge(Vocabulary.of(database.vocabulary, secret))
    model = SlimClassifier(width=8).fit(over(database, agreed, secret), labelled(whole, "outcome")[1])
    assert all(len(table) for table in model.tables_)
    model.save(tmp_path / "one.json")
    saved = [(federation.out(name) / "classifier.json").read_bytes() for name in MEMBERS]
    assert saved == [(tmp_path / "one.json").read_bytes()] * 3
    audits = [(federation.out("east") / f"class-{k}" / "audit.jsonl").read_text("utf-8") for k in (1, 2)]
    assert ['"prepare"' in audit for audit in audits] == [True, False]
