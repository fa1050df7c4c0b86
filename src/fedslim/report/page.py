"""The page: one HTML file with everything in it, which loads nothing and sends nothing.

    write_page(view(records), "report.html")

Labels are whatever somebody's data had. They go into the page as data only, and the page's own policy lets no script or
style run but the two that belong to it, known by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fedslim.data.atomic import write_whole
from fedslim.format import as_html

if TYPE_CHECKING:
    from fedslim.report.view import ReportView

SCRIPTS = ("base.js", "chart.js", "grid.js", "found.js", "course.js", "page.js")
"""In the order in which they need each other."""


def write_page(view: ReportView, path: str | Path) -> None:
    """Write the page of a view; the file appears whole or not at all.

    Raises:
        WriteError: It cannot be written.
    """
    write_whole(Path(path), page(view).encode())


def page(view: ReportView) -> str:
    """The page of a view."""
    style = _part("page.css")
    script = "(() => {\n" + '"use strict";\n' + "".join(map(_part, SCRIPTS)) + "})();\n"
    parts = {
        "policy": _policy(script, style),
        "style": style,
        "script": script,
        "view": json_in_html(msgspec.to_builtins(view)),
        "title": as_html(view.title),
        "subtitle": as_html(view.subtitle),
        "remarks": "".join(f'<p class="remark">{as_html(remark)}</p>' for remark in view.remarks),
        "lead": as_html(view.runs[0].lead),
        "version": as_html(view.version),
    }
    # In one go, so that nothing within a part is taken for a place to fill.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("page.html"))


def json_in_html(value: object) -> str:
    """JSON that can stand in a script element: in ASCII, and with nothing in it that could end the element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(script: str, style: str) -> str:
    allowed = f"script-src {_hash(script)}; style-src {_hash(style)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _part(name: str) -> str:
    return files("fedslim.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")
