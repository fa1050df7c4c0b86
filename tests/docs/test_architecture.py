"""The architecture page names every module, and links only to what is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text("utf-8")
LINKS = re.findall(r"\(https://github\.com/fedslim/fedslim/blob/main/src/fedslim/([^)]+)\)", PAGE)


def test_every_module_is_named_in_its_room():
    rooms = PAGE[PAGE.index("\n## The rooms") :]
    modules = {path.relative_to(ROOT / "src/fedslim").as_posix() for path in (ROOT / "src/fedslim").rglob("*.py")}
    missing = {name for name in modules if not name.endswith("__init__.py") and f"/src/fedslim/{name})" not in rooms}
    assert missing == set()


def test_every_link_to_a_module_leads_to_one():
    assert [name for name in LINKS if not (ROOT / "src/fedslim" / name).is_file()] == []


def test_the_layers_are_those_that_are_enforced():
    layers = re.search(r"layers = \[\n(.*?)\n\]", (ROOT / "pyproject.toml").read_text("utf-8"), re.DOTALL)
    enforced = re.findall(r'"fedslim\.(\w+)', layers[1])[::-1]
    listed = re.findall(r"^\| `(\w+)(?:/|\.py)`", PAGE[: PAGE.index("Three ideas")], re.MULTILINE)
    assert listed == enforced
