"""The run record: one JSON file with everything that reports and tables of results need.

    record = load_run("run")              # a folder or the file itself
    record.code_table.top(5), record.figures["L_percent"], record.history[-1].bytes_total

It contains the results and costs of a run, and no transactions. The record of a real server has only what that server
saw, that of a member what the member may know; a simulation knows more. `kind` tells them apart.
"""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from fedslim import __version__
from fedslim.data.atomic import write_whole
from fedslim.data.documents import Format
from fedslim.errors import InputError
from fedslim.format import as_html, duration, size
from fedslim.mdl.codetable import CodeTable, styled, table_html
from fedslim.mdl.files import code_table_document, code_table_of
from fedslim.metrics.differences import Difference  # msgspec reads field types at run time
from fedslim.metrics.reference import LabelledTable, by_usage, usages
from fedslim.safeguards.audit import Amount

if TYPE_CHECKING:
    from fedslim.federated.comparison import Comparison
    from fedslim.federated.simulation import Simulation
    from fedslim.settings.federation_file import FederationFile

FORMAT = "fedslim-run"
VERSION = 3
"""Version 3 adds members' records."""
RUN = "run.json"  # the name of the file in a run folder

FAILED = ".failed.txt"  # the suffix of a file that says why there is no record

MAX_BYTES = 1 << 29

COMPUTING = ("fedslim", "numpy", "numba", "llvmlite")  # the packages on which figures may depend

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Figure = int | float | bool | str | None
Labels = list[str]


class HistoryStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of the search after a round that changed the table. Seconds and bytes count from the start."""

    round: Count
    seconds: float
    itemsets: Count
    bits_total: float
    L_percent: float
    bytes_total: Count


class KindTraffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The traffic of one kind of message in one direction."""

    kind: str
    direction: Literal["up", "down"]
    messages: Count
    bytes: Count
    bytes_uncompressed: Count


class AloneRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a member that mines alone."""

    itemsets: Count
    L_percent: float


class MemberRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member. `usages` has its usage of each itemset of the table, if the variant shows it to the server."""

    name: str
    transactions: Count | None = None
    usages: list[Count] | None = None
    alone: AloneRecord | None = None


class Missed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An itemset that is in the reference only."""

    items: Labels
    usage: Count


class Agreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The comparison of the table with a reference.

    `usages[k]` is the usage in the reference of the table's itemset k, in cover order; None if the reference lacks it.
    """

    reference: str
    figures: dict[str, float]
    usages: list[Count | None]
    missed: list[Missed]


class GapRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An itemset of the discovery gap, with its support at each member and whether the federation found it."""

    items: Labels
    usage: Count
    supports: list[Count]
    recovered: bool


class OwnRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a member knows about itself. The lists follow the itemsets of the table, in cover order."""

    member: str
    transactions: Count
    supports: list[Count]
    usages: list[Count]
    sent: dict[str, Amount]  # by kind of message, from the audit log
    differences: list[Difference] | None = None  # from the other members together
    found_alone: list[bool] | None = None
    alone: AloneRecord | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a run. `figures` has its numbers by name, as `--json` prints them."""

    format: str = FORMAT
    version: int = VERSION
    kind: Literal["simulation", "server", "member", "mined"]
    data: str
    variant: Literal["x", "sa", "so", "slim"]
    command: str
    made: str
    versions: dict[str, str]
    machine: dict[str, str | int | None]
    settings: dict[str, Any]
    figures: dict[str, Figure]
    history: list[HistoryStep]
    traffic: list[KindTraffic]
    members: list[MemberRecord]
    table: msgspec.Raw
    agreements: list[Agreement] = []
    gap: list[GapRow] | None = None
    own: OwnRecord | None = None

    @property
    def code_table(self) -> CodeTable:
        """The code table of the run; decoded on each access."""
        return code_table_of(bytes(self.table), f"the table of {self.data}")

    def _repr_html_(self) -> str:
        members = [(member.name, member.transactions) for member in self.members]
        return run_html(self.variant, self.code_table, self.figures, members, self.command)


# -- making a record -------------------------------------------------------------------------------------------------


def simulation_record(  # noqa: PLR0913  # keyword-only
    simulation: Simulation,
    compared: Comparison | None,
    *,
    data: str,
    command: str,
    reference: str = "centralised",
    others: Mapping[str, LabelledTable] | None = None,
    figures: Mapping[str, Figure] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> RunRecord:
    """Return the record of a simulation of these data, and of its comparison with a reference, if there is one.

    `command` runs it again; `others` are more tables to compare with, by the names of the systems that made them.
    """
    found, chosen = simulation.figures(len(simulation.members)), simulation.settings()
    traffic, variant = found.pop("by_kind"), chosen.pop("variant")
    agreements, gap = [], None
    if compared is not None:
        found |= compared.as_dict()
        agreements.append(_agreement(reference, compared.fidelity.as_dict(), compared.reference, simulation.table))
        recovered = set(compared.recovered)
        gap = [GapRow(list(g.labels), g.usage, list(g.supports), g in recovered) for g in compared.gap.itemsets]
    record = RunRecord(
        kind="simulation",
        data=data,
        variant=variant,
        command=command,
        settings={**chosen, **(settings or {})},
        figures={**found, **(figures or {})},
        history=list(simulation.history),
        traffic=msgspec.convert(traffic, list[KindTraffic]),
        members=_members(simulation, compared),
        agreements=agreements,
        gap=gap,
        **stamp(simulation.table),
    )
    return with_agreements(record, others or {})


def with_agreements(record: RunRecord, others: Mapping[str, LabelledTable]) -> RunRecord:
    """Return the record with comparisons to more tables."""
    from fedslim.metrics import fidelity  # noqa: PLC0415  # not needed for a server's record

    table = record.code_table
    more = [_agreement(name, fidelity(other, table).as_dict(), other, table) for name, other in others.items()]
    return msgspec.structs.replace(record, agreements=[*record.agreements, *more])


def settings_of(file: FederationFile) -> dict[str, Any]:
    """Return the settings of a federation file, for a record."""
    agreed = file.settings()
    names = ("masked", "min_count", "min_members_with", "width", "effort", "seed")
    return {
        "federation_id": file.federation.id,
        "digest": file.digest().hex(),
        "max_time": file.limits.max_time,
        "max_rounds": file.limits.max_rounds,
        **{name: getattr(agreed, name) for name in names},
    }


def stamp(table: CodeTable) -> dict[str, Any]:
    """Return the fields that all records share."""
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {**versions(), "fedslim": __version__},
        "machine": machine(),
        "table": msgspec.Raw(msgspec.json.encode(code_table_document(table))),
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that figures may depend on."""
    found = {"python": platform.python_version()}
    for name in COMPUTING:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from the source tree
            continue
    return found


