"""Run what the documentation shows: every Python and shell block of README.md and docs/, page by page.

The blocks of a page run in order, in one temporary folder, with one shell and one Python namespace.

- `python`: run; a block of `>>>` prompts is a doctest, so its output is compared.
- `bash`, `sh`: run; the exit code must be 0.
- `console`: each line after `$` is run, and what is shown below it is compared. A line `…` stands for any lines, and a
  `…` within a line for any text. A command may fail only if the output shown has an error of fedslim.
- `<!-- not run: why -->` right above a block: it is not run. NOT_RUN has how many of these a page may have.
- `<!-- setup` and shell commands up to `-->`: run, and not shown to readers.

`python tests/docs/test_blocks.py` prints how many blocks there are of each kind.
"""

from __future__ import annotations

import doctest
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LEFT_OUT = {"_build", "results"}
"""Folders of docs/ that have no pages in them."""

NOT_RUN = {
    "README.md": 2,
    "docs/how-to/benchmarks.md": 1,
    "docs/how-to/contribute.md": 1,
    "docs/how-to/experiments.md": 2,
    "docs/how-to/install.md": 2,
    "docs/how-to/monitor.md": 2,
    "docs/how-to/nvflare.md": 11,
    "docs/how-to/ray.md": 5,
    "docs/how-to/sample-data.md": 1,
    "docs/how-to/services.md": 4,
}
"""How many blocks of a page may be marked as not run. Each says why in the page."""

SLOW = {
    "docs/explanation/exactness.md",
    "docs/how-to/agree-on-items.md",
    "docs/how-to/control-search.md",
    "docs/how-to/deploy.md",
    "docs/how-to/enrol.md",
    "docs/how-to/experiments.md",
    "docs/how-to/reports.md",
    "docs/how-to/sample-data.md",
    "docs/how-to/simulate.md",
    "docs/tutorials/network.md",
    "docs/tutorials/three-hospitals.md",
}
"""Pages that take longer than a few seconds: run with -m slow."""

PYTHON, SHELL, CONSOLE = {"python", "pycon"}, {"bash", "sh"}, {"console"}
NOT_CODE = {"text", "json", "toml", "ini", "yaml", "html", "diff"}
PLAIN = ("docs/explanation/architecture", "docs/explanation/decisions/")
"""Pages whose blocks are diagrams, without a language."""

ERROR = "fedslim: error:"
"""A command may fail where the output shown says so."""

PROGRESS = re.compile(r"fedslim: [a-z]+ing ")
"""A line about a slow step, such as "fedslim: reading visits.csv": a page must not fail because the machine is busy."""

PORT = "7443"
"""The port in the pages; a free one takes its place here."""

BLOCK = re.compile(
    r"(?P<mark><!-- not run: (?P<why>[^\n]+?) -->\n)?^(?P<indent>[ ]*)(?P<fence>`{3,})(?P<language>[^\n`]*)\n"
    r"(?P<code>.*?)^(?P=indent)(?P=fence)[ ]*$"
    r"|^<!-- setup\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    code: str
    line: int
    why_not: str | None = None


def blocks(text: str) -> list[Block]:
    """The blocks of a page that are code, in order."""
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1 + bool(match["mark"])
        if match["setup"] is not None:
            found.append(Block("setup", match["setup"], line))
        elif not match["language"].startswith("{"):
            found.append(Block(match["language"].strip(), dedent(match["code"]), line, match["why"]))
    return found


def pages() -> dict[str, list[Block]]:
    """The pages that have blocks, by their paths."""
    found = {}
    for path in PAGES:
        name = path.relative_to(ROOT).as_posix()
        if not LEFT_OUT & set(Path(name).parts) and (there := blocks(path.read_text("utf-8"))):
            found[name] = there
    return found


FOUND = pages()


def counts() -> dict[str, tuple[int, int]]:
    """For each page how many blocks are run, and how many are not."""
    code = {name: [b for b in there if b.language in PYTHON | SHELL | CONSOLE] for name, there in FOUND.items()}
    return {
        name: (sum(b.why_not is None for b in c), sum(b.why_not is not None for b in c)) for name, c in code.items()
    }


# -- running ---------------------------------------------------------------------------------------------------------


class Shell:
    """A bash that stays from block to block, with its folder, variables and background jobs."""

    END = "@@ended "

    def __init__(self, folder: Path) -> None:
        surroundings = {k: v for k, v in os.environ.items() if not k.startswith(("FEDSLIM_", "PYTEST", "COV_"))}
        surroundings |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FEDSLIM_CACHE": str(folder / ".cache"),
            "COLUMNS": "100",
            "PYTHONUNBUFFERED": "1",
        }
        self.folder = folder
        self.process = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc"],
            cwd=folder,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, code: str, *, may_fail: bool = False) -> str:
        """Run some lines and give back what they print; an exit code other than 0 fails the test."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        script = self.folder / ".block"
        script.write_text(code)
        stop = "" if "\n" not in code.strip() else "set -e; "
        tell = f'printf "\\n{self.END}%d %s\\n"'
        self.process.stdin.write(
            f'{stop}trap \'{tell} $? "$PWD"\' EXIT; . "{script}" < /dev/null; code=$?; trap - EXIT; set +e; '
            f'{tell} $code "$PWD"\n'
        )
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if line.startswith(self.END):
                code_, _, where = line.removeprefix(self.END).strip().partition(" ")
                break
            said.append(line)
        else:
            pytest.fail(f"the shell ended in:\n{code}\n{''.join(said)}")
        self.where = where
        text = "".join(said).removesuffix("\n")
        assert may_fail or code_ == "0", f"exit code {code_} of:\n{code}\n{text}"
        return text

    def close(self) -> None:
        """End the shell and whatever it has started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def sessions(code: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown for it."""
    found: list[tuple[list[str], list[str]]] = []
    for line in code.splitlines():
        if line.startswith("$ "):
            found.append(([line.removeprefix("$ ")], []))
        elif found and not found[-1][1] and found[-1][0][-1].endswith("\\"):
            found[-1][0].append(line.removeprefix("> "))
        elif found:
            found[-1][1].append(line)
        else:
            pytest.fail(f"a console block begins with a command after $, not with {line!r}")
    return [("\n".join(command), "\n".join(output)) for command, output in found]


def matches(expected: str, printed: str) -> bool:
    """Whether an output is as shown, where … stands for anything and the width of columns does not count."""
    pattern = ""
    for line in _lines(expected):
        pattern += r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
    told = [line for line in _lines(printed) if not PROGRESS.match(line)]
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in told)) is not None


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip("\n").split("\n")]


def free_port() -> str:
    """A port that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run_python(code: str, namespace: dict[str, object], where: str, line: int) -> None:
    """Run a block in the namespace of its page; prompts make it a doctest."""
    if not code.lstrip().startswith(">>>"):
        exec(compile("\n" * line + code, where, "exec"), namespace)  # noqa: S102  # that is the point
        return
    test = doctest.DocTestParser().get_doctest(code, namespace, where, where, line)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append, clear_globs=False)
    namespace.update(test.globs)
    assert not runner.failures, "".join(said)


