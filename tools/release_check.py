"""Check that this tree is ready to publish: build it, look at it as a package index does, install it, and test it.

    python tools/release_check.py                     # everything; some fifteen minutes
    python tools/release_check.py --skip-nvflare      # without the extra that brings 100 MB
    python tools/release_check.py --only workflows    # one step and what it needs
    python tools/release_check.py --tag v0.1.0        # and the version is that of the tag

It works on the tracked files of a git checkout, as of its last commit, or on an unpacked sdist. It needs Python 3.11 or
newer and a package index: its tools go into an environment of their own. The wheel and the sdist are in dist/,
everything else is in build/release-check/. The first failure ends it with one sentence, and exit status 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "release-check"
DIST = ROOT / "dist"
LOWEST_PYTHON = "3.11"
"""The first that pyproject.toml allows; the lowest versions of dependencies have wheels for it."""

NEVER_SHIPPED = re.compile(
    r"(^|/)(__pycache__|\.venv[^/]*|\.git|\.(pytest|mypy|ruff|import_linter)_cache|\.hypothesis|dist|build)/"
    r"|\.(pyc|nbi|nbc|so|whl)$"
)
STYLE = (
    "body { max-width: 55rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 sans-serif } pre { overflow: auto }"
)
ROWS = "1 2 3\n1 2\n2 3\n1 2 3\n" * 6

USE_PLAIN = """
from fedslim import FedSlim, Slim
rows = [["bread", "milk", "jam"], ["bread", "milk"], ["jam", "tea"]] * 8
slim = Slim().fit(rows)
fed = FedSlim(variant="x").fit([rows[:12], rows[12:]])
assert slim.table_.found and slim.code_lengths([["bread", "tea"]])[0] > 0
assert list(map(str, slim.table_.records())) == list(map(str, fed.table_.records()))
"""
USE_TABLES = """
import pandas, polars
from fedslim import Slim
columns = {"a": ["u", "v", "u"] * 8, "b": ["x", "y", "x"] * 8}
assert len(Slim().fit(polars.DataFrame(columns)).codetable_) == 2
frame = pandas.DataFrame(columns)
frame.to_parquet("table.parquet")
found = Slim().fit(frame).codetable_
assert isinstance(found, pandas.DataFrame) and len(found) == 2
"""
USE_NVFLARE = "import nvflare, fedslim.engines.nvflare"
RENDER = """
import sys
from readme_renderer import markdown
page = markdown.render(open(sys.argv[1], encoding="utf-8").read(), variant="GFM")
if page is None:
    sys.exit("it has content that a package index does not show")
