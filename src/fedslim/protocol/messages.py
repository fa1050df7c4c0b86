"""Everything that server and members say to each other. What is not here cannot be sent.

Itemsets travel as item numbers of the agreed vocabulary, whose ids are keyed hashes; vectors as raw little-endian
buffers with their length and width beside them. Every size is bounded in its type (`wire_types.py`).
Who may say what, and when, is in `state.py`; what a variant's numbers mean is in the variant's file.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from fedslim.protocol.wire_types import (
    MAX_ITEMS,
    MAX_MEMBERS,
    MAX_PARTS,
    MAX_SLOTS,
    Attempt,
    Bits,
    Certificate,
    Count,
    Ids,
    Item,
    Key,
    Limit,
    Name,
    Number,
    Pair,
    Pairs,
    Piece,
    RoundNumber,
    Signature,
    Text,
)
from fedslim.protocol.wire_types import Message as Message  # noqa: PLC0414  # `m.Message`
from fedslim.protocol.wire_types import Vector as Vector  # noqa: PLC0414  # `m.Vector`

PROTOCOL = 4
"""Raised whenever an old peer would misunderstand a new one."""

ROUNDS_TO_FINISH = 16
"""Questions that a server may ask beyond `max_rounds`, to finish what it has begun."""


# -- coming together, and parting -----------------------------------------------------------------------------------


class Settings(Piece, frozen=True):
    """What a run is to be. The server announces it; a member takes part only if its own file says the same."""

    variant: Annotated[str, Meta(max_length=20)]
    masked: bool
    max_transactions: Annotated[int, Meta(ge=1, le=1 << 48)]
    """All members together have no more: the proven bound of every sum until better ones are known."""
    share_vocabulary: bool = False
    max_rounds: Limit | None = None
    pruning: bool = True
    order: Annotated[str, Meta(max_length=20)] = "usage"
    max_itemset_size: Limit | None = None
    min_support: Limit = 1
    min_count: Limit = 1
    """Nothing smaller is published."""
    min_members_with: Limit = 1
    """So many members must have an itemset for it to be published."""


class Join(Message, frozen=True):
    """Member: here I am, with my key for this run, and the ids of the items I know or the digest of what was agreed.

    Whoever comes back after a fault says which run it was in, and how many of its rounds are behind it.
    """

    protocol: Annotated[int, Meta(ge=0, le=1 << 16)]
    software: Annotated[str, Meta(max_length=40, pattern=r"^[A-Za-z0-9.+-]*\Z")]
    key: Key
    fingerprint: Annotated[bytes, Meta(max_length=16)]  # of the secret that ids are made with
    digest: Annotated[bytes, Meta(max_length=64)]  # of the agreed vocabulary; empty: there is none
    ids: Ids  # empty if there is an agreed vocabulary and the server knows how long it is
    items: Annotated[int, Meta(ge=0, le=MAX_ITEMS)]  # how many there are
    labels: Annotated[list[Text], Meta(max_length=MAX_ITEMS)]  # only where the vocabulary is shared with the server
    certificate: Certificate  # where there is an authority to make one
    signature: Signature  # of the key
    run: Annotated[bytes, Meta(max_length=16)]  # empty for whoever comes for the first time
    epoch: Attempt  # that of the next roster, at least: no secret comes twice
    position: RoundNumber  # the round that comes next


class Roster(Message, frozen=True):
    """Server: these are the members, their keys, the vocabulary, and what the run is to be."""

    run: Annotated[bytes, Meta(min_length=16, max_length=16)]
    settings: Settings
    members: Annotated[list[Name], Meta(min_length=1, max_length=MAX_MEMBERS)]
    keys: Annotated[list[Key], Meta(max_length=MAX_MEMBERS)]
    ids: Ids  # the union of what members know, in ascending order; empty if a vocabulary was agreed on
    epoch: Attempt
    certificates: Annotated[list[Certificate], Meta(max_length=MAX_MEMBERS)]
    next_round: RoundNumber  # with which the run goes on: whoever is further goes back to it


class Seat(Piece, frozen=True):
    """A member's place in the roster, its key and certificate."""

    place: Annotated[int, Meta(ge=0, lt=MAX_MEMBERS)]
    key: Key
    certificate: Certificate


