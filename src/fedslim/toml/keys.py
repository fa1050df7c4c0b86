"""TOML files whose keys are declared once, with a check and a help text, and read and written from the declarations.

    @dataclass(frozen=True)
    class Limits:
        HEADING: ClassVar[str] = "How long a run may take."
        max_time: float | None = key(values.seconds(0, 3600), "In seconds.", default=None, example=3600.0)

    parse(data, path, {"limits": Limits}, "a federation file", "fedslim federation init")
    template({"limits": Limits}, {"limits.max_time": 60.0}, "What the file is for.")

An undeclared key is an error: otherwise a misspelt limit would silently not apply.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fedslim.data.textstream import told_as_data_errors
from fedslim.errors import ConfigurationError
from fedslim.toml.values import Check, Wrong, describe, spell

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 1 << 19
"""Enough for the longest list of members, and comments."""

MAX_DOTS = 100
"""Per line. The time that `tomllib` takes is quadratic in the number of parts of a dotted key."""

_WIDTH = 118
_CLOSE = 0.6
_MAX_GUESS = 100
_MAX_NAMED = 20


def key(check: Check, comment: str, *, default: Any = MISSING, example: Any = None) -> Any:
    """Declare a key of the file. A key without a default is required.

    Args:
        check: Converts the value from the file to the value that the program uses.
        comment: The help text, for people who fill in the file.
        default: The value of a key that is left out.
        example: The value that a template shows, commented out, for a key whose default is None.
    """
    metadata = {"check": check, "comment": comment, "example": example}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def read(
    path: Path, kinds: Mapping[str, Any], what: str, begin: str, removed: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Read and `parse` a file.

    Raises:
        DataError: The file does not exist or cannot be read.
        ConfigurationError: A value is not allowed; the message names the file, the key and what is allowed.
    """
    with told_as_data_errors(path), path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    return parse(data, path, kinds, what, begin, removed)


def parse(  # noqa: PLR0913, PLR0917  # together they describe a kind of file
    data: bytes,
    path: Path,
    kinds: Mapping[str, Any],
    what: str,
    begin: str,
    removed: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Parse a file into its tables, checked against their declarations in `kinds`.

    In messages, `what` names the kind of file and `begin` the command that writes a new one. `removed` maps tables of
    older releases to what to do about them.

    Raises:
        ConfigurationError: A value is not allowed; the message names the file, the key and what is allowed.
    """
    given = tables(data, path, what, begin)
    for name in given:
        if name in removed:
            msg = f"{path}: {name}: {removed[name]}"
            raise ConfigurationError(msg)
        if name not in kinds:
            problem = "is not a table" if isinstance(given[name], dict) else "is not a top-level key"
            raise unknown(path, f"{name:.60}: this {problem} of {what}", name, list(kinds))
    return {name: section(path, name, kind, given.get(name, {})) for name, kind in kinds.items()}


def tables(data: bytes, path: Path, what: str, begin: str) -> dict[str, Any]:
    """Parse a file, whatever its keys.

    Raises:
        ConfigurationError: The file is too large or not TOML.
    """
    if len(data) > MAX_BYTES:
        msg = f"{path}: this is not {what}: it is larger than {MAX_BYTES:,} bytes; choose another file"
        raise ConfigurationError(msg)
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.count(b".") > MAX_DOTS and not line.lstrip().startswith(b"#"):
            msg = f"{path}: line {number} has more than {MAX_DOTS} dots; no key of {what} has more than one"
            raise ConfigurationError(msg)
    try:
        return tomllib.loads(data.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        msg = f"{path}: line {number} is not UTF-8; save the file as UTF-8"
    except RecursionError:
        msg = f"{path}: nested too deeply; `{begin}` writes a valid file to start from"
    except ValueError as error:  # also numbers and dates that Python refuses
        msg = f"{path}: not valid TOML: {error}; `{begin}` writes a valid file to start from"
    raise ConfigurationError(msg) from None


def section(path: Path, name: str, kind: Any, given: Any) -> Any:
    """Check a table against its declaration.

    Raises:
        ConfigurationError: A key is unknown or missing, or a value is not allowed.
    """
    if not isinstance(given, dict):
        msg = f"{path}: {name}: {describe(given)} cannot be used; write a table: [{name}] and its keys below it"
        raise ConfigurationError(msg)
    known = {declared.name: declared for declared in fields(kind)}
    for each in given:
        if each not in known:
            raise unknown(path, f"{name}.{each:.60}: unknown key", each, list(known))
    return kind(
        **{each: value(path, f"{name}.{each}", declared, given) for each, declared in known.items() if each in given}
        | {each: _default(path, name, declared) for each, declared in known.items() if each not in given}
    )


def value(path: Path, dotted: str, declared: Field[Any], given: dict[str, Any]) -> Any:
    """Return the value of a key, checked and converted.

    Raises:
        ConfigurationError: The value is not allowed.
    """
    try:
        return _complete(declared.metadata["check"](given[declared.name]), path)
    except Wrong as error:
        msg = f"{path}: {dotted}: {error}"
        raise ConfigurationError(msg) from None


def _default(path: Path, table: str, declared: Field[Any]) -> Any:
    if declared.default is MISSING:
        msg = f"{path}: {table}.{declared.name}: missing; add {declared.name} = … below [{table}]"
        raise ConfigurationError(msg)
    return _complete(declared.default, path)


def _complete(value: Any, path: Path) -> Any:
    """Resolve a path from the folder of the file, so that it does not depend on the working directory."""
    return path.absolute().parent / value if isinstance(value, Path) else value


def unknown(path: Path, what: str, name: str, known: list[str]) -> ConfigurationError:
    """Return an error about an unknown name, with similar names or, if there are none, the known ones."""
    close = difflib.get_close_matches(name[:_MAX_GUESS], known, n=3, cutoff=_CLOSE)
    more = ", …" if len(known) > _MAX_NAMED else ""
    hint = f"did you mean {' or '.join(close)}?" if close else f"use one of {', '.join(known[:_MAX_NAMED])}{more}"
    return ConfigurationError(f"{path}: {what}; {hint}")


def template(kinds: Mapping[str, Any], chosen: Mapping[str, Any], about: str) -> str:
    """Return the text of a file with every key and its help text; `chosen` has values by dotted key."""
    lines = _comment(about)
    for section, kind in kinds.items():
        lines += ["", "", *_comment(kind.HEADING), f"[{section}]"]
        for declared in fields(kind):
            lines += ["", *_comment(declared.metadata["comment"])]
            value = chosen.get(f"{section}.{declared.name}", declared.default)
            example = declared.metadata["example"]
            given, off = (value, "") if value is not None else (example, "# ")
            lines.append(f"{off}{declared.name} = {spell(given)}")
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, _WIDTH, break_on_hyphens=False)]
