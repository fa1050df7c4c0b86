"""`fedslim policy`, `ledger` and `audit`: what a member allows, what it has answered, and what it has sent."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.options import argument, command_group, option
from fedslim.cli.console.output import grid, print_line, print_result, shown_label, warn
from fedslim.errors import ParameterError
from fedslim.format import count, size

if TYPE_CHECKING:
    from fedslim.safeguards.ledger import Entries
    from fedslim.settings.policy import MemberPolicy

policy_app = command_group("Write, check and show the policy of a member.")
ledger_app = command_group("Show what a member has answered, and allow more.")

CERTIFICATES = Path("certificates")
POLICY = CERTIFICATES / "policy.toml"  # where `fedslim member` looks by default
REFUSED = 2  # the exit code of `fedslim member` if the policy refuses the federation
MAX_SHOWN = 100

POLICY_FILE = argument("FILE", "The policy file.", default=POLICY)
IDENTITY = option("DIR", "The folder with the member's key, policy and ledger.")


def _find_policy(policy: Path | None, folder: Path) -> "MemberPolicy":
    from fedslim.settings.policy import MemberPolicy

    return MemberPolicy.find(folder) if policy is None else MemberPolicy.read(policy)


# -- policy ------------------------------------------------------------------------------------------------------------


@policy_app.command(short_help="Write a strict policy, with comments.")
def init(file: Path = POLICY_FILE) -> None:
    """Write a new policy with every key at its strict default, each explained by a comment."""
    from fedslim.settings.policy import write_policy
    from fedslim.trust.keys import make_private_folder

    if file.parent != Path():
        make_private_folder(file.parent)
    made = write_policy(file)
    print_line(f"{made.path}: review what this member allows")


@policy_app.command(short_help="Check whether a policy allows a federation.")
def check(
    federation: Path = options.FEDERATION,
    policy: Path | None = option("FILE", "The policy; by default policy.toml beside the member's key."),
    json: bool = options.JSON,
) -> None:
    """Check whether this member may take part in a federation; if not, list every reason and exit with code 2.

    This does not look at the data: the ledger may still refuse the federation on them (see `fedslim ledger`).
    """
    from fedslim.settings.federation_file import FederationFile

    file = FederationFile.read(federation)
    own = _find_policy(policy, file.server.certificates)
    found = own.reasons(file)
    checked = {"federation": str(file.path), "policy": str(own.path) if own.written else None}
    facts = [("federation", f"{file.path}: {file.federation.name}"), ("policy", _where(own))]
    facts += [("allowed", "no" if found else "yes"), *(("because", reason) for reason in found)]
    print_result(json, checked | {"allowed": not found, "reasons": found}, facts)
    if found:
        raise typer.Exit(REFUSED)


@policy_app.command("show", short_help="Show what a policy allows.")
def show_policy(file: Path = POLICY_FILE, json: bool = options.JSON) -> None:
    """Show what a policy allows, and where it differs from the defaults; if there is no file, show the defaults."""
    from fedslim.toml.values import spell

    def shown(value: Any) -> str:
        return "not set" if value is None else shown_label(spell(value))

    own = _find_policy(None if file.name == POLICY.name else file, file.parent)
    keys = {key: {"value": value, "default": strict} for key, value, strict in own.values()}
    facts = [("file", _where(own))] + [
        (key, shown(value) + (f" (default: {shown(strict)})" if strict not in (value, None) else ""))
        for key, value, strict in own.values()
    ]
    print_result(json, {"file": str(own.path) if own.written else None, "keys": keys}, facts)


def _where(own: "MemberPolicy") -> str:
    return str(own.path) if own.written else f"none ({own.path} does not exist), so the defaults apply"


# -- ledger ------------------------------------------------------------------------------------------------------------


@ledger_app.command("show", short_help="Show what was answered, and what further results would reveal.")
def show_ledger(
    file: Path | None = argument("FILE", "The ledger; by default the one of --identity.", default=None),
    identity: Path | None = IDENTITY,
    json: bool = options.JSON,
) -> None:
    """Show on which data and with whom this member has answered, and what further results would reveal.

    Two results with almost the same members or data differ by the counts of the few that changed.
    """
    import msgspec

    from fedslim.safeguards.ledger import AnswerLedger
    from fedslim.trust.certificates import format_time

    if file is not None and identity is not None:
        raise ParameterError("FILE and --identity both name a ledger; give one of them")
    if file is not None and not file.exists():
        raise ParameterError(f"{file}: the file does not exist; name the ledger that `fedslim member` wrote")
    path = file or _find_policy(None, identity or CERTIFICATES).ledger.file
    entries = AnswerLedger(path).entries()
    reveals = _reveals(entries)
    record: dict[str, Any] = msgspec.to_builtins(entries)
    record = {"file": str(path), "answers": record["answers"], "allowed": record["allowed"]}
    rows = [
        (a.transactions, a.runs, a.snapshot[:8], *map(format_time, (a.first, a.last)), a.federation, a.members)
        for a in entries.answers[-MAX_SHOWN:]
    ]
    versions = len({each.snapshot for each in entries.answers})
    answered = f"{count(len(entries.answers), 'set')} of members, on {count(versions, 'version')} of the data"
    allowed = [
        ("allowed", f"{', '.join(each.members)}, on {format_time(each.time)}: {each.reason or 'no reason given'}")
        for each in entries.allowed
    ]
    print_result(
        json,
        record | {"reveals": [text for _, text in reveals]},
        grid(("transactions", "runs", "data", "first", "last", "federation", "members"), rows, right=2),
        [("file", str(path)), ("answered", answered if rows else "nothing yet"), *allowed, *reveals],
    )


@ledger_app.command(short_help="Allow a set of members that the ledger refuses.")
def allow(
    federation: Path = options.FEDERATION,
    identity: Path | None = IDENTITY,
    policy: Path | None = option("FILE", "The policy that names the ledger, if not in --identity."),
    reason: str = option("TEXT", "The reason, recorded in the ledger.", default=""),
) -> None:
    """Allow the members of a federation from now on, although the result may reveal the counts of one of them.

    The ledger records the time and the reason.
    """
    from fedslim.safeguards.ledger import AnswerLedger, member_list
    from fedslim.settings.federation_file import FederationFile

    file = FederationFile.read(federation)
    ledger = _find_policy(policy, identity or file.server.certificates).ledger.file
    AnswerLedger(ledger).allow(file, reason, now=datetime.now(UTC))
    print_line(f"{ledger}: {member_list(file.federation.members)} are allowed from now on, on any data")


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


# -- audit -------------------------------------------------------------------------------------------------------------


def audit(file: Path = argument("FILE", "The audit log of a member (audit.jsonl)."), json: bool = options.JSON) -> None:
    """Summarise what a member has sent: messages by kind, their size, and how many statistics, masked or not.

    The audit log contains no data, and neither does the summary.
    """
    from fedslim.safeguards.audit import summarise

    log = summarise(file)
    if log.torn_end:
        warn(f"{file}: the last line is incomplete and is not counted")
    record, total = log.as_dict(), log.total
    kinds = {**record["by_kind"], "all": record["total"]} if total.messages else {}
    runs = {run["run"]: run for run in record["latest_runs"]}
    shown = f", the latest {len(log.latest_runs)} shown" if log.runs > len(log.latest_runs) else ""
    peers = ", ".join(log.peers) + (" and others" if log.more_peers else "")
    facts = [
        ("file", str(file)),
        ("member", log.member),
        ("federation", f"{log.federation} ({log.federation_id})"),
        ("from", log.first or "this member has sent nothing"),
        ("to", log.last or "this member has sent nothing"),
        ("sent", f"{count(total.messages, 'message')}, {size(total.bytes)}, to {peers or 'nobody'}"),
        ("statistics", f"{total.statistics_masked:,} masked, {total.statistics - total.statistics_masked:,} unmasked"),
        ("labels", f"{total.labels:,}" + (f", and {size(total.sealed)} sealed" if total.sealed else "")),
        ("variants", ", ".join(log.by_variant) or "none"),
        ("runs", f"{log.runs:,}{shown}"),
        *([("incomplete", f"{count(log.torn_lines, 'line')}, not counted")] if log.torn_lines else []),
    ]
    tables = _sent("kind", kinds, ""), _sent("run", runs, "variant", "first")
    print_result(json, {"file": str(file), **record}, *tables, facts)


def _sent(title: str, rows: dict[str, dict[str, Any]], *more: str) -> Any:
    numbers = {name: name for name in ("messages", "bytes", "uncompressed", "statistics", "masked", "labels")}
    numbers |= {"uncompressed": "bytes_before_compression", "masked": "statistics_masked"}
    if any(row["sealed"] for row in rows.values()):
        numbers["sealed"] = "sealed"
    shown = [
        (name, *(row[key] for key in numbers.values()), *(row[key] if key else "" for key in more))
        for name, row in rows.items()
    ]
    return grid((title, *numbers, *more), shown, left=1, right=1 + len(numbers))
