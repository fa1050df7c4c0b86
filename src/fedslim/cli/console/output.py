"""Write to stdout and stderr: text that cannot harm a terminal, JSON, tables of rich, and code tables."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from fedslim import __version__
from fedslim.errors import WriteError
from fedslim.format import brief, count, number, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from fedslim.mdl.codetable import CodeTable

Facts = Sequence[tuple[str, str]]

CODE_TABLE, RUN = "codetable.json", "run.json"
"""The files in the folder of a run; copied, so that `--help` is fast. A test checks that they agree."""

MAX_SHOWN = 500  # longer labels are cut in tables; no label that is meant to be read is this long
ENDLESS = 100_000  # the width if stdout is not a terminal, so that each row is one line
MANY_BITS = 10_000  # from this many bits, tenths of bits are not shown


def shown_label(label: str) -> str:
    """Format a label for a table."""
    return printable(label if len(label) <= MAX_SHOWN else label[: MAX_SHOWN - 1] + "…")


def shown_items(labels: Sequence[str]) -> str:
    """Format an itemset in one line, separated by commas, or by bars if a label has a comma."""
    between = " | " if any("," in label for label in labels) else ", "
    return between.join(map(shown_label, labels))


# -- streams -----------------------------------------------------------------------------------------------------------


def forgiving_streams() -> None:
    """Replace characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Turn errors of stdout into a WriteError; pass on a BrokenPipeError, which is not a failure."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        let_go_of_stdout()
        raise WriteError(f"the output cannot be written ({error.strerror or error}); check its destination") from error


def let_go_of_stdout() -> None:
    """Redirect stdout to nowhere: otherwise Python flushes it at exit, complains, and changes the exit code."""
    with contextlib.suppress(OSError):  # stdout may have no file descriptor
        descriptor = sys.stdout.fileno()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, descriptor)
        os.close(devnull)


def print_text(text: str) -> None:
    """Write to stdout and flush."""
    if sys.stdout is not None:  # None if the parent process closed it
        with _writing():
            sys.stdout.write(text)
            sys.stdout.flush()


def print_line(text: str) -> None:
    """Write a line to stdout, escaped."""
    print_text(printable(text) + "\n")


def print_json(record: dict[str, Any]) -> None:
    """Write one JSON object to stdout, in ASCII: right in every encoding, and free of terminal control characters."""
    print_text(json.dumps(record, indent=2, allow_nan=False) + "\n")


def say(text: str) -> None:
    """Write a line to stderr, escaped; ignore a stderr that cannot be written."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(printable(text) + "\n")
            sys.stderr.flush()


class Said(logging.Handler):
    """Says log records, even if `sys.stderr` was replaced since."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(form))

    def emit(self, record: logging.LogRecord) -> None:
        """Say a record."""
        say(self.format(record))


def warn(text: object) -> None:
    """Write a warning to stderr."""
    say(f"fedslim: warning: {text}")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal. Rich's own test is also true in a pipe if FORCE_COLOR is set."""
    return stream is not None and stream.isatty()


def rich_console(*, stderr: bool = False) -> Console:
    """Return a rich console without markup: labels may have [brackets], :colons: and numbers."""
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not stderr and not is_terminal(sys.stdout):
        console.width = ENDLESS
    return console


# -- tables ------------------------------------------------------------------------------------------------------------


def print_rich(*parts: RenderableType | Facts | None) -> None:
    """Write texts, tables and lists of facts with blank lines between them; in plain text if not to a terminal."""
    console = rich_console()
    shown = [_summary(part) if isinstance(part, list) else part for part in parts if part is not None]
    with _writing(), console.capture() as captured:  # rich touches stdout even when capturing
        for place, part in enumerate(shown):
            console.print(*([""] if place else []), part, sep="\n")
    text = captured.get()
    if not is_terminal(sys.stdout):
        text = "".join(line.rstrip() + "\n" for line in text.splitlines())  # rich pads rows with spaces
    print_text(text)


