"""`fedslim score`, `explain`, `compare`, `complete` and `rules`: what a code table is good for."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fedslim
from fedslim import uses
from fedslim.cli.console import options
from fedslim.cli.console.options import (
    CHOICES,
    READING_ROWS,
    Reading,
    argument,
    flag,
    masked,
    option,
    reads_data,
    reads_rows,
    telling,
    whole,
)
from fedslim.cli.console.output import CODE_TABLE, RUN, grid, print_result, shown_items, shown_label, warn
from fedslim.cli.console.progress import compile_with_progress, reporter
from fedslim.cli.console.saving import check_kind, check_place, write_columns
from fedslim.errors import InputError, ParameterError
from fedslim.format import count, number

TABLE = argument("TABLE", "A code table, a run record, or the folder of a run.")
OUT = option("FILE", "Write the whole result to a .csv, .parquet or .json file.")
SHOWN = option("N", "Number of rows to show.", whole(0), name="--top", default=20)


@reads_rows
def score(
    model: Path = TABLE,
    data: str = options.DATA,
    *,
    out: Path | None = OUT,
    top: int = SHOWN,
    json: bool = options.JSON,
    reading: Reading,
    quiet: bool = options.QUIET,
) -> None:
    """Score the rows of DATA: their bits, and the bits beyond what you would expect of their items and length.

    The most unusual rows come first. Large files are read in chunks.
    """
    import numpy as np

    from fedslim.uses.scoring import score_chunks

    used = UsedTable(model, reading, out, quiet=quiet)
    with used.report.stage(f"scoring {shown_label(data)}"):
        scores = score_chunks(used.table, used.chunks())
    order = scores.ranking if out is not None else scores.ranking[:top]
    columns = {
        "rank": np.arange(1, len(order) + 1),
        "row": order + 1,
        "bits": scores.bits[order],
        "expected": scores.expected[order],
        "beyond": scores.beyond[order],
    }
    used.write(columns)
    first = list(zip(*(column[:top].tolist() for column in columns.values()), strict=True))
    rows = [dict(zip(columns, row, strict=True)) for row in first]
    shown = [(rank, row, *(f"{x:.1f}" for x in bits)) for rank, row, *bits in first]
    explain = shlex.join(["fedslim", "explain", str(model), data])
    print_result(
        json,
        {"table": str(model), "data": data, "rows": len(scores.bits), "top": rows, "out": used.saved},
        grid((*columns,), shown, right=5),
        f"{count(len(scores.bits), 'row')}; see why with `{explain} --row N`",
    )


@reads_rows
def explain(
    model: Path = TABLE,
    data: str = options.DATA,
    *,
    row: int = option("N", "The row to explain, counted from 1.", whole(1), default=...),
    json: bool = options.JSON,
    reading: Reading,
    quiet: bool = options.QUIET,
) -> None:
    """Explain the bits of a row of DATA: its cover, items outside itemsets, what it lacks, what is rarely together."""
    from fedslim.uses.explaining import explain_rows

    used = UsedTable(model, reading, None, quiet=quiet)
    with used.report.stage(f"reading {shown_label(data)}"):
        explanation = explain_rows(used.table, used.whole(), [row])[0]
    print_result(json, explanation.as_dict(), str(explanation))


@reads_rows
def complete(
    model: Path = TABLE,
    data: str = options.DATA,
    *,
    out: Path | None = OUT,
    top: int = SHOWN,
    json: bool = options.JSON,
    reading: Reading,
    quiet: bool = options.QUIET,
) -> None:
    """Complete missing cells of DATA: the value with the fewest bits, and the bits that each other value costs more."""
    from fedslim.uses.completing import Cell, cells

    used = UsedTable(model, reading, out, quiet=quiet)
    found: list[Cell] = []
    first = 1
    with used.report.stage(f"completing {shown_label(data)}"):
        for chunk in used.chunks():
            found += cells(used.table, chunk, first)
            first += len(chunk)
    each = [(cell.row, cell.column, value, bits) for cell in found for value, bits in cell.values]
    used.write({name: [row[k] for row in each] for k, name in enumerate(("row", "column", "value", "bits"))})
    rows = [{"row": c.row, "column": c.column, "values": dict(c.values)} for c in found[:top]]
    shown = []
    for cell in found[:top]:
        (best, bits), *others = cell.values
        rest = ", ".join(f"{shown_label(value)} +{more - bits:.1f}" for value, more in others[:3])
        shown.append((cell.row, f"{bits:.1f}", shown_label(cell.column), shown_label(best), rest))
    print_result(
        json,
        {"table": str(model), "data": data, "cells": len(found), "top": rows, "out": used.saved},
        grid(("row", "bits", "column", "value", "others"), shown, right=2),
        count(len(found), "missing cell"),
    )


def rules(
    table: Path = TABLE,
    min_confidence: float = option("P", "Smallest confidence of a rule to show.", min=0, max=1, default=0.5),
    min_lift: float = option("X", "Smallest lift of a rule to show.", min=0, default=1.0),
    out: Path | None = OUT,
    top: int = SHOWN,
    json: bool = options.JSON,
) -> None:
    """Read the itemsets of TABLE as rules, if … then …, with support, confidence and lift, the highest lift first."""
    from fedslim.uses.association import COLUMNS, rule_records

    used = UsedTable(table, None, out, quiet=True)
    found = rule_records(used.table, min_confidence=min_confidence, min_lift=min_lift)
    plain = [{**r, **{side: sorted(r[side]) for side in COLUMNS[:2]}} for r in found]
    for r in plain:
        r["conviction"] = None if r["confidence"] == 1 else r["conviction"]  # JSON has no infinity
    used.write({name: [r[name] if k > 1 else "; ".join(r[name]) for r in plain] for k, name in enumerate(COLUMNS)})
    shown = []
    for r in plain[:top]:
        rule = " → ".join(shown_items(r[side]) for side in COLUMNS[:2])
        shown.append((f"{r['support']:.4f}", f"{r['confidence']:.3f}", f"{r['lift']:.2f}", rule))
    print_result(
        json,
        {"table": str(table), "rules": len(plain), "top": plain[:top], "out": used.saved},
        grid(("support", "confidence", "lift", "if → then"), shown, right=3),
        count(len(plain), "rule"),
    )


@reads_data
def compare(
    data: str = argument("A", "Data, or a code table, or a run.", masked),
    other: str | None = argument("[B]", "The same; leave it out with --by.", masked, default=None),
    *,
    by: str | None = option("COLUMN", "Slice A by this column, and compare each slice with the one before."),
    new: bool = flag("--new", "For a table and data: the table was not mined from these rows."),
    fdr: float = option("P", "Largest expected share of false discoveries.", min=0, max=1, default=0.05),
    out: Path | None = option("FILE", "Write a page with both side by side (HTML)."),
    top: int = SHOWN,
    json: bool = options.JSON,
    reading: Reading,
    quiet: bool = options.QUIET,
) -> None:
    """Compare two data sets, tables or runs, a site with its federation, or the slices of one data set.

    For a site, A is the code table of the federation and B the site's own data. Nothing is sent.
    """
    from fedslim.mdl.mining import prepare
    from fedslim.uses import comparing

    if (other is None) == (by is None):
        raise ParameterError("give two things to compare, or one with --by COLUMN")
    if out is not None:
        _check_out(out, data, other)
    report = reporter(quiet=quiet)
    compile_with_progress(report, prepare)
    with report.stage(f"comparing {shown_label(data)}"), telling():
        a, b = _table_if(data), None if other is None else _table_if(other)
        if new and (a is None or b is not None):
            raise ParameterError("--new is for a code table and data; leave it out")
        if a is not None:
            _check_not_chosen(reading, data, by)
        if a is not None and b is not None:
            compared = [comparing.compare_tables(a, b, names=(data, str(other)), fdr=fdr)]
        elif a is not None and other is not None:
            rows = replace(reading, source=other).rows()
            compared = [comparing.compare_site(a, rows, name=str(other), new=new, fdr=fdr)]
        elif b is not None:
            msg = f"{other} is a code table and {data} is not; name the table first, then the data of the site"
            raise ParameterError(msg)
        else:
            compared = comparing.compare_slices(*_slices(reading, other, by), fdr=fdr)
    if out is not None:
        from fedslim.data.atomic import write_whole
        from fedslim.report.page import comparison_page

        about = [] if by is None else [f"Slices of {shown_label(data)} by {by}"]
        write_whole(out, comparison_page(compared, *about).encode())
    if a is not None and b is None and compared[0].rows_b == 0:
        msg = "so there are no others to compare with; add --new if it was mined from other rows"
        warn(f"{data} was mined from as many rows as {other} has, {msg}")
    records = [each.as_dict() for each in compared] if json else []
    cut = [{**r, "tested": len(r["rows"]), "rows": r["rows"][:top]} for r in records]
    print_result(json, {"comparisons": cut}, *(part for each in compared for part in _shown(each, top)))


def _slices(
    reading: Reading, other: str | None, by: str | None
) -> "tuple[Sequence[fedslim.TransactionDatabase], Sequence[str]]":
    """Return two data sets over the same items, or the slices of one."""
    from fedslim.data import encode_together
    from fedslim.data.encoding import encode_table
    from fedslim.schema import agree
    from fedslim.uses.cells import sliced

    schema, choices = reading.chosen().get("schema"), reading.given(CHOICES)
    if by is not None:
        return sliced(reading.rows(), by, schema, **choices)
    both = _sides(reading, replace(reading, source=other or ""))
    names = [shown_label(str(one.source)) for one in both]
    if schema is not None:
        sites = [one.conformed(schema) for one in both]
        agreed = agree(schema, sites)
        return encode_together([site.items(agreed) for site in sites], names)[0], names
    rows = [one.rows() for one in both]
    if any(isinstance(own, fedslim.TransactionDatabase) for own in rows):  # a table beside it has items only if long
        for k, table in enumerate(rows):
            if not isinstance(table, fedslim.TransactionDatabase):
                database, encoding = encode_table(table, **choices)
                rows[k] = database if encoding.kind == "items" else table
    else:
        rows, choices = _without_left_out(rows, choices)
    return encode_together(rows, names, **choices)[0], names


def _without_left_out(tables: list[Any], choices: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return tables without the columns that are left out and that only some have, and the choices for what remains."""
    chosen, excluded = choices.get("columns"), choices.get("exclude") or ()
    own = [set(table.names) for table in tables]
    single = set.union(*own) - set.intersection(*own)
    gone = {name for name in single if name in excluded or (chosen is not None and name not in chosen)}
    if not gone:
        return tables, choices
    kept = [replace(one, columns=[column for column in one.columns if column.name not in gone]) for one in tables]
    return kept, choices | {"exclude": [name for name in excluded if name not in gone] or None}


