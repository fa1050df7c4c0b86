"""What holds for all pages: links lead somewhere, a page is of one kind, and the README works on a package index."""

from __future__ import annotations

import doctest
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fedslim.cli import main
from fedslim.cli.app import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if not {"_build", "results"} & set(path.relative_to(DOCS).parts)]
KINDS = ("tutorials", "how-to", "reference", "explanation")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2", re.MULTILINE | re.DOTALL)

PUBLIC = ("fedslim", "fedslim.data", "fedslim.mdl", "fedslim.federated", "fedslim.metrics")
"""Modules that offer the names that they import as themselves."""


def links(path: Path) -> list[str]:
    return [match["target"] for match in LINK.finditer(FENCED.sub("", path.read_text("utf-8")))]


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "deploy" / "README.md"], ids=lambda p: p.name
)
def test_links_lead_to_files_that_exist(page):
    local = [target.partition("#")[0] for target in links(page) if not target.startswith(("http", "#"))]
    assert [target for target in local if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(DOCS)))
def test_links_to_headings_of_pages_lead_to_headings(page):
    broken = []
    for target in links(page):
        file, _, anchor = target.partition("#")
        if anchor and not target.startswith("http") and anchor not in anchors(page.parent / file if file else page):
            broken.append(target)
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#{1,6} (.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_of_one_kind():
    elsewhere = [str(page.relative_to(DOCS)) for page in PAGES if page.relative_to(DOCS).parts[0] not in KINDS]
    assert elsewhere == ["index.md", "results.md"]


def test_the_readme_links_to_whole_addresses_only():
    text = (ROOT / "README.md").read_text("utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [target for target in targets if not target.startswith("https://")] == []


@pytest.mark.parametrize(
    ("prefix", "folder", "ending"),
    [
        ("https://fedslim.readthedocs.io/en/latest/", DOCS, (".html", ".md")),
        ("https://github.com/fedslim/fedslim/blob/main/", ROOT, ("", "")),
        ("https://raw.githubusercontent.com/fedslim/fedslim/main/", ROOT, ("", "")),
    ],
)
def test_the_readme_links_to_pages_that_exist(prefix, folder, ending):
    targets = re.findall(rf"\({re.escape(prefix)}([^)#]+)", (ROOT / "README.md").read_text("utf-8"))
    assert targets
    assert [t for t in targets if not (folder / (t.removesuffix(ending[0]) + ending[1])).is_file()] == []


def test_pictures_are_small():
    assert [path.name for path in (DOCS / "images").iterdir() if path.stat().st_size > 250_000] == []


def test_every_figure_is_in_the_reference(capsys):
    assert main(["simulate", "encounters", "--members", "3", "--json", "--quiet", "--max-rounds", "2"]) == 0
    page = (DOCS / "reference" / "figures.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    assert [name for name in json.loads(capsys.readouterr().out) if name not in named] == []


# -- commands --------------------------------------------------------------------------------------------------------

NAMED = re.compile(r"fedslim ((?:[a-z]+ ?)+)((?:[^`\n#;|&]|\\\n)*)")
PROGRAM = get_command(app)
FORMATS = {"journal"}
"""Words that follow the name in the name of a format."""


def command_named(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words begin with, and what is left of them."""
    command = PROGRAM
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_and_options_exist(page):
    """Also in blocks that are not run, and in sentences."""
    text = page.read_text("utf-8")
    shown = [match[0] for match in FENCED.finditer(text) if re.match(r" *`+(bash|sh|console)\n", match[0])]
    wrong = []
    for match in NAMED.finditer("\n".join([*shown, *re.findall(r"`([^`\n]+)`", FENCED.sub("", text))])):
        command, rest = command_named(match[1].split())
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        wanted = re.findall(r"(?<=\s)--[a-z][a-z-]*", f" {' '.join(rest)} {match[2]}")
        if command is PROGRAM and match[1].split()[0] not in FORMATS:
            wrong.append(match[0])
        wrong += [f"{match[0]}: {option}" for option in wanted if option not in known | {"--help", "--debug"}]
    assert wrong == []


# -- examples in docstrings ------------------------------------------------------------------------------------------


def examples() -> dict[str, doctest.DocTest]:
    """The examples of everything public, by what they belong to."""
    found = {}
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    for module in map(importlib.import_module, PUBLIC):
        for name in re.findall(r"\b(\w+) as \1\b", Path(module.__file__).read_text("utf-8")):
            thing = getattr(module, name)
            if getattr(thing, "__module__", "").startswith("fedslim"):
                tests = finder.find(thing, f"{thing.__module__}.{name}", globs={})
                found |= {test.name: test for test in tests if test.examples}
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(EXAMPLES[name], out=said.append)
    assert not runner.failures, "".join(said)


@pytest.mark.parametrize(
    "name",
    [
        *("Slim", "FedSlim", "CodeTable", "TransactionDatabase", "simulate", "load"),
        *("read", "encode", "mine", "compare", "divide", "fidelity"),
    ],
)
def test_public_things_have_an_example(name):
    assert any(example.rpartition(".")[2] == name for example in EXAMPLES)
