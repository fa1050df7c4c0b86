"""`fedslim policy`: what a member allows, whatever a federation, a server or a job says."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.output import summary
from fedslim.cli.console.stream import print_json, print_rich, print_text
from fedslim.cli.console.text import printable

if TYPE_CHECKING:
    from fedslim.settings.policy import MemberPolicy

app = typer.Typer(help="Write and check what a member allows.", rich_markup_mode=None, add_completion=False)

FILE = Path("certificates") / "policy.toml"
"""Where `fedslim member` looks, if nobody says otherwise."""

REFUSED = 2
"""The exit code of `fedslim member` where the policy does not allow it."""

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The policy (TOML).")]


@app.callback(invoke_without_command=True)
def policy(context: typer.Context) -> None:
    """What there is to say before the command; without a command, the help."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


@app.command(short_help="Write a policy with strict limits, and comments.")
def init(file: FileArgument = FILE) -> None:
    """Write a policy with every key there is and what it is for, as strict as without one. It replaces nothing."""
    from fedslim.settings.policy import write_policy
    from fedslim.trust.keys import make_private_folder

    if file.parent != Path():
        make_private_folder(file.parent)
    made = write_policy(file)
    print_text(printable(f"{made.path}: look through what this member allows") + "\n")


@app.command(short_help="Say whether a policy allows a federation, and why not.")
def check(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION", help="The federation's file (TOML).")],
    *,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy; policy.toml beside the member's key if left out.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Say whether this member may take part in a federation, with every reason why not; exit code 2 if not.

    What was answered before counts as well, once there are data: see `fedslim ledger`.
    """
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

    file = FederationFile.read(federation)
    own = MemberPolicy.find(file.server.certificates) if policy is None else MemberPolicy.read(policy)
    found = own.reasons(file)
    if json:
        told = {"federation": str(file.path), "policy": str(own.path) if own.written else None}
        print_json(told | {"allowed": not found, "reasons": found})
    else:
        facts = [("federation", f"{file.path}: {file.federation.name}"), ("policy", _where(own))]
        print_rich(summary([*facts, ("allowed", "no" if found else "yes"), *(("because", reason) for reason in found)]))
    if found:
        raise typer.Exit(REFUSED)


@app.command(short_help="Say what a policy allows.")
def show(file: FileArgument = FILE, json: options.Json = False) -> None:
    """Say what a policy allows, and where that is not the default; without a file, the defaults."""
    from fedslim.settings.policy import MemberPolicy
    from fedslim.settings.toml_values import spell

    own = MemberPolicy.find(file.parent) if file.name == FILE.name else MemberPolicy.read(file)
    rows = _keys(own)
    if json:
        print_json(
            {
                "file": str(own.path) if own.written else None,
                "keys": {key: {"value": value, "default": strict} for key, value, strict in rows},
            }
        )
        return
    facts = [
        (key, spell(value) + ("" if value == strict else f" (by default {spell(strict)})"))
        for key, value, strict in rows
    ]
    print_rich(summary([("file", _where(own)), *facts]))


def _where(own: "MemberPolicy") -> str:
    return str(own.path) if own.written else f"none ({own.path} is not there): the defaults hold"


def _keys(own: "MemberPolicy") -> list[tuple[str, Any, Any]]:
    """Each key with its value and its default."""
    from dataclasses import fields

    from fedslim.settings.policy import SECTIONS

    rows = []
    for section, kind in SECTIONS.items():
        for declared in fields(kind):
            value: Any = getattr(getattr(own, section), declared.name)
            strict: Any = declared.default
            if isinstance(value, Path):
                value, strict = str(value), str(own.path.absolute().parent / strict)
            rows.append((f"{section}.{declared.name}", value, strict))
    return rows
