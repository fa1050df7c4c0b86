from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from fedslim import CodeTable, SlimClassifier
from fedslim.data import load, write_fimi
from fedslim.uses import score


@pytest.fixture
def table(fedslim, tmp_path):
    path = tmp_path / "table.json"
    assert fedslim("mine", "encounters", "--out", path, "--top", 0).code == 0
    return path


@pytest.fixture
def visits(fedslim, tmp_path):
    """A table with a few missing cells, and the code table of it."""
    random = np.random.default_rng(0)
    age = random.integers(18, 90, 400)
    drug = [None if t % 50 == 0 else "statin" if a > 60 else "none" for t, a in enumerate(age.tolist())]
    frame = pd.DataFrame({"month": 1 + np.arange(400) // 100, "age": age, "drug": drug})
    frame.to_csv(tmp_path / "visits.csv", index=False)
    assert fedslim("mine", tmp_path / "visits.csv", "--out", tmp_path / "visits.json").code == 0
    return tmp_path / "visits.csv", tmp_path / "visits.json"


def test_scores_say_how_to_explain_a_row(fedslim, table):
    assert f"`fedslim explain {table} encounters --row N`" in fedslim("score", table, "encounters").out


def test_options_of_files_are_refused_for_data_that_are_no_file(fedslim, table):
    ran = fedslim("score", table, "encounters", "--format", "csv")
    assert ran.code != 0
    assert "encounters is generated, not read from a file" in ran.err


@pytest.mark.parametrize("name", ["scores.csv", "scores.parquet", "scores.json"])
def test_scores_are_written_with_the_unusual_rows_first(fedslim, table, tmp_path, name):
    out = tmp_path / name
    ran = fedslim("score", table, "encounters", "--out", out, "--top", 2, "--json")
    assert ran.code == 0
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "json": pd.read_json}[name.partition(".")[2]]
    frame = read(out)
    expected = score(CodeTable.load(table), "encounters")
    assert frame["row"].tolist() == (expected.ranking + 1).tolist()
    assert frame["beyond"].tolist() == pytest.approx(expected.beyond[expected.ranking].tolist())
    assert json.loads(ran.out)["top"] == frame.head(2).to_dict("records")


def test_a_row_is_explained(fedslim, table):
    ran = fedslim("explain", table, "encounters", "--row", 4375)
    assert ran.code == 0
    assert "missed by one item" in ran.out
    assert json.loads(fedslim("explain", table, "encounters", "--row", 4375, "--json").out)["row"] == 4375
    assert fedslim("explain", table, "encounters", "--row", 5001).only_line.startswith(
        "fedslim: error: there is no row"
    )


def test_rules_are_shown_and_written(fedslim, table, tmp_path):
    ran = fedslim("rules", table, "--out", tmp_path / "rules.csv", "--json", "--top", 3)
    found = json.loads(ran.out)
    with (tmp_path / "rules.csv").open() as stream:
        assert len(list(csv.reader(stream))) == found["rules"] + 1
    assert found["top"][0]["lift"] >= found["top"][1]["lift"]
    assert "→" in fedslim("rules", table).out


def test_missing_cells_are_completed(fedslim, visits, tmp_path):
    data, table = visits
    ran = fedslim("complete", table, data, "--json", "--out", tmp_path / "cells.csv")
    cells = json.loads(ran.out)
    assert cells["cells"] == 8
    assert set(cells["top"][0]["values"]) == {"statin", "none"}
    assert fedslim("complete", table, data).code == 0
    assert fedslim("complete", tmp_path / "table.json", data).code == 2


def test_sites_data_tables_and_slices_are_compared(fedslim, table, visits, tmp_path):
    data, own = visits
    ran = fedslim("compare", data, "--by", "month", "--json", "--out", tmp_path / "drift.html")
    assert [one["name_b"] for one in json.loads(ran.out)["comparisons"]] == ["2", "3", "4"]
    page = (tmp_path / "drift.html").read_text()
    assert page.count("<h2>") == 3
    assert "1 to 4</h1>" in page
    assert page.count('<td class="number" data-label="dissimilarity to the one before">') == 3
    assert "differs for 0 of" in fedslim("compare", table, table).out
    assert "differs for 0 of" in fedslim("compare", own, data).out
    assert "dissimilarity" in fedslim("compare", data, data).out


SCHEMA = """\
[columns.hb]
kind = "numeric"
bins = 3
resolution = 0.5
unit = "g/dL"
units = { "g/L" = 0.1 }

[columns.sex]
kind = "categorical"
synonyms = { female = ["f"], male = ["m"] }
"""


def test_data_are_compared_by_a_schema_and_with_the_options_of_reading(fedslim, tmp_path):
    one, other, rules = tmp_path / "one.csv", tmp_path / "other.csv", tmp_path / "schema.toml"
    rules.write_text(SCHEMA)
    one.write_text("sex,hb\n" + "".join(f"{'mf'[n % 2]},{9 + n / 10}\n" for n in range(60)))
    other.write_text("hb (g/L);sex\n" + "".join(f"{90 + n};{('male', 'female')[n % 2]}\n" for n in range(60)))
    assert "looks like several" in fedslim("compare", other, other).only_line
    assert "dissimilarity 0.000" in fedslim("compare", other, other, "--separator", ";").out
    commas = tmp_path / "commas.csv"
    commas.write_text(other.read_text().replace(";", ","))
    assert "has a column 'hb'" in fedslim("compare", one, commas).only_line
    compared = json.loads(fedslim("compare", one, commas, "--schema", rules, "--json").out)["comparisons"][0]
    assert {tuple(row["items"]) for row in compared["rows"]} >= {("sex=female",), ("sex=male",)}
    assert all(row["count_a"] == row["count_b"] for row in compared["rows"])


def test_sides_of_a_comparison_may_come_from_a_database_a_file_and_a_name(fedslim, visits, tmp_path):
    data, url = visits[0], f"sqlite:///{tmp_path / 'visits.db'}"
    frame = pd.read_csv(data)
    with closing(sqlite3.connect(tmp_path / "visits.db")) as connection:
        frame.to_sql("visits", connection, index=False)
    frame.to_csv(tmp_path / "semicolons.csv", index=False, sep=";")
    for sides in ((url, tmp_path / "semicolons.csv"), (tmp_path / "semicolons.csv", url)):
        ran = fedslim("compare", *sides, "--table", "visits", "--separator", ";", "--json")
        compared = json.loads(ran.out)["comparisons"][0]
        assert compared["rows_a"] == compared["rows_b"] == 400
        assert all(row["count_a"] == row["count_b"] for row in compared["rows"])
    assert "--table is not for" in fedslim("compare", data, data, "--table", "visits").only_line
    pairs = [(visit, item) for visit, row in enumerate(load("encounters")) for item in row]
    pd.DataFrame(pairs, columns=["visit", "item"]).to_csv(tmp_path / "long.csv", index=False)
    for chosen in ((), ("--transaction-column", "visit", "--item-column", "item")):
        ran = fedslim("compare", "encounters", tmp_path / "long.csv", *chosen, "--json")
        assert all(row["count_a"] == row["count_b"] for row in json.loads(ran.out)["comparisons"][0]["rows"])
    assert "in one form" in fedslim("compare", "encounters", data).err


def test_slices_are_months_of_dates_and_intervals_of_numbers_in_their_order(fedslim, tmp_path):
    data, rules = tmp_path / "visits.csv", tmp_path / "schema.toml"
    rules.write_text(SCHEMA.partition("[columns.sex]")[0])
    days = [f"{1 + n % 28:02}.{1 + n // 30:02}.{2025 + n // 90}" for n in range(120)]
    data.write_text("day,drug,hb\n" + "".join(f"{day},{'ab'[n % 2]},{n}\n" for n, day in enumerate(days)))
    ran = fedslim("compare", data, "--by", "day", "--json")
    assert "'day': dates, by month" in ran.err
    names = [one["name_b"] for one in json.loads(ran.out)["comparisons"]]
    assert names == ["2025-02", "2025-03", "2026-04"]
    names = [one["name_b"] for one in json.loads(fedslim("compare", data, "--by", "hb", "--json").out)["comparisons"]]
    assert (names[0], names[-1], len(names)) == ("[12, 24)", "≥108", 9)
    ran = json.loads(fedslim("compare", data, "--by", "drug", "--schema", rules, "--json").out)["comparisons"][0]
    assert {item.partition("=")[0] for row in ran["rows"] for item in row["items"]} == {"hb"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["score", "{table}", "encounters", "--out", "x.txt"], "ends in .csv, .parquet or .json"),
        (["score", "{table}", "nothing.csv"], "neither an existing file"),
        (["score", "nothing.json", "encounters"], "cannot be read"),
        (["compare", "encounters"], "give two things to compare"),
        (["compare", "encounters", "{table}"], "name the table first"),
        (["compare", "{table}", "encounters", "--bins", "3"], "leave out --bins"),
        (["compare", "{table}", "{table}", "--bins", "3"], "leave out --bins"),
        (["compare", "{table}", "{table}", "--new"], "--new is for a code table and data"),
        (["compare", "encounters", "encounters", "--new"], "--new is for a code table and data"),
        (["compare", "encounters", "--by", "month"], "no item 'month'"),
        (
            ["compare", "encounters", "--by", "female"],
            "encounters: row 3 does not have exactly one of the items 'female'",
        ),
        (["compare", "{table}", "--by", "month"], "has no rows to slice"),
        (["explain", "{table}", "encounters", "--row", "x"], "whole number"),
        (["rules", "{table}", "--min-confidence", "2"], "at most 1"),
        (["complete", "{table}", "encounters"], "no cells to complete"),
        (["simulate", "encounters", "--classes", "female,male", "--variant", "sa"], "--classes does not go with"),
    ],
)
def test_bad_input_gets_one_sentence(fedslim, table, monkeypatch, tmp_path, arguments, why):
    monkeypatch.chdir(tmp_path)
    ran = fedslim(*(argument.format(table=table) for argument in arguments))
    assert ran.code == 2
    assert why in ran.only_line


