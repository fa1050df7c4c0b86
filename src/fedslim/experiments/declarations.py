"""What the experiments are: each table of the paper as data, settings and variants, and where its figures stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedslim.data import KINDS, data_names, locate, public_sets
from fedslim.data.generators import MAX_TRANSACTIONS
from fedslim.errors import DataError, ParameterError
from fedslim.experiments import paper

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    PaperFigures = Callable[["Cell"], Mapping[str, float] | None]

VARIANTS = ("sa", "so", "x")
MEMBER_SIDE = 10
ACCIDENTS = "accidents"
STAND_INS = ("accidents_head", "accidents-like:10000")
"""Instead of Accidents where the full file is not at hand: its head, and made data like them, 10,000 transactions."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """How the data are dealt out; see `fedslim.federated.divide`."""

    scheme: str = "iid"
    members: int = MEMBER_SIDE
    min_dominant: int = 0  # 0 where the scheme has no dominant itemsets

    def __str__(self) -> str:
        return f"{self.scheme}{f'-{self.min_dominant}' if self.min_dominant else ''}-{self.members}"


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One run."""

    data: str
    setting: Setting
    seed: int
    variant: str

    @property
    def key(self) -> str:
        """A name for the cell that is also a name for a file."""
        return f"{self.data.replace(':', '-')}.{self.setting}.seed{self.seed}.{self.variant}"

    @property
    def group(self) -> tuple[str, Setting, int]:
        """Cells of one group have the same data, dealt out in the same way."""
        return self.data, self.setting, self.seed

    def as_dict(self) -> dict[str, str | int]:
        """For records and for the process that runs it."""
        s = self.setting
        named: dict[str, str | int] = {"scheme": s.scheme, "members": s.members, "min_dominant": s.min_dominant}
        return {"data": self.data, **named, "seed": self.seed, "variant": self.variant}

    @classmethod
    def of(cls, told: Mapping[str, str | int]) -> Cell:
        """What `as_dict` said."""
        setting = Setting(str(told["scheme"]), int(told["members"]), int(told["min_dominant"]))
        return cls(str(told["data"]), setting, int(told["seed"]), str(told["variant"]))

    @property
    def command(self) -> str:
        """What to type to run this cell alone."""
        s = self.setting
        words = ["fedslim", "simulate", self.data, "--variant", self.variant, "--members", str(s.members)]
        if s.scheme != "iid":
            words += ["--partition", s.scheme]
        if s.min_dominant:
            words += ["--min-dominant", str(s.min_dominant)]
        return " ".join([*words, "--seed", str(self.seed)])


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A figure of a table: its name in the records, in the head, and how many digits it is shown with."""

    name: str
    head: str
    digits: int = 0
    unit: str = ""  # "bytes" for those


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
"""Parts of the time to convergence. The paper has 24 h and 72 h, of which the first is a third."""

BUDGET = tuple(FigureColumn(f"L_percent_at_{part:.3f}", f"L% at {part:.0%}", 2) for part in BUDGETS)


def _no_figures(_cell: Cell) -> Mapping[str, float] | None:
    return None


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table of the paper, or one question."""

    name: str
    title: str
    asks: str
    datasets: tuple[str, ...]
    settings: tuple[Setting, ...] = (Setting(),)
    columns: tuple[FigureColumn, ...] = FOUND
    paper: PaperFigures = _no_figures

    def cells(self, datasets: Iterable[str], variants: Sequence[str] = VARIANTS, seeds: int = 1) -> list[Cell]:
        """All its cells, those of one data set and setting together."""
        return [
            Cell(data, setting, seed, variant)
            for data in datasets
            for setting in self.settings
            for seed in range(seeds)
            for variant in variants
        ]


def standing_for(data: str) -> str:
    """The name that the paper has for the data: that of Accidents for what stands in for it."""
    return ACCIDENTS if data in STAND_INS else data


def _of_accidents(figures: PaperFigures) -> PaperFigures:
    """The paper ran these on Accidents only."""
    return lambda cell: figures(cell) if standing_for(cell.data) == ACCIDENTS else None


