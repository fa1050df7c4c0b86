"""The texts of a report: captions, notes, formatted figures, and names for runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from fedslim.federated.records import Agreement, OwnRecord, RunRecord
from fedslim.format import count, duration, number, size
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
    "slim": "mined in one place",
}

SUBTITLES = {"simulation": "a simulation", "server": "a federation, by its server", "mined": "a code table"}

KNOWN = {
    "x": (
        "the code table, and sums over all members of how often itemsets occur and are used; how many members use each",
        "any member's own counts or number of transactions",
    ),
    "sa": (
        "the code table and sums over all members; who proposed which pairs; counts of pairs that one member proposed",
        "other counts of a single member",
    ),
    "so": ("how often each member uses each itemset and pair of itemsets, unmasked", "any transaction"),
}
"""What the server of each variant learns, and what it does not; the threat model has the details."""

_UNNAMED = re.compile(r"item \d+|#[0-9a-f]{32}")
_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]+\.(?:csv|tsv|dat|parquet)(?:\.gz)?$)", re.DOTALL)
"""The folders before a file name."""
DIGITS = "{:.3f}".format  # of a share or a correlation
CENTRALISED = "centralised"
COLUMNS = ("L%", "itemsets", "F1", "found by no member alone", "rounds", "sent", "time")


def subtitle(records: Sequence[RunRecord]) -> str:
    """Return the subtitle: what was run, and when."""
    kind, own = records[0].kind, records[0].own
    what = SUBTITLES.get(kind, "") if own is None else f"a federation, by its member {own.member}"
    if len(records) > 1:
        what = count(len(records), "run")
    days = sorted({record.made[:10] for record in records})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Report on {what}, {when}"


def reference(name: str) -> str:
    """Return the display name of a reference."""
    return "all data in one place" if name == CENTRALISED else name


def cells(record: RunRecord, table: CodeTable) -> list[tuple[str, float | None]]:
    """Return the cells of a run for `COLUMNS`, as text and as numbers for sorting; a dash where a figure is missing."""
    found = None if record.gap is None else sum(row.recovered for row in record.gap)
    figures = [record.figures.get(name) for name in ("f1", "rounds", "bytes_total", "seconds")]
    f1, rounds, sent, seconds = (value if isinstance(value, int | float) else None for value in figures)
    return [
        (f"{table.compression.L_percent:.2f}", table.compression.L_percent),
        (f"{len(table):,}", len(table)),
        (_known(f1, DIGITS), f1),
        ("–" if found is None else _of(found, len(record.gap or ())), found),
        (_known(rounds, number), rounds),
        (_known(sent, size), sent),
        (_known(seconds, duration), seconds),
    ]


def lead(record: RunRecord, table: CodeTable, unnamed: int = 0) -> str:
    """Summarise a run in two or three sentences; `unnamed` items are shown by ids."""
    who, together = f"{count(len(record.members), 'member')} with ", " together"
    if record.kind == "mined":
        who, together = "", ""
    elif record.variant == "so" and record.own is not None:
        who, together = f"{record.own.member}, with ", " with the other members"
    verb = "found" if who else "are described by"
    result = (
        f"{who}{count(table.transactions, 'transaction')} {verb} {count(len(table), 'itemset')}{together}. These "
        f"compress the data to {table.compression.L_percent:.1f} % of the bits needed with single items only."
    )
    if record.own is not None:
        return " ".join((result, *_own(record.own, len(table), unnamed)))
    if record.kind == "server" and not named(table):
        return f"{result} This server does not know what the items are called: it knows them by numbers."
    if record.gap is None:
        return result
    gap, recovered = len(record.gap), sum(row.recovered for row in record.gap)
    if not gap:
        return f"{result} Every itemset in the table of all data is also found by at least one member alone."
    which = "all" if gap == recovered else "none" if not recovered else f"{recovered:,}"
    found = f"{count(gap, 'itemset')} {'is' if gap == 1 else 'are'} found by no member alone"
    return f"{result} {found}; mining together found {which} of them."


def _own(own: OwnRecord, itemsets: int, unnamed: int) -> Iterator[str]:
    """Yield what is special at a member, in sentences."""
    if own.alone is not None and own.found_alone is not None:
        alone = f"Alone, {own.member} finds {count(own.alone.itemsets, 'itemset')}"
        yield f"{alone}; {own.found_alone.count(False):,} of the {itemsets:,} are not among them."
    if own.differences is not None:
        found = sum(each.significant for each in own.differences)
        many = "No itemset is" if not found else f"{count(found, 'itemset')} {'is' if found == 1 else 'are'}"
        yield f"{many} clearly more or less frequent here than at the other members."
    if unnamed:
        yield f"{count(unnamed, 'item')} {'has' if unnamed == 1 else 'have'} no name here; Items says how to get names."


def named(table: CodeTable) -> bool:
    """Return whether the items have labels, not only numbers or ids."""
    return not all(is_unnamed(label) for label in table.vocabulary)


def is_unnamed(label: str, kind: str = "server") -> bool:
    """Return whether a server has only a number or an id in place of a label, or a member an id."""
    return _UNNAMED.fullmatch(label) is not None and (kind == "server" or label.startswith("#"))


def knowledge(record: RunRecord, table: CodeTable) -> list[Fact]:
    """Say what the server of a real federation knows and does not know; nothing for other runs."""
    if record.kind != "server":
        return []
    known, unknown = KNOWN[record.variant]
    sizes = f"{count(table.transactions, 'transaction')} and {count(len(table.vocabulary), 'item')} in all"
    where = "" if named(table) else "; the members' reports have the names of the items"
    labels = "" if named(table) else ", what the items are called"
    if all(not label.startswith("#") for label in table.vocabulary):  # otherwise members sent the ids that they have
        labels += ", which items a member has"
    return [
        Fact("knows", f"{known}; {sizes}; who took part, and how many bytes each kind of message took"),
        Fact("does not know", f"{unknown}{labels}; no row of data{where}"),
    ]


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
    if (gap := record.gap) is not None:
        found = sum(row.recovered for row in gap)
        share = f"{100 * found / len(gap):.3g} % of the gap (GRR {found / len(gap):.3f})" if gap else "the gap is empty"
        facts.append(Fact("found by no member alone", _of(found, len(gap)), share))
    if (own := record.own) is not None:
        if own.found_alone is not None:
            new = own.found_alone.count(False)
            facts.append(Fact("not found here alone", _of(new, len(table)), f"{own.member} mined its own data, too"))
        if own.differences is not None:
            found = sum(each.significant for each in own.differences)
            facts.append(Fact("different here", f"{found:,}", "more or less often than elsewhere, q\u00a0≤\u00a00.05"))
        total = sum(amount.bytes for amount in own.sent.values())
        labels = " and labels" if any(amount.labels or amount.sealed for amount in own.sent.values()) else ""
        facts.append(Fact("left this member", size(total), f"counts{labels}, and no transaction"))
    facts += [
        Fact("agreement, F1", _known(first.figures.get("f1"), DIGITS), f"with {reference(first.reference)}")
        for first in record.agreements[:1]
    ]
    sent, up, down = (figures.get(name) for name in ("bytes_total", "bytes_up", "bytes_down"))
    if sent is not None:
        split = "" if up is None or down is None else f"{_known(up, size)} up, {_known(down, size)} down"
        facts.append(Fact("sent", _known(sent, size), split))
    if (rounds := figures.get("rounds")) is not None:
        time = _known(figures.get("seconds"), duration)
        notes = ("" if time == "–" else f"in {time}", str(figures.get("ending") or ""))
        facts.append(Fact("rounds", _known(rounds, number), "; ".join(filter(None, notes))))
    return facts


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
    return [Fact(title, _known(of.figures.get(name), DIGITS), note) for name, (title, note) in notes.items()]


def usages_note(record: RunRecord) -> str:
    """Explain why the report shows usages per member, or why it cannot."""
    if record.own is not None:
        return "A member knows its own counts, and of the others only what the sums over all members say."
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
    facts = [Fact("data", record.data)]
    if record.kind != "mined":
        facts.append(Fact("variant", record.variant, MEANING[record.variant]))
    if (masked := settings.pop("masked", None)) is not None:
        facts.append(Fact("masks", "yes" if masked else "no"))
    if (partition := settings.pop("partition", None)) is not None:
        chosen = ", ".join(f"{name} {_plain(value)}" for name, value in (partition.get("parameters") or {}).items())
        facts.append(Fact("partition", str(partition.get("scheme")), f"{chosen}; seed {partition.get('seed')}"))
    settings.pop("cell", None)  # the cell of an experiment only repeats the other settings
    if untold := settings.pop("not_told", None):
        facts.append(Fact("not told of the end", ", ".join(untold)))
    facts += [Fact(name.replace("_", " "), _plain(value)) for name, value in settings.items() if value is not None]
    if (ending := record.figures.get("ending")) is not None:
        facts.append(Fact("ended", str(ending)))
    machine = record.machine
    parts = [str(machine.get("cpu") or ""), f"{machine['cores']} cores" if machine.get("cores") else ""]
    parts += [f"{machine['memory_gb']} GB" if machine.get("memory_gb") else "", str(machine.get("system") or "")]
    facts.append(Fact("machine", ", ".join(filter(None, parts)) or "–"))
    facts.append(Fact("versions", ", ".join(f"{name} {version}" for name, version in record.versions.items())))
    facts.append(Fact("created", record.made.replace("T", " ").replace("+00:00", " UTC")))
    return facts


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" if whole else "none"


def _known(value: object, how: Callable[[Any], str]) -> str:
    """Format a figure, or return a dash if it is missing or not a finite number."""
    return how(value) if isinstance(value, int | float) and math.isfinite(value) else "–"


# -- names for runs, made of the settings in which they differ ---------------------------------------------------------


def names(records: Sequence[RunRecord]) -> list[str]:
    """Return a short, unique name for each run."""
    traits = [_traits(record) for record in records]
    differing = [key for key in traits[0] if len({run[key] for run in traits} - {None}) > 1 or key == "variant"]
    made = [" · ".join(filter(None, (run[key] for key in differing))) for run in traits]
    times = Counter(made)
    seen: Counter[str] = Counter()
    for k, name in enumerate(made):
        if times[name] > 1:
            seen[name] += 1
            made[k] = f"{name} · {seen[name]}"
    return made


def _traits(record: RunRecord) -> dict[str, str | None]:
    """Return the settings in which runs may differ, the most telling first; None if a run does not have a setting."""
    settings = record.settings
    partition: dict[str, Any] = settings.get("partition") or {}
    return {
        "data": record.data,
        "variant": record.variant,
        "masks": "no masks" if settings.get("masked") is False and record.variant != "so" else "",
        "members": f"{len(record.members)} members",
        "partition": scheme_of(record),
        "width": f"width {settings['width']}" if record.variant == "x" and "width" in settings else None,
        "effort": "" if settings.get("effort", 1) == 1 else f"effort {settings['effort']}",
        "time": "" if settings.get("max_time") is None else f"{settings['max_time']} s",
        "rounds": "" if settings.get("max_rounds") is None else f"{settings['max_rounds']} rounds",
        "seed": f"seed {settings.get('seed', partition.get('seed'))}",
    }


def scheme_of(record: RunRecord) -> str:
    """Return the partition scheme and its parameters; an empty string if the data were not partitioned."""
    partition: dict[str, Any] = record.settings.get("partition") or {}
    chosen = {name: value for name, value in (partition.get("parameters") or {}).items() if name != "members"}
    return " ".join([str(partition.get("scheme", "")), *(f"{name} {value}" for name, value in chosen.items())]).strip()


def title_of(records: Sequence[RunRecord]) -> str:
    """Return the title of a report: the names of its data sets."""
    data = list(dict.fromkeys(_FOLDERS.sub("", record.data) for record in records))
    few = 3
    if len(data) <= few:
        return ", ".join(data)
    return f"{', '.join(data[:few])} and {len(data) - few} more"
