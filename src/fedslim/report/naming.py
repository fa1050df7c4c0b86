"""Names for the runs of a report, made of the settings in which they differ."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.federated.records import RunRecord


_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]+\.(?:csv|tsv|dat|parquet)(?:\.gz)?$)", re.DOTALL)
"""The folders before a file name."""


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