SETS = ("ionosphere", "chess", "mushroom", "pendigits", "letter", "adult", "connect", ACCIDENTS)

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "iid",
            "Ten equally large members, IID",
            "How close do federations come to all data in one place? (Table 2 of the paper)",
            SETS,
            paper=lambda cell: paper.IID.get((standing_for(cell.data), cell.variant)),
        ),
        Experiment(
            "scalability",
            "From 2 to 128 members, IID",
            "What does it do to the result that the data are in many hands? (Table 3)",
            (ACCIDENTS,),
            tuple(Setting(members=2**k) for k in range(1, 8)),
            paper=_of_accidents(lambda cell: paper.SCALABILITY.get((cell.setting.members, cell.variant))),
        ),
        Experiment(
            "uneven",
            "Ten members of uneven sizes, IID",
            "Does it matter that some have much and some little? (Table 5; Dirichlet 0.5, and the paper's own sizes)",
            (ACCIDENTS,),
            (Setting("dirichlet"), Setting("paper-sizes")),
            paper=_of_accidents(lambda cell: paper.UNEVEN.get(cell.variant)),
        ),
        Experiment(
            "noniid",
            "Ten members whose data differ",
            "And that each has itemsets of its own, and more or less data? (Table 7)",
            (ACCIDENTS,),
            tuple(
                Setting(scheme, min_dominant=size)
                for scheme in ("support-skew", "support-quantity-skew")
                for size in (3, 4)
            ),
            paper=_of_accidents(
                lambda cell: paper.NONIID.get((cell.setting.scheme, cell.setting.min_dominant, cell.variant))
            ),
        ),
        Experiment(
            "gap",
            "What no member finds alone",
            "How much of it is recovered, and does the paper's equation for ΔL_i foretell it? (Table 8)",
            SETS,
            columns=RECOVERED,
            paper=lambda cell: paper.GAP.get((standing_for(cell.data), cell.variant)),
        ),
        Experiment(
            "budget",
            "Compression by the time that is given",
            "Would more time help? (for the paper's 24 h and 72 h: a third of the time to convergence, and all of it)",
            SETS,
            columns=BUDGET,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The data that can be run or shown, and a sentence about each that cannot."""

    names: tuple[str, ...]
    remarks: tuple[str, ...]


def resolve(datasets: Iterable[str], folder: str | Path | None = None, kept: Collection[str] = ()) -> Resolved:
    """Which of the data are at hand; Accidents is replaced by its stand-ins where it is not.

    Args:
        datasets: The names of data.
        folder: Where public sets are, besides the usual places.
        kept: Data of which there are records: these need not be at hand to be shown.

    Raises:
        ParameterError: There are no data of such a name.
    """
    names: list[str] = []
    remarks: list[str] = []
    public = {record.name for record in public_sets()}
    for name in datasets:
        if name in public and not (name in kept or _at_hand(name, folder)):
            if name != ACCIDENTS:
                remarks.append(f"{name} is left out: it is not at hand (fedslim data get {name}, or --from FOLDER)")
                continue
            names += [each for each in STAND_INS if each not in public or each in kept or _at_hand(each, folder)]
        elif name in public or name in data_names() or _make(name):
            names.append(name)
        else:
            msg = f"there are no data called {name!r:.80}; choose from `fedslim data list`"
            raise ParameterError(msg)
    return Resolved(tuple(dict.fromkeys(names)), tuple(remarks))


def _make(name: str) -> bool:
    """Whether such data are made, not read: a kind, or a kind and a size."""
    kind, colon, size = name.partition(":")
    if not colon:
        return kind in KINDS
    digits = size.isascii() and size.isdecimal() and len(size) <= len(str(MAX_TRANSACTIONS))
    return kind in KINDS and digits and 1 <= int(size) <= MAX_TRANSACTIONS


def _at_hand(name: str, folder: str | Path | None) -> bool:
    try:
        locate(name, folder=folder)
    except DataError:
        return False
    return True
