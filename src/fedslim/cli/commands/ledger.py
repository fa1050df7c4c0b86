"""`fedslim ledger`: what a member has answered, of which data and with whom, and what a second result would reveal."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.stream import print_json, print_rich, print_text
from fedslim.cli.console.text import count, printable
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.safeguards.ledger import Entries

app = typer.Typer(help="See what a member has answered, and allow more.", rich_markup_mode=None, add_completion=False)

CERTIFICATES = Path("certificates")
MAX_SHOWN = 100
IdentityOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The member's keys and certificates, with its policy and ledger.")
]


@app.callback(invoke_without_command=True)
def ledger(context: typer.Context) -> None:
    """What there is to say before the command; without a command, the help."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


@app.command(short_help="Say what was answered, and what a second result would reveal.")
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The ledger; that of --identity if left out.")
    ] = None,
    *,
    identity: IdentityOption = None,
    json: options.Json = False,
) -> None:
    """Say with which members this member has answered on which data, and what a second result would reveal.

    Two results with almost the same members, or of almost the same data, differ by the counts of the few that changed.
    """
    from fedslim.safeguards.ledger import AnswerLedger
    from fedslim.settings.policy import MemberPolicy

    if file is not None and identity is not None:
        msg = "FILE and --identity both name a ledger; give one of them"
        raise ParameterError(msg)
    path = file if file is not None else MemberPolicy.find(identity or CERTIFICATES).ledger.file
    if file is not None and not file.exists():
        msg = f"{file}: there is no such file; name the ledger that `fedslim member` wrote"
        raise ParameterError(msg)
    entries = AnswerLedger(path).entries()
    if json:
        print_json({"file": str(path), **_record(entries)})
        return
    parts: list[Any] = [_answers(entries)] if entries.answers else []
    print_rich(*parts, summary(_facts(path, entries)))


@app.command(short_help="Let the members of a federation be answered from now on.")
def allow(
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION", help="The federation's file (TOML).")],
    *,
    identity: IdentityOption = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy that names the ledger, if it is not in --identity.")
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever reads the ledger later.")] = "",
) -> None:
    """Let this set of members be answered from now on, though a result may reveal the counts of one of them.

    It is written down with the time and the reason.
    """
    from datetime import UTC, datetime

    from fedslim.safeguards.ledger import AnswerLedger, member_list
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

    file = FederationFile.read(federation)
    own = MemberPolicy.find(identity or file.server.certificates) if policy is None else MemberPolicy.read(policy)
    AnswerLedger(own.ledger.file).allow(file, reason, now=datetime.now(UTC))
    told = f"{own.ledger.file}: {member_list(file.federation.members)} may be answered from now on, on any data"
    print_text(printable(told) + "\n")


def _record(entries: "Entries") -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(entries)
    reveals = [text for _, text in _reveals(entries)]
    return {"answers": found["answers"], "allowed": found["allowed"], "reveals": reveals}


def _answers(entries: "Entries") -> Any:
    from fedslim.trust.times import format_time

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
    from fedslim.trust.times import format_time

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
    """What results reveal together: those that are to come, and those that there are."""
    from fedslim.safeguards.ledger import describe_difference

    if not entries.answers:
        return []
    told = [
        ("second result", "of the same data and members, it reveals nothing new"),
        ("", "with one member more or fewer, it reveals that member's counts: refused"),
        ("", "of other data, it reveals the counts of the transactions that changed: you are warned"),
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
                told.append(("revealed", f"{days} together reveal {why}"))
                break
    return told
