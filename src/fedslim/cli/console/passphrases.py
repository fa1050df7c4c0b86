"""Read the passphrase of a key from a file, the environment or the terminal.

It is never an argument: everybody on the machine can see those, and they stay in the shell's history.
"""

import os
import sys
from getpass import getpass
from pathlib import Path

from fedslim.cli.console.options import flag, option
from fedslim.cli.console.output import is_terminal
from fedslim.errors import InputError

VARIABLE = "FEDSLIM_PASSPHRASE"

ASK = flag("--passphrase", f"Ask for a passphrase for the key. Or set {VARIABLE}.")
FILE = option("FILE", "A file with the key's passphrase on its first line.", name="--passphrase-file")


def for_new_key(file: Path | None, *, ask: bool) -> str | None:
    """Return the passphrase for a new key; None for a key without one."""
    from fedslim.trust.keys import checked_passphrase

    if (given := _read_given(file)) is not None:
        return checked_passphrase(given)
    if not ask:
        return None
    found = checked_passphrase(_ask("Passphrase for the new key: "))
    if _ask("Repeat the passphrase: ") != found:
        raise InputError("the two passphrases differ, so no key was made; try again")
    return found


def for_key(key: Path, file: Path | None) -> str | None:
    """Return the passphrase of an existing key; None if it has none."""
    from fedslim.trust.keys import has_passphrase

    if not has_passphrase(key):
        return None
    return _read_given(file) or _ask(f"Passphrase of {key}: ")


def _read_given(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(VARIABLE) or None
    from fedslim.trust.keys import read_private

    lines = read_private(file, "this passphrase").splitlines()
    try:
        found = lines[0].decode() if lines else ""
    except UnicodeDecodeError:
        raise InputError(f"{file}: line 1 is not UTF-8; write the passphrase in UTF-8") from None
    if not found:
        raise InputError(f"{file}: line 1 is empty; write the passphrase there")
    return found


def _ask(prompt: str) -> str:
    if not is_terminal(sys.stdin):
        msg = f"a passphrase is needed, and there is no terminal to ask for it; set {VARIABLE} or use --passphrase-file"
        raise InputError(msg)
    try:
        return getpass(prompt)
    except EOFError:
        raise InputError("no passphrase was given; try again") from None
