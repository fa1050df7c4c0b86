"""Declarations of the experiments: the data sets, settings, variants and published figures of each table."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fedslim.data import data_names, locate, public_sets
from fedslim.data.generators import KINDS, MAX_TRANSACTIONS
from fedslim.errors import DataError, ParameterError
from fedslim.mdl.policy import WIDTH

VARIANTS = ("sa", "so", "x")
MEMBERS = 10
WIDTHS = (1, WIDTH)  # SLIM as published, which the paper compares with, and our default
ACCIDENTS = "accidents"
STAND_INS = ("accidents_head", "accidents-like:10000")
"""Substitutes for Accidents if the full file is not available: its head, and 10,000 generated transactions."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """How the data are partitioned; see `fedslim.federated.divide`."""

    scheme: str = "iid"
    members: int = MEMBERS
    min_dominant: int = 0  # 0 if the scheme has no dominant itemsets

    def __str__(self) -> str:
        return f"{self.scheme}{f'-{self.min_dominant}' if self.min_dominant else ''}-{self.members}"


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One run."""

    data: str
    setting: Setting
    seed: int
    variant: str
    width: int = 1  # of the search, for x; sa and so have none

    @property
    def key(self) -> str:
        """The name of the cell, also used for files."""
        width = f"-width-{self.width}" if self.variant == "x" else ""
        return f"{self.data.replace(':', '-')}.{self.setting}.seed{self.seed}.{self.variant}{width}"

    @property
    def group(self) -> tuple[str, Setting, int, int]:
        """The data, setting, seed and width: cells of one group share the partition and the tables to compare with."""
        return self.data, self.setting, self.seed, self.width

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, for records."""
        fields = {"data": self.data, **asdict(self.setting), "seed": self.seed, "variant": self.variant}
        return fields | {"width": self.width} if self.variant == "x" else fields

    @property
    def command(self) -> str:
        """The command that runs this cell alone."""
        s = self.setting
        width = f" --width {self.width}" if self.variant == "x" else ""
        scheme = f" --partition {s.scheme}" if s.scheme != "iid" else ""
        dominant = f" --min-dominant {s.min_dominant}" if s.min_dominant else ""
        run = f"fedslim simulate {self.data} --variant {self.variant} --members {s.members}"
        return f"{run}{width}{scheme}{dominant} --seed {self.seed}"


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A column of a table: the name of its figure in records, its heading, and the digits to show."""

    name: str
    head: str
    digits: int = 0
    unit: str = ""  # "bytes", or empty


FOUND = (
    FigureColumn("L_percent", "L%", 2),
    FigureColumn("itemsets", "|CT|"),
    FigureColumn("candidates", "|F|"),
    FigureColumn("rounds", "R"),
    FigureColumn("bytes_total", "BT", unit="bytes"),
    FigureColumn("f1", "F1", 3),
    FigureColumn("wr50", "WR@50", 3),
    FigureColumn("rho", "ρ", 3),
)
RECOVERED = (
    FigureColumn("centralised_itemsets", "|A|"),
    FigureColumn("gap", "|G|"),
    FigureColumn("gap_recovered", "|G∩B|"),
    FigureColumn("grr", "GRR", 3),
    FigureColumn("wr50", "WR@50", 3),
    FigureColumn("wr100", "WR@100", 3),
    FigureColumn("prediction_precision", "ΔL_i precision", 3),
    FigureColumn("prediction_recall", "ΔL_i recall", 3),
    FigureColumn("prediction_auc", "ΔL_i AUC", 3),
)
BUDGETS = (0.01, 0.03, 0.1, 1 / 3, 1.0)
"""Fractions of the time to convergence. The paper has 24 h and 72 h, a ratio of 1/3."""

