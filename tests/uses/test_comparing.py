from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedslim.data import TransactionDatabase, builtin_database, builtin_members
from fedslim.errors import DataError
from fedslim.mdl import mine
from fedslim.report.page import comparison_page
from fedslim.uses import compare_data, compare_site, compare_slices, compare_tables

HOSPITALS = dict(builtin_members("encounters"))


def rows_with(pattern, share, n, seed):
    random = np.random.default_rng(seed)
    base = builtin_database("encounters")
    rows = [base.transaction(t) for t in random.integers(len(base), size=n).tolist()]
    return [[*row, *(pattern if random.random() < share else ())] for row in rows]


def test_a_planted_difference_is_found_and_nothing_else():
    one, other = rows_with(["p", "q"], 0.05, 1500, 1), rows_with(["p", "q"], 0.2, 1500, 2)
    compared = compare_data(one, other, names=("before", "after"))
    assert compared.found[0].items == ("p", "q")
    assert compared.found[0].ratio == pytest.approx(0.25, abs=0.1)
    assert all({"p", "q"} <= set(row.items) for row in compared.found)
    assert compared.as_dict()["found"] == len(compared.found)


def test_halves_without_a_difference_give_none():
    database = builtin_database("encounters")
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(database))
        compared = compare_data(database.take(order[:2500]), database.take(order[2500:]))
        assert not compared.found
        assert compared.dissimilarity < 0.2


def test_usages_of_both_sides_are_those_of_the_common_table():
    one, other = HOSPITALS["Harbour"], HOSPITALS["Old Town"]
    table = mine(TransactionDatabase.joined([one, other])).table
    usages = {e.labels: e.usage for e in (*table.itemsets, *table.singletons)}
    compared = compare_data(one, other)
    assert {row.items: row.count_a + row.count_b for row in compared.rows} == usages


def test_a_site_finds_what_it_alone_has_in_the_table_of_the_federation():
    table = mine(TransactionDatabase.joined(list(HOSPITALS.values()))).table
    compared = compare_site(table, HOSPITALS["Harbour"], name="Harbour")
    assert ("abdominal pain", "high blood lead", "lead poisoning", "chelation") in {r.items for r in compared.found}
    sums = {e.labels: e.usage for e in (*table.itemsets, *table.singletons)}
    assert {row.items: row.count_a + row.count_b for row in compared.rows} == sums
    assert compared.rows_a + compared.rows_b == table.transactions


def test_rows_that_were_not_mined_are_refused_unless_they_are_new():
    table = mine(HOSPITALS["Harbour"]).table
    with pytest.raises(DataError, match="were not among those mined"):
        compare_site(table, HOSPITALS["Lakeside"])
    compared = compare_site(table, HOSPITALS["Lakeside"], new=True)
    assert compared.rows_b == table.transactions
    assert compared.dissimilarity > 0


def test_with_merged_counts_only_itemsets_are_compared():
    whole = TransactionDatabase.joined(list(HOSPITALS.values()))
    compared = compare_site(mine(whole, min_count=20).table, HOSPITALS["Harbour"])
    assert all(len(row.items) > 1 for row in compared.rows)


def test_a_table_equals_itself_and_differs_from_another_by_supports():
    one, other = (mine(HOSPITALS[name]).table for name in ("Harbour", "Lakeside"))
    same = compare_tables(one, one)
    assert (same.dissimilarity, same.found) == (0.0, ())
    compared = compare_tables(one, other)
    assert compared.dissimilarity > 0
    assert compared.counts == "support"
    assert ("lead poisoning",) in {row.items for row in compared.found}
    compare_tables(one, replace(other, vocabulary=tuple(f"{x}!" for x in other.vocabulary)))


def test_slices_show_when_something_changed():
    months = [rows_with(["p", "q"], 0.02 if month < 3 else 0.3, 500, month) for month in range(5)]
    whole = TransactionDatabase.from_transactions([row for rows in months for row in rows])
    slices = [whole.take(np.arange(500 * m, 500 * (m + 1))) for m in range(5)]
    drift = compare_slices(slices, ["1", "2", "3", "4", "5"])
    assert [bool(one.found) for one in drift] == [False, False, True, False]
    assert (drift[2].name_a, drift[2].name_b) == ("3", "4")
    with pytest.raises(DataError, match="only the slice"):
        compare_slices(slices[:1], ["1"])


def test_the_page_escapes_labels_and_runs_no_script():
    compared = compare_data([["<script>alert(1)</script>", "b"]] * 30, [["b"]] * 30, names=("<b>", "other"))
    page = comparison_page([compared])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
