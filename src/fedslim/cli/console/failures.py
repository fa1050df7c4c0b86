"""Turn every error into one line on stderr and an exit code: 2 for bad input, 1 for a failed run."""

from __future__ import annotations

import errno
import re
import traceback

import typer

from fedslim.cli.console.stream import let_go_of_stdout, say
from fedslim.errors import FedslimError

FAILED = 1
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
NOBODY_READS = 141
"""The exit code of shells for a program whose output is no longer read: `fedslim show table.json | head -1`."""

# Some releases of typer bundle click and some depend on it; this finds the base of usage errors in both.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def exit_code(error: Exception, *, debug: bool) -> int:
    """Print an error and return the exit code; with `debug`, print the traceback too."""
    if isinstance(error, BrokenPipeError):
        let_go_of_stdout()
        return NOBODY_READS
    if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
        let_go_of_stdout()  # typer prints the help itself, for example
        say(f"fedslim: error: the output cannot be written ({error.strerror}); check its destination")
        return FAILED
    if isinstance(error, UsageError):
        say(f"fedslim: error: {_usage_sentence(error)}")
        return int(getattr(error, "exit_code", 2))
    if debug:
        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line)
    if isinstance(error, FedslimError):
        say(f"fedslim: error: {_one_line(error)}")
        return error.exit_code
    if isinstance(error, MemoryError):
        say("fedslim: error: there is not enough memory; free some, or mine a part of the data")
        return FAILED
    what = f"{type(error).__name__}: {_one_line(error)}".removesuffix(": ")
    say(f"fedslim: internal error: {what}; {'' if debug else 'run again with --debug, and '}report this as a bug")
    return FAILED


def _usage_sentence(error: Exception) -> str:
    """Return typer's message in the style of fedslim's own."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = "fedslim" if context is None else context.command_path
    sentence = _one_line(text).rstrip(".").replace("Value error, ", "")  # a prefix in some releases
    return f"{sentence[:1].lower()}{sentence[1:]} (see {command} --help)"


def _one_line(text: object) -> str:
    return re.sub(r"\s*\n\s*", " ", str(text)).strip()
