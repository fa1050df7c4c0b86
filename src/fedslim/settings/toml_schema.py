"""Our TOML files: tables of keys, each declared once with a check and words for people; read and written by that.

    @dataclass(frozen=True)
    class Limits:
        HEADING: ClassVar[str] = "How far a run may go."
        max_time: float | None = key(values.number(0), "Seconds.", default=None, example=3600.0)

    parsed(data, path, {"limits": Limits}, "a federation's file", "fedslim federation init")
    template({"limits": Limits}, {"limits.max_time": 60.0}, "What the file is about.")

A key that is not declared is an error: a misspelt limit would otherwise be no limit.
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
from fedslim.settings.toml_values import Check, Wrong, describe, spell

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 1 << 19
"""Room for the longest list of members, and comments."""

MAX_DOTS = 100
"""In a line. The time that Python's reader of TOML takes grows with the square of the parts of a key."""

_WIDTH = 118
_CLOSE = 0.6
_MAX_GUESS = 100
_MAX_NAMED = 20


def key(check: Check, comment: str, *, default: Any = MISSING, example: Any = None) -> Any:
    """A key of the file. One without a default must be there; one whose default is None may be left out.

    Args:
        check: Turns what the file has into what the program uses.
        comment: For people who fill in the file.
        default: What holds where the key is left out.
        example: What the comment shows for a key that is left out.
    """
    metadata = {"check": check, "comment": comment, "example": example}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def read(
    path: Path, kinds: Mapping[str, Any], what: str, begin: str, gone: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """The same as `parse`, of a file.

    Raises:
        DataError: There is no such file, or it cannot be read.
        ConfigurationError: Something in it cannot be used; the message names file, key and what is allowed.
    """
    with told_as_data_errors(path), path.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    return parse(data, path, kinds, what, begin, gone)


def parse(  # noqa: PLR0913, PLR0917  # what a kind of file is
    data: bytes,
    path: Path,
    kinds: Mapping[str, Any],
    what: str,
    begin: str,
    gone: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The tables of a file of ours, each by its declaration; `what` it is called, and what writes one to `begin` with.

    `gone` has tables of older releases, and what to do about each.

    Raises:
        ConfigurationError: Something in it cannot be used; the message names file, key and what is allowed.
    """
    given = _tables(data, path, what, begin)
    for name in given:
        if name in gone:
            msg = f"{path}: {name}: {gone[name]}"
            raise ConfigurationError(msg)
        if name not in kinds:
            wrong = "is no table" if isinstance(given[name], dict) else "is no key outside of a table"
            raise unknown(path, f"{name:.60}: this {wrong} of {what}", name, list(kinds))
    return {name: _section(path, name, kind, given.get(name, {})) for name, kind in kinds.items()}


def _tables(data: bytes, path: Path, what: str, begin: str) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        msg = f"{path}: it is larger than {MAX_BYTES:,} bytes, so it is not {what}; name another"
        raise ConfigurationError(msg)
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.count(b".") > MAX_DOTS and not line.lstrip().startswith(b"#"):
            msg = f"{path}: line {number} has more than {MAX_DOTS} dots, and no key of {what} has two"
            raise ConfigurationError(msg)
    try:
        return tomllib.loads(data.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        msg = f"{path}: line {number} is not UTF-8; save the file as UTF-8"
    except RecursionError:
        msg = f"{path}: there are too many brackets in brackets in it; see `{begin}` for what it can hold"
    except ValueError as error:  # also numbers and dates that Python refuses
        msg = f"{path}: this is not TOML: {error}; `{begin}` writes a file to begin with"
    raise ConfigurationError(msg) from None


def _section(path: Path, name: str, kind: Any, given: Any) -> Any:
    if not isinstance(given, dict):
        msg = f"{path}: {name}: {describe(given)} cannot be used; write a table: [{name}] and its keys below"
        raise ConfigurationError(msg)
    known = {declared.name: declared for declared in fields(kind)}
    for each in given:
        if each not in known:
            raise unknown(path, f"{name}.{each:.60}: there is no such key", each, list(known))
    return kind(
        **{each: value(path, f"{name}.{each}", declared, given) for each, declared in known.items() if each in given}
        | {each: _left_out(path, name, declared) for each, declared in known.items() if each not in given}
    )


def value(path: Path, dotted: str, declared: Field[Any], given: dict[str, Any]) -> Any:
    """What a key says, checked.

    Raises:
        ConfigurationError: It cannot be used.
    """
    try:
        return _complete(declared.metadata["check"](given[declared.name]), path)
    except Wrong as error:
        msg = f"{path}: {dotted}: {error}"
        raise ConfigurationError(msg) from None


def _left_out(path: Path, section: str, declared: Field[Any]) -> Any:
    if declared.default is MISSING:
        msg = f"{path}: {section}.{declared.name}: it is missing; write {declared.name} = … below [{section}]"
        raise ConfigurationError(msg)
    return _complete(declared.default, path)


def _complete(value: Any, path: Path) -> Any:
    """A path with the folder of the file in front, so that it means the same wherever the program was started."""
    return path.absolute().parent / value if isinstance(value, Path) else value


def unknown(path: Path, what: str, name: str, known: list[str]) -> ConfigurationError:
    """About a name that is none: those it is close to, or some that there are."""
    close = difflib.get_close_matches(name[:_MAX_GUESS], known, n=3, cutoff=_CLOSE)
    more = ", …" if len(known) > _MAX_NAMED else ""
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known[:_MAX_NAMED])}{more}"
    return ConfigurationError(f"{path}: {what}; {hint}")


def template(kinds: Mapping[str, Any], chosen: Mapping[str, Any], about: str) -> str:
    """A file with every key there is; `chosen` has values by dotted key."""
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
