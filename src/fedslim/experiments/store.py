"""Store records in a folder with one file per cell, written atomically."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedslim.data.atomic import write_whole
from fedslim.data.generators import KINDS
from fedslim.errors import InputError
from fedslim.experiments.declarations import Cell, Experiment
from fedslim.federated.records import FAILED, RunRecord, load_run, save_run, with_agreements
from fedslim.metrics import load_reference
from fedslim.metrics.reference import LabelledTable

_MAX_REASON = 10_000
_PARTS = 4  # of a file name: data, setting, seed, variant


class Store:
    """The records in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, cell: Cell, ending: str = ".json") -> Path:
        """Return the path of a cell's record, or with `FAILED` of its failure, which may not exist."""
        return self.folder / f"{cell.key}{ending}"

    def done(self, cell: Cell) -> bool:
        """Return whether the cell has a readable record."""
        return isinstance(self.look(cell), RunRecord)

    def load(self, cell: Cell) -> RunRecord | None:
        """Return the record of a cell; None if it was not run."""
        path = self.path(cell)
        if not path.exists():
            return None
        record = load_run(path)
        if record.settings.get("cell") != cell.as_dict():
            msg = f"{path}: this is the record of another cell ({record.settings.get('cell')}); move it elsewhere"
            raise InputError(msg)
        return record

    def save(self, cell: Cell, record: RunRecord) -> None:
        """Save a record, and delete the failure of an earlier attempt."""
        save_run(record, self.path(cell))
        self.path(cell, FAILED).unlink(missing_ok=True)

    def fail(self, cell: Cell, reason: str) -> None:
        """Save the reason why a cell failed."""
        write_whole(self.path(cell, FAILED), reason[-_MAX_REASON:].encode(errors="replace") + b"\n")

    def look(self, cell: Cell) -> RunRecord | str | None:
        """Return the record of a cell, or why it failed last time or cannot be read; None if it was not run."""
        try:
            if (record := self.load(cell)) is not None:
                return record
        except InputError as error:
            return str(error)
        path = self.path(cell, FAILED)
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return stream.read(2 * _MAX_REASON).decode(errors="replace").strip() or "unknown reason"

    def records(self, experiment: Experiment | None = None, ending: str = ".json") -> list[Path]:
        """Return the record files of an experiment, or of all, for any data and seed; or with `FAILED`, failures."""
        settings = None if experiment is None else set(map(str, experiment.settings))
        parts = {path: _parts(path, ending) for path in sorted(self.folder.glob(f"*{ending}"))}
        return [p for p, name in parts.items() if len(name) == _PARTS and (settings is None or name[1] in settings)]

    def datasets(self, experiment: Experiment | None = None) -> set[str]:
        """Return the data sets with records, of one experiment or of any."""
        return {_data_name(_parts(path, ".json")[0]) for path in self.records(experiment)}

    def add_references(self, cell: Cell, folder: str | Path | None) -> None:
        """Add comparisons with the tables of other systems to an existing record that lacks them."""
        tables = reference_tables(folder, cell.data)
        record = self.load(cell) if tables else None
        if record is not None and (missing := tables.keys() - {each.reference for each in record.agreements}):
            self.save(cell, with_agreements(record, {name: tables[name] for name in sorted(missing)}))


def _parts(path: Path, ending: str) -> list[str]:
    return path.name.removesuffix(ending).rsplit(".", _PARTS - 1)


def _data_name(data: str) -> str:
    """Return the name of the data from a file name, in which a dash replaces the colon; see `Cell.key`."""
    kind, dash, size = data.rpartition("-")
    return f"{kind}:{size}" if dash and kind in KINDS and size.isdecimal() else data


def reference_tables(folder: str | Path | None, data: str) -> Mapping[str, LabelledTable]:
    """Return the tables of other systems for a data set, by system: files SET.SYSTEM.json in a folder."""
    if folder is None:
        return {}
    found = sorted(Path(folder).glob(f"{data}.*.json"))
    return {path.name.removeprefix(f"{data}.").removesuffix(".json"): load_reference(path) for path in found}