open(sys.argv[2], "w", encoding="utf-8").write(page)
"""


class FailedError(Exception):
    """A check that failed, in one sentence."""


@dataclass
class Check:
    """What the steps share."""

    jobs: int
    tag: str | None
    verbose: bool
    version: str = ""
    wheel: Path = field(default_factory=Path)
    sdist: Path = field(default_factory=Path)

    @property
    def source(self) -> Path:
        """The clean copy that is built."""
        return WORK / "source"

    @property
    def unpacked(self) -> Path:
        """What somebody has who downloads the sdist."""
        return WORK / "sdist" / f"fedslim-{self.version}"

    def tool(self, name: str) -> str:
        """The path of a program in the environment of tools."""
        return str(program(WORK / "tools", name))

    def run(
        self,
        what: str,
        *command: str | Path,
        log: str,
        cwd: Path = ROOT,
        env: dict[str, str] | None = None,
        ok: int = 0,
    ) -> str:
        """Run a command to its end and give back what it printed; fail with `what` unless it exits with `ok`."""
        path = WORK / "logs" / f"{log}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        surroundings = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        surroundings |= {"PYTHONNOUSERSITE": "1", "PYTHONUTF8": "1", **(env or {})}
        try:
            with path.open("a", encoding="utf-8", errors="replace") as file:
                start = file.tell()
                file.write(f"$ {' '.join(map(str, command)).replace(chr(10), '; ')}\n")
                file.flush()
                done = subprocess.run(
                    list(map(str, command)),
                    cwd=cwd,
                    env=surroundings,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
        except OSError as error:
            msg = f"{what}: {command[0]} cannot be started ({error.strerror})"
            raise FailedError(msg) from None
        with path.open("rb") as file:
            file.seek(start)
            said = file.read().decode("utf-8", "replace").partition("\n")[2]
        if self.verbose and said.strip():
            print(said.rstrip(), flush=True)
        if done.returncode != ok:
            msg = f"{what}: exit code {done.returncode}, see {path.relative_to(ROOT)}"
            raise FailedError(msg)
        return said

    def environment(self, name: str, *packages: str | Path, python: str = sys.executable, log: str) -> Path:
        """A fresh environment with these packages, whose versions fit together."""
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        uv = self.tool("uv")
        self.run(f"no environment with Python {python}", uv, "venv", "--quiet", "--python", python, folder, log=log)
        self.run("it cannot be installed", uv, "pip", "install", "--quiet", "--python", folder, *packages, log=log)
        self.run("its dependencies contradict each other", uv, "pip", "check", "--python", folder, log=log)
        return folder


def program(environment: Path, name: str) -> Path:
    """Where an environment has a program."""
    return environment / ("Scripts" if os.name == "nt" else "bin") / name


def demand(true: object, sentence: str) -> None:
    """Fail with a sentence unless something holds."""
    if not true:
        raise FailedError(sentence)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names for a sentence, the first few of them."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# -- the steps ---------------------------------------------------------------------------------------------------------


def tools(check: Check) -> str:
    """Set up the tools."""
    wanted = ROOT / "tools" / "release-requirements.txt"
    digest = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()
    folder = WORK / "tools"
    ready = folder / "ready"
    if not (ready.is_file() and ready.read_text() == digest and program(folder, "python").exists()):
        check.run("no environment for the tools", sys.executable, "-m", "venv", "--clear", folder, log="tools")
        pip = (program(folder, "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        check.run("the tools cannot be installed", *pip, "-r", wanted, log="tools")
        ready.write_text(digest)
    return "build, twine, uv, check-jsonschema, zizmor"


def workflows(check: Check) -> str:
    """Lint the workflows."""
    folder = ROOT / ".github" / "workflows"
    files = sorted(folder.glob("*.yml"))
    demand(files, ".github/workflows has no workflows")
    schema = ("--builtin-schema", "vendor.github-workflows")
    check.run("a workflow does not fit its schema", check.tool("check-jsonschema"), *schema, *files, log="workflows")
    zizmor = (check.tool("zizmor"), "--offline", "--no-progress", "--color=never")
    check.run("zizmor found a weakness in a workflow", *zizmor, folder, log="workflows")
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        return f"{len(files)} workflows: schema, zizmor (actionlint is not on PATH)"
    check.run("actionlint found a mistake in a workflow", actionlint, *files, log="workflows")
    return f"{len(files)} workflows: schema, zizmor, actionlint"


def source(check: Check) -> str:
    """Export the tracked files."""
    shutil.rmtree(check.source, ignore_errors=True)
    check.source.mkdir(parents=True)
    note = "the files of this sdist"
    if (ROOT / ".git").exists():
        archive = WORK / "source.tar"
        check.run("the files cannot be exported", "git", "archive", "--output", archive, "HEAD", log="source")
        with tarfile.open(archive) as tar:
            tar.extractall(check.source, filter="data")
        changed = check.run("git does not answer", "git", "status", "--porcelain", log="source").splitlines()
        note = f"as of HEAD{f', without {len(changed)} uncommitted changes' if changed else ''}"
    else:
        for name in _shipped():
            there, here = ROOT / name, check.source / name
            if there.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.nbi", "*.nbc")
                shutil.copytree(there, here, ignore=ignored)
            elif there.exists():
                shutil.copy2(there, here)
    text = (check.source / "src" / "fedslim" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    demand(found, "src/fedslim/__init__.py has no __version__")
    check.version = found.group(1) if found else ""
    demand(
        check.tag in {None, f"v{check.version}"},
        f"the tag is {check.tag}, and the version in src/fedslim/__init__.py is {check.version}",
    )
    return f"fedslim {check.version}, {len(_files(check.source))} files, {note}"


def build(check: Check) -> str:
    """Build the wheel and the sdist."""
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob("fedslim-*"):
        old.unlink()
    command = (check.tool("python"), "-m", "build", "--installer", "uv", "--outdir", DIST, check.source)
    path = os.pathsep.join((str(program(WORK / "tools", "")), os.environ.get("PATH", "")))
    check.run("it cannot be built", *command, log="build", env={"PATH": path})
    check.sdist = DIST / f"fedslim-{check.version}.tar.gz"
    check.wheel = DIST / f"fedslim-{check.version}-py3-none-any.whl"
    for file in (check.sdist, check.wheel):
        demand(file.is_file(), f"{file.name} was not built")
    return f"{check.wheel.name} ({_size(check.wheel)}), {check.sdist.name} ({_size(check.sdist)})"


def contents(check: Check) -> str:
    """Compare their contents with the source."""
    files = _files(check.source)
    with tarfile.open(check.sdist) as tar:
        shutil.rmtree(check.unpacked.parent, ignore_errors=True)
        tar.extractall(check.unpacked.parent, filter="data")
    _same(check.sdist, _files(check.unpacked), {*files, "PKG-INFO"})
    with zipfile.ZipFile(check.wheel) as archive:
        wheel = {name for name in archive.namelist() if not name.endswith("/")}
    info = f"fedslim-{check.version}.dist-info"
    about = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    package = {name.removeprefix("src/") for name in files if name.startswith("src/")}
    _same(check.wheel, wheel, package | about)
    return f"{len(wheel)} files in the wheel, {len(files) + 1} in the sdist"


def metadata(check: Check) -> str:
    """Check the metadata as a package index does."""
    check.run(
        "the metadata are not in order", check.tool("twine"), "check", "--strict", check.wheel, check.sdist, log="twine"
    )
    return "twine check --strict"


def readme(check: Check) -> str:
    """Render the README as a package index does."""
    body, page = WORK / "README.body.html", WORK / "README.html"
    check.run(
        "README.md cannot be rendered",
        *(check.tool("python"), "-c", RENDER, check.source / "README.md", body),
        log="readme",
    )
    text = body.read_text("utf-8")
    page.write_text(
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>README</title><style>{STYLE}</style>\n{text}',
        "utf-8",
    )
    return f"look at {page.relative_to(ROOT)}"


def links(check: Check) -> str:
    """Look for relative links in the README, which lead nowhere on a package index."""
    del check
    targets = _Targets()
    targets.feed((WORK / "README.body.html").read_text("utf-8"))
    written = [target for target in targets.found if target.removeprefix("#") not in targets.places]
    relative = [target for target in written if not target.startswith(("https://", "http://", "mailto:"))]
    demand(not relative, f"README.md has {len(relative)} links that are not absolute: {listed(relative)}")
    return f"{len(written)} links, all absolute"


def citation(check: Check) -> str:
    """Validate CITATION.cff."""
    uvx = (check.tool("uv"), "tool", "run", "--quiet", "--python", LOWEST_PYTHON, "--with", "setuptools<81")
    command = (*uvx, "cffconvert", "--validate", "--infile", check.source / "CITATION.cff")
    check.run("CITATION.cff is not valid", *command, log="citation")
    return "valid"


def plain(check: Check) -> str:
    """Install the wheel without extras, and use it."""
    folder = check.environment("env-plain", check.wheel, log="plain")
    demo = _smoke(check, folder, "plain")
    (WORK / "use-plain" / "table.parquet").write_bytes(b"PAR1, but nobody reads that far")
    said = _use(check, folder, "plain", "fedslim", "mine", "table.parquet", ok=2)
    hint = "pip install 'fedslim[tables]'"
    demand(
        said.count("\n") == 1 and hint in said,
        f"without the extra, a Parquet file must be refused with {hint}: {said!r}",
    )
    return f"--version, mine, Slim, FedSlim, demo ({demo:.0f} s)"


def tables(check: Check) -> str:
    """Install the wheel with the extra tables, and use it."""
    folder = check.environment("env-tables", f"fedslim[tables] @ {check.wheel.as_uri()}", log="tables")
    _use(check, folder, "tables", "python", "-c", USE_TABLES)
    _mined(_use(check, folder, "tables", "fedslim", "mine", "table.parquet", "--json", "--quiet"))
    return "pandas, polars, Parquet"


def nvflare(check: Check) -> str:
    """Install the wheel with the extra nvflare, and load it."""
    folder = check.environment("env-nvflare", f"fedslim[nvflare] @ {check.wheel.as_uri()}", log="nvflare")
    _use(check, folder, "nvflare", "python", "-c", USE_NVFLARE)
    _use(check, folder, "nvflare", "fedslim", "nvflare", "--help")
    return "loaded; `make test-nvflare` runs it"


def lowest(check: Check) -> str:
    """Run the tests of the sdist with the lowest versions that the metadata allow; this takes minutes."""
    uv, wanted = check.tool("uv"), WORK / "lowest.txt"
    compiled = (uv, "pip", "compile", "--quiet", "--no-header", "--python-version", LOWEST_PYTHON)
    options = ("--resolution", "lowest-direct", "--extra", "dev", "--output-file", wanted, "pyproject.toml")
    wanted.unlink(missing_ok=True)
    check.run("the lowest versions cannot be had together", *compiled, *options, log="lowest", cwd=check.unpacked)
    python = sys.executable if sys.version_info[:2] == (3, 11) else LOWEST_PYTHON
    folder = check.environment("env-lowest", "-r", wanted, python=python, log="lowest")
    install = (uv, "pip", "install", "--quiet", "--python", folder, "--no-deps", check.wheel)
    check.run("the wheel cannot be installed", *install, log="lowest")
    _smoke(check, folder, "lowest")  # which also compiles the engine once, and not in each worker
    pytest = (program(folder, "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider")
    workers = ("--numprocesses", str(check.jobs), "--dist", "loadfile", "--no-loadscope-reorder")
    said = check.run("a test fails with the lowest versions", *pytest, *workers, log="lowest-tests", cwd=check.unpacked)
    return said.strip().splitlines()[-1].strip("= ")


STEPS: tuple[Callable[[Check], str], ...] = (
    *(tools, workflows, source, build, contents, metadata, readme, links, citation, plain, tables, nvflare, lowest),
)
NEEDS = {
    "tools": (),
    "source": (),
    "workflows": ("tools",),
    "citation": ("tools", "source"),
    "readme": ("tools", "source"),
    "links": ("tools", "source", "readme"),
}
"""What a step needs before it; those that are not here need everything up to the contents."""
BUILT = ("tools", "source", "build", "contents")


# -- what the steps use ------------------------------------------------------------------------------------------------


class _Targets(HTMLParser):
    """Where the links and images of a page lead to, and which places of its own it has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        self.found += [value for name, value in attrs if name in {"href", "src"} and value is not None]
        self.places |= {value for name, value in attrs if name == "id" and value is not None}


