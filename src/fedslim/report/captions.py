"""The texts of a report: captions, notes and formatted figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from fedslim.format import count, duration, number, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.federated.records import Agreement, GapRow, RunRecord
    from fedslim.mdl.codetable import CodeTable


class Fact(msgspec.Struct, frozen=True):
    """A named figure with an optional note."""

    name: str
    value: str
    note: str = ""


MEANING = {
    "x": "exact: masked sums, one code table for all members",
    "sa": "masked sums, one code table per member",
    "so": "unmasked counts, one code table per member",
}

KINDS = {
    "Join": "request to join, with key and items",
    "Roster": "the members, their keys, the vocabulary",
    "RosterUpdate": "new keys of members that rejoined",
    "Confirm": "signature of the roster",
    "Confirmed": "the signatures of all members",
    "Finish": "end of the run, with the code table if the variant reveals it",
    "Heard": "acknowledges the end of the run",
    "Abort": "ends the run after an error",
    "Ask": "code table changes and questions",
    "Masked": "masked answers",
    "AskUsages": "how often does each item occur?",
    "Usages": "how often each item occurs",
    "AskCandidates": "which pairs are used together?",
    "Candidates": "pairs used together, with counts",
    "Evaluate": "what if these pairs were merged?",
    "Evaluated": "how the covers would change",
    "AskSupports": "how often does each itemset occur?",
    "SupportCounts": "how often each itemset occurs",
    "AskIndexedUsages": "how often does each item occur?",
    "AskStructure": "which pairs occur in your data? (no counts)",
    "Structure": "pairs that occur, without counts",
    "AskLabels": "which items of this code table can you name?",
    "Labels": "labels of items, readable for the other members only",
    "AskIndexed": "how often are these pairs used together?",
    "AskEvaluation": "what if this itemset were added?",
    "AskIndexedSupports": "how often does each itemset occur?",
}
"""A short description of each message kind; a test checks that none is missing."""

CENTRALISED = "centralised"
COLUMNS = ("L%", "itemsets", "F1", "found by no member alone", "rounds", "sent", "time")


def subtitle(records: Sequence[RunRecord]) -> str:
    """Return the subtitle: what was run, and when."""
    kinds = {record.kind for record in records}
    what = "a simulation" if kinds == {"simulation"} else "a federation"
    if len(records) > 1:
        what = count(len(records), "run")
    days = sorted({record.made[:10] for record in records})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Report on {what}, {when}"


def reference(name: str) -> str:
    """Return the display name of a reference."""
    return "all data in one place" if name == CENTRALISED else name


def cells(record: RunRecord, table: CodeTable) -> list[str]:
    """Return the cells of a run for `COLUMNS`; a dash where a figure is missing."""
    figures = record.figures
    return [
        f"{table.compression.L_percent:.2f}",
        f"{len(table):,}",
        _digits(figures.get("f1"), 3),
        "–" if record.gap is None else _of(sum(row.recovered for row in record.gap), len(record.gap)),
        _whole(figures.get("rounds")),
        _describe(figures.get("bytes_total"), size),
        _describe(figures.get("seconds"), duration),
    ]


def values(record: RunRecord, table: CodeTable) -> list[float | None]:
    """Return the values of `cells` as numbers, for sorting."""
    found = None if record.gap is None else sum(row.recovered for row in record.gap)
    figures = [record.figures.get(name) for name in ("f1", "rounds", "bytes_total", "seconds")]
    f1, rounds, sent, seconds = (value if isinstance(value, int | float) else None for value in figures)
    return [table.compression.L_percent, len(table), f1, found, rounds, sent, seconds]


def lead(record: RunRecord, table: CodeTable) -> str:
    """Summarise a run in two or three sentences."""
    percent = table.compression.L_percent
    result = (
        f"{count(len(record.members), 'member')} with {count(table.transactions, 'transaction')} found "
        f"{count(len(table), 'itemset')} together. These compress the data to {percent:.1f} % of the bits needed with "
        "single items only."
    )
    if record.gap is None:
        return result
    gap, recovered = len(record.gap), sum(row.recovered for row in record.gap)
    if not gap:
        return f"{result} Every itemset in the table of all data is also found by at least one member alone."
    which = "all" if gap == recovered else "none" if not recovered else f"{recovered:,}"
    found = f"{count(gap, 'itemset')} {'is' if gap == 1 else 'are'} found by no member alone"
    return f"{result} {found}; mining together found {which} of them."


def headline(record: RunRecord, table: CodeTable) -> list[Fact]:
    """Return the key figures at the top of a report."""
    c, figures = table.compression, record.figures
    lengths = [len(row) for row in table.itemsets] or [0]
    tried = figures.get("candidates")
    facts = [
        Fact("compressed to", f"{c.L_percent:.2f} %", f"{number(c.before.total)} → {number(c.after.total)} bits"),
        Fact(
            "itemsets",
            f"{len(table):,}",
            f"of {min(lengths)} to {max(lengths)} items" + ("" if tried is None else f"; {tried:,} candidates tried"),
        ),
    ]
    if record.gap is not None:
        facts.append(_recovery(record.gap))
    facts += [
        Fact("agreement, F1", _digits(first.figures.get("f1"), 3), f"with {reference(first.reference)}")
        for first in record.agreements[:1]
    ]
    sent, up, down = (figures.get(name) for name in ("bytes_total", "bytes_up", "bytes_down"))
    if sent is not None:
        split = "" if up is None or down is None else f"{_describe(up, size)} up, {_describe(down, size)} down"
        facts.append(Fact("sent", _describe(sent, size), split))
    if (rounds := figures.get("rounds")) is not None:
        time = _describe(figures.get("seconds"), duration)
        notes = ("" if time == "–" else f"in {time}", str(figures.get("ending") or ""))
        facts.append(Fact("rounds", _whole(rounds), "; ".join(filter(None, notes))))
    return facts


def _recovery(rows: Sequence[GapRow]) -> Fact:
    gap, recovered = len(rows), sum(row.recovered for row in rows)
    share = f"{100 * recovered / gap:.3g} % of the gap (GRR {recovered / gap:.3f})" if gap else "the gap is empty"
    return Fact("found by no member alone", _of(recovered, gap), share)


def agreement(of: Agreement) -> list[Fact]:
    """Return the figures that compare a table with a reference."""
    notes = {
        "f1": ("F1", "harmonic mean of precision and recall"),
        "precision": ("precision", "share of this table that is also in the reference"),
        "recall": ("recall", "share of the reference that is also in this table"),
        "wr50": ("WR@50", "recall of the reference's 50 most used itemsets, weighted by usage"),
        "wr100": ("WR@100", "the same for its 100 most used itemsets"),
        "rho": ("ρ", "rank correlation of the usages of matched itemsets"),
    }
    return [Fact(title, _digits(of.figures.get(name), 3), note) for name, (title, note) in notes.items()]


def usages_note(record: RunRecord) -> str:
    """Explain why the report shows usages per member, or why it cannot."""
    if record.variant == "so":
        return "Variant so sends unmasked counts: the server sees how often each member uses each itemset."
    if record.settings.get("masked") is False:
        return "This run used no masks, for measurements; usages per member were not kept either."
    return (
        f"Variant {record.variant} sends masked sums: only a member itself knows how often it uses an itemset, so "
        "usages per member cannot be shown."
    )


def configuration(record: RunRecord) -> list[Fact]:
    """Return the settings, the machine and the versions of a run."""
    settings: dict[str, Any] = dict(record.settings)
    facts = [Fact("data", record.data), Fact("variant", record.variant, MEANING[record.variant])]
    masked = settings.pop("masked", None)
    if masked is not None:
        facts.append(Fact("masks", "yes" if masked else "no"))
    if (partition := settings.pop("partition", None)) is not None:
        chosen = ", ".join(f"{name} {_plain(value)}" for name, value in (partition.get("parameters") or {}).items())
        facts.append(Fact("partition", str(partition.get("scheme")), f"{chosen}; seed {partition.get('seed')}"))
    settings.pop("cell", None)  # the cell of an experiment only repeats the other settings
    facts += [Fact(name.replace("_", " "), _plain(value)) for name, value in settings.items() if value is not None]
    if (ending := record.figures.get("ending")) is not None:
        facts.append(Fact("ended", str(ending)))
    machine = record.machine
    parts = [str(machine.get("cpu") or ""), f"{machine['cores']} cores" if machine.get("cores") else ""]
    parts += [f"{machine['memory_gb']} GB" if machine.get("memory_gb") else "", str(machine.get("system") or "")]
    facts.append(Fact("machine", ", ".join(filter(None, parts)) or "–"))
    facts.append(Fact("versions", ", ".join(f"{name} {version}" for name, version in record.versions.items())))
    facts.append(Fact("created", record.made))
    return facts


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" if whole else "none"


def _whole(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def _digits(value: object, digits: int) -> str:
    known = isinstance(value, int | float) and math.isfinite(value)
    return f"{value:.{digits}f}" if known else "–"


def _describe(value: object, describe: Any) -> str:
    return str(describe(value)) if isinstance(value, int | float) else "–"
