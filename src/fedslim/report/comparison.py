"""The page of a comparison: both sides of each itemset, side by side. It has no script and loads nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedslim import __version__
from fedslim.data.atomic import write_whole
from fedslim.format import as_html, count
from fedslim.report.page import assembled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.uses import Differences

MAX_ROWS = 200
"""How many itemsets of a comparison the page has."""


def write_comparison(compared: Sequence[Differences], path: str | Path) -> None:
    """Write the page of comparisons, atomically."""
    write_whole(Path(path), comparison_page(compared).encode())


def comparison_page(compared: Sequence[Differences]) -> str:
    """Return the page of comparisons."""
    title = "; ".join(f"{as_html(one.name_a)} and {as_html(one.name_b)}" for one in compared[:3])
    parts = {"title": title, "sections": "".join(map(_section, compared)), "version": as_html(__version__)}
    return assembled("comparison.html", (), parts)[0]


def _section(compared: Differences) -> str:
    names = as_html(compared.name_a), as_html(compared.name_b)
    titles = ("items", *names, "", "ratio", "p", "q")
    head = "".join(f'<th class="{"number" if title else ""} unsorted">{title}</th>' for title in titles[1:])
    rows = []
    for row in compared.rows[:MAX_ROWS]:
        rates = row.count_a / max(compared.rows_a, 1), row.count_b / max(compared.rows_b, 1)
        left, right = (50 * rate / max(*rates, 1e-9) for rate in rates)
        # The content security policy forbids style attributes; those of a drawing are its own.
        bars = (
            f'<svg class="sides" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{rates[0]:.2%} '
            f'and {rates[1]:.2%} of the rows"><rect class="a" x="{50 - left:.1f}" width="{left:.1f}" height="8"/>'
            f'<rect class="b" x="50" width="{right:.1f}" height="8"/></svg>'
        )
        figures = ("∞" if row.ratio is None else f"{row.ratio:.2f}", f"{row.p:.2g}", f"{row.q:.2g}")
        shown = (f"{row.count_a:,}", f"{row.count_b:,}", bars, *figures)
        cells = "".join(
            f'<td class="{"number" if title else "whole"}" data-label="{title}">{cell}</td>'
            for title, cell in zip(titles[1:], shown, strict=True)
        )
        items = "".join(f"<li>{as_html(item)}</li>" for item in row.items)
        different = "yes" if row.q <= compared.fdr else "no"
        rows.append(f'<tr class="{different}"><td class="main wide"><ul class="chips">{items}</ul></td>{cells}</tr>')
    sizes = f"{names[0]} has {count(compared.rows_a, 'row')}, {names[1]} {count(compared.rows_b, 'row')}."
    return (
        f'<section><h2>{names[0]} and {names[1]}</h2><p class="note">{sizes} Dissimilarity '
        f"{compared.dissimilarity:.3f}. The {compared.counts} differs for {len(compared.found):,} of "
        f"{len(compared.rows):,} itemsets and items, at a false discovery rate of {compared.fdr:g}; the rest are "
        "grey.</p>"
        f'<div class="frame"><table class="cards"><thead><tr><th class="unsorted">items</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )
