"""Arguments and options that several commands share, their checks, and groups of commands."""

import csv
import functools
import inspect
import logging
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from fedslim.cli.console.output import Said, print_text
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.data.columns import EncodedTable
    from fedslim.schema import Conformed, Schema as TableSchema

LARGEST = 2**31 - 1  # the largest count of items or transactions that fits the engine's types
TOLD = "fedslim: %(message)s"  # how log records are said by commands that have no log
WIDTH, MAX_WIDTH, HIGHEST_EFFORT = 8, 64, 8
"""Copied from the engine, so that `--help` need not import it; a test checks that they agree."""


Variant = StrEnum("Variant", ["x", "sa", "so"])  # the variants of the protocol; a test checks that the list is complete


Check = Callable[[Any], Any] | None


def option(metavar: str, text: str, check: Check = None, *, name: str = "", default: Any = None, **more: Any) -> Any:
    """Declare an option that takes a value; it must be given if the default is `...`."""
    return typer.Option(default, *([name] if name else []), metavar=metavar, help=text, callback=check, **more)


def flag(name: str, text: str, *short: str, default: bool | None = False) -> Any:
    """Declare an option that takes no value."""
    return typer.Option(default, name, *short, help=text)


def argument(metavar: str, text: str, check: Check = None, *, default: Any = ...) -> Any:
    """Declare an argument; it must be given unless it has a default."""
    return typer.Argument(default, metavar=metavar, help=text, callback=check)


def positive(of: str = "") -> Callable[[float | None], float | None]:
    """Return a check of a number, of seconds for instance."""

    def check(value: float | None) -> float | None:
        if value is not None and not (math.isfinite(value) and value > 0):
            raise typer.BadParameter(f"{value} is not a positive number{of}; give one above 0")
        return value

    return check


def whole(low: int, high: int = LARGEST) -> Callable[[int | None], int | None]:
    """Return a check of a whole number. Typer's own check would clutter the help with its bounds."""

    def check(value: int | None) -> int | None:
        if value is not None and not low <= value <= high:
            bounds = f"of at least {low}" if value < low else f"of at most {high}"
            raise typer.BadParameter(f"{value} is out of range; give a whole number {bounds}")
        return value

    return check


seed = whole(0, 2**63 - 1)


def listed(value: str | None) -> Any:
    """Split a list at its commas; quotes keep a name with a comma together."""
    return None if value is None else next(csv.reader([value], skipinitialspace=True), [])


@contextmanager
def telling() -> Iterator[None]:
    """Say what the readers of data guess."""
    logger, told = logging.getLogger("fedslim.data"), Said(TOLD)
    if not logging.getLogger("fedslim").level:  # otherwise the log of a server or member says it
        logger.addHandler(told)
    try:
        yield
    finally:
        logger.removeHandler(told)


def masked(value: str | None) -> str | None:
    """Hide the password of a database's URL from all but its reader."""
    if value is None or "://" not in value:
        return value
    from fedslim.data.sql import MaskedUrl

    return MaskedUrl(value)


DATA = argument(
    "DATA",
    "A file (FIMI .dat, .csv, .tsv, .jsonl; .gz too; .parquet, .xlsx), a folder of Parquet files, - for "
    "standard input, the URL of a database (postgresql://…, sqlite:///FILE, duckdb:///FILE), or a name from "
    "`fedslim data list`, such as encounters, mushroom or wide-sparse:20000.",
    masked,
)
FROM = option("FOLDER", "A folder with public data sets that you downloaded.", name="--from")
SEED = option("N", "Random seed for generated data.", seed)
MAX_TIME = option("S", "Mine for at most S seconds, and keep the best table so far.", positive(" of seconds"))
EFFORT = functools.partial(
    option,
    "N",
    f"How hard to search, 1 to {HIGHEST_EFFORT}: more takes longer and is never worse.",
    whole(1, HIGHEST_EFFORT),
)
SEARCH_WIDTH = option(
    "N",
    f"Candidates to try in each step, 1 to {MAX_WIDTH}; 1 is SLIM as published.  [default: {WIDTH}]",
    whole(1, MAX_WIDTH),
)
MIN_COUNT = option("N", "Show no count below N: merge rarer items, and omit rarer itemsets.", whole(1), default=1)
VOCABULARY = option("FILE", "The vocabulary that the members agreed on.")
VARIANT = option(
    "x|sa|so", "x: exact. sa, so: as in the paper, with and without secure aggregation.", default=Variant.x
)
FEDERATION = argument("FEDERATION", "The federation file.")
JSON = flag("--json", "Print JSON instead of text.")
QUIET = flag("--quiet", "Show no progress.", "-q")
TOP = functools.partial(option, "N", "Number of itemsets to show, the most useful first; 0 for none.", whole(0))

LABELS = option("FILE", "A catalogue of labels: one in each line, or a CSV file whose second column explains them.")
SECRET = option("FILE", "The members' secret, to name items of which only the id is known.")


def names_from(labels: Path | None, secret: Path | None) -> dict[str, str]:
    """Return how to name items, by label and by id."""
    from fedslim.data.vocabulary import ItemSecret, names_for, read_labels

    shared = None if secret is None else ItemSecret.read(secret)
    return {} if labels is None else names_for(read_labels(labels), shared)


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the data are, and how to read them: the options that `reads_data` gives to a command."""

    source: str
    format: Annotated[
        str | None,
        option("F", "Format of the file, if its extension does not show it: fimi, csv, tsv, parquet, jsonl, excel."),
    ] = None
    bins: Annotated[int | None, option("N", "Number of intervals for a numeric column.  [default: 10]", whole(2))] = (
        None
    )
    transaction_column: Annotated[
        str | None, option("C", "The column of transactions, if each row has a transaction and one of its items.")
    ] = None
    item_column: Annotated[str | None, option("C", "The column of items, with --transaction-column.")] = None
    separator: Annotated[
        str | None, option("C", "Character between the fields of a CSV file, such as ';', or tab.")
    ] = None
    encoding: Annotated[str | None, option("E", "Encoding of a text file, if not UTF-8: latin-1, …")] = None
    query: Annotated[str | None, option("SQL", "Query whose rows to read from a database.")] = None
    table: Annotated[str | None, option("T", "Table to read from a database, or sheet of a workbook.")] = None
    schema: Annotated[
        Path | None, option("FILE", "What the columns mean, the same for all members; see `fedslim schema make`.")
    ] = None
    columns: Annotated[str | None, option("C,C", "Use these columns only, separated by commas.", listed)] = None
    exclude: Annotated[str | None, option("C,C", "Leave out these columns.", listed)] = None
    categorical: Annotated[str | None, option("C,C", "Make an item of each value of these columns.", listed)] = None
    numeric: Annotated[str | None, option("C,C", "Take these columns as numbers, even codes like 0123.", listed)] = None
    one_hot: Annotated[
        bool | None, flag("--one-hot/--no-one-hot", "Whether columns are items with 0 and 1.", default=None)
    ] = None
    missing: Annotated[str | None, option("V,V", "More spellings of a missing value, such as -99.", listed)] = None
    long: Annotated[
        bool | None,
        flag(
            "--long/--no-long",
            "Whether each row has a transaction and one item, or an attribute and its value.",
            default=None,
        ),
    ] = None
    folder: Annotated[str | None, FROM] = None
    seed: int | None = None

    def read_columns(self) -> "EncodedTable | None":
        """Return the columns of a table, or None if the data have none."""
        from fedslim.data.readers import check_is_data, is_source, read_table

        if not is_source(self.source):
            check_is_data(self.source)
            return None
        return read_table(self.source, **self.given(READING_A_TABLE))

    def rows(self) -> "TransactionDatabase | EncodedTable":
        """Return the columns of a table, or the transactions of other data."""
        pair = (self.transaction_column, self.item_column)
        table = self.read_columns() if pair == (None, None) else None
        return self.load() if table is None else table

    def table_for_schema(self) -> "EncodedTable":
        """Return the columns of a table, or say that there are none."""
        if (table := self.read_columns()) is None:
            raise DataError(f"{self.source}: a schema is for tables with columns; name a file such as CSV or Parquet")
        return table

    def conformed(self, schema: "TableSchema") -> "Conformed":
        """Return a table in terms of a schema."""
        from fedslim.schema import conform

        self._check_schema()
        return conform(schema, self.table_for_schema())

    def chosen(self) -> dict[str, Any]:
        """Return what was chosen, as options of `load`."""
        from fedslim import schema as agreed

        self._check_schema()
        given = self.given(self.__slots__[1:])
        return given if self.schema is None else given | {"schema": agreed.Schema.read(self.schema)}

    def given(self, names: Sequence[str]) -> dict[str, Any]:
        """Return those of the options that were given."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _check_schema(self) -> None:
        """Refuse options that a schema replaces: they would look as if they applied."""
        replaced = self.given(("bins", "transaction_column", "item_column", *CHOICES[1:]))
        if self.schema is not None and replaced:
            option = next(iter(replaced)).replace("_", "-")
            raise ParameterError(f"--{option} does not go with --schema, which says that for all members; leave it out")

    def load(self) -> "TransactionDatabase":
        """Load the data, and say what was guessed."""
        from fedslim.data import load

        with telling():
            return load(self.source, **self.chosen())


READING_A_TABLE = ("format", "separator", "encoding", "query", "table")
"""The options of reading the columns of a table, without what makes items of them."""
READING_ROWS = (*READING_A_TABLE, "transaction_column", "item_column", "long", "folder")
"""The options of reading rows where a code table says what makes items of them."""
CHOICES = ("bins", "columns", "exclude", "categorical", "numeric", "one_hot", "missing", "long")


def reads_data(command: Callable[..., None], names: Sequence[str] = ()) -> Callable[..., None]:
    """Give a command with the parameter `data` the options of reading, all or those named, in place of `reading`."""
    own = inspect.signature(command)
    added = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=kind)
        for one in list(inspect.signature(Reading).parameters.values())[1:-1]  # a seed means more in some commands
        if not names or one.name in names
        for kind, declared in [get_args(one.annotation)]
    ]
    parameters = [one for p in own.parameters.values() for one in (added if p.name == "reading" else [p])]

    @functools.wraps(command)
    def run(data: str | None, **given: Any) -> None:
        chosen = {option.name: given.pop(option.name) for option in added}
        command(data=data and str(data), reading=Reading(data or "", **chosen), **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


reads_table = functools.partial(reads_data, names=READING_A_TABLE)
reads_rows = functools.partial(reads_data, names=READING_ROWS)


def print_help(context: typer.Context) -> None:
    """Print the help if no command is given."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


def command_group(text: str, short: str | None = None) -> typer.Typer:
    """Return a group with this help, which it prints if no command is given."""
    group = typer.Typer(help=text, short_help=short, rich_markup_mode=None, add_completion=False)
    group.callback(invoke_without_command=True)(print_help)
    return group


ONLY_SHOWN = {"json", "quiet", "top", "out", "report", "live"}  # options that change the output, but not the result


def typed_command(context: typer.Context) -> str:
    """Return the running command with every option that was given and affects the result."""
    words = context.command_path.split()
    for parameter in context.command.params:
        name = parameter.name or ""
        value = context.params.get(name)
        if name in ONLY_SHOWN or value is None or value == parameter.get_default(context):
            continue
        text = str(value.value if isinstance(value, Enum) else ",".join(value) if isinstance(value, list) else value)
        if parameter.param_type_name == "argument":
            names = map(str, value) if isinstance(value, (list, tuple)) else (text,)
            words += [f"./{one}" if one.startswith("-") and one != "-" else one for one in names]
        else:
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], text]
    return shlex.join(words)
