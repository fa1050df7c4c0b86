"""Write text, JSON and rich tables to stdout, and lines to stderr; handle outputs that cannot be written."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from fedslim.cli.console.text import printable
from fedslim.errors import WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

ENDLESS = 100_000
"""The width if stdout is not a terminal, so that each row is one line."""


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
        msg = f"the output cannot be written ({error.strerror or error}); check its destination"
        raise WriteError(msg) from error


def let_go_of_stdout() -> None:
    """Redirect stdout to nowhere: otherwise Python flushes it at exit, complains, and changes the exit code."""
    with contextlib.suppress(OSError):  # stdout may have no file descriptor
        descriptor = sys.stdout.fileno()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, descriptor)
        os.close(devnull)


def print_text(text: str) -> None:
    """Write to stdout and flush.

    Raises:
        WriteError: It cannot be written.
    """
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


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal. Rich's own test is also true in a pipe if FORCE_COLOR is set."""
    return stream is not None and stream.isatty()


def print_rich(*parts: RenderableType) -> None:
    """Write the parts to stdout with blank lines between them; in plain text if stdout is not a terminal."""
    console = stdout_console()
    with _writing(), console.capture() as captured:  # rich touches stdout even when capturing
        for place, part in enumerate(parts):
            console.print(*([""] if place else []), part, sep="\n")
    text = captured.get()
    if not is_terminal(sys.stdout):
        text = "".join(line.rstrip() + "\n" for line in text.splitlines())  # rich pads rows with spaces
    print_text(text)


def stdout_console() -> Console:
    """Return a rich console on stdout without markup: labels may have [brackets], :colons: and numbers."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    if not is_terminal(sys.stdout):
        console.width = ENDLESS
    return console


def stderr_console() -> Console:
    """Return a rich console on stderr, for progress."""
    from rich.console import Console

    return Console(stderr=True, markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """Write a line to stderr, escaped; ignore a stderr that cannot be written."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(printable(text) + "\n")
            sys.stderr.flush()
