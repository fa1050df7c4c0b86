"""What a schema can say about the table and about a column: the keys of `schema.toml`, with their help texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedslim.data.discretise import DEFAULT_BINS
from fedslim.toml.keys import key, optional_key
from fedslim.toml.values import ascending, finite, one_of, switch, table_of, texts, title, whole

KINDS = ("categorical", "numeric", "boolean", "date", "ignore")
MAX_BINS = 1000
MAX_TEXT = 1000
MAX_CATEGORIES = 1_000_000

_NAMES, _NAME = texts(MAX_TEXT), title(MAX_TEXT)
_OTHER = one_of("other", "error")


@dataclass(frozen=True)
class TableRule:
    """Rules for the whole table."""

    missing: tuple[str, ...] = key(
        _NAMES,
        "Spellings of a missing value in any column, besides the usual ones: an empty cell, ?, NA, N/A, NaN and null.",
        default=(),
    )
    new: str = key(
        _OTHER,
        'What a category becomes if a kept preparation does not have it: "other" or an "error".',
        default="other",
    )
    transaction: str | None = optional_key(
        _NAME,
        "For a long table, with a row for each pair of a transaction and an item: the column of transactions.",
        "visit",
    )
    item: str | None = optional_key(
        _NAME, "For a long table: the column of items. Its values alone name the items.", "code"
    )


@dataclass(frozen=True)
class ColumnRule:
    """A column, by the name that its items have; one such table for each column."""

    kind: str = key(
        one_of(*KINDS),
        "categorical: each category is an item. numeric: intervals are items. boolean: the "
        "column is an item of the rows where it is true. date: years, months or weekdays are items. ignore: no items.",
    )
    aliases: tuple[str, ...] = key(_NAMES, "Other names of the column at a member. Case does not matter.", default=())
    optional: bool = key(switch, "Whether a member's table may lack the column.", default=False)
    missing: tuple[str, ...] = key(_NAMES, "Spellings of a missing value in this column, such as -99.", default=())
    categories: tuple[str, ...] = key(
        texts(MAX_CATEGORIES),
        "The categories. Any other value becomes what `unknown` says. Without a list, every value is a category.",
        default=(),
    )
    unknown: str = key(_OTHER, 'What a value outside `categories` becomes: "other" or an "error".', default="error")
    synonyms: Mapping[str, tuple[str, ...]] | None = optional_key(
        table_of(_NAMES),
        "Other spellings of a category, or of true and false in a boolean column.",
        {"female": ["f", "w"]},
    )
    fold_case: bool = key(
        switch,
        "Whether to ignore the case of categories. They become lower case, unless "
        "`categories` or `synonyms` spells them.",
        default=True,
    )
    cap: int | None = optional_key(
        whole(1, MAX_CATEGORIES),
        'Keep at most this many categories, the most frequent over all members; the rest becomes "other".',
        20,
    )
    unit: str | None = optional_key(_NAME, "The unit of a numeric column.", "g/dL")
    units: Mapping[str, float] | None = optional_key(
        table_of(finite(above=0)),
        "Other units that a member may have, with the "
        'factor to the unit of the schema. A member names its unit in the header, as in "hb (g/L)", or by '
        "`alias_units`.",
        {"g/L": 0.1},
    )
    alias_units: Mapping[str, str] | None = optional_key(
        table_of(_NAME), "The units of columns that are found by an alias.", {"hb_g_per_l": "g/L"}
    )
    bins: int = key(
        whole(2, MAX_BINS),
        "The number of intervals of a numeric column, cut where the rows of all members are divided evenly.",
        default=DEFAULT_BINS,
    )
    cuts: tuple[float, ...] = key(
        ascending(1, MAX_BINS), "Fixed cuts, instead of `bins`. A value equal to a cut is above it.", default=()
    )
    resolution: float | None = optional_key(
        finite(above=0),
        "Cuts are rounded to multiples of this number. Without it, a cut is the exact value of some row.",
        0.1,
    )
    range: tuple[float, ...] | None = optional_key(
        ascending(2, 2),
        "The plausible values. Values outside are reported; if the median is outside, the table does not fit.",
        [3, 25],
    )
    decimal: str | None = optional_key(
        one_of(".", ","), "The decimal mark of numbers in text; by default the one that fits all values.", ","
    )
    date_format: str | None = optional_key(
        _NAME,
        "How dates are written, if not as 2026-03-31, 31.03.2026 or 2026/03/31; with the codes of strftime.",
        "%m/%d/%Y",
    )
    part: str = key(
        one_of("year", "month", "weekday"),
        'What to keep of a date: "year", "month" (of a year) or "weekday".',
        default="year",
    )

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return the names that the column may have at a member."""
        return (name, *self.aliases, *(self.alias_units or ()))


ONLY_FOR = {
    **dict.fromkeys(("categories", "unknown", "cap", "fold_case"), ("categorical",)),
    "synonyms": ("categorical", "boolean"),
    **dict.fromkeys(("unit", "units", "alias_units", "bins", "cuts", "resolution", "range", "decimal"), ("numeric",)),
    **dict.fromkeys(("date_format", "part"), ("date",)),
}
SECTIONS = {"table": TableRule, "columns.NAME": ColumnRule}
