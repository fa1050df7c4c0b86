"""The page of a comparison: both sides of each itemset, side by side. It has no script and loads nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedslim.data.atomic import write_whole
from fedslim.format import as_html, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.uses import Differences

MAX_ROWS = 200
"""How many itemsets of a comparison the page has."""

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:left}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}meter{width:6rem}meter.a{transform:scaleX(-1)}"
    "tr.no td{color:#767676}"
)


def write_comparison(compared: Sequence[Differences], path: str | Path) -> None:
    """Write the page of comparisons, atomically."""
    write_whole(Path(path), comparison_page(compared).encode())


def comparison_page(compared: Sequence[Differences]) -> str:
    """Return the page of comparisons."""
    title = "; ".join(f"{as_html(one.name_a)} and {as_html(one.name_b)}" for one in compared[:3])
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1>{''.join(map(_section, compared))}</body></html>\n"
    )


def _section(compared: Differences) -> str:
    a, b = as_html(compared.name_a), as_html(compared.name_b)
    head = "".join(f'<th class="n">{x}</th>' for x in (a, "", "", b, "ratio", "p", "q"))
    rows = []
    for row in compared.rows[:MAX_ROWS]:
        rates = (row.count_a / max(compared.rows_a, 1), row.count_b / max(compared.rows_b, 1))
        most = max(*rates, 1e-9)
        left, right = (
            f'<td><meter class="{side}" value="{rate / most:.3f}" title="{rate:.2%}"></meter></td>'
            for side, rate in zip("ab", rates, strict=True)
        )
        figures = ("∞" if row.ratio is None else f"{row.ratio:.2f}", f"{row.p:.2g}", f"{row.q:.2g}")
        cells = "".join(f'<td class="n">{x}</td>' for x in figures)
        rows.append(
            f'<tr class="{"yes" if row.q <= compared.fdr else "no"}"><td class="n">{row.count_a:,}</td>{left}{right}'
            f'<td class="n">{row.count_b:,}</td>{cells}<td>{as_html(", ".join(row.items))}</td></tr>'
        )
    return (
        f"<h2>{a} ({number(compared.rows_a)} rows), {b} ({number(compared.rows_b)} rows)</h2>"
        f"<p>Dissimilarity {compared.dissimilarity:.3f}. The {compared.counts} differs for "
        f"{len(compared.found):,} of {len(compared.rows):,} itemsets and items, at a false discovery rate of "
        f"{compared.fdr:g}; those that do not are grey.</p>"
        f"<table><thead><tr>{head}<th>items</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
