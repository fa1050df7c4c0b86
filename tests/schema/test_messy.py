"""Tables as people have them: a clear result or a clear sentence, never anything else."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fedslim.data import load
from fedslim.data.readers import read_table
from fedslim.errors import FedslimError
from fedslim.schema import Conformed, Schema, agree, conform
from fedslim.schema.proposal import propose

cells = st.one_of(
    st.sampled_from(
        [
            "",
            "?",
            "NA",
            "-99",
            "<0.5",
            "> 9",
            "1,5",
            "1,234",
            "1.234,5",
            "0123",
            "1e999",
            "-0.0",
            "inf",
            "nan",
            "True",
            "no",
        ]
    ),
    st.sampled_from(
        ["2026-02-30", "31.12.2025", "1/2/26", "0001-01-01", "9999-12-31", "²", "٣", "1_000", "½", '"', "a\nb"]
    ),
    st.sampled_from(["M", "male", "ÄRZTE", "ﬁ", "\u202eabc", "=1+1", " x ", "a;b", "𝟙", "\ufeff", "o\u0308"]),
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(repr),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
names = st.one_of(
    st.sampled_from(
        ["id", "ID", "age", "Age", " age", "hb (g/L)", "", "a.b", 'quo"te', "ü", "x\ny", "#", "[t]", "\x07"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
kinds = st.sampled_from(["categorical", "numeric", "boolean", "date", "ignore"])


@st.composite
def files(draw):
    """A CSV file, and the names and kinds that a schema could give its columns."""
    width = draw(st.integers(1, 4))
    header = draw(st.lists(names, min_size=width, max_size=width))
    columns = []
    for _ in range(width):
        own = draw(st.lists(cells, min_size=1, max_size=4))
        columns.append(draw(st.lists(st.sampled_from(own) | cells, min_size=1, max_size=30)))
    longest = max(map(len, columns))
    rows = [[column[row % len(column)] for column in columns] for row in range(longest)]
    if draw(st.integers(0, 9)) == 0:
        rows[0] = rows[0][:-1]
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([header, *rows])
    return stream.getvalue().encode(), {name.strip(): draw(kinds) for name in header}


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(messy=files(), chosen=kinds)
def test_messy_tables_give_a_result_or_a_sentence(messy, chosen, tmp_path):
    content, kinds_of = messy
    path = tmp_path / "messy.csv"
    path.write_bytes(content)

    def tried(do):
        try:
            return do()
        except FedslimError as error:
            assert str(error)  # noqa: PT017  # either is fine
            assert len(str(error)) < 1000  # noqa: PT017
            return None

    database = tried(lambda: load(path))
    assert database is None or database.transactions > 0
    table = tried(lambda: read_table(path))
    if table is None:
        return
    for with_values in (False, True):
        text = tried(lambda values=with_values: propose(table, with_values=values))
        if text is not None:  # what is proposed fits the data it was made from
            proposed = Schema.parse(text.encode(), "schema.toml")
            site = conform(proposed, table)
            assert site.items(agree(proposed, [site])).transactions == site.rows
    own = tried(lambda: Schema.of({"columns": {name: {"kind": kind} for name, kind in kinds_of.items()}}))
    if own is not None:
        report = tried(lambda: Conformed(own, table).report)
        site = tried(lambda: conform(own, table))
        assert (site is None) == (report is None or any(column.errors for column in report))
        assert site is None or tried(lambda: site.items(agree(own, [site]))) is not None
    for choice in ("categorical", "numeric", "exclude", "columns", "missing"):
        tried(lambda choice=choice: load(path, **{choice: [table.columns[0].name]}))
    tried(lambda: load(path, one_hot=chosen == "boolean", bins=2))


@pytest.mark.parametrize("name", ["age", "ü x", "a.b", 'quo"te', "#"])
def test_any_printable_name_can_be_proposed(name, tmp_path):
    path = tmp_path / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([[name, "b"], *([str(n), "x"] for n in range(30))])
    assert Schema.parse(propose(read_table(path)).encode(), "s").columns[name].kind == "numeric"
