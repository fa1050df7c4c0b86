"""Reconstruct the command line of a run, so that it can be repeated."""

from __future__ import annotations

import shlex
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

ONLY_SHOWN = {"json", "quiet", "top", "out", "report", "live"}
"""Options that change the output, but not the result."""


def typed_command(context: typer.Context) -> str:
    """Return the running command with every option that was given and affects the result."""
    words = context.command_path.split()
    for parameter in context.command.params:
        name = parameter.name or ""
        value = context.params.get(name)
        if name in ONLY_SHOWN or value is None or value == parameter.get_default(context):
            continue
        text = str(value.value if isinstance(value, Enum) else ",".join(value) if isinstance(value, list) else value)
        if parameter.param_type_name == "argument":
            names = map(str, value) if isinstance(value, (list, tuple)) else (text,)
            words += [f"./{one}" if one.startswith("-") and one != "-" else one for one in names]
        else:
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], text]
    return shlex.join(words)