BUDGET = tuple(FigureColumn(f"L_percent_at_{part:.3f}", f"L% at {part:.0%}", 2) for part in BUDGETS)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment: a table of the paper, or a question of our own."""

    name: str
    title: str
    asks: str
    datasets: tuple[str, ...]
    settings: tuple[Setting, ...] = (Setting(),)
    columns: tuple[FigureColumn, ...] = FOUND
    widths: tuple[int, ...] = (1,)

    def cells(self, datasets: Iterable[str], variants: Sequence[str] = VARIANTS, seeds: int = 1) -> list[Cell]:
        """Return all cells, grouped by data set and setting."""
        return [
            Cell(data, setting, seed, variant, width)
            for data in datasets
            for setting in self.settings
            for seed in range(seeds)
            for variant in variants
            for width in (self.widths if variant == "x" else (1,))
        ]

    def paper(self, cell: Cell) -> Mapping[str, float] | None:
        """Return the published figures of a cell."""
        return published(self.name, cell.data, str(cell.setting), cell.variant)


def _read_paper() -> dict[tuple[str, ...], Mapping[str, float]]:
    """Read the figures of the FedSLIM paper (section 5) by experiment, data, setting and variant.

    Those of all data in one place (first rows of Table 2) were mined by the C++ SLIM of 2012. The paper does not define
    MB and GB; here they are the smaller ones (powers of 1000), to our disadvantage.
    """
    with Path(__file__).with_name("paper.csv").open(encoding="utf-8", newline="") as stream:
        head, *rows = csv.reader(stream)
    return {
        tuple(row[:4]): {
            name: int(text) if text.isdecimal() else float(text)
            for name, text in zip(head[4:], row[4:], strict=True)
            if text
        }
        for row in rows
    }


PAPER = _read_paper()


def published(table: str, data: str, setting: str = "", variant: str = "") -> Mapping[str, float] | None:
    """Return figures of the paper; those of Accidents for its substitutes."""
    return PAPER.get((table, ACCIDENTS if data in STAND_INS else data, setting, variant))


SETS = ("ionosphere", "chess", "mushroom", "pendigits", "letter", "adult", "connect", ACCIDENTS)

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "iid",
            "Ten members of equal size, IID",
            "How close do federations come to mining all data in one place? (Table 2 of the paper)",
            SETS,
            widths=WIDTHS,
        ),
        Experiment(
            "scalability",
            "From 2 to 128 members, IID",
            "How does the number of members affect the result? (Table 3)",
            (ACCIDENTS,),
            tuple(Setting(members=2**k) for k in range(1, 8)),
        ),
        Experiment(
            "uneven",
            "Ten members of uneven sizes, IID",
            "Do uneven sizes affect the result? (Table 5; Dirichlet 0.5, and the paper's own sizes)",
            (ACCIDENTS,),
            (Setting("dirichlet"), Setting("paper-sizes")),
        ),
        Experiment(
            "noniid",
            "Ten members, non-IID",
            "Do different itemsets, with equal or uneven sizes, affect the result? (Table 7)",
            (ACCIDENTS,),
            tuple(
                Setting(scheme, min_dominant=size)
                for scheme in ("support-skew", "support-quantity-skew")
                for size in (3, 4)
            ),
        ),
        Experiment(
            "gap",
            "The discovery gap",
            "How much of the gap is recovered, and does the paper's equation for ΔL_i predict the gap? (Table 8)",
            SETS,
            columns=RECOVERED,
            widths=WIDTHS,
        ),
        Experiment(
            "budget",
            "Compression by time budget",
            "Would more time help? (the paper's 24 h and 72 h: a third of the time to convergence, and all of it)",
            SETS,
            columns=BUDGET,
            widths=WIDTHS,
        ),
    )
}


class Resolved(NamedTuple):
    """The data that can be run or shown, and a remark on each data set that cannot."""

    names: tuple[str, ...]
    remarks: tuple[str, ...]


def resolve(datasets: Iterable[str], folder: str | Path | None = None, kept: Collection[str] = ()) -> Resolved:
    """Determine which data are available, or `kept` as records; Accidents has substitutes."""
    names, remarks = list[str](), list[str]()
    public = {record.name for record in public_sets()}

    def is_there(name: str) -> bool:
        if name not in public or name in kept:
            return True
        try:
            locate(name, folder=folder)
        except DataError:
            return False
        return True

    for name in datasets:
        if not (name in data_names() or _is_sized(name)):
            raise ParameterError(f"there is no data set named {name!r:.80}; choose from `fedslim data list`")
        if is_there(name):
            names.append(name)
        elif name == ACCIDENTS:
            names += filter(is_there, STAND_INS)
        else:
            remarks.append(f"{name} is left out: the file is missing (fedslim data get {name}, or --from FOLDER)")
    return Resolved(tuple(dict.fromkeys(names)), tuple(remarks))


def _is_sized(name: str) -> bool:
    """Return whether the name is a kind of generated data with a size."""
    kind, _, size = name.partition(":")
    return kind in KINDS and bool(re.fullmatch("0*[1-9][0-9]{0,9}", size)) and int(size) <= MAX_TRANSACTIONS