def test_nothing_is_written_over_what_it_is_made_from(fedslim, table, visits, tmp_path):
    data, own = visits
    run = tmp_path / "run"
    assert fedslim("simulate", "encounters", "--members", 2, "--out", run).code == 0
    for place, *arguments in (
        (own, "score", own, data),
        (own, "complete", own, data),
        (table, "rules", table),
        (run / "codetable.json", "score", run, "encounters"),
        (run / "run.json", "rules", run),
        (data, "compare", data, data),
        (own, "compare", own, data),
        (run / "run.json", "compare", run, table),
    ):
        before = place.read_bytes()
        ran = fedslim(*arguments, "--out", place)
        assert (ran.code, place.read_bytes()) == (2, before)
        assert "would be overwritten" in ran.only_line


def test_a_folder_is_one_run_or_data(fedslim, visits, tmp_path):
    data, own = visits
    (tmp_path / "parts").mkdir()
    pd.read_csv(data).to_parquet(tmp_path / "parts" / "1.parquet")
    for arguments in ((tmp_path / "parts", data), (own, tmp_path / "parts")):
        assert "differs for 0 of" in fedslim("compare", *arguments).out
    for number in (1, 2):
        assert fedslim("simulate", data, "--members", 2, "--out", tmp_path / "runs" / str(number)).code == 0
    assert "there are 2 runs" in fedslim("score", tmp_path / "runs", data).only_line
    assert fedslim("score", tmp_path / "runs" / "1", data).code == 0


