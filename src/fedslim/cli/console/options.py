"""Arguments and options that several commands share, and their checks."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
import csv
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console.stream import say
from fedslim.cli.console.text import printable

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.data.encoding import EncodedTable

LARGEST = 2**31 - 1
"""The largest count of items or transactions that fits the engine's types."""

WIDTH, MAX_WIDTH, HIGHEST_EFFORT = 8, 64, 8
"""Copied from the engine, so that `--help` need not import it; a test checks that they agree."""


def positive_seconds(value: float | None) -> float | None:
    """Check a number of seconds."""
    if value is not None and not (math.isfinite(value) and value > 0):
        msg = f"{value} is not a positive number of seconds; give one above 0"
        raise typer.BadParameter(msg)
    return value


def whole(low: int, high: int = LARGEST) -> Callable[[int | None], int | None]:
    """Return a check of a whole number. Typer's own check would clutter the help with its bounds."""

    def check(value: int | None) -> int | None:
        if value is not None and not low <= value <= high:
            bounds = f"of at least {low}" if value < low else f"of at most {high}"
            msg = f"{value} is out of range; give a whole number {bounds}"
            raise typer.BadParameter(msg)
        return value

    return check


def listed(value: str | None) -> Any:
    """Split a list at its commas; quotes keep a name with a comma together."""
    return None if value is None else next(csv.reader([value], skipinitialspace=True), [])


class Told(logging.Handler):
    """Says what the readers of data guessed, on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say a record."""
        say(printable(f"fedslim: {record.getMessage()}"))


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
    typer.Option(metavar="F", help="Format of the file, if its extension does not show it: fimi, csv, tsv, parquet."),
]
Bins = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=whole(2),
        help="Number of intervals for a numeric column.  [default: 10]",
        show_default=False,
    ),
]
TransactionColumn = Annotated[
    str | None,
    typer.Option(metavar="C", help="The column of transactions, if each row has a transaction and one of its items."),
]
ItemColumn = Annotated[str | None, typer.Option(metavar="C", help="The column of items, with --transaction-column.")]
Schema = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What the columns mean, the same for all members; see `fedslim schema make`."),
]
Columns = Annotated[
    str | None, typer.Option(metavar="C,C", callback=listed, help="Use these columns only, separated by commas.")
]
Exclude = Annotated[str | None, typer.Option(metavar="C,C", callback=listed, help="Leave out these columns.")]
Categorical = Annotated[
    str | None, typer.Option(metavar="C,C", callback=listed, help="Make an item of each value of these columns.")
]
Numeric = Annotated[
    str | None,
    typer.Option(metavar="C,C", callback=listed, help="Take these columns as numbers, even codes like 0123."),
]
OneHot = Annotated[
    bool | None,
    typer.Option("--one-hot/--no-one-hot", show_default=False, help="Whether the columns are items, of 0 and 1."),
]
Missing = Annotated[
    str | None, typer.Option(metavar="V,V", callback=listed, help="More spellings of a missing value, such as -99.")
]
From = Annotated[
    str | None, typer.Option("--from", metavar="FOLDER", help="A folder with public data sets that you downloaded.")
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", callback=whole(0, 2**63 - 1), help="Random seed for generated data."),
]
MaxTime = Annotated[
    float | None,
    typer.Option(
        metavar="S", callback=positive_seconds, help="Mine for at most S seconds, and keep the best table so far."
    ),
]
MinCount = Annotated[
    int,
    typer.Option(
        metavar="N", callback=whole(1), help="Show no count below N: merge rarer items, and omit rarer itemsets."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Top = Annotated[
    int,
    typer.Option(metavar="N", callback=whole(0), help="Number of itemsets to show, the most useful first; 0 for none."),
]


def chosen(*choices: Any) -> dict[str, Any]:
    """Return the options about columns, in the order of their names below, as `load` takes them."""
    names = ("columns", "exclude", "categorical", "numeric", "one_hot", "missing")
    return dict(zip(names, choices, strict=True))


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the data are, and how to read them."""

    source: str
    format: str | None
    bins: int | None
    transaction_column: str | None
    item_column: str | None
    folder: str | None
    seed: int | None
    schema: Path | None = None
    choices: dict[str, Any] = field(default_factory=dict)

    def table(self) -> "EncodedTable | None":
        """Return the columns of a file with a table, or None."""
        from fedslim.data.readers import read_table
        from fedslim.data.textstream import is_file

        return read_table(self.source, format=self.format) if is_file(Path(self.source)) else None

    def load(self) -> "TransactionDatabase":
        """Load the data, and say what was guessed."""
        from fedslim.data import load
        from fedslim.schema import Schema

        logger, told = logging.getLogger("fedslim.data"), Told()
        if not logging.getLogger("fedslim").level:  # otherwise the log of a server or member says it
            logger.addHandler(told)
        chosen: dict[str, Any] = {} if self.bins is None else {"bins": self.bins}  # the default is that of `load`
        try:
            return load(
                self.source,
                format=self.format,
                transaction_column=self.transaction_column,
                item_column=self.item_column,
                folder=self.folder,
                seed=self.seed,
                schema=None if self.schema is None else Schema.read(self.schema),
                **self.choices,
                **chosen,
            )
        finally:
            logger.removeHandler(told)
