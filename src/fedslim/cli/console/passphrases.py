"""Where the passphrase of a key comes from: a file, the environment or the terminal. Never an argument.

Arguments are seen by everybody on the machine, and stay in the shell's history.
"""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from fedslim.cli.console.stream import is_terminal
from fedslim.errors import InputError

VARIABLE = "FEDSLIM_PASSPHRASE"

Ask = Annotated[
    bool, typer.Option("--passphrase", help=f"Ask for a passphrase for the key; or set {VARIABLE}, or name a file.")
]
File = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file", metavar="FILE", help="The file with the passphrase of the key, on its first line."
    ),
]


def for_new_key(file: Path | None, *, ask: bool) -> str | None:
    """The passphrase for a key that is to be made, if it is to have one.

    Raises:
        InputError: It was asked for where nobody can answer, or two answers were different.
    """
    from fedslim.trust.keys import checked_passphrase

    given = _read_given(file)
    if given is not None:
        return checked_passphrase(given)
    if not ask:
        return None
    found = checked_passphrase(_ask("Passphrase for the new key: "))
    if _ask("The same again: ") != found:
        msg = "the two passphrases are different; nothing was made, so try again"
        raise InputError(msg)
    return found


def for_key(key: Path, file: Path | None) -> str | None:
    """The passphrase of a key that is there, if it has one."""
    from fedslim.trust.keys import has_passphrase

    if not has_passphrase(key):
        return None
    found = _read_given(file)
    return _ask(f"Passphrase of {key}: ") if found is None else found


def _read_given(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(VARIABLE) or None
    from fedslim.trust.keys import read_private

    lines = read_private(file, "this passphrase").splitlines()
    try:
        found = lines[0].decode() if lines else ""
    except UnicodeDecodeError:
        msg = f"{file}: the first line is not UTF-8; write the passphrase as UTF-8"
        raise InputError(msg) from None
    if not found:
        msg = f"{file}: there is no passphrase on the first line; write it there"
        raise InputError(msg)
    return found


def _ask(prompt: str) -> str:
    if not is_terminal(sys.stdin):
        msg = f"a passphrase is needed, and there is no terminal to ask for it; set {VARIABLE} or use --passphrase-file"
        raise InputError(msg)
    try:
        return getpass(prompt)
    except EOFError:
        msg = "no passphrase was given; try again"
        raise InputError(msg) from None
