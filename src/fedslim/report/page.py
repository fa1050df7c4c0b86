"""The HTML page: one self-contained file that loads and sends nothing.

    write_page(view(records), "report.html")

Labels come from the data and are not trusted: they enter the page as JSON only, and its content security policy allows
only the page's own script and style, by their hashes.
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
    from collections.abc import Sequence

    from fedslim.report.view import ReportView

SCRIPTS = ("base.js", "chart.js", "grid.js", "found.js", "items.js", "course.js", "page.js")
"""In load order: each uses those before it."""


def write_page(view: ReportView, path: str | Path, *, private: bool = False) -> None:
    """Write a view as an HTML page, atomically; if `private`, only its owner can read the file.

    Raises:
        WriteError: The file cannot be written.
    """
    write_whole(Path(path), page(view).encode(), private=private)


def page(view: ReportView) -> str:
    """Return a view as an HTML page."""
    parts = {
        "view": json_in_html(msgspec.to_builtins(view)),
        "title": as_html(view.title),
        "subtitle": as_html(view.subtitle),
        "remarks": "".join(f'<p class="remark">{as_html(remark)}</p>' for remark in view.remarks),
        "lead": as_html(view.runs[0].lead),
        "version": as_html(view.version),
    }
    return assembled("page.html", SCRIPTS, parts)[0]


def assembled(template: str, scripts: Sequence[str], parts: dict[str, str], *, more: str = "") -> tuple[str, str]:
    """Return a page with its scripts, style and other parts, and its content security policy, which allows `more`."""
    style = _part("page.css")
    script = "(() => {\n" + '"use strict";\n' + "".join(map(_part, scripts)) + "})();\n"
    policy = _policy(script if scripts else "", style) + more
    parts = parts | {"policy": policy, "style": style, "script": script}
    # All in one pass, so that braces inside a part are not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _part(template)), policy


def json_in_html(value: object) -> str:
    """Return JSON that is safe inside a script element: ASCII only, with `<`, `>` and `&` escaped."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(script: str, style: str) -> str:
    scripts = f"script-src {_hash(script)}; " if script else ""
    allowed = f"{scripts}style-src {_hash(style)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _part(name: str) -> str:
    return files("fedslim.report").joinpath("static", name).read_text(encoding="utf-8").replace("\r\n", "\n")
