"""Show a run in a notebook, as a short summary in HTML without scripts. For a full report, see `fedslim report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedslim.format import as_html, duration, size
from fedslim.mdl.codetable import CodeTable, styled, table_html


def run_html(
    variant: str,
    table: CodeTable,
    figures: Mapping[str, Any],
    members: Sequence[tuple[str, int | None]],
    note: str = "",
) -> str:
    """Return the results and costs of a run as HTML; missing figures are left out."""
    shown = {
        "variant": variant,
        "members": f"{len(members):,}: "
        + ", ".join(name if n is None else f"{name} ({n:,})" for name, n in members[:FEW]),
        "rounds": _describe(figures, "rounds", "{:,}".format),
        "sent": _describe(figures, "bytes_total", size),
        "time": _describe(figures, "seconds", duration),
        "F1": _describe(figures, "f1", "{:.3f}".format),
        "found by no member alone": _gap(figures),
    }
    if len(members) > FEW:
        shown["members"] = f"{shown['members']}, …"
    rows = "".join(f"<tr><th>{as_html(name)}</th><td>{as_html(text)}</td></tr>" for name, text in shown.items() if text)
    command = f"<code>{as_html(note)}</code>" if note else ""
    return styled(f"<table><tbody>{rows}</tbody></table>", table_html(table), command)


FEW = 10  # the maximum number of members to name


def _describe(figures: Mapping[str, Any], name: str, how: Any) -> str:
    value = figures.get(name)
    return "" if value is None else str(how(value))


def _gap(figures: Mapping[str, Any]) -> str:
    gap, recovered = figures.get("gap"), figures.get("gap_recovered")
    return "" if gap is None or recovered is None else f"{recovered:,} of {gap:,}"
