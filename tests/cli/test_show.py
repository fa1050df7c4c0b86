from __future__ import annotations

import json

from fedslim.mdl.codetable import CodeTable


def test_show_is_what_mine_showed(fedslim, tmp_path):
    out = tmp_path / "table.json"
    mined = fedslim("mine", "encounters", "--out", out).out.split("\n\n")
    ran = fedslim("show", out)
    shown = ran.out.split("\n\n")
    assert (ran.code, ran.err) == (0, "")
    assert shown[0] == mined[0]
    facts = {line.split()[0]: line.split(maxsplit=1)[1] for line in mined[1].splitlines()}
    again = {line.split()[0]: line.split(maxsplit=1)[1] for line in shown[1].splitlines()}
    assert again["data"] == f"{out}: 5,000 transactions, 76 items"
    assert all(again[name] == facts[name] for name in ("found", "L%", "bits"))


def test_show_as_json(fedslim, baskets, tmp_path):
    out = tmp_path / "table.json"
    mined = json.loads(fedslim("mine", baskets, "--json", "--out", out).out)
    shown = json.loads(fedslim("show", out, "--json", "--top", 1).out)
    assert shown.pop("file") == str(out)
    assert shown.pop("top") == mined["top"][:1]
    assert shown.items() <= mined.items()


def test_show_needs_no_engine(fedslim, baskets, tmp_path, loaded_by):
    out = tmp_path / "table.json"
    fedslim("mine", baskets, "--out", out)
    assert loaded_by("show", out) & {"numba", "llvmlite", "sklearn", "scipy"} == set()


def test_what_is_no_code_table_is_refused(fedslim, baskets):
    ran = fedslim("show", baskets)
    assert ran.code == 2
    assert str(baskets) in ran.only_line


def test_figures_are_those_of_the_table(fedslim, baskets, tmp_path):
    out = tmp_path / "table.json"
    told = json.loads(fedslim("mine", baskets, "--json", "--out", out).out)
    c = CodeTable.load(out).compression
    for end, bits in (("", c.after), ("_before", c.before)):
        parts = tuple(told[f"bits_{part}{end}"] for part in ("total", "data", "model"))
        assert parts == (bits.total, bits.data, bits.model)
        assert bits.data != bits.model
    assert (told["L_percent"], told["L_data_percent"]) == (c.L_percent, c.L_data_percent)
