"""Compare records with the tables of other systems, which are files SET.SYSTEM.json in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedslim.federated.records import with_agreements
from fedslim.metrics import load_reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fedslim.experiments.declarations import Cell
    from fedslim.experiments.store import Store
    from fedslim.metrics.labelled import LabelledTable


def reference_tables(folder: str | Path | None, data: str) -> Mapping[str, LabelledTable]:
    """Return the tables of other systems for a data set, by system."""
    if folder is None:
        return {}
    found = sorted(Path(folder).glob(f"{data}.*.json"))
    return {path.name.removeprefix(f"{data}.").removesuffix(".json"): load_reference(path) for path in found}


def add_references(cell: Cell, store: Store, folder: str | Path | None) -> None:
    """Add comparisons with these tables to an existing record that lacks them."""
    tables = reference_tables(folder, cell.data)
    record = store.load(cell) if tables else None
    if record is not None and (missing := tables.keys() - {each.reference for each in record.agreements}):
        store.save(cell, with_agreements(record, {name: tables[name] for name in sorted(missing)}))