class RosterUpdate(Message, frozen=True):
    """Server, to those who have the roster: members came back with new keys, and a new epoch begins.

    Everybody derives new secrets then, and confirms the roster anew.
    """

    epoch: Attempt
    seats: Annotated[list[Seat], Meta(max_length=MAX_MEMBERS)]
    next_round: RoundNumber


class Confirm(Message, frozen=True):
    """Member: I agree to the roster of this epoch. The signature is of all that I was shown."""

    epoch: Attempt
    signature: Signature


class Confirmed(Message, frozen=True):
    """Server: this is what every member signed, in the order of the roster; check that all saw what you saw."""

    epoch: Attempt
    signatures: Annotated[list[Signature], Meta(max_length=MAX_MEMBERS)]


class PackedElement(Piece, frozen=True):
    """An element of the table found."""

    items: Annotated[list[Item], Meta(min_length=1, max_length=MAX_ITEMS)]
    usage: Count
    support: Count
    entry: Count


class PackedTable(Piece, frozen=True):
    """A code table: itemsets in cover order, and for each item its usage and support."""

    itemsets: Annotated[list[PackedElement], Meta(max_length=MAX_SLOTS)]
    usages: Vector
    supports: Vector
    transactions: Count
    min_count: Limit
    other: Count  # occurrences of items that are too rare to be shown


class Finish(Message, frozen=True):
    """Server: that was it. The table only where the variant lets members know it."""

    ending: Annotated[str, Meta(max_length=40)]
    table: PackedTable | None


class Heard(Message, frozen=True):
    """Member: I was told the end and have written it down; nobody has to tell me again."""


class Abort(Message, frozen=True):
    """Either: I cannot go on, and why."""

    reason: Text


# -- X: the same table everywhere, sums only ------------------------------------------------------------------------


# An itemset is named as the union of two elements of the table, so nothing else can be asked about. How many slots an
# answer covers is not said: members know that from the table, and nobody can make it depend on what they have in it.


class DropItems(Message, frozen=True, tag="Drop"):
    """These items are too rare to be part of anything: they count as absent from now on."""

    items: Vector


class InsertUnion(Message, frozen=True, tag="Insert"):
    """The union of these two elements is in the table from now on."""

    slot: Number
    parents: Pair
    entry: Count


class RestoreElement(Message, frozen=True, tag="Restore"):
    """The element that was removed last is back in its slot."""

    slot: Number


class RemoveElement(Message, frozen=True, tag="Remove"):
    """This element is no longer in the table."""

    slot: Number


class WantSupports(Message, frozen=True):
    """How often each item occurs, and after them the number of transactions. Only to begin with."""


class WantUnionSupport(Message, frozen=True):
    """In how many transactions the union of these two elements occurs, where the settings make that matter."""

    parents: Pair
    bits: Bits


class WantRows(Message, frozen=True):
    """How often each element is used together with these: for each of these a count of so many bits for every slot."""

    slots: Annotated[list[Number], Meta(min_length=1, max_length=MAX_PARTS)]
    bits: Annotated[bytes, Meta(min_length=1, max_length=MAX_PARTS)]


class WantSparseRow(Message, frozen=True):
    """The same for one element as a sketch, for rows with few entries."""

    slot: Number
    cells: Number
    seed: Count


class WantInsertion(Message, frozen=True):
    """What changes if the union of two elements enters: a sketch of what is lost (even places) and won (odd) by slot.

    With `keep` it enters at once, and all that is asked for after it is about the table with it.
    """

    slot: Number
    parents: Pair
    entry: Count
    cells: Number
    seed: Count
    keep: bool


class WantRemovals(Message, frozen=True):
    """What changes if each of these elements alone leaves: one sketch, the elements after each other."""

    slots: Annotated[list[Number], Meta(min_length=1, max_length=64)]
    cells: Number
    seed: Count


class WantFinal(Message, frozen=True):
    """Of each itemset of the table, which can only shrink from now on: usage, support, and whether it is used here.

    The last only where the settings say how many members must have an itemset; then also which items occur here.
    """

    bits: Bits


Move = DropItems | InsertUnion | RestoreElement | RemoveElement
Want = WantSupports | WantUnionSupport | WantRows | WantSparseRow | WantInsertion | WantRemovals | WantFinal


