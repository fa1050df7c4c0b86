from __future__ import annotations

import json

import numpy as np
import pytest

from fedslim.data import ItemSecret
from fedslim.mdl import CodeTable

SCHEMA = """
[columns.sex]
kind = "categorical"
categories = ["female", "male"]
synonyms = { female = ["f"], male = ["m"] }

[columns.hb]
kind = "numeric"
unit = "g/dL"
units = { "g/L" = 0.1 }
range = [3, 25]
bins = 4
resolution = 0.1

[columns.id]
kind = "ignore"
"""


def rows(seed, hb=1.0, sexes=("M", "F"), count=60):
    rng = np.random.default_rng(seed)
    return [(sexes[rng.integers(2)], f"{rng.normal(13, 2) * hb:.1f}", f"P{seed}{n:04}") for n in range(count)]


@pytest.fixture
def hospitals(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA)

    def write(name, data, header="sex,hb,id"):
        (tmp_path / name).write_text("\n".join([header, *map(",".join, data)]) + "\n")

    write("north.csv", rows(1))
    write("south.csv", rows(2, hb=10.0))
    write("south-told.csv", rows(2, hb=10.0), header="Sex,hb (g/L),id")
    write("east.csv", [(hb, "diverse" if n == 3 else sex) for n, (sex, hb, _) in enumerate(rows(3))], header="hb,sex")
    return tmp_path


def test_make_writes_a_schema_without_values_that_fits(fedslim, hospitals):
    assert fedslim("schema", "make", "north.csv", "--out", "new.toml").code == 0
    text = (hospitals / "new.toml").read_text()
    assert not any(value in text for value in ("P1", "M", '"F"'))
    assert fedslim("schema", "check", "new.toml", "north.csv").code == 0
    again = fedslim("schema", "make", "north.csv", "--out", "new.toml")
    assert again.code != 0
    assert "new.toml" in again.only_line
    assert 'categories = ["F", "M"]' in fedslim("schema", "make", "north.csv", "--with-values").out
    assert fedslim("schema", "make", "encounters").code == 2
    assert fedslim("schema", "make", "south-told.csv", "--out", "unit.toml").code == 0
    assert {"[columns.hb]", 'unit = "g/L"'} < set((hospitals / "unit.toml").read_text().splitlines())
    assert fedslim("schema", "check", "unit.toml", "south-told.csv").code == 0


def test_check_catches_a_wrong_unit_and_unknown_spellings_and_changes_nothing(fedslim, hospitals):
    before = {path.name: path.read_bytes() for path in hospitals.iterdir()}
    assert fedslim("schema", "check", "schema.toml", "north.csv").code == 0
    south = fedslim("schema", "check", "schema.toml", "south.csv")
    assert south.code == 1
    assert "it looks like g/L" in " ".join(south.out.split())
    told = json.loads(fedslim("schema", "check", "schema.toml", "south-told.csv", "--json").out)
    assert told["usable"]
    assert told["columns"][1]["notes"] == ["g/L × 0.1 = g/dL"]
    east = json.loads(fedslim("schema", "check", "schema.toml", "east.csv", "--json").out)
    assert not east["usable"]
    assert "'diverse'" in east["columns"][0]["errors"][0]
    assert {path.name: path.read_bytes() for path in hospitals.iterdir()} == before


def test_show_prints_what_can_be_read_again(fedslim, hospitals):
    shown = fedslim("schema", "show", "schema.toml").out
    (hospitals / "again.toml").write_text(shown.rpartition("digest")[0])
    first, again = (json.loads(fedslim("schema", "show", f, "--json").out) for f in ("schema.toml", "again.toml"))
    assert first["digest"] == again["digest"]
    assert first["digest"] in shown


def test_mine_with_a_schema_names_items_in_its_terms_and_numbers_them_as_asked(fedslim, hospitals):
    assert fedslim("mine", "south-told.csv", "--schema", "schema.toml", "--out", "a.json", "-q").code == 0
    labels = list(CodeTable.load(hospitals / "a.json").vocabulary)
    assert labels[:2] == ["sex=female", "sex=male"]
    assert all(label.startswith("hb=") for label in labels[2:])
    secret = ItemSecret.from_random(bytes(range(32)))
    secret.write(hospitals / "secret")
    fedslim("mine", "south-told.csv", "--schema", "schema.toml", "--secret", "secret", "--out", "b.json", "-q")
    by_id = list(CodeTable.load(hospitals / "b.json").vocabulary)
    assert by_id == sorted(labels, key=secret.id_of)
    wrong = fedslim("mine", "south.csv", "--schema", "schema.toml")
    assert (wrong.code, "south.csv" in wrong.only_line) == (2, True)
    assert (
        fedslim(
            "vocabulary", "make", "north.csv", "--schema", "schema.toml", "--secret", "secret", "--out", "v.json"
        ).code
        == 0
    )


