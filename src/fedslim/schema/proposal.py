"""Propose a schema for a table, as a file for people to edit and agree on."""

from __future__ import annotations

import math
from textwrap import wrap
from typing import Any

import numpy as np

from fedslim.data.columns import Column, EncodedTable
from fedslim.data.discretise import DEFAULT_BINS
from fedslim.data.guessing import PAIR, guess_column, guess_long, looks_long
from fedslim.schema.conforming import IN_HEADER
from fedslim.schema.file import Schema, spell_rule
from fedslim.schema.reading import read_column
from fedslim.schema.rules import ColumnRule
from fedslim.toml.values import spell

CAP = 50  # the cap that is proposed for columns with more categories
ABOUT = (
    "What the columns mean, the same for all members. Check every column with the other members: its name, the names "
    "that it has elsewhere (aliases), the unit of numbers and the factors from other units, plausible ranges, and the "
    "spellings of categories (synonyms). Then give everybody the same file; `fedslim schema check` tells each member "
    "whether its data fit. The reference of schema.toml explains every key."
)
_HINTS = {
    "numeric": ('# unit = "…"', '# units = { "…" = 0.1 }', "# range = [0, 100]"),
    "categorical": ('# synonyms = { female = ["f"], male = ["m"] }',),
}
_WIDTH = 118


def propose(table: EncodedTable, *, with_values: bool = False) -> str:
    """Return the text of a schema that fits a table. It has no values of the data, unless asked for."""
    lines = [f"# {line}" for line in wrap(ABOUT, _WIDTH)]
    if (found := guess_long(table.columns)) is not None and len(found) == PAIR:
        transaction, item = (table.names[place] for place in found)
        lines += ["", "[table]", f"transaction = {spell(transaction)}", f"item = {spell(item)}", ""]
        return "\n".join([*lines, *spell_rule(f"columns.{item}", {"kind": "categorical"})]) + "\n"
    if found is not None:
        lines += ["#", "# This is a long table with attributes and values. Give the schema a table with a column"]
        lines += ["# for each attribute, and make it from such a table."]
    elif (pair := looks_long(table.columns)) is not None:
        lines += ["#", "# Each row may have a transaction and one of its items. If so, keep only these lines:"]
        lines += ["# [table]", f"# transaction = {spell(pair[0])}", f"# item = {spell(pair[1])}"]
        lines += [f"# [columns.{spell(pair[1])}]", '# kind = "categorical"']
    flags = all(column.is_flag() for column in table.columns)
    plain = [IN_HEADER.sub(r"\1", column.name).strip().casefold() for column in table.columns]
    for column in table.columns:
        rule, note = _rule(column, flags=flags, with_values=with_values)
        name, hints = column.name, _HINTS.get(rule["kind"], ())
        match = IN_HEADER.fullmatch(name)
        if rule["kind"] == "numeric" and match is not None and plain.count(match[1].casefold()) == 1:
            name, rule["unit"], hints = match[1], match[2], hints[1:]
        lines += ["", *([f"# {note}"] if note else []), *spell_rule(f"columns.{name}", rule), *hints]
    text = "\n".join(lines) + "\n"
    Schema.parse(text.encode(), table.source)
    return text


def _rule(column: Column, *, flags: bool, with_values: bool) -> tuple[dict[str, Any], str]:
    guess = guess_column(column, DEFAULT_BINS)
    if flags or guess.kind == "boolean":
        return {"kind": "boolean"}, ""
    if guess.kind in {"year", "month"}:
        return {"kind": "date", "part": guess.kind}, ""
    if guess.kind == "numeric":
        numbers = read_column(column, ColumnRule("numeric"), ()).numbers
        return {"kind": "numeric", "bins": DEFAULT_BINS} | _resolution(numbers[np.isfinite(numbers)]), guess.note
    if guess.kind == "ignore":
        return {"kind": "ignore"}, guess.note
    labels = read_column(column, ColumnRule("categorical"), ()).labels
    rule: dict[str, Any] = {"kind": "categorical"}
    if len(labels) > CAP:
        rule["cap"] = CAP
    elif with_values and labels:
        spelled = read_column(column, ColumnRule("categorical", fold_case=False), ()).labels
        first = {text.casefold(): text for text in reversed(spelled)}
        rule["categories"] = [first[label] for label in labels]
    return rule, guess.note


def _resolution(numbers: Any) -> dict[str, float]:
    """Return a power of ten that divides the bulk of the values into ten to a hundred parts."""
    low, high = np.quantile(numbers, [0.1, 0.9]).tolist() if len(numbers) else (0.0, 0.0)
    if not (math.isfinite(high - low) and high > low):
        return {}
    return {"resolution": float(f"1e{math.ceil(math.log10((high - low) / 100))}")}
