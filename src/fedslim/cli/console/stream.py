"""What goes to stdout and stderr: text from rich, JSON, single lines; and what happens if nobody takes it."""

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
"""The width of what is not a terminal: there a row is a line, and whoever reads it may cut it."""


def forgiving_streams() -> None:
    """Where the terminal's encoding lacks a character, write a mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Tell what goes wrong with stdout; that its reader went away is no error, and passed on."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        let_go_of_stdout()
        msg = f"the output cannot be written ({error.strerror or error}); check where it goes"
        raise WriteError(msg) from error


def let_go_of_stdout() -> None:
    """Python would try once more to write what is left, at the very end, complain, and end with a code of its own."""
    with contextlib.suppress(OSError):  # it may be no file at all
        descriptor = sys.stdout.fileno()
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, descriptor)
        os.close(devnull)


def print_text(text: str) -> None:
    """Write to stdout, all of it and now.

    Raises:
        WriteError: It cannot be written.
    """
    if sys.stdout is not None:  # it is None where whoever started us closed it
        with _writing():
            sys.stdout.write(text)
            sys.stdout.flush()


def json_text(record: dict[str, Any]) -> str:
    """One JSON object. In ASCII: right in every encoding, and nothing in it that a terminal obeys."""
    return json.dumps(record, indent=2, allow_nan=False) + "\n"


def print_json(record: dict[str, Any]) -> None:
    """Write one JSON object to stdout."""
    print_text(json_text(record))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks on. Rich would say yes as well where FORCE_COLOR asks for colours in a pipe."""
    return stream is not None and stream.isatty()


def print_rich(*parts: RenderableType) -> None:
    """Write to stdout what rich makes of the parts, a blank line between them; plain where stdout is no terminal."""
    console = stdout_console()
    with _writing(), console.capture() as captured:  # rich writes nothing then, but tries to
        for place, part in enumerate(parts):
            console.print(*([""] if place else []), part, sep="\n")
    text = captured.get()
    if not is_terminal(sys.stdout):
        text = "".join(line.rstrip() + "\n" for line in text.splitlines())  # rich fills rows up with blanks
    print_text(text)


def stdout_console() -> Console:
    """Rich on stdout. Text is shown as it is: labels may have [brackets], :colons: and numbers."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    if not is_terminal(sys.stdout):
        console.width = ENDLESS
    return console


def stderr_console() -> Console:
    """Rich on stderr, for progress."""
    from rich.console import Console

    return Console(stderr=True, markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """Write a line to stderr, escaped. That nobody listens there is no reason to fail."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(printable(text) + "\n")
            sys.stderr.flush()