@cache
def machine() -> dict[str, Any]:
    """Return processor, cores, memory and system; nothing that identifies the machine or its owner."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    found = {"cpu": model, "cores": os.cpu_count(), "system": platform.system()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory_gb"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    return found


def _members(simulation: Simulation, compared: Comparison | None) -> list[MemberRecord]:
    seen = simulation.member_usages
    tables = [None] * len(simulation.members) if compared is None else compared.local_tables
    alone = [None if table is None else AloneRecord(len(table), table.compression.L_percent) for table in tables]
    return [
        MemberRecord(name, transactions, None if seen is None else list(seen[name]), own)
        for name, transactions, own in zip(simulation.members, simulation.sizes, alone, strict=True)
    ]


def _agreement(name: str, figures: Mapping[str, float], reference: LabelledTable, table: CodeTable) -> Agreement:
    there = usages(reference)
    here = [frozenset(row.labels) for row in table.itemsets]
    missed = [labels for labels in by_usage(there) if labels not in set(here)]
    return Agreement(
        name,
        dict(figures),
        [there.get(labels) for labels in here],
        [Missed(_order(labels, table.vocabulary), there[labels]) for labels in missed],
    )


def _order(labels: frozenset[str], vocabulary: Sequence[str]) -> Labels:
    place = {label: number for number, label in enumerate(vocabulary) if label in labels}
    return sorted(labels, key=lambda label: (place.get(label, len(vocabulary)), label))


# -- files -----------------------------------------------------------------------------------------------------------


def save_run(record: RunRecord, path: str | Path, *, private: bool = False) -> None:
    """Write a record atomically; if `private`, only its owner can read the file."""
    write_whole(Path(path), msgspec.json.format(msgspec.json.encode(record), indent=0) + b"\n", private=private)


def load_run(path: str | Path) -> RunRecord:
    """Read a record from its file or its run folder; `InputError` names the file and the field that is not valid."""
    path = Path(path)
    if path.is_dir():
        path /= RUN
    try:
        data = FILES.read(path, MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path}: the run record cannot be read: {error.strerror or error}; check the path") from error
    record = FILES.decode(data, path, RunRecord)
    for why in _problems(record, len(code_table_of(bytes(record.table), path))):
        raise FILES.bad(path, why)
    return record


NUMBERS = (
    *("members", "transactions", "items", "itemsets", "candidates", "rounds", "messages", "seconds", "L_percent"),
    *("bits_total", "bytes_total", "bytes_up", "bytes_down", "f1", "precision", "recall", "wr50", "wr100", "rho"),
    *("gap", "gap_recovered", "grr", "centralised_L_percent", "centralised_itemsets"),
)
"""Figures that must be numbers or null."""

MAX_FIGURE = 1e18  # the largest valid figure; no run comes near it

MAX_PERCENT = 1e6  # the largest valid L%


def _problems(record: RunRecord, n: int) -> Iterator[str]:  # noqa: C901  # one check after the other
    """Yield what reports could not rely on, beyond the schema; the table of the record has `n` itemsets."""
    figures: list[tuple[str, Any, bool]]
    figures = [(f"figures.{name}", value, name in NUMBERS) for name, value in record.figures.items()]
    for each in record.agreements:
        figures += [(f"agreements.{each.reference}.{name}", score, True) for name, score in each.figures.items()]
    for name, value, should_be in figures:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if should_be and not (value is None or is_number):
            yield f"{name} is {value!r:.40}, not a number"
        if is_number and not abs(value) <= MAX_FIGURE:  # NaN fails too
            yield f"{name} is {f'{value!r:.40}' if isinstance(value, float) else 'too large'}, which is out of range"
    partition = record.settings.get("partition")
    if partition is not None and not (
        isinstance(partition, dict) and isinstance(partition.get("parameters", {}), dict)
    ):
        yield "settings.partition does not describe a partition"
    if any(not 0 <= step.L_percent <= MAX_PERCENT or not 0 <= step.seconds < math.inf for step in record.history):
        yield "its history has a step with an impossible L_percent or time"
    columns: list[tuple[str, str, Any]]
    columns = [(f"member {one.name!r}", "usages", one.usages) for one in record.members]
    columns += [(f"agreement {one.reference!r}", "usages", one.usages) for one in record.agreements]
    if record.own is not None:
        names = ("supports", "usages", "differences", "found_alone")
        columns += [(f"own.{name}", "values", getattr(record.own, name)) for name in names]
    for name, what, column in columns:
        if column is not None and len(column) != n:
            yield f"{name} has {len(column)} {what} for the {n} itemsets of the table"
    for row in record.gap or ():
        if row.supports and len(row.supports) != len(record.members):
            yield f"an itemset of the gap has {len(row.supports)} supports for {len(record.members)} members"


FILES = Format(FORMAT, VERSION, InputError, "{path} is not a valid run record: {why}; run it again", oldest=2)


# -- notebooks: a short summary in HTML without scripts; `fedslim report` makes a full one ----------------------------

FEW = 10  # the maximum number of members to name


def run_html(
    variant: str,
    table: CodeTable,
    figures: Mapping[str, Any],
    members: Sequence[tuple[str, int | None]],
    note: str = "",
) -> str:
    """Return the results and costs of a run as HTML; missing figures are left out."""
    named = ", ".join(name if n is None else f"{name} ({n:,})" for name, n in members[:FEW])
    shown = {"variant": variant, "members": f"{len(members):,}: {named}{', …' if len(members) > FEW else ''}"}
    known = {
        "rounds": ("rounds", "{:,}".format),
        "sent": ("bytes_total", size),
        "time": ("seconds", duration),
        "F1": ("f1", "{:.3f}".format),
    }
    shown |= {title: str(how(figures[name])) for title, (name, how) in known.items() if figures.get(name) is not None}
    if (gap := figures.get("gap")) is not None and (recovered := figures.get("gap_recovered")) is not None:
        shown["found by no member alone"] = f"{recovered:,} of {gap:,}"
    rows = "".join(f"<tr><th>{as_html(name)}</th><td>{as_html(text)}</td></tr>" for name, text in shown.items() if text)
    command = f"<code>{as_html(note)}</code>" if note else ""
    return styled(f"<table><tbody>{rows}</tbody></table>", table_html(table), command)
