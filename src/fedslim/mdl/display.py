"""Show code tables: as DataFrames of pandas or polars, and in a notebook, in the style of reports, without scripts."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedslim.errors import MissingExtraError
from fedslim.format import as_html

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.mdl.codetable import CodeTable

SHOWN = 20
STYLE = """<style>
.fedslim { font-family: system-ui, sans-serif; }
.fedslim p { font: 600 1.15em/1.5 ui-serif, Georgia, serif; margin: .4em 0; }
.fedslim table { border-collapse: collapse; }
.fedslim th, .fedslim td { text-align: right; padding: .3em .9em .3em 0; border-bottom: 1px solid #8884; }
.fedslim td:first-child, .fedslim th:first-child { text-align: left; }
.fedslim span { border: 1px solid #8886; border-radius: .3em; padding: 0 .4em; margin-right: .25em; }
</style>"""


def styled(*parts: str) -> str:
    """Return parts of HTML as one, with the style."""
    return f'<div class="fedslim">{STYLE}{"".join(parts)}</div>'


def table_html(table: CodeTable) -> str:
    """Return the itemsets of a table that save most, as HTML."""
    c = table.compression
    rows = "".join(
        f"<tr><td>{' '.join(f'<span>{as_html(label)}</span>' for label in e.labels)}</td>"
        f"<td>{e.bits_saved:,.0f}</td><td>{e.usage:,}</td><td>{e.support:,}</td>"
        f"<td>{e.code_length:.2f}</td></tr>"
        for e in table.top(SHOWN)
    )
    return (
        f"<p>{len(table):,} itemsets, L% = {c.L_percent:.2f} ({c.before.total:,.0f} → {c.after.total:,.0f} bits)</p>"
        "<table><thead><tr><th>itemset</th><th>bits saved</th><th>usage</th><th>support</th><th>code length</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
    )


def frame_of(records: list[dict[str, Any]], columns: Sequence[str]) -> Any:
    """Return records as a pandas DataFrame, or a polars one if only polars is installed."""
    data = {name: [record[name] for record in records] for name in columns}
    for library in ("pandas", "polars"):
        try:
            return import_module(library).DataFrame(data)
        except ImportError:
            continue
    raise MissingExtraError("a DataFrame needs pandas or polars: pip install 'fedslim[tables]' (or use .records())")