def test_data_that_the_table_does_not_know_are_warned_about(fedslim, table, tmp_path):
    write_fimi(load("wide-sparse:50"), tmp_path / "other.dat")
    assert "knows no item" in fedslim("score", table, tmp_path / "other.dat").err


def test_a_simulated_federation_makes_a_classifier_equal_to_that_of_all_rows(fedslim, tmp_path):
    ran = fedslim(
        "simulate", "encounters", "--classes", "female,male", "--members", 3, "--out", tmp_path / "run", "--json"
    )
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["equal"] is True
    assert [one["class"] for one in found["classes"]] == ["female", "male"]
    assert SlimClassifier.load(tmp_path / "run" / "classifier.json").classes_.tolist() == ["female", "male"]


def test_classes_are_those_of_rows_read_with_the_options_of_reading(fedslim, visits, tmp_path):
    frame = pd.read_csv(visits[0]).dropna()
    frame.to_csv(tmp_path / "visits.csv", index=False, sep=";")
    with closing(sqlite3.connect(tmp_path / "visits.db")) as connection:
        frame.to_sql("visits", connection, index=False)
    chosen = ["--classes", "drug", "--bins", 3, "--exclude", "month", "--members", 2, "--no-compare", "--json"]
    made = {
        "csv": (tmp_path / "visits.csv", "--separator", ";"),
        "db": (f"sqlite:///{tmp_path / 'visits.db'}", "--table", "visits"),
    }
    for name, source in made.items():
        assert fedslim("simulate", *source, *chosen, "--out", tmp_path / name).code == 0
    of_file, of_database = (SlimClassifier.load(tmp_path / name / "classifier.json").tables_ for name in made)
    assert of_file == of_database
    assert [item.partition("=")[0] for item in of_file[0].vocabulary] == ["age"] * 3
    of_file[0].save(tmp_path / "none.json")  # the class may be in the file
    assert fedslim("score", tmp_path / "none.json", *made["csv"]).code == 0


