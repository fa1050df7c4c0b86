"""The command that was typed, written so that it can be typed again."""

from __future__ import annotations

import shlex
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

ONLY_SHOWN = {"json", "quiet", "top", "out"}
"""Options that change what is seen and where it goes, not what comes out."""


def typed_command(context: typer.Context) -> str:
    """A running command with everything that was chosen and does matter; what was left out is left out."""
    words = context.command_path.split()
    for parameter in context.command.params:
        name = parameter.name or ""
        value = context.params.get(name)
        if name in ONLY_SHOWN or value is None or value == parameter.get_default(context):
            continue
        text = str(value.value if isinstance(value, Enum) else value)
        if parameter.param_type_name == "argument":
            words.append(f"./{text}" if text.startswith("-") else text)  # a file; it would be taken for an option
        else:
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], text]
    return shlex.join(words)
