"""The HTML page: one self-contained file that loads and sends nothing.

Labels come from the data and are not trusted: they enter the page as JSON only, and its content security policy allows
only the page's own script and style, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fedslim import __version__
from fedslim.data.atomic import write_whole
from fedslim.format import as_html, count

if TYPE_CHECKING:
    from fedslim.report.view import ReportView
    from fedslim.uses import Differences

MAX_ROWS = 200  # how many itemsets of a comparison its page has
SCRIPTS = ("base.js", "kinds.js", "chart.js", "grid.js", "found.js", "items.js", "course.js", "page.js")
"""In load order: each uses those before it."""


def write_page(view: ReportView, path: str | Path, *, private: bool = False) -> None:
    """Write a view as an HTML page, atomically; if `private`, only its owner can read the file."""
    write_whole(Path(path), page(view).encode(), private=private)


def page(view: ReportView) -> str:
    """Return a view as an HTML page."""
    parts = {
        "view": json_in_html(msgspec.to_builtins(view)),
        "title": as_html(view.title),
        "subtitle": re.sub(r"\d{4}-\d\d-\d\d", r"<time>\g<0></time>", as_html(view.subtitle)),
        "remarks": "".join(f'<p class="remark">{as_html(remark)}</p>' for remark in view.remarks),
        "lead": as_html(view.runs[0].lead),
        "version": as_html(view.version),
    }
    return assembled("page.html", SCRIPTS, parts)[0]


def assembled(template: str, scripts: Sequence[str], parts: dict[str, str], *, more: str = "") -> tuple[str, str]:
    """Return a page with its scripts, style and other parts, and its content security policy, which allows `more`."""
    style = _part("page.css")
    script = "(() => {\n" + '"use strict";\n' + "".join(map(_part, scripts)) + "})();\n"
    allowed = f"script-src {_hash(script)}; " if scripts else ""
    allowed += f"style-src {_hash(style)}; img-src data:"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'{more}"
    parts = parts | {"policy": policy, "style": style, "script": script}
    # All in one pass, so that braces inside a part are not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _part(template)), policy


def json_in_html(value: object) -> str:
    """Return JSON that is safe inside a script element: ASCII only, with `<`, `>` and `&` escaped."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _part(name: str) -> str:
    return files("fedslim.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")


# -- the page of a comparison ------------------------------------------------------------------------------------------


def comparison_page(compared: Sequence[Differences], about: str = "A comparison") -> str:
    """Return the page of comparisons: both sides of each itemset, side by side. It has no script."""
    names = compared[0].name_a, compared[-1].name_b
    title = (" to " if len(compared) > 1 else " and ").join(map(as_html, names))
    overview = _overview(compared) if len(compared) > 1 else ""
    sections = overview + "".join(_section(one, titled=bool(overview)) for one in compared)
    parts = {"about": as_html(about), "title": title, "sections": sections, "version": as_html(__version__)}
    return assembled("comparison.html", (), parts)[0]


def _overview(compared: Sequence[Differences]) -> str:
    """Return the drift: a row for each slice but the first."""
    titles = ("slice", "rows", "dissimilarity to the one before", "itemsets and items that differ", "of")
    rows = []
    for one in compared:
        shown = f"{one.rows_b:,}", f"{one.dissimilarity:.3f}", f"{len(one.found):,}", f"{len(one.rows):,}"
        rows.append(("", as_html(one.name_b), shown))
    return f"<section>{_table(titles, rows)}</section>"


def _table(titles: Sequence[str], rows: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    """Return a table; each row has a class, what it is about and its figures, or a drawing under an empty title."""
    first, *others = titles
    head = "".join(f'<th class="{"number" if title else ""} unsorted">{title}</th>' for title in others)
    body = ""
    for kind, about, figures in rows:
        cells = "".join(
            f'<td class="{"number" if title else "whole"}" data-label="{title}">{figure}</td>'
            for title, figure in zip(others, figures, strict=True)
        )
        body += f'<tr class="{kind}"><td class="main wide">{about}</td>{cells}</tr>'
    return (
        f'<div class="frame"><table class="cards"><thead><tr><th class="unsorted">{first}</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _section(compared: Differences, *, titled: bool) -> str:
    names = as_html(compared.name_a), as_html(compared.name_b)
    titles = ("items", *names, "", "ratio", "p", "q")
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
        items = "".join(f"<li>{as_html(item)}</li>" for item in row.items)
        rows.append(("yes" if row.q <= compared.fdr else "no", f'<ul class="chips">{items}</ul>', shown))
    sizes = f"{names[0]}: {count(compared.rows_a, 'row')}; {names[1]}: {count(compared.rows_b, 'row')}."
    left_out = f"; the clearest {MAX_ROWS} are listed" if len(compared.rows) > MAX_ROWS else ""
    return (
        f'<section>{f"<h2>{names[0]} and {names[1]}</h2>" if titled else ""}<p class="note">{sizes} Dissimilarity '
        f"{compared.dissimilarity:.3f}. The {compared.counts} differs for {len(compared.found):,} of "
        f"{len(compared.rows):,} itemsets and items, at a false discovery rate of {compared.fdr:g}; the rest are "
        f"grey{left_out}. The bars compare the shares of the rows.</p>{_table(titles, rows)}</section>"
    )
