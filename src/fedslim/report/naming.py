"""What runs are called in a report: by what tells them apart, and by nothing else."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedslim.federated.records import RunRecord


_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]+\.(?:csv|tsv|dat|parquet)(?:\.gz)?$)", re.DOTALL)
"""What stands before the name of a file."""


def names(records: Sequence[RunRecord]) -> list[str]:
    """A short name for each run, all different."""
    traits = [_traits(record) for record in records]
    telling = [name for name in traits[0] if len({each[name] for each in traits}) > 1 or name == "variant"]
    made = [" · ".join(filter(None, (each[name] for name in telling))) for each in traits]
    times = Counter(made)
    seen: Counter[str] = Counter()
    for k, name in enumerate(made):
        if times[name] > 1:
            seen[name] += 1
            made[k] = f"{name} · {seen[name]}"
    return made


def _traits(record: RunRecord) -> dict[str, str]:
    """What may tell a run from others, the plainest first."""
    settings = record.settings
    dealt: dict[str, Any] = settings.get("partition") or {}
    return {
        "data": record.data,
        "variant": record.variant,
        "masks": "no masks" if settings.get("masked") is False and record.variant != "so" else "",
        "members": f"{len(record.members)} members",
        "partition": scheme_of(record),
        "time": "" if settings.get("max_time") is None else f"{settings['max_time']} s",
        "rounds": "" if settings.get("max_rounds") is None else f"{settings['max_rounds']} rounds",
        "seed": f"seed {settings.get('seed', dealt.get('seed'))}",
    }


def scheme_of(record: RunRecord) -> str:
    """How the data were dealt out; nothing where nobody dealt them out."""
    dealt: dict[str, Any] = record.settings.get("partition") or {}
    chosen = {name: value for name, value in (dealt.get("parameters") or {}).items() if name != "members"}
    return " ".join([str(dealt.get("scheme", "")), *(f"{name} {value}" for name, value in chosen.items())]).strip()


def title_of(records: Sequence[RunRecord]) -> str:
    """What stands above a report."""
    data = list(dict.fromkeys(_FOLDERS.sub("", record.data) for record in records))
    few = 3
    if len(data) <= few:
        return ", ".join(data)
    return f"{', '.join(data[:few])} and {len(data) - few} more"