class Ask(Message, frozen=True):
    """Server: make these moves, then answer these questions."""

    round: RoundNumber
    attempt: Attempt
    moves: Annotated[list[Move], Meta(max_length=MAX_PARTS)]
    wants: Annotated[list[Want], Meta(min_length=1, max_length=MAX_PARTS)]


class Masked(Message, frozen=True):
    """Member: the answers to all questions, masked: words modulo 2^64."""

    round: RoundNumber
    attempt: Attempt
    words: Vector


# -- SA and SO: a table for each member -----------------------------------------------------------------------------


class Accept(Piece, frozen=True):
    """The union of the elements of each of these pairs is in the table from now on, of all who use one of them."""

    pairs: Pairs


class AskUsages(Message, frozen=True):
    """Server, SO: how often does each of your items occur?"""

    round: RoundNumber


class Usages(Message, frozen=True):
    """Member, SO: for each item of the vocabulary, and after them the number of transactions."""

    round: RoundNumber
    counts: Vector


class AskCandidates(Message, frozen=True):
    """Server, SO: which pairs of your elements are used together, and how often? What changed since the last answer."""

    round: RoundNumber
    accepted: Accept | None


class Candidates(Message, frozen=True):
    """Member, SO: pairs of elements and how often they are used together now, 0 for those that no longer are."""

    round: RoundNumber
    x: Vector
    y: Vector
    counts: Vector


class Evaluate(Message, frozen=True):
    """Server, SO: what would change if the union of these pairs entered your table?"""

    round: RoundNumber
    pairs: Pairs


class Evaluated(Message, frozen=True):
    """Member, SO: for each element that changes, how many covers lose it and how many win it."""

    round: RoundNumber
    slots: Vector
    lost: Vector
    won: Vector


class AskSupports(Message, frozen=True):
    """Server, SO: in how many of your transactions does each itemset of your own table occur?"""

    round: RoundNumber
    accepted: Accept | None


class SupportCounts(Message, frozen=True, tag="Supports"):
    """Member, SO: the itemsets of its table, by slot, and their supports."""

    round: RoundNumber
    slots: Vector
    counts: Vector


class AskIndexedUsages(Message, frozen=True):
    """Server, SA: the usages of all items, and the number of transactions, masked."""

    round: RoundNumber
    attempt: Attempt


class Entered(Piece, frozen=True):
    """An accepted itemset: its number in the global index, the pairs it is the union of, its usage at entry."""

    number: Number
    pairs: Pairs
    entry: Count


class AskStructure(Message, frozen=True):
    """Server, SA, round 1: the index loses pairs; which candidates of yours does it lack? No counts."""

    round: RoundNumber
    entered: Entered | None
    gone: Vector  # places in the index


class Structure(Message, frozen=True):
    """Member, SA: pairs of numbers of the global index."""

    round: RoundNumber
    x: Vector
    y: Vector


class AskIndexed(Message, frozen=True):
    """Server, SA, round 2: the index gets these pairs; now the counts of some of its pairs, masked.

    First those of the new pairs, then those of all pairs with one of the elements, in the order of the index.
    """

    round: RoundNumber
    attempt: Attempt
    x: Vector
    y: Vector
    elements: Vector
    bits: Bits


class AskEvaluation(Message, frozen=True):
    """Server, SA: what if this itemset entered? Lost, then won, for all numbers that are given out, masked."""

    round: RoundNumber
    attempt: Attempt
    candidate: Entered
    bits: Bits


class AskIndexedSupports(Message, frozen=True):
    """Server, SA: in how many transactions does each of these itemsets of the index occur? Masked."""

    round: RoundNumber
    attempt: Attempt
    entered: Entered | None
    numbers: Vector
    bits: Bits


FromMember = Join | Confirm | Masked | Usages | Candidates | Evaluated | SupportCounts | Structure | Heard | Abort
FromServer = (
    Roster
    | RosterUpdate
    | Confirmed
    | Ask
    | AskUsages
    | AskCandidates
    | Evaluate
    | AskSupports
    | AskIndexedUsages
    | AskStructure
    | AskIndexed
    | AskEvaluation
    | AskIndexedSupports
    | Finish
    | Abort
)
