"""Where records are kept: a folder with one file for each cell, whole or not there at all.

store = Store("results")
store.load(cell).figures["L_percent"]      # None where it was not run
store.look(cell)                           # the record, or why it failed the last time it was tried, or None
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedslim import __version__
from fedslim.data import KINDS
from fedslim.data.atomic import write_whole
from fedslim.errors import CodeTableError, InputError
from fedslim.federated.records import FAILED, load_run, save_run
from fedslim.mdl.codetable import CodeTable

if TYPE_CHECKING:
    from fedslim.experiments.declarations import Cell, Experiment
    from fedslim.federated.records import RunRecord

RESULTS = "results"
"""Where records go if nobody says otherwise."""

_MAX_REASON = 10_000
_PARTS = 4  # of the name of a file after that of the data: setting, seed, variant, json


class Store:
    """The records in a folder."""

    def __init__(self, folder: str | Path = RESULTS) -> None:
        self.folder = Path(folder)

    def path(self, cell: Cell) -> Path:
        """Where the record of a cell is, or would be."""
        return self.folder / f"{cell.key}.json"

    def done(self, cell: Cell) -> bool:
        """Whether the cell was run to its end, and its record can be read."""
        try:
            return self.load(cell) is not None
        except InputError:
            return False

    def load(self, cell: Cell) -> RunRecord | None:
        """The record of a cell; None if it was not run.

        Raises:
            InputError: There is a file in its place that is no record.
        """
        path = self.path(cell)
        if not path.exists():
            return None
        record = load_run(path)
        if record.settings.get("cell") != cell.as_dict():
            msg = f"{path} is the record of another cell ({record.settings.get('cell')}); move it away"
            raise InputError(msg)
        return record

    def save(self, cell: Cell, record: RunRecord) -> None:
        """Keep a record, and forget that the cell ever failed."""
        save_run(record, self.path(cell))
        self._failed(cell).unlink(missing_ok=True)

    def fail(self, cell: Cell, reason: str) -> None:
        """Keep why a cell failed."""
        write_whole(self._failed(cell), reason[-_MAX_REASON:].encode(errors="replace") + b"\n")

    def look(self, cell: Cell) -> RunRecord | str | None:
        """The record of a cell; why it failed when it was last tried, or cannot be read; None if it was not run."""
        try:
            if (record := self.load(cell)) is not None:
                return record
        except InputError as error:
            return str(error)
        path = self._failed(cell)
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return stream.read(2 * _MAX_REASON).decode(errors="replace").strip() or "nobody knows why"

    def failed(self, experiment: Experiment) -> list[str]:
        """The cells of an experiment that failed when they were last tried, whatever their data and seeds."""
        settings = {str(setting) for setting in experiment.settings}
        names = sorted(path.name.removesuffix(FAILED) for path in self.folder.glob(f"*{FAILED}"))
        return [name for name in names if name.count(".") >= _PARTS - 1 and name.rsplit(".", _PARTS - 1)[1] in settings]

    def _failed(self, cell: Cell) -> Path:
        return self.folder / f"{cell.key}{FAILED}"

    def records(self, experiment: Experiment) -> list[Path]:
        """The files of all records that belong to an experiment, whatever their data and seeds."""
        settings = {str(setting) for setting in experiment.settings}
        return [path for path in self._files() if path.name.rsplit(".", _PARTS)[1] in settings]

    def datasets(self, experiment: Experiment | None = None) -> set[str]:
        """The data of which there are records: of one experiment, or any."""
        files = self._files() if experiment is None else self.records(experiment)
        return {_file_name(path.name.rsplit(".", _PARTS)[0]) for path in files}

    def _files(self) -> list[Path]:
        return [path for path in sorted(self.folder.glob("*.json")) if path.name.count(".") >= _PARTS]

    # -- what several cells need ------------------------------------------------------------------------------------

    def centralised(self, data: str, digest: str) -> CodeTable | None:
        """The table of all the data in one place, if this version kept it of data with this digest."""
        try:
            return CodeTable.load(self._centralised(data, digest))
        except CodeTableError:
            return None

    def keep_centralised(self, data: str, digest: str, table: CodeTable) -> None:
        """Keep the table of all the data in one place."""
        table.save(self._centralised(data, digest))

    def _centralised(self, data: str, digest: str) -> Path:
        return self.folder / "centralised" / f"{data.replace(':', '-')}.{digest[:16]}.{__version__}.json"


def _file_name(data: str) -> str:
    """What data are called whose name was written without a colon; see `Cell.key`."""
    kind, dash, size = data.rpartition("-")
    return f"{kind}:{size}" if dash and kind in KINDS and size.isdecimal() else data