def print_result(as_json: bool, record: dict[str, Any], *parts: RenderableType | Facts | None) -> None:
    """Write a result: the record as JSON, or the parts as `print_rich` does."""
    if as_json:
        print_json(record)
    else:
        print_rich(*parts)


def grid(header: Sequence[str], rows: Iterable[Sequence[object]], *, right: int, left: int = 0) -> Table | None:
    """Return a table, unless it has no rows; columns from `left` to `right` are numbers, the last one may wrap."""
    from rich import box
    from rich.table import Table

    lines, gap = (box.SIMPLE_HEAD, 1) if is_terminal(sys.stdout) else (None, 2)  # the lines take a column too
    table = Table(box=lines, show_edge=False, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for place, title in enumerate(header):
        last = place == len(header) - 1
        table.add_column(title, justify="right" if left <= place < right else "left", no_wrap=not last, overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table if table.row_count else None


def _cell(value: object) -> str:
    """Format a whole number, an itemset or text for a table; None is a figure that is unknown."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (tuple, list)):
        return shown_items(value)
    return "–" if value is None else printable(str(value))


def _summary(facts: Facts) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts:
        table.add_row(name, printable(fact))
    return table


# -- code tables -------------------------------------------------------------------------------------------------------


def table_record(table: CodeTable, top: int) -> dict[str, Any]:
    """Return a code table as a record for JSON."""
    c = table.compression
    return {
        "version": __version__,
        "transactions": table.transactions,
        "items": len(table.vocabulary),
        "L_percent": c.L_percent,
        "L_data_percent": c.L_data_percent,
        "bits_total": c.after.total,
        "bits_data": c.after.data,
        "bits_model": c.after.model,
        "bits_total_before": c.before.total,
        "bits_data_before": c.before.data,
        "bits_model_before": c.before.model,
        "itemsets": len(table),
        "min_count": table.min_count,
        "other": table.other,
        "top": [
            {"items": list(e.labels)}
            | {name: getattr(e, name) for name in ("usage", "support", "code_length", "bits_saved")}
            for e in table.top(top)
        ],
    }


def print_code_table(
    table: CodeTable, top: int, name: str, more: Facts = (), *, between: Iterable[RenderableType | None] = ()
) -> None:
    """Print the itemsets that save most, the tables in `between`, and a summary with the lines in `more`."""
    if (names := brief(table.vocabulary)) != table.vocabulary:
        hidden = sum(one != label for one, label in zip(names, table.vocabulary, strict=True))
        told = "shown by their ids; the members' tables have the labels"
        if hidden < len(names):  # a member's own table
            told = f"{hidden:,} shown by id, without a name here; `fedslim show` names them with --labels and --secret"
        more = [*more, ("items", told)]
        table = replace(table, vocabulary=names)
    c = table.compression
    digits = 0 if c.before.total >= MANY_BITS else 1
    rows = [(number(e.bits_saved, digits), e.usage, e.support, e.labels) for e in table.top(top)]
    shown = f", {len(rows):,} shown" if len(rows) < len(table) else ""
    total, data, model = (
        f"{number(getattr(c.before, part), digits)} → {number(getattr(c.after, part), digits)}"
        for part in ("total", "data", "model")
    )
    merged = [f"no count below {table.min_count:,} is shown"] if table.min_count > 1 else []
    if table.other:
        merged.append(f"{count(table.other, 'occurrence')} of items that may not be shown are merged")
    facts = [
        (
            "data",
            f"{shown_label(name)}: {count(table.transactions, 'transaction')}, {count(len(table.vocabulary), 'item')}",
        ),
        ("found", f"{count(len(table), 'itemset')}{shown}"),
        ("L%", f"{c.L_percent:.2f} total, {c.L_data_percent:.2f} data alone"),
        ("bits", f"{total} (data {data}, model {model})"),
        *([("merged", "; ".join(merged))] if merged else []),
        *more,
    ]
    print_rich(grid(("bits saved", "usage", "support", "items"), rows, right=3), *between, facts)