@pytest.mark.usefixtures("hospitals")
def test_columns_can_be_chosen_without_a_schema(fedslim):
    def items(*how):
        record = json.loads(fedslim("data", "describe", "north.csv", *how, "--json", "--top", 99).out)
        return {each["item"] for each in record["frequent"]}

    assert items("--columns", "sex") == {"sex=F", "sex=M"}
    assert items("--exclude", "hb,id", "--missing", "F") == {"sex=M"}
    assert len(items("--categorical", "hb")) > 30
    assert len(items("--numeric", "hb", "--bins", 3)) == 2 + 3
    wrong = fedslim("mine", "north.csv", "--exclude", "nothing")
    assert (wrong.code, "'nothing'" in wrong.only_line) == (2, True)
    wrong = fedslim("mine", "north.csv", "--numeric", "sex")
    assert (wrong.code, "not a number" in wrong.only_line) == (2, True)
    wrong = fedslim("mine", "north.csv", "--one-hot")
    assert (wrong.code, "one_hot" in wrong.only_line) == (2, True)
    for option in (["--columns", "sex"], ["--bins", 5], ["--missing", "-99"], ["--item-column", "sex"]):
        wrong = fedslim("mine", "north.csv", "--schema", "schema.toml", *option)
        assert (wrong.code, f"{option[0]} does not go with --schema" in wrong.only_line) == (2, True)
    assert fedslim("mine", "encounters", "--columns", "sex").code == 2


@pytest.mark.usefixtures("hospitals")
def test_guesses_are_said_aloud(fedslim):
    ran = fedslim("mine", "north.csv", "--top", 1)
    assert "'id': an identifier" in ran.only_line
    told = json.loads(fedslim("data", "describe", "north.csv", "--json").out)["columns"]
    assert {each["name"]: each["kind"] for each in told} == {"sex": "categorical", "hb": "numeric", "id": "ignore"}
    assert not fedslim("mine", "north.csv", "--schema", "schema.toml").err
    asked = ("--categorical", "hb", "--columns", "hb,id", "--json")
    told = json.loads(fedslim("data", "describe", "north.csv", *asked).out)["columns"]
    assert {each["name"]: each["kind"] for each in told} == {"sex": "ignore", "hb": "categorical", "id": "categorical"}


@pytest.mark.usefixtures("hospitals")
def test_a_misspelt_path_is_told_from_data_without_columns(fedslim):
    for command in (["make"], ["check", "schema.toml"]):
        assert "neither an existing file" in fedslim("schema", *command, "nort.csv").only_line
        assert "tables with columns" in fedslim("schema", *command, "encounters").only_line


def test_simulated_members_find_the_file_of_all_rows_in_one_place(fedslim, tmp_path):
    dice, whole, files = np.random.default_rng(3), [], []
    (tmp_path / "s.toml").write_text(
        '[columns.age]\nkind = "numeric"\nbins = 4\n[columns.hb]\nkind = "numeric"\nresolution = 0.5\nbins = 5\n'
    )
    for k, order in enumerate((("age", "hb"), ("hb", "age"), ("age", "hb"))):
        own = [{"age": age, "hb": 9 + age // 20} for age in dice.integers(18, 90, 60).tolist()]
        whole += own
        lines = [",".join(order), *(",".join(str(row[name]) for name in order) for row in own)]
        files.append(tmp_path / f"{k}.csv")
        files[-1].write_text("\n".join(lines) + "\n")
    (tmp_path / "all.csv").write_text("age,hb\n" + "".join(f"{row['age']},{row['hb']}\n" for row in whole))
    assert fedslim("vocabulary", "secret", tmp_path / "m.secret").code == 0
    common = ("--schema", tmp_path / "s.toml", "--secret", tmp_path / "m.secret", "--quiet", "--out")
    ran = fedslim("simulate", *files, "--no-compare", "--json", *common, tmp_path / "run")
    assert json.loads(ran.out)["data"] == ", ".join(map(str, files))
    assert fedslim("mine", tmp_path / "all.csv", *common, tmp_path / "one.json").code == 0
    found = (tmp_path / "one.json").read_bytes()
    assert len(CodeTable.load(tmp_path / "one.json")) > 0
    assert (tmp_path / "run" / "codetable.json").read_bytes() == found
