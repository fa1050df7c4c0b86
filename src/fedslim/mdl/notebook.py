"""Show code tables in a notebook: HTML in the style of reports, without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedslim.format import as_html

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        f"<tr><td>{_chips(e.labels)}</td><td>{e.bits_saved:,.0f}</td><td>{e.usage:,}</td><td>{e.support:,}</td>"
        f"<td>{e.code_length:.2f}</td></tr>"
        for e in table.top(SHOWN)
    )
    return (
        f"<p>{len(table):,} itemsets, L% = {c.L_percent:.2f} ({c.before.total:,.0f} → {c.after.total:,.0f} bits)</p>"
        "<table><thead><tr><th>itemset</th><th>bits saved</th><th>usage</th><th>support</th><th>code length</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _chips(labels: Iterable[str]) -> str:
    return " ".join(f"<span>{as_html(label)}</span>" for label in labels)
