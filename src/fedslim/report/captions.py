"""The sentences of a report: figures of a record, in words."""

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
    """A name, what there is to say, and what it means."""

    name: str
    value: str
    note: str = ""


MEANING = {
    "x": "exact: masked sums, one table",
    "sa": "masked sums, a table for each member",
    "so": "counts in the clear, a table for each member",
}

KINDS = {
    "Join": "here I am, my key, my items",
    "Roster": "the members, their keys, the vocabulary",
    "RosterUpdate": "keys of members that came back",
    "Confirm": "agreed; my signature of all that I was shown",
    "Confirmed": "everybody's signatures",
    "Finish": "the end, and the table where the variant shows it",
    "Heard": "the end is written down",
    "Abort": "cannot go on",
    "Ask": "changes of the table, and questions",
    "Masked": "the answers, masked",
    "AskUsages": "how often does each item occur?",
    "Usages": "how often each item occurs",
    "AskCandidates": "which pairs are used together?",
    "Candidates": "pairs used together, and how often",
    "Evaluate": "what if these pairs were joined?",
    "Evaluated": "what would change in the covers",
    "AskSupports": "how often does each itemset occur?",
    "SupportCounts": "how often each itemset occurs",
    "AskIndexedUsages": "how often does each item occur?",
    "AskStructure": "which pairs occur at your member? No counts",
    "Structure": "pairs that occur, without counts",
    "AskIndexed": "how often are these pairs used together?",
    "AskEvaluation": "what if this itemset entered?",
    "AskIndexedSupports": "how often does each itemset occur?",
}
"""What messages say; a test sees that none is missing."""

CENTRALISED = "centralised"
COLUMNS = ("L%", "itemsets", "F1", "found by no member alone", "rounds", "sent", "time")


def subtitle(records: Sequence[RunRecord]) -> str:
    """What the report is of, in one line."""
    kinds = {record.kind for record in records}
    what = "a simulation" if kinds == {"simulation"} else "a federation"
    if len(records) > 1:
        what = count(len(records), "run")
    days = sorted({record.made[:10] for record in records})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"A report of {what}, {when}"


def reference(name: str) -> str:
    """What a reference is called."""
    return "all data in one place" if name == CENTRALISED else name


def cells(record: RunRecord, table: CodeTable) -> list[str]:
    """The figures of a run under `COLUMNS`; a dash where there is none."""
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
    """The same as numbers, to be sorted by."""
    found = None if record.gap is None else sum(row.recovered for row in record.gap)
    figures = [record.figures.get(name) for name in ("f1", "rounds", "bytes_total", "seconds")]
    f1, rounds, sent, seconds = (value if isinstance(value, int | float) else None for value in figures)
    return [table.compression.L_percent, len(table), f1, found, rounds, sent, seconds]


def lead(record: RunRecord, table: CodeTable) -> str:
    """What came of a run, for somebody who reads nothing else."""
    percent = table.compression.L_percent
    said = (
        f"{count(len(record.members), 'member')} with {count(table.transactions, 'transaction')} found "
        f"{count(len(table), 'itemset')} together. With them the data take {percent:.1f} % of the bits that they "
        "take item by item."
    )
    if record.gap is None:
        return said
    gap, recovered = len(record.gap), sum(row.recovered for row in record.gap)
    if not gap:
        return f"{said} Whatever all data in one place show, some member also finds alone."
    which = "all" if gap == recovered else "none" if not recovered else f"{recovered:,}"
    return f"{said} {count(gap, 'itemset')} no member finds alone; mining together found {which} of them."


def headline(record: RunRecord, table: CodeTable) -> list[Fact]:
    """The figures that come first."""
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
        Fact("agreement, F1", _digits(each.figures.get("f1"), 3), f"with {reference(each.reference)}")
        for each in record.agreements[:1]
    ]
    sent, up, down = (figures.get(name) for name in ("bytes_total", "bytes_up", "bytes_down"))
    if sent is not None:
        ways = "" if up is None or down is None else f"{_describe(up, size)} up, {_describe(down, size)} down"
        facts.append(Fact("sent", _describe(sent, size), ways))
    if (rounds := figures.get("rounds")) is not None:
        time = _describe(figures.get("seconds"), duration)
        how = ("" if time == "–" else f"in {time}", str(figures.get("ending") or ""))
        facts.append(Fact("rounds", _whole(rounds), "; ".join(filter(None, how))))
    return facts


def _recovery(rows: Sequence[GapRow]) -> Fact:
    gap, recovered = len(rows), sum(row.recovered for row in rows)
    share = f"{100 * recovered / gap:.3g} % of the gap (GRR {recovered / gap:.3f})" if gap else "some member finds each"
    return Fact("found by no member alone", _of(recovered, gap), share)


def agreement(of: Agreement) -> list[Fact]:
    """How well a table agrees with a reference."""
    notes = {
        "f1": ("F1", "precision and recall in one"),
        "precision": ("precision", "of what was found here, the part found there"),
        "recall": ("recall", "of what is found there, the part found here"),
        "wr50": ("WR@50", "the same for the 50 most used there, by usage"),
        "wr100": ("WR@100", "for the 100 most used there"),
        "rho": ("ρ", "whether both order the matched alike, by usage"),
    }
    return [Fact(title, _digits(of.figures.get(name), 3), note) for name, (title, note) in notes.items()]


def usages_note(record: RunRecord) -> str:
    """Why there are usages by member, or why not."""
    if record.variant == "so":
        return "In so the members send counts in the clear: the server sees how often each of them uses each itemset."
    if record.settings.get("masked") is False:
        return "The masks were left out in this run, for measurements; usages by member were not kept all the same."
    return (
        f"In {record.variant} the members send masked sums: nobody but a member itself learns how often it uses an "
        "itemset, so there is nothing to show here."
    )


def configuration(record: RunRecord) -> list[Fact]:
    """What was run, where, and with what."""
    settings: dict[str, Any] = dict(record.settings)
    facts = [Fact("data", record.data), Fact("variant", record.variant, MEANING[record.variant])]
    masked = settings.pop("masked", None)
    if masked is not None:
        facts.append(Fact("masks", "yes" if masked else "no"))
    if (dealt := settings.pop("partition", None)) is not None:
        chosen = ", ".join(f"{name} {_plain(value)}" for name, value in (dealt.get("parameters") or {}).items())
        facts.append(Fact("dealt out", str(dealt.get("scheme")), f"{chosen}; seed {dealt.get('seed')}"))
    settings.pop("cell", None)  # what an experiment calls the run: all of it is said already
    facts += [Fact(name.replace("_", " "), _plain(value)) for name, value in settings.items() if value is not None]
    if (ending := record.figures.get("ending")) is not None:
        facts.append(Fact("ended", str(ending)))
    machine = record.machine
    where = [str(machine.get("cpu") or ""), f"{machine['cores']} cores" if machine.get("cores") else ""]
    where += [f"{machine['memory_gb']} GB" if machine.get("memory_gb") else "", str(machine.get("system") or "")]
    facts.append(Fact("machine", ", ".join(filter(None, where)) or "–"))
    facts.append(Fact("versions", ", ".join(f"{name} {version}" for name, version in record.versions.items())))
    facts.append(Fact("made", record.made))
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


def _describe(value: object, how: Any) -> str:
    return str(how(value)) if isinstance(value, int | float) else "–"
