"""Pages that are partly generated: a comment in a Markdown page is replaced by what the code declares.

    <!-- commands: mine show -->          the reference of these commands, from the command-line program
    <!-- keys: federation -->             every key of the federation file, from its declarations
    <!-- decisions -->                    a table of contents of the folder, for a page that must stay plain Markdown

Nothing is written to the source folder. A command that no page mentions, or that two pages mention, is a warning, and
the build treats warnings as errors.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util import logging

from fedslim.toml.keys import heading

if TYPE_CHECKING:
    from sphinx.application import Sphinx

logger = logging.getLogger(__name__)

COMMANDS = re.compile(r"^<!-- commands: (.+?) -->$", re.MULTILINE)
KEYS = re.compile(r"^<!-- keys: (\w+) -->$", re.MULTILINE)

DECLARATIONS = {
    "federation": "fedslim.settings.federation_file",
    "policy": "fedslim.settings.policy",
    "schema": "fedslim.schema.rules",
    "site": "fedslim.settings.site_file",
}
"""The modules whose SECTIONS declare the keys of our TOML files."""

GROUPED = 1_000_000
"""From here on digits are grouped, as TOML allows."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx about this extension."""
    app.connect("source-read", expand)
    app.connect("env-updated", check_commands)
    app.connect("autodoc-process-docstring", escape_signs)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put what is generated in the place of its comment."""
    seen = vars(app.env).setdefault(
        "documented_commands", {}
    )  # kept with the environment: unchanged pages are not read

    def commands(match: re.Match[str]) -> str:
        names = match[1].split()
        seen[docname] = names
        known = _program().commands
        for name in names:
            if name not in known:
                logger.warning("there is no command %r", name, location=docname)
        return "\n".join(command_reference(name) for name in names if name in known)

    text = COMMANDS.sub(commands, source[0])
    text = KEYS.sub(lambda match: key_reference(match[1]), text)
    if docname.endswith("decisions/README"):
        text += "\n\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
    source[0] = text


def check_commands(_app: Sphinx, env: Any) -> list[str]:
    """Warn of commands that the reference lacks or has twice."""
    seen = [name for names in vars(env).get("documented_commands", {}).values() for name in names]
    for name, command in _program().commands.items():
        if not command.hidden and (times := seen.count(name)) != 1:
            logger.warning("the command %r is in %d pages of the reference, not in one", name, times)
    return []


def escape_signs(_app: Sphinx, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Let |X| and table_ stand in docstrings: reStructuredText would take them for a substitution and a reference."""
    lines[:] = [
        line if line.startswith((">>>", "   ")) else re.sub(r"^:ivar (\w+)_:", r":ivar \1\_:", line).replace("|", r"\|")
        for line in lines
    ]


# -- commands ----------------------------------------------------------------------------------------------------------


def _program() -> Any:
    from typer.main import get_command

    return get_command(import_module("fedslim.cli.app").app)


def command_reference(name: str) -> str:
    """One command and its subcommands in Markdown."""
    program = _program()
    context = program.context_class(program, info_name="fedslim")
    return "\n".join(_command(program.commands[name], name, context, "##"))


def _command(command: Any, name: str, parent: Any, heading: str) -> list[str]:
    context = command.context_class(command, info_name=name, parent=parent)
    path = context.command_path
    usage = " ".join(
        [path, *(piece.replace("{", "").replace("}", "") for piece in command.collect_usage_pieces(context))]
    )
    lines = [f"({path.replace(' ', '-')})=", f"{heading} {path}", "", _prose(command.help or ""), ""]
    lines += ["```text", usage, "```", "", f"```{{program}} {path}", "```", ""]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or record[0] == "--help":
            continue
        lines += _parameter(*record)
    for each, sub in getattr(command, "commands", {}).items():
        lines += _command(sub, each, context, "#" + heading)
    return lines


def _parameter(spelled: str, text: str) -> list[str]:
    """An option or argument; what is in brackets behind the help becomes a sentence."""
    spelled = re.sub(r" <[^>]*>", "", spelled).replace("[", "").replace("]", "")
    text, _, more = text.partition("  [")
    facts = []
    for fact in filter(None, more.rstrip("]").split("; ")):
        what, colon, value = fact.partition(": ")
        facts.append(f"{what.capitalize()}: `{value}`." if colon else f"{what.capitalize()}.")
    return [f"````{{option}} {spelled}", _prose(" ".join([text, *facts])), "````", ""]


def _prose(text: str) -> str:
    """Help as Markdown: file modes and globs are no emphasis."""
    text = re.sub(r"`[^`]*`|(?<!\w)--[a-z][a-z-]*", lambda match: f"`{match[0].strip('`')}`", text)
    return text.replace("*", r"\*").replace("<", r"\<")


# -- keys of files -----------------------------------------------------------------------------------------------------


def key_reference(kind: str) -> str:
    """Every key of one of our TOML files in Markdown, by its tables."""
    lines = []
    for table, declared in import_module(DECLARATIONS[kind]).SECTIONS.items():
        lines += [f"({kind}-{table.replace('_', '-')})=", f"## `[{table}]`", "", _prose(heading(declared)), ""]
        for field in fields(declared):
            lines += [f"({kind}-{table}-{field.name})=".replace("_", "-"), f"`{table}.{field.name}`", *_key(field), ""]
    return "\n".join(lines)


def _key(field: Any) -> list[str]:
    facts = [f": {_prose(field.metadata['comment'])}", ""]
    if field.default is MISSING:
        facts.append("  *Required.*")
    elif field.default is None:
        facts.append(f"  *Default:* not set. *Example:* `{_spelled(field.metadata['example'])}`")
    else:
        facts.append(f"  *Default:* `{_spelled(field.default)}`")
    return facts


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_spelled(name)} = {_spelled(one)}' for name, one in value.items())} }}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_spelled, value))}]"
    return f'"{value}"' if isinstance(value, str | Path) else f"{value:_}" if value >= GROUPED else str(value)
