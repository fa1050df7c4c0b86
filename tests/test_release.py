"""What must agree for a release: the version, the changelog, the citation, and what the sdist has."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from fedslim import __version__

ROOT = Path(__file__).parents[1]
GENERATED = {"PKG-INFO", "build", "dist", "results", "out", "fedslim-demo"}
"""What an unpacked sdist has beside what was put in: what the build added, and what people make there."""


def released():
    """The versions in the changelog, newest first."""
    return re.findall(r"^## (\S+) – \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)


def cited(key):
    return re.search(rf"^{key}: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)[1]


def tracked():
    """The top-level files and folders of the project."""
    if not (ROOT / ".git").exists():
        found = {path.name for path in ROOT.iterdir()} - GENERATED
        return {name for name in found if not re.fullmatch(r"\.venv.*|\..*_cache|\.hypothesis|\.coverage", name)}
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607
    return {name.partition("/")[0] for name in listing.split("\0") if name}


def test_a_release_has_its_section_in_the_changelog():
    assert "dev" in __version__ or released()[0] == __version__


def test_the_citation_names_the_newest_release_and_its_date():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert cited("version") == released()[0]
    assert f"## {cited('version')} – {cited('date-released')}\n" in text


def test_the_sdist_has_everything_that_is_tracked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    include = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all(name.startswith("/") for name in include)
    assert tracked() - {name.removeprefix("/") for name in include} == set()


def test_every_fragment_has_a_type_that_towncrier_knows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    types = {kind["directory"] for kind in project["tool"]["towncrier"]["type"]}
    fragments = [path.name for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    assert [name for name in fragments if not re.fullmatch(rf".+\.({'|'.join(types)})\.md", name)] == []
