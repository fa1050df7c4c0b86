"""The arguments and options that several commands share, and their checks."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

LARGEST = 2**31 - 1
"""No count of items or transactions is larger; larger numbers would not fit the engine's types."""


def positive_seconds(value: float | None) -> float | None:
    """Check a number of seconds."""
    if value is not None and not (math.isfinite(value) and value > 0):
        msg = f"{value} is not a number of seconds; give one above 0"
        raise typer.BadParameter(msg)
    return value


def whole(low: int, high: int = LARGEST) -> Callable[[int | None], int | None]:
    """A check of a whole number. Typer's own would print its bounds into the help, which are of no interest there."""

    def check(value: int | None) -> int | None:
        if value is not None and not low <= value <= high:
            bounds = f"from {low} up" if value < low else f"up to {high}"
            msg = f"{value} is out of range; give a whole number {bounds}"
            raise typer.BadParameter(msg)
        return value

    return check


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        help="A file (FIMI .dat, .csv, .tsv, .parquet; .gz too), or a name from `fedslim data list`, "
        "such as encounters, mushroom or wide-sparse:20000.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(metavar="F", help="What is in the file, if its extension does not say: fimi, csv, tsv, parquet."),
]
Bins = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=whole(2),
        help="Intervals that a numeric column is cut into.  [default: 10]",
        show_default=False,
    ),
]
TransactionColumn = Annotated[
    str | None,
    typer.Option(
        metavar="C", help="For tables with a row for each pair of transaction and item: the column of transactions."
    ),
]
ItemColumn = Annotated[str | None, typer.Option(metavar="C", help="And the column of items.")]
From = Annotated[
    str | None, typer.Option("--from", metavar="FOLDER", help="The folder of public sets already downloaded.")
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", callback=whole(0, 2**63 - 1), help="For data that are made, not read: another seed, other data."
    ),
]
MaxTime = Annotated[
    float | None,
    typer.Option(metavar="S", callback=positive_seconds, help="Mine for S seconds at most; the best so far counts."),
]
MinCount = Annotated[
    int,
    typer.Option(metavar="N", callback=whole(1), help="Show no count below N: merge rarer items, leave itemsets out."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Top = Annotated[
    int,
    typer.Option(metavar="N", callback=whole(0), help="How many itemsets to show, the most useful first; 0 for none."),
]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said about the data: where they are and how to read them."""

    source: str
    format: str | None
    bins: int | None
    transaction_column: str | None
    item_column: str | None
    folder: str | None
    seed: int | None

    def load(self) -> "TransactionDatabase":
        """Load them."""
        from fedslim.data import load

        chosen: dict[str, Any] = {} if self.bins is None else {"bins": self.bins}  # the default is the data room's
        return load(
            self.source,
            format=self.format,
            transaction_column=self.transaction_column,
            item_column=self.item_column,
            folder=self.folder,
            seed=self.seed,
            **chosen,
        )