def _sides(a: Reading, b: Reading) -> tuple[Reading, Reading]:
    """Return how to read two sides: an option that only one of a file, a database and a name has is for that side."""
    from fedslim.data.readers import is_source
    from fedslim.data.sql import is_url

    def foreign(side: Reading) -> set[str]:
        if is_url(side.source):
            return {"format", "separator", "encoding"}
        return {"query", "table"} if is_source(side.source) else {*READING_ROWS, *CHOICES} - {"folder"}

    for_b: dict[str, Any] = dict.fromkeys(foreign(a) - foreign(b))
    for_a: dict[str, Any] = dict.fromkeys(foreign(b) - foreign(a))
    return replace(a, **for_b), replace(b, **for_a)


def _shown(compared: "uses.Differences", top: int) -> tuple[Any, str]:
    a, b = shown_label(compared.name_a), shown_label(compared.name_b)
    found = compared.found[:top]
    ratios = ["∞" if row.ratio is None else f"{row.ratio:.2f}" for row in found]
    rows = [(r.count_a, r.count_b, ratio, f"{r.q:.2g}", r.items) for r, ratio in zip(found, ratios, strict=True)]
    told = (
        f"{a} ({count(compared.rows_a, 'row')}) and {b} ({count(compared.rows_b, 'row')}): "
        f"dissimilarity {compared.dissimilarity:.3f}; {compared.counts} differs for {len(compared.found):,} of "
        f"{number(len(compared.rows))} itemsets and items (false discovery rate {compared.fdr:g})"
    )
    return grid((f"in {a}", f"in {b}", "ratio", "q", "items"), rows, right=4), told