@pytest.mark.parametrize("files", [("all",), ("north", "south")])
def test_members_with_a_schema_find_the_classifier_of_one_place(fedslim, tmp_path, files):
    schema, rows = (
        tmp_path / "schema.toml",
        [(20 + 7 * k % 60, "ab"[k % 3 == 0], "no" if k % 4 else "yes") for k in range(90)],
    )
    schema.write_text('[columns.age]\nkind = "numeric"\nbins = 3\n[columns.drug]\nkind = "categorical"\n')
    for name, own in {"all": rows, "north": rows[:50], "south": rows[50:]}.items():
        lines = [f"{age},{drug},{ill}" for age, drug, ill in own]
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,drug,ill", *lines]) + "\n")
    chosen = ["--schema", schema, "--classes", "ill", "--out", tmp_path / "run", "--json"]
    members = ["--members", 3] if len(files) == 1 else []
    paths = [tmp_path / f"{name}.csv" for name in files]
    found = json.loads(fedslim("simulate", *paths, *members, *chosen).out)
    assert found["equal"] is True
    assert sum(one["transactions"] for one in found["classes"]) == 90
    model = SlimClassifier.load(tmp_path / "run" / "classifier.json")
    assert model.predict(str(tmp_path / "all.csv")).shape == (90,)
    schema.write_text(schema.read_text() + '[columns.ill]\nkind = "boolean"\n')
    assert "makes items of the classes" in fedslim("simulate", *paths, *members, *chosen).err


def test_a_page_of_slices_says_what_was_sliced(fedslim, visits, tmp_path):
    data, _ = visits
    page = tmp_path / "page.html"
    assert fedslim("compare", data, "--by", "month", "--out", page).code == 0
    assert f"Slices of {data} by month</p>" in page.read_text()


def test_no_rows_are_shown_with_top_0(fedslim, table):
    assert json.loads(fedslim("rules", table, "--top", 0, "--json").out)["top"] == []
    compared = json.loads(fedslim("compare", table, table, "--top", 0, "--json").out)["comparisons"]
    assert compared[0]["rows"] == []
    assert compared[0]["tested"] > 0


def test_a_site_without_others_is_told_so(fedslim, table):
    told = "no others to compare with; add --new"
    assert told in fedslim("compare", table, "encounters").err
    assert told not in fedslim("compare", table, "encounters", "--new").err


@pytest.mark.parametrize("how", [("--exclude", "extra"), ("--columns", "age,drug"), ("--exclude", "extra,month")])
def test_a_column_that_is_left_out_need_not_be_on_both_sides(fedslim, visits, tmp_path, how):
    data, _ = visits
    more = tmp_path / "more.csv"
    pd.read_csv(data).assign(extra=1).to_csv(more, index=False)
    assert "has a column 'extra'" in fedslim("compare", data, more).only_line
    compared = json.loads(fedslim("compare", data, more, *how, "--json").out)["comparisons"][0]
    assert not any(item.startswith("extra=") for row in compared["rows"] for item in row["items"])
    assert compared["rows_a"] == compared["rows_b"] == 400
    assert "no column 'nowhere'" in fedslim("compare", data, more, "--exclude", "extra,nowhere").only_line
