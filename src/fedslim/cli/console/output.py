"""Print a code table, whether just mined or loaded from a file: as rows with a summary, or as JSON."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedslim import __version__
from fedslim.cli.console.stream import is_terminal, print_rich
from fedslim.cli.console.text import brief, count, number, printable, shown_items

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType
    from rich.table import Table

    from fedslim.mdl.codetable import CodeTable

MANY_BITS = 10_000
"""From this many bits, tenths of bits are not shown."""


def table_record(table: CodeTable, top: int) -> dict[str, Any]:
    """Return a code table as a record for JSON."""
    c = table.compression
    return {
        "version": __version__,
        "transactions": table.transactions,
        "items": len(table.vocabulary),
        "L_percent": c.L_percent,
        "L_data_percent": c.L_data_percent,
        "bits_total": c.after.total,
        "bits_data": c.after.data,
        "bits_model": c.after.model,
        "bits_total_before": c.before.total,
        "bits_data_before": c.before.data,
        "bits_model_before": c.before.model,
        "itemsets": len(table),
        "min_count": table.min_count,
        "other": table.other,
        "top": [
            {
                "items": list(e.labels),
                "usage": e.usage,
                "support": e.support,
                "code_length": e.code_length,
                "bits_saved": e.bits_saved,
            }
            for e in table.top(top)
        ],
    }


def print_code_table(
    table: CodeTable,
    top: int,
    name: str,
    more: Iterable[tuple[str, str]] = (),
    *,
    between: Iterable[RenderableType] = (),
) -> None:
    """Print the itemsets that save most, the tables in `between`, and a summary with the lines in `more`."""
    if (names := brief(table.vocabulary)) != table.vocabulary:
        more = [*more, ("items", "shown by their ids; the members' tables have the labels")]
        table = replace(table, vocabulary=names)
    c = table.compression
    digits = 0 if c.before.total >= MANY_BITS else 1
    rows = [
        (number(e.bits_saved, digits), f"{e.usage:,}", f"{e.support:,}", shown_items(e.labels)) for e in table.top(top)
    ]
    parts: list[RenderableType] = []
    if rows:
        parts.append(grid(("bits saved", "usage", "support", "items"), rows, right=3))
    shown = f", {len(rows):,} shown" if len(rows) < len(table) else ""

    total, data, model = (
        f"{number(before, digits)} → {number(after, digits)}"
        for before, after in (
            (c.before.total, c.after.total),
            (c.before.data, c.after.data),
            (c.before.model, c.after.model),
        )
    )
    facts = [
        ("data", f"{name}: {count(table.transactions, 'transaction')}, {count(len(table.vocabulary), 'item')}"),
        ("found", f"{count(len(table), 'itemset')}{shown}"),
        ("L%", f"{c.L_percent:.2f} total, {c.L_data_percent:.2f} data alone"),
        ("bits", f"{total} (data {data}, model {model})"),
        *([("merged", _merge(table))] if table.min_count > 1 or table.other else []),
        *more,
    ]
    print_rich(*parts, *between, summary(facts))


def _merge(table: CodeTable) -> str:
    notes = [f"no count below {table.min_count:,} is shown"] if table.min_count > 1 else []
    if table.other:
        notes.append(f"{count(table.other, 'occurrence')} of items that may not be shown are merged")
    return "; ".join(notes)


def grid(header: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, right: int, left: int = 0) -> Table:
    """Return a table whose columns from `left` to `right` are numbers, and whose last one takes the remaining width."""
    from rich import box
    from rich.table import Table

    lines, gap = (box.SIMPLE_HEAD, 1) if is_terminal(sys.stdout) else (None, 2)  # the lines take a column too
    table = Table(box=lines, show_edge=False, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for place, title in enumerate(header):
        last = place == len(header) - 1
        table.add_column(title, justify="right" if left <= place < right else "left", no_wrap=not last, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def summary(facts: Iterable[tuple[str, str]]) -> Table:
    """Return a table of names and facts."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts:
        table.add_row(name, printable(fact))
    return table


def format_itemset(table: CodeTable, labels: tuple[str, ...]) -> str:
    """Format an itemset with its items in the order of the table's vocabulary."""
    place = {label: k for k, label in enumerate(table.vocabulary)}
    return shown_items(tuple(sorted(labels, key=place.__getitem__)))
