"""`fedslim ledger`: show what a member has answered and what further results would reveal; allow exceptions."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.groups import command_group
from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.stream import print_json, print_line, print_rich
from fedslim.cli.console.text import count, printable
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.safeguards.ledger import Entries

app = command_group("Show what a member has answered, and allow more.")

CERTIFICATES = Path("certificates")
MAX_SHOWN = 100
IdentityOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The folder with the member's key, policy and ledger.")
]


@app.command(short_help="Show what was answered, and what further results would reveal.")
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The ledger; by default the one of --identity.")
    ] = None,
    *,
    identity: IdentityOption = None,
    json: options.Json = False,
) -> None:
    """Show on which data and with whom this member has answered, and what further results would reveal.

    Two results with almost the same members or data differ by the counts of the few that changed.
    """
    from fedslim.safeguards.ledger import AnswerLedger
    from fedslim.settings.policy import MemberPolicy

    if file is not None and identity is not None:
        msg = "FILE and --identity both name a ledger; give one of them"
        raise ParameterError(msg)
    path = file if file is not None else MemberPolicy.find(identity or CERTIFICATES).ledger.file
    if file is not None and not file.exists():
        msg = f"{file}: the file does not exist; name the ledger that `fedslim member` wrote"
        raise ParameterError(msg)
    entries = AnswerLedger(path).entries()
    if json:
        print_json({"file": str(path), **_record(entries)})
        return
    parts: list[Any] = [_answers(entries)] if entries.answers else []
    print_rich(*parts, summary(_facts(path, entries)))


@app.command(short_help="Allow a set of members that the ledger refuses.")
def allow(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION", help="The federation file.")],
    *,
    identity: IdentityOption = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy that names the ledger, if not in --identity.")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, recorded in the ledger.")] = "",
) -> None:
    """Allow the members of a federation from now on, although the result may reveal the counts of one of them.

    The ledger records the time and the reason.
    """
    from datetime import UTC, datetime

    from fedslim.safeguards.ledger import AnswerLedger, member_list
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

    file = FederationFile.read(federation)
    own = MemberPolicy.find(identity or file.server.certificates) if policy is None else MemberPolicy.read(policy)
    AnswerLedger(own.ledger.file).allow(file, reason, now=datetime.now(UTC))
    print_line(f"{own.ledger.file}: {member_list(file.federation.members)} are allowed from now on, on any data")


def _record(entries: "Entries") -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(entries)
    reveals = [text for _, text in _reveals(entries)]
    return {"answers": found["answers"], "allowed": found["allowed"], "reveals": reveals}


def _answers(entries: "Entries") -> Any:
    from fedslim.trust.names import format_time

    rows = (
        (
            f"{each.transactions:,}",
            f"{each.runs:,}",
            each.snapshot[:8],
            format_time(each.first),
            format_time(each.last),
            printable(each.federation),
            ", ".join(each.members),
        )
        for each in entries.answers[-MAX_SHOWN:]
    )
    return grid(("transactions", "runs", "data", "first", "last", "federation", "members"), rows, right=2)


def _facts(path: Path, entries: "Entries") -> list[tuple[str, str]]:
    from fedslim.trust.names import format_time

    versions = len({each.snapshot for each in entries.answers})
    answered = f"{count(len(entries.answers), 'set')} of members, on {count(versions, 'version')} of the data"
    return [
        ("file", str(path)),
        ("answered", answered if entries.answers else "nothing yet"),
        *(
            ("allowed", f"{', '.join(each.members)}, on {format_time(each.time)}: {each.reason or 'no reason given'}")
            for each in entries.allowed
        ),
        *_reveals(entries),
    ]


def _reveals(entries: "Entries") -> list[tuple[str, str]]:
    """Describe what results reveal together: further ones, and those in the ledger."""
    from fedslim.safeguards.ledger import describe_difference

    if not entries.answers:
        return []
    lines = [
        ("second result", "on the same data with the same members, it reveals nothing new"),
        ("", "with one member more or fewer, it would reveal that member's counts: it is refused"),
        ("", "on other data, it reveals the counts of the transactions that changed: you get a warning"),
    ]
    answers = entries.answers[-MAX_SHOWN:]
    for place, one in enumerate(answers):
        for other in reversed(answers[:place]):
            if one.snapshot == other.snapshot:
                why = describe_difference(other.members, frozenset(one.members))
            elif one.members == other.members:
                why = f"the counts of what changed between {other.transactions:,} and {one.transactions:,} transactions"
            else:
                why = None
            if why is not None:
                days = f"the results of {other.last:%Y-%m-%d} and {one.last:%Y-%m-%d}"
                lines.append(("revealed", f"{days} together reveal {why}"))
                break
    return lines
