"""What the server of X asks members to do and to count: parts of `Ask`; and what it asks in a preparation.

An itemset is named as the union of two elements of the table, or by the same number twice if it has been in the table
of this run: its number in the order in which itemsets first entered. So the server cannot ask about others. No message
says how many slots an answer covers: members know it from the table, and the server cannot choose it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from fedslim.mdl.policy import MAX_WIDTH
from fedslim.protocol import wire_types as w
from fedslim.protocol.wire_types import Message, Piece

MAX_REMOVALS = 2 * MAX_WIDTH  # most removals in one want


class DropItems(Message, frozen=True, tag="Drop"):
    """These items are too rare: they count as absent from now on."""

    items: w.Vector


class InsertUnion(Message, frozen=True, tag="Insert"):
    """The union of these two elements enters the table, or an itemset that was in it before."""

    slot: w.Number
    parents: w.Pair
    entry: w.Count


class RestoreElement(Message, frozen=True, tag="Restore"):
    """The element that was removed last returns to its slot."""

    slot: w.Number


class RemoveElement(Message, frozen=True, tag="Remove"):
    """This element leaves the table."""

    slot: w.Number


class MarkTable(Message, frozen=True, tag="Mark"):
    """Remember this table instead of the one remembered before; of a local search."""


class GoBackToMark(Message, frozen=True, tag="Back"):
    """Return to the table that is remembered."""


class EmptyTable(Message, frozen=True, tag="Empty"):
    """All itemsets leave, and slots are numbered as at the start: another search begins, or the end is near."""


class WantSupports(Message, frozen=True):
    """The support of each item, then the number of transactions. Asked only at the start."""


class WantUnionSupport(Message, frozen=True):
    """The support of the union of these two elements; allowed only where the settings need it."""

    parents: w.Pair
    bits: w.Bits


class WantRows(Message, frozen=True):
    """The co-usages of these elements: for each of them a row with a count for every slot, of the given bits."""

    slots: Annotated[list[w.Number], Meta(min_length=1, max_length=w.MAX_PARTS)]
    bits: Annotated[bytes, Meta(min_length=1, max_length=w.MAX_PARTS)]


class WantSparseRow(Message, frozen=True):
    """The co-usages of one element as a sketch, for rows with few entries."""

    slot: w.Number
    cells: w.Number
    seed: w.Count
    wide: bool = False  # whether counts may be too large for cells of one word


class WantEntries(Message, frozen=True):
    """The co-usages of some elements with some others each: only those that can matter.

    Each row has its partners in ascending order; a step is the distance from the one before, seven bits in a byte, the
    lowest first, and the eighth bit is set if more follow. Widths take four bits.
    """

    rows: w.Vector  # slots
    sizes: w.Vector  # how many partners each has
    steps: Annotated[bytes, Meta(max_length=w.MAX_VECTOR)]
    widths: Annotated[bytes, Meta(max_length=w.MAX_VECTOR)]


class NewUnion(Piece, frozen=True):
    """An itemset to try: its slot, the two elements of which it is the union, its usage at entry, whether it enters.

    Or an itemset that was in the table before, with its number twice instead of the two elements.
    """

    slot: w.Number
    parents: w.Pair
    entry: w.Count
    keep: bool


class WantInsertions(Message, frozen=True):
    """What changes if these itemsets enter: one sketch of covers lost (even places) and won (odd), one after the other.

    Those to `keep` enter, each before the next one is tried; then the elements that are `gone` leave, and the wants
    after this one are about that table.
    """

    new: Annotated[list[NewUnion], Meta(min_length=1, max_length=MAX_WIDTH)]
    gone: Annotated[list[w.Number], Meta(max_length=MAX_REMOVALS)]
    cells: w.Number
    seed: w.Count
    wide: bool = False  # whether counts may be too large for cells of one word


class WantRemovals(Message, frozen=True):
    """What changes if each of these elements leaves: one sketch, with the elements one after the other.

    Those that are `gone` leave, each before the next one is tried; none does if `gone` is empty.
    """

    slots: Annotated[list[w.Number], Meta(min_length=1, max_length=MAX_REMOVALS)]
    cells: w.Number
    seed: w.Count
    gone: Annotated[tuple[bool, ...], Meta(max_length=MAX_REMOVALS)] = ()
    wide: bool = False  # whether counts may be too large for cells of one word


class WantFinal(Message, frozen=True):
    """The usage and support of each itemset of the table, which from now on can only shrink.

    With `min_members_with` also whether this member uses each itemset, and which items occur in its data.
    """

    bits: w.Bits


Move = DropItems | InsertUnion | RestoreElement | RemoveElement | MarkTable | GoBackToMark | EmptyTable
Want = (
    WantSupports | WantUnionSupport | WantRows | WantSparseRow | WantEntries | WantInsertions | WantRemovals | WantFinal
)


# -- of a preparation ------------------------------------------------------------------------------------------------


class WantValues(Message, frozen=True):
    """How many values each open column has. Asked first."""


class WantBetween(Message, frozen=True):
    """How many values are in each part of each open interval."""

    bits: w.Bits


class WantCategories(Message, frozen=True):
    """The ids of the categories of each capped column, as a sketch for this many; asked again, it has four times."""

    entries: w.SketchSize


class WantCategoryCounts(Message, frozen=True):
    """How often each of these categories occurs: of each capped column as many ids as `sizes` says, ascending."""

    sizes: w.Vector
    ids: w.Ids
    bits: w.Bits


class WantItems(Message, frozen=True):
    """These of the categories are kept; the ids of all items, as a sketch as for categories."""

    kept: w.Vector
    entries: w.SketchSize


class WantReady(Message, frozen=True):
    """These are the items, in ascending order, and whether several members have each: do you share enough to stay?"""

    ids: w.Ids
    shared: w.Vector


PreparationWant = WantValues | WantBetween | WantCategories | WantCategoryCounts | WantItems | WantReady