def _check_not_chosen(reading: Reading, table: str, by: str | None) -> None:
    """Refuse slices of a code table, and options that say what columns become, where the table says that."""
    if by is not None:
        raise ParameterError(f"{table} is a code table or a run, which has no rows to slice; give data with --by")
    for name in reading.given(("bins", "schema", *CHOICES[1:-1])):
        raise ParameterError(f"the code table says how rows become items; leave out --{name.replace('_', '-')}")


def _check_out(out: Path, *sources: str | Path | None) -> None:
    """Check that the output can be written and does not replace data, a code table or a run that it is made from."""
    for source in (Path(source) for source in sources if source is not None):
        for file in (source, source / CODE_TABLE, source / RUN):
            check_place(out, besides=file, what="one of the inputs")


class UsedTable:
    """A code table and data to use it on, after everything that can be checked has been checked."""

    def __init__(self, table: Path, reading: Reading | None, out: Path | None, *, quiet: bool) -> None:
        if out is not None:
            check_kind(out)
            _check_out(out, table, None if reading is None else reading.source)
        self._reading, self._out = reading, out
        self.saved = None if out is None else str(out)
        self.report = reporter(quiet=quiet)
        self.table = load_table(table)
        if reading is not None:
            from fedslim.uses.cells import rows_of

            compile_with_progress(self.report, lambda: self.table.covering.bits(rows_of(self.table, [[]])))

    def chunks(self) -> "Iterator[fedslim.TransactionDatabase]":
        """Read the rows in chunks, as the items of the code table."""
        from fedslim.data.readers import chunks

        reading = self._reading
        assert reading is not None  # noqa: S101  # only `rules` has no data
        how = reading.given((*options.READING_A_TABLE, "folder", "long"))
        pair = (reading.transaction_column, reading.item_column)
        known, seen = set(self.table.vocabulary), False
        for chunk in chunks(reading.source, self.table.encoding, pair=pair, **how):
            seen = seen or not known.isdisjoint(chunk.vocabulary)
            yield chunk
        if not seen:
            warn("the code table knows no item of these data; check that it was mined from such data")

    def whole(self) -> "fedslim.TransactionDatabase":
        """Return all rows at once."""
        from fedslim.data import encode_together

        return fedslim.TransactionDatabase.joined(
            encode_together(list(self.chunks()))[0], name=str(self._reading and self._reading.source)
        )

    def write(self, columns: dict[str, Any]) -> None:
        """Write results to the file that was named, if any."""
        if self._out is not None:
            write_columns(columns, self._out)


def load_table(path: Path) -> "fedslim.CodeTable":
    """Load the code table of a file, of a run record, or of the folder of a run."""
    from fedslim.report.finding import find_records, is_record

    if path.is_dir() and (path / CODE_TABLE).is_file():
        path /= CODE_TABLE
    if path.is_dir() or is_record(path):
        found = find_records([path])
        if len(found.records) > 1:
            raise InputError(
                f"{path}: there are {len(found.records)} runs below this folder; name one, such as {found.files[0]}"
            )
        return found.records[0].code_table
    return fedslim.CodeTable.load(path)


def _table_if(name: str) -> "fedslim.CodeTable | None":
    """Load a code table or run if the name is one; None for data."""
    from fedslim.data.readers import parquet_files

    path = Path(name)
    is_run = path.is_dir() and parquet_files(path) is None
    return load_table(path) if is_run or (path.suffix == ".json" and path.is_file()) else None
