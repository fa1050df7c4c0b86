"""Arguments and options that several commands share, and their checks."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
import csv
import functools
import inspect
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console.stream import say
from fedslim.cli.console.text import printable
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.data.encoding import EncodedTable
    from fedslim.schema import Conformed
    from fedslim.schema import Schema as TableSchema

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


def masked(value: str | None) -> str | None:
    """Hide the password of a database's URL from all but its reader."""
    if value is None or "://" not in value:
        return value
    from fedslim.data.sql import MaskedUrl

    return MaskedUrl(value)


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        callback=masked,
        help="A file (FIMI .dat, .csv, .tsv, .jsonl; .gz too; .parquet, .xlsx), a folder of Parquet files, - for "
        "standard input, the URL of a database (postgresql://…, sqlite:///FILE, duckdb:///FILE), or a name from "
        "`fedslim data list`, such as encounters, mushroom or wide-sparse:20000.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="F",
        help="Format of the file, if its extension does not show it: fimi, csv, tsv, parquet, jsonl, excel.",
    ),
]
Separator = Annotated[
    str | None, typer.Option(metavar="C", help="Character between the fields of a CSV file, such as ';', or tab.")
]
Encoding = Annotated[str | None, typer.Option(metavar="E", help="Encoding of a text file, if not UTF-8: latin-1, …")]
Query = Annotated[str | None, typer.Option(metavar="SQL", help="Query whose rows to read from a database.")]
Table = Annotated[str | None, typer.Option(metavar="T", help="Table to read from a database, or sheet of a workbook.")]
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


Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A catalogue: a CSV file of labels, each with an explaining text if you like, or a list."
    ),
]
Secret = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The members' secret, to name items of which only the id is known.")
]


def names_from(labels: Path | None, secret: Path | None) -> dict[str, str]:
    """Return how to name items, by label and by id."""
    from fedslim.data.vocabulary import ItemSecret, names_for, read_labels

    shared = None if secret is None else ItemSecret.read(secret)
    return {} if labels is None else names_for(read_labels(labels), shared)


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the data are, and how to read them: the options that `reads_data` gives to a command."""

    source: str
    format: Format = None
    bins: Bins = None
    transaction_column: TransactionColumn = None
    item_column: ItemColumn = None
    separator: Separator = None
    encoding: Encoding = None
    query: Query = None
    table: Table = None
    schema: Schema = None
    columns: Columns = None
    exclude: Exclude = None
    categorical: Categorical = None
    numeric: Numeric = None
    one_hot: OneHot = None
    missing: Missing = None
    folder: From = None
    seed: int | None = None

    def read_columns(self) -> "EncodedTable | None":
        """Return the columns of a table, or None if the data have none."""
        from fedslim.data.loading import check_is_data
        from fedslim.data.readers import is_source, read_table

        if not is_source(self.source):
            check_is_data(self.source)
            return None
        names = ("format", "separator", "encoding", "query", "table")
        return read_table(self.source, **{name: getattr(self, name) for name in names})

    def conformed(self, schema: "TableSchema") -> "Conformed":
        """Return a table in terms of a schema."""
        from fedslim.schema import conform

        self._check_schema()
        table = self.read_columns()
        if table is None:
            msg = f"{self.source}: a schema is for tables with columns; name a file such as CSV or Parquet"
            raise DataError(msg)
        return conform(schema, table)

    def chosen(self) -> dict[str, Any]:
        """Return what was chosen, as options of `load`."""
        from fedslim import schema as agreed

        self._check_schema()
        given: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__[1:]}
        given["schema"] = None if self.schema is None else agreed.Schema.read(self.schema)
        return {name: value for name, value in given.items() if value is not None}

    def _check_schema(self) -> None:
        """Refuse options that a schema replaces: they would look as if they applied."""
        said = ("bins", "transaction_column", "item_column", "columns", "exclude", "categorical", "numeric")
        given = [name for name in (*said, "one_hot", "missing") if getattr(self, name) is not None]
        if self.schema is not None and given:
            option = given[0].replace("_", "-")
            msg = f"--{option} does not go with --schema, which says that for all members; leave it out"
            raise ParameterError(msg)

    def load(self) -> "TransactionDatabase":
        """Load the data, and say what was guessed."""
        from fedslim.data import load

        logger, told = logging.getLogger("fedslim.data"), Told()
        if not logging.getLogger("fedslim").level:  # otherwise the log of a server or member says it
            logger.addHandler(told)
        try:
            return load(self.source, **self.chosen())
        finally:
            logger.removeHandler(told)


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command with the parameters `data` and `reading` all options of reading, in place of `reading`."""
    own = inspect.signature(command)
    added = list(inspect.signature(Reading).parameters.values())[1:-1]  # a seed means more in some commands
    added = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in added]
    parameters = [one for p in own.parameters.values() for one in (added if p.name == "reading" else [p])]

    @functools.wraps(command)
    def run(data: str | None, **given: Any) -> None:
        chosen = {option.name: given.pop(option.name) for option in added}
        command(data=data and str(data), reading=Reading(data or "", **chosen), **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