def _parameters():
    return [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in FOUND if counts()[n][0]]


@pytest.mark.parametrize("page", _parameters())
def test_page(page, tmp_path, monkeypatch):
    shell, port = Shell(tmp_path), free_port()
    shell.where = str(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    monkeypatch.setenv("FEDSLIM_CACHE", str(tmp_path / ".cache"))
    try:
        for block in FOUND[page]:
            code = block.code.replace(PORT, port)
            if block.why_not is not None:
                continue
            if block.language in PYTHON:
                monkeypatch.chdir(shell.where)
                run_python(code, namespace, page, block.line)
            elif block.language in SHELL | {"setup"}:
                shell.run(code)
            elif block.language in CONSOLE:
                for command, expected in sessions(code):
                    printed = shell.run(command, may_fail=ERROR in expected)
                    assert not expected.strip() or matches(expected, printed), (
                        f"{page}:{block.line}: $ {command}\nexpected:\n{expected}\nprinted:\n{printed}"
                    )
    finally:
        shell.close()


# -- what is not run -------------------------------------------------------------------------------------------------


def test_only_these_blocks_are_not_run(capsys):
    found = {name: skipped for name, (_, skipped) in counts().items() if skipped}
    run = sum(done for done, _ in counts().values())
    with capsys.disabled():
        print(f"\ndocumentation: {run} blocks run, {sum(found.values())} not run")  # noqa: T201
    assert found == NOT_RUN


@pytest.mark.parametrize("page", FOUND)
def test_every_block_says_its_language(page):
    known = PYTHON | SHELL | CONSOLE | NOT_CODE | {"setup"} | ({""} if page.startswith(PLAIN) else set())
    assert [f"{block.line}: {block.language!r}" for block in FOUND[page] if block.language not in known] == []


def test_blocks_without_a_run_have_a_reason_that_is_a_sentence():
    reasons = [b.why_not for there in FOUND.values() for b in there if b.why_not is not None]
    assert all(len(why.split()) > 1 for why in reasons)


# -- the runner itself -----------------------------------------------------------------------------------------------


def test_blocks_are_found_with_their_marks():
    page = (
        "a\n\n```python\nx = 1\n```\n\n"
        "<!-- not run: needs a moon -->\n```bash\nfly\n```\n\n"
        "- b\n\n  ```console\n  $ ls\n  ```\n"
    )
    found = [(b.language, b.code, b.line, b.why_not) for b in blocks(page)]
    assert found == [
        ("python", "x = 1\n", 3, None),
        ("bash", "fly\n", 8, "needs a moon"),
        ("console", "$ ls\n", 14, None),
    ]


def test_directives_and_texts_are_no_code():
    assert [b.language for b in blocks("```{toctree}\na\n```\n\n```text\na\n```\n")] == ["text"]


@pytest.mark.parametrize(
    ("expected", "printed", "good"),
    [
        ("a\nb", "a\nb", True),
        ("a\nb", "a\nc", False),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…", "a\nb\nc", True),
        ("a … c", "a b c", True),
        ("a … c", "a b d", False),
        ("a", "a\nb", False),
        ("a", "fedslim: reading a.csv\na", True),
        ("a", "fedslim: warning: b\na", False),
    ],
)
def test_outputs_match(expected, printed, good):
    assert matches(expected, printed) is good


def test_a_failing_command_fails_the_page(tmp_path):
    shell = Shell(tmp_path)
    try:
        with pytest.raises(AssertionError, match="exit code 3"):
            shell.run("(exit 3)")
    finally:
        shell.close()


def test_the_first_failing_line_of_a_block_counts(tmp_path):
    shell = Shell(tmp_path)
    try:
        with pytest.raises(AssertionError, match="exit code 1"):
            shell.run("false\ntrue\n")
    finally:
        shell.close()


def test_a_shell_keeps_its_folder_and_variables(tmp_path):
    shell = Shell(tmp_path)
    try:
        shell.run("mkdir here\ncd here\nname=north\n")
        assert shell.run('echo "$name" "$(basename "$PWD")"').strip() == "north here"
    finally:
        shell.close()


if __name__ == "__main__":
    for each, (done, skipped) in counts().items():
        print(f"{done:4} run {skipped:3} not run  {each}")  # noqa: T201
    print(f"{sum(d for d, _ in counts().values()):4} run {sum(s for _, s in counts().values()):3} not run  all")  # noqa: T201