def _shipped() -> list[str]:
    """What pyproject.toml says the sdist has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return [name.removeprefix("/") for name in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]]


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 1000:,.0f} kB"


def _same(file: Path, there: set[str], wanted: set[str]) -> None:
    """Fail unless an archive has the files that it should have, none of which is a cache."""
    missing, extra, caches = sorted(wanted - there), sorted(there - wanted), sorted(filter(NEVER_SHIPPED.search, there))
    demand(not missing, f"{file.name} lacks {listed(missing)}")
    demand(not extra, f"{file.name} has what is not in the source: {listed(extra)}")
    demand(not caches, f"{file.name} has what should not be shipped: {listed(caches)}")


def _use(check: Check, folder: Path, log: str, name: str, *arguments: str, ok: int = 0) -> str:
    """Run a program of an environment, far from the source."""
    there = WORK / f"use-{log}"
    there.mkdir(exist_ok=True)
    shown = " ".join(arguments[:2]) if arguments[0] != "-c" else "with a few lines of code"
    return check.run(f"{name} {shown} does not work", program(folder, name), *arguments, log=log, cwd=there, ok=ok)


def _mined(said: str) -> None:
    """Fail unless what `fedslim mine --json` printed has itemsets; the first use may say something before it."""
    try:
        found = json.loads(said[said.index("{") :])["itemsets"]
    except (ValueError, KeyError):
        found = 0
    demand(found > 0, f"fedslim mine --json printed no itemsets, but {said[:200]!r}")


def _smoke(check: Check, folder: Path, log: str) -> float:
    """Use what is installed in the ways that the README begins with; how many seconds the demo took."""
    there = WORK / f"use-{log}"
    shutil.rmtree(there, ignore_errors=True)
    there.mkdir(parents=True)
    (there / "tiny.dat").write_text(ROWS)
    said = _use(check, folder, log, "fedslim", "--version")
    demand(said.strip() == f"fedslim {check.version}", f"fedslim --version says {said.strip()!r}, not {check.version}")
    _mined(_use(check, folder, log, "fedslim", "mine", "tiny.dat", "--json", "--quiet"))
    _use(check, folder, log, "python", "-c", USE_PLAIN)
    began = time.monotonic()
    _use(check, folder, log, "fedslim", "demo", "--quiet", "--out", "demo")
    demand((there / "demo" / "report.html").is_file(), "fedslim demo wrote no report.html")
    return time.monotonic() - began


def chosen(only: list[str], skip: list[str]) -> list[Callable[[Check], str]]:
    """The steps to run, in their order."""
    wanted = {name for step in only for name in (*NEEDS.get(step, BUILT), step)}
    return [step for step in STEPS if (not only or step.__name__ in wanted) and step.__name__ not in skip]


def main() -> int:
    """Run the steps, and stop at the first that fails."""
    names = [step.__name__ for step in STEPS]
    parser = argparse.ArgumentParser(
        description="Check that this tree is ready to publish.", epilog=f"steps: {', '.join(names)}"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=names,
        metavar="STEP",
        help="run this and what it needs; repeat it",
    )
    parser.add_argument(
        "--skip", action="append", default=[], choices=names, metavar="STEP", help="leave this out; repeat it"
    )
    parser.add_argument("--skip-nvflare", dest="skip", action="append_const", const="nvflare", help="as --skip nvflare")
    parser.add_argument("--tag", metavar="vVERSION", help="demand that the version is that of this tag")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="test in N processes (2)")
    parser.add_argument("--verbose", action="store_true", help="show what each command prints")
    given = parser.parse_args()
    check = Check(jobs=given.jobs, tag=given.tag, verbose=given.verbose)
    steps = chosen(given.only, given.skip)
    shutil.rmtree(WORK / "logs", ignore_errors=True)
    for number, step in enumerate(steps, 1):
        place = f"[{number}/{len(steps)}]"
        print(f"{place} {(step.__doc__ or '').strip().rstrip('.')}", flush=True)
        began = time.monotonic()
        try:
            said = step(check)
        except FailedError as error:
            print(f"release-check: {step.__name__} failed: {error}", file=sys.stderr)
            return 1
        print(f"{' ' * len(place)} ok, {time.monotonic() - began:.0f} s: {said}", flush=True)
    left_out = [name for name in names if name not in {step.__name__ for step in steps}]
    print(f"release-check: passed{f'; not run: {listed(left_out, 99)}' if left_out else ''}")
    if "dev" in check.version:
        print(f"release-check: {check.version} is a development version; set the version before you tag it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
