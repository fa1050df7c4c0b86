"""`fedslim policy`: write, check and show what a member allows, whatever a federation, server or job wants."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.groups import command_group
from fedslim.cli.console.output import summary
from fedslim.cli.console.stream import print_json, print_line, print_rich

if TYPE_CHECKING:
    from fedslim.settings.policy import MemberPolicy

app = command_group("Write, check and show the policy of a member.")

FILE = Path("certificates") / "policy.toml"
"""Where `fedslim member` looks by default."""

REFUSED = 2
"""The exit code of `fedslim member` if the policy refuses the federation."""

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The policy file.")]


@app.command(short_help="Write a strict policy, with comments.")
def init(file: FileArgument = FILE) -> None:
    """Write a new policy with every key at its strict default, each explained by a comment."""
    from fedslim.settings.policy import write_policy
    from fedslim.trust.keys import make_private_folder

    if file.parent != Path():
        make_private_folder(file.parent)
    made = write_policy(file)
    print_line(f"{made.path}: review what this member allows")


@app.command(short_help="Check whether a policy allows a federation.")
def check(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION", help="The federation file.")],
    *,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy; by default policy.toml beside the member's key.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Check whether this member may take part in a federation; if not, list every reason and exit with code 2.

    This does not look at the data: the ledger may still refuse the federation on them (see `fedslim ledger`).
    """
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

    file = FederationFile.read(federation)
    own = MemberPolicy.find(file.server.certificates) if policy is None else MemberPolicy.read(policy)
    found = own.reasons(file)
    if json:
        checked = {"federation": str(file.path), "policy": str(own.path) if own.written else None}
        print_json(checked | {"allowed": not found, "reasons": found})
    else:
        facts = [("federation", f"{file.path}: {file.federation.name}"), ("policy", _where(own))]
        print_rich(summary([*facts, ("allowed", "no" if found else "yes"), *(("because", reason) for reason in found)]))
    if found:
        raise typer.Exit(REFUSED)


@app.command(short_help="Show what a policy allows.")
def show(file: FileArgument = FILE, json: options.Json = False) -> None:
    """Show what a policy allows, and where it differs from the defaults; if there is no file, show the defaults."""
    from fedslim.settings.policy import MemberPolicy
    from fedslim.toml.values import spell

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
        (key, spell(value) + ("" if value == strict else f" (default: {spell(strict)})")) for key, value, strict in rows
    ]
    print_rich(summary([("file", _where(own)), *facts]))


def _where(own: "MemberPolicy") -> str:
    return str(own.path) if own.written else f"none ({own.path} does not exist), so the defaults apply"


def _keys(own: "MemberPolicy") -> list[tuple[str, Any, Any]]:
    """Return each key with its value and its default."""
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
