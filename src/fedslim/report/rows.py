"""The rows of the data that a code table describes worst, each with an explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedslim.data import TransactionDatabase

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable
    from fedslim.mdl.mining import RowsElsewhere
    from fedslim.uses.explaining import Explanation, Missed
    from fedslim.uses.scoring import Scores

MAX_EXPLAINED = 1_000  # maximum rows in a report


class RowsView(msgspec.Struct, frozen=True):
    """Rows, the most unusual first, one list per quantity; see `fedslim.uses.Explanation`.

    Items are indices into the vocabulary, except those that the table does not know. `cover` has the items and bits of
    each itemset and then of each item that had to be spelled. `missed` has itemsets, the item that is missing, the one
    that it would replace, if any, and the bits saved; `unlikely` has pairs of parts, how often they meet, and the bits.
    """

    total: int
    number: list[int]  # counted from 1
    bits: list[float]
    beyond: list[float]
    cover: list[list[tuple[list[int], float]]]
    unknown: list[list[tuple[str, float]]]
    missed: list[list[tuple[list[int], int, int | None, float]]]
    unlikely: list[list[tuple[list[int], list[int], int, float]]]


def unusual_rows(table: CodeTable, data: TransactionDatabase | RowsElsewhere) -> RowsView:
    """Return the most unusual rows of data, at most `MAX_EXPLAINED`; rows elsewhere are looked at where they are."""
    from fedslim.uses import explaining, scoring  # noqa: PLC0415  # loads the kernels

    if isinstance(data, TransactionDatabase):
        ranking = scoring.score_chunks(table, [data]).ranking[:MAX_EXPLAINED]
        found = explaining.explain_rows(table, data, (ranking + 1).tolist())
    else:
        found = _explained_elsewhere(table, data)
    place = {label: number for number, label in enumerate(table.vocabulary)}

    def places(labels: tuple[str, ...]) -> list[int]:
        return [place[label] for label in labels]

    def missed(one: Missed) -> tuple[list[int], int, int | None, float]:
        instead = None if one.instead is None else place[one.instead]
        return places(one.items), place[one.item], instead, round(one.bits_fewer, 2)

    return RowsView(
        len(data) if isinstance(data, TransactionDatabase) else data.transactions,
        [row.row for row in found],
        [round(row.bits, 2) for row in found],
        [round(row.beyond, 2) for row in found],
        [[(places(part.items), round(part.bits, 2)) for part in (*row.cover, *row.spelled)] for row in found],
        [[(part.items[0], round(part.bits, 2)) for part in row.unknown] for row in found],
        [list(map(missed, row.missed)) for row in found],
        [
            [(places(one.first), places(one.second), one.together, round(one.bits, 2)) for one in row.unlikely]
            for row in found
        ],
    )


# -- rows elsewhere: only three numbers of each come here, and the most unusual ones themselves ------------------------


def _explained_elsewhere(table: CodeTable, data: RowsElsewhere) -> list[Explanation]:
    from fedslim.uses import explaining, scoring  # noqa: PLC0415

    on_rows = data.on_rows
    assert on_rows is not None  # noqa: S101  # an engine has it
    numbers, scored = zip(*on_rows(_score, table), strict=True)
    order = np.argsort(np.concatenate(numbers))
    columns = [(one.bits, one.items_bits, one.lengths) for one in scored]
    scores = scoring.Scores(*(np.concatenate(column)[order] for column in zip(*columns, strict=True)))
    ranking = scores.ranking[:MAX_EXPLAINED]
    places, taken = zip(*on_rows(_take, ranking), strict=True)
    in_order = TransactionDatabase.joined(taken).take(np.argsort(np.concatenate(places)))
    rows = (ranking + 1).tolist()
    return explaining.explain_taken(table, in_order, rows, scores, lambda chosen: sum(on_rows(_count, table, chosen)))


def _score(
    database: TransactionDatabase, numbers: NDArray[np.int64], table: CodeTable
) -> tuple[NDArray[np.int64], Scores]:
    from fedslim.uses import scoring  # noqa: PLC0415

    return numbers, scoring.score_chunks(table, [database])


def _take(
    database: TransactionDatabase, numbers: NDArray[np.int64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.int64], TransactionDatabase]:
    """Return the rows here that are wanted, and their places among those."""
    place = {number: k for k, number in enumerate(wanted.tolist())}
    here = np.flatnonzero(np.isin(numbers, wanted))
    return np.array([place[number] for number in numbers[here].tolist()], np.int64), database.take(here)


def _count(database: TransactionDatabase, _: NDArray[np.int64], table: CodeTable, chosen: list[int]) -> Any:
    from fedslim.uses import explaining  # noqa: PLC0415

    return explaining.count_together(table, database, chosen)
