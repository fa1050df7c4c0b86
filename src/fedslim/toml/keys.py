"""TOML files whose keys are declared once, with a check and a help text, and read and written from the declarations.

A table is a dataclass, whose docstring is its help text, with a `key` in each field; `settings/site_file.py` is an
example. An undeclared key is an error: otherwise a misspelt limit would silently not apply.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, ClassVar, Self, get_type_hints

from fedslim.data.atomic import creating, make_folder_for
from fedslim.data.textstream import real_path, told_as_data_errors
from fedslim.errors import ConfigurationError
from fedslim.toml.values import Check, Wrong, describe, spell

MAX_BYTES = 1 << 19  # enough for the longest list of members, and comments
MAX_DOTS = 100  # per line. The time that `tomllib` takes is quadratic in the number of parts of a dotted key.
_WIDTH = 118
_CLOSE = 0.6
_MAX_GUESS = 100
_MAX_NAMED = 20


def key(check: Check, comment: str, *, default: Any = MISSING, example: Any = None) -> Any:
    """Declare a key of the file: the check of its value, and its help text. A key without a default is required.

    A template shows the example, commented out, for a key whose default is None.
    """
    return field(default=default, metadata={"check": check, "comment": comment, "example": example})


def optional_key(check: Check, comment: str, example: Any) -> Any:
    """Declare a key that is None if it is left out; a template shows the example, commented out."""
    return key(check, comment, default=None, example=example)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    """A file of settings, read and checked; its paths are absolute. A subclass has a field for each table."""

    WHAT: ClassVar[str]  # the kind of file, in messages
    BEGIN: ClassVar[str]  # the command that writes a new file
    ABOUT: ClassVar[str]  # what a new file begins with

    path: Path

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file and check everything in it; an error names the file, the key and what is allowed."""
        path = real_path(path)
        with told_as_data_errors(path), path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        return cls.parse(data, path)

    @classmethod
    def parse(cls, data: bytes, path: Path) -> Self:
        """Do the same with the content of a file that is, or will be, at `path`."""
        given = tables(data, path, cls.WHAT, cls.BEGIN)
        sections = cls.sections()
        for name in given:
            if name not in sections:
                problem = "is not a table" if isinstance(given[name], dict) else "is not a top-level key"
                raise unknown(path, f"{name:.60}: this {problem} of {cls.WHAT}", name, list(sections))
        checked = {name: section(path, name, kind, given.get(name, {})) for name, kind in sections.items()}
        made = cls(path=path, **checked)
        made.check_together()
        return made

    @classmethod
    def sections(cls) -> dict[str, Any]:
        """Return the declaration of each table, by its name."""
        return {name: kind for name, kind in get_type_hints(cls).items() if is_dataclass(kind)}

    def values(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield each dotted key with its value and its default, None if it has none; paths as texts."""
        for name, kind in self.sections().items():
            for declared in fields(kind):
                value = getattr(getattr(self, name), declared.name)
                default = None if declared.default is MISSING else _complete(declared.default, self.path)
                value, default = (str(one) if isinstance(one, Path) else one for one in (value, default))
                yield f"{name}.{declared.name}", value, default

    def check_together(self) -> None:
        """Check what concerns several keys; a subclass may have such rules."""

    @classmethod
    def write(cls, path: str | os.PathLike[str], chosen: Mapping[str, Any], *, private: bool = False) -> Self:
        """Write a new file with every key and its help text; `chosen` has values by dotted key."""
        path = real_path(path)
        data = template(cls.sections(), chosen, cls.ABOUT).encode()
        made = cls.parse(data, path)
        make_folder_for(path)
        with creating(path, private=private) as stream:
            stream.write(data)
        return made


def tables(data: bytes, path: Path, what: str, begin: str) -> dict[str, Any]:
    """Parse a file, whatever its keys."""
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
    """Check a table against its declaration."""
    if not isinstance(given, dict):
        msg = f"{path}: {name}: {describe(given)} cannot be used; write a table: [{name}] and its keys below it"
        raise ConfigurationError(msg)
    known = {declared.name: declared for declared in fields(kind)}
    for each in given:
        if each not in known:
            raise unknown(path, f"{name}.{each:.60}: unknown key", each, list(known))
    made = {}
    for each, declared in known.items():
        if each not in given and declared.default is MISSING:
            raise ConfigurationError(f"{path}: {name}.{each}: missing; add {each} = … below [{name}]")
        try:
            found = declared.metadata["check"](given[each]) if each in given else declared.default
        except Wrong as error:
            raise ConfigurationError(f"{path}: {name}.{each}: {error}") from None
        made[each] = _complete(found, path)
    return kind(**made)


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
        lines += ["", "", *_comment(heading(kind)), f"[{section}]"]
        for declared in fields(kind):
            lines += ["", *_comment(declared.metadata["comment"])]
            value = chosen.get(f"{section}.{declared.name}", declared.default)
            example = declared.metadata["example"]
            given, off = (value, "") if value is not None else (example, "# ")
            lines.append(f"{off}{declared.name} = {spell(given)}")
    return "\n".join(lines) + "\n"


def heading(kind: Any) -> str:
    """Return the help text of a table: the docstring of its declaration."""
    return " ".join(kind.__doc__.split())


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in wrap(text, _WIDTH, break_on_hyphens=False)]
