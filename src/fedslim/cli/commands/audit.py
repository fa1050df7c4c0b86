"""`fedslim audit`: summarise what a member has sent, from its audit log."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.stream import print_json, print_rich, say
from fedslim.cli.console.text import count, printable, size

if TYPE_CHECKING:
    from fedslim.safeguards.audit_summary import Summary

Amounts = dict[str, Any]


def audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="The audit log of a member (audit.jsonl).")
    ],
    json: options.Json = False,
) -> None:
    """Summarise what a member has sent: messages by kind, their size, and how many statistics, masked or not.

    The audit log contains no data, and neither does the summary.
    """
    from fedslim.safeguards.audit_summary import summarise

    log = summarise(file)
    if log.torn_end:
        say(f"fedslim: warning: {file}: the last line is incomplete and is not counted")
    if json:
        print_json({"file": str(file), **log.as_dict()})
    else:
        record = log.as_dict()
        parts: list[Any] = [_table("kind", {**record["by_kind"], "all": record["total"]})] if log.total.messages else []
        runs = {run["run"]: run for run in record["latest_runs"]}
        parts += [_table("run", runs, ("variant", "first"))] if runs else []
        print_rich(*parts, summary(_facts(file, log)))


def _table(title: str, rows: dict[str, Amounts], more: tuple[str, ...] = ()) -> Any:
    header = (title, "messages", "bytes", "uncompressed", "statistics", "masked", "labels", *(more or ("",)))
    numbers = ("messages", "bytes", "bytes_before_compression", "statistics", "statistics_masked", "labels")
    shown = (
        (name, *(f"{row[key]:,}" for key in numbers), *((printable(row[key]) for key in more) if more else ("",)))
        for name, row in rows.items()
    )
    return grid(header, shown, left=1, right=1 + len(numbers))


def _facts(file: Path, log: "Summary") -> list[tuple[str, str]]:
    total = log.total
    shown = f", the latest {len(log.latest_runs)} shown" if log.runs > len(log.latest_runs) else ""
    unmasked = total.statistics - total.statistics_masked
    peers = ", ".join(log.peers) + (" and others" if log.more_peers else "")
    return [
        ("file", str(file)),
        ("member", log.member),
        ("federation", f"{log.federation} ({log.federation_id})"),
        ("from", log.first or "this member has sent nothing"),
        ("to", log.last or "this member has sent nothing"),
        ("sent", f"{count(total.messages, 'message')}, {size(total.bytes)}, to {peers or 'nobody'}"),
        ("statistics", f"{total.statistics_masked:,} masked, {unmasked:,} unmasked"),
        ("labels", f"{total.labels:,}"),
        ("variants", ", ".join(log.by_variant) or "none"),
        ("runs", f"{log.runs:,}{shown}"),
        *([("incomplete", f"{count(log.torn_lines, 'line')}, not counted")] if log.torn_lines else []),
    ]
