"""All messages between server and members. What is not here cannot be sent.

Itemsets are sent as item numbers of the agreed vocabulary, whose ids are keyed hashes; vectors as raw little-endian
buffers with their length and width. Every size is bounded in its type (`wire_types.py`).
`state.py` defines who may send what, and when; the file of a variant defines what its numbers mean.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from fedslim.mdl.policy import HIGHEST_EFFORT, MAX_WIDTH, WIDTH
from fedslim.protocol import wire_types as w
from fedslim.protocol.wants import *  # noqa: F403  # `m.WantRows` …
from fedslim.protocol.wants import Move, PreparationWant, Want  # msgspec needs them
from fedslim.protocol.wire_types import (
    Message as Message,  # noqa: PLC0414  # `m.Message`
    Piece,
    Vector as Vector,  # noqa: PLC0414  # `m.Vector`
    refused as refused,  # noqa: PLC0414  # `m.refused`
)

PROTOCOL = 9  # the protocol version, raised whenever an old peer would misunderstand a new one

ROUNDS_TO_FINISH = 16  # questions that a server may ask beyond `max_rounds`, to finish the search


Sealed = Annotated[bytes, Meta(max_length=w.MAX_SEALED)]


class InRound(Message, frozen=True):
    """A question of a round, or the answer to it."""

    round: w.RoundNumber


class InAttempt(InRound, frozen=True):
    """A question or answer of one attempt at a round: its answer is masked or sealed, anew in each attempt."""

    attempt: w.Attempt


# -- start and end of a run -----------------------------------------------------------------------------------------


class Settings(Piece, frozen=True):
    """The settings of a run. The server announces them; a member takes part only if its own file has the same."""

    variant: Annotated[str, Meta(max_length=20)]
    masked: bool
    max_transactions: Annotated[int, Meta(ge=1, le=1 << 48)]
    """The most that all members may have together: the bound of every sum until a better one is known."""
    share_labels: Literal["none", "members", "server"] = "none"
    """Who may learn the labels of items that are published: the other members, or the server as well."""
    max_rounds: w.Limit | None = None
    pruning: bool = True
    order: Annotated[str, Meta(max_length=20)] = "usage"
    max_itemset_size: w.Limit | None = None
    min_support: w.Limit = 1
    min_count: w.Limit = 1  # the smallest count that may be published
    min_members_with: w.Limit = 1  # how many members must have an itemset for it to be published
    width: Annotated[int, Meta(ge=1, le=MAX_WIDTH)] = WIDTH
    """How many candidates each step of the search tries; of x only."""
    effort: Annotated[int, Meta(ge=1, le=HIGHEST_EFFORT)] = 1  # how hard the search looks; of x only
    seed: Annotated[int, Meta(ge=0, le=w.MAX_SEED)] = 0  # the seed of the local search, from effort 3 on
    schema: w.Digest = b""  # the digest of the schema, if the members agreed on one
    outline: w.Text = ""  # what the server has to know of the schema: see `preparation.py`
    preparation: w.Digest = b""  # the digest of the preparation that a search starts from


class Join(Message, frozen=True):
    """Member: I join, with my key for this run, and the ids of my items or the digest of the agreed vocabulary.

    A member that comes back after a fault names its run, and the round that comes next.
    """

    protocol: Annotated[int, Meta(ge=0, le=1 << 16)]
    software: Annotated[str, Meta(max_length=40, pattern=r"^[A-Za-z0-9.+-]*\Z")]
    key: w.Key
    fingerprint: Annotated[bytes, Meta(max_length=16)]  # of the members' secret
    digest: Annotated[bytes, Meta(max_length=64)]  # of the agreed vocabulary; empty if there is none
    ids: w.Ids  # empty with an agreed vocabulary, unless labels are sent
    items: Annotated[int, Meta(ge=0, le=w.MAX_ITEMS)]  # the number of items
    labels: Annotated[list[w.Text], Meta(max_length=w.MAX_ITEMS)]  # only if labels are shared with the server
    certificate: w.Certificate  # empty without a CA
    signature: w.Signature  # of the key
    run: Annotated[bytes, Meta(max_length=16)]  # empty for a member that joins for the first time
    epoch: w.Attempt  # lower bound for the epoch of the next roster: no secret is used twice
    position: w.RoundNumber  # the round that comes next


class Roster(Message, frozen=True):
    """Server: these are the members, their keys, the vocabulary and the settings."""

    run: Annotated[bytes, Meta(min_length=16, max_length=16)]
    settings: Settings
    members: Annotated[list[w.Name], Meta(min_length=1, max_length=w.MAX_MEMBERS)]
    keys: Annotated[list[w.Key], Meta(max_length=w.MAX_MEMBERS)]
    ids: w.Ids  # the union of the members' ids, in ascending order; empty with an agreed vocabulary
    epoch: w.Attempt
    certificates: Annotated[list[w.Certificate], Meta(max_length=w.MAX_MEMBERS)]
    next_round: w.RoundNumber  # where the run continues: members that are further go back to it


class Seat(Piece, frozen=True):
    """A member's place in the roster, its key and certificate."""

    place: Annotated[int, Meta(ge=0, lt=w.MAX_MEMBERS)]
    key: w.Key
    certificate: w.Certificate


class RosterUpdate(Message, frozen=True):
    """Server, to members that have the roster: some came back with new keys, and a new epoch begins.

    All members then confirm the new roster and derive new secrets.
    """

    epoch: w.Attempt
    seats: Annotated[list[Seat], Meta(max_length=w.MAX_MEMBERS)]
    next_round: w.RoundNumber


class Confirm(Message, frozen=True):
    """Member: I agree to the roster of this epoch; the signature covers everything in it."""

    epoch: w.Attempt
    signature: w.Signature


class Confirmed(Message, frozen=True):
    """Server: the signatures of all members, in roster order; check that all signed the roster that you signed."""

    epoch: w.Attempt
    signatures: Annotated[list[w.Signature], Meta(max_length=w.MAX_MEMBERS)]


class PackedElement(Piece, frozen=True):
    """An itemset of the code table found."""

    items: Annotated[list[w.Item], Meta(min_length=1, max_length=w.MAX_ITEMS)]
    usage: w.Count
    support: w.Count
    entry: w.Count


class PackedTable(Piece, frozen=True):
    """A code table: itemsets in cover order, and for each item its usage and support."""

    itemsets: Annotated[list[PackedElement], Meta(max_length=w.MAX_SLOTS)]
    usages: Vector
    supports: Vector
    transactions: w.Count
    min_count: w.Limit
    other: w.Count  # occurrences of items that are too rare to be published


class Departure(Piece, frozen=True):
    """A member that leaves after a preparation, with its signature: see `preparation.py`."""

    name: w.Name
    signature: w.Signature


class AskLabels(InAttempt, frozen=True):
    """Server: this table will be published; which of its items can you name? Sealed for the other members."""

    table: PackedTable


class Labels(InAttempt, frozen=True):
    """Member: the labels of those of its items that the table has, as `sealing.py` seals them."""

    sealed: Sealed


class Finish(Message, frozen=True):
    """Server: the run is over. It has the table if the variant lets members know it, or who left in a preparation."""

    ending: Annotated[str, Meta(max_length=40)]
    table: PackedTable | None
    labels: Annotated[tuple[Sealed, ...], Meta(max_length=w.MAX_MEMBERS)]  # in roster order, if members share them
    left: Annotated[list[Departure], Meta(max_length=w.MAX_MEMBERS)]


class Heard(Message, frozen=True):
    """Member: I have received the end of the run and written it down."""


class Abort(Message, frozen=True):
    """Server or member: I cannot continue, for this reason."""

    reason: w.Text


# -- X: the same table everywhere, sums only ------------------------------------------------------------------------


class Ask(InAttempt, frozen=True):
    """Server: make these moves, then answer these questions."""

    moves: Annotated[list[Move], Meta(max_length=w.MAX_MOVES)]
    wants: Annotated[list[Want], Meta(min_length=1, max_length=w.MAX_PARTS)]


class Masked(InAttempt, frozen=True):
    """Member: the answers to all questions, masked: words modulo 2^64."""

    words: Vector


# -- preparation: cuts and vocabulary from everybody's rows, sums only ------------------------------------------------


class AskPreparation(InAttempt, frozen=True):
    """Server: these parts of the open intervals have the order statistics; then answer this question.

    At first, `chosen` says how many order statistics each column needs. No message can name another threshold.
    """

    chosen: Vector
    want: PreparationWant


class Ready(InRound, frozen=True):
    """Member: I stay, or I leave because I share too little with the others; only that is signed."""

    leaves: bool
    signature: w.Signature


# -- SA and SO: a table for each member -----------------------------------------------------------------------------


class Accept(Piece, frozen=True):
    """The union of each of these pairs of elements enters the table of every member that uses such a pair."""

    pairs: w.Pairs


class AskUsages(InRound, frozen=True):
    """Server, SO: what is the support of each item?"""


class Usages(InRound, frozen=True):
    """Member, SO: the support of each item of the vocabulary, then the number of transactions."""

    counts: Vector


class AskCandidates(InRound, frozen=True):
    """Server, SO: which co-usages of your elements have changed since your last answer?"""

    accepted: Accept | None


class Candidates(InRound, frozen=True):
    """Member, SO: pairs of elements and their co-usages, 0 for pairs that are no longer used together."""

    x: Vector
    y: Vector
    counts: Vector


class Evaluate(InRound, frozen=True):
    """Server, SO: what would change if the itemset that is the union of these pairs entered your table?"""

    pairs: w.Pairs


class Evaluated(InRound, frozen=True):
    """Member, SO: for each element that changes, how many covers lose it and how many win it."""

    slots: Vector
    lost: Vector
    won: Vector


class AskSupports(InRound, frozen=True):
    """Server, SO: what is the support of each itemset of your own table?"""

    accepted: Accept | None


class SupportCounts(InRound, frozen=True, tag="Supports"):
    """Member, SO: the itemsets of its table, by slot, and their supports."""

    slots: Vector
    counts: Vector


class AskIndexedUsages(InAttempt, frozen=True):
    """Server, SA: what are the usages of all items, and the number of transactions? Masked."""


class Entered(Piece, frozen=True):
    """An itemset that entered: its number in the global index, the pairs it is the union of, its usage at entry."""

    number: w.Number
    pairs: w.Pairs
    entry: w.Count


class AskStructure(InRound, frozen=True):
    """Server, SA, round 1: these pairs leave the index; which of your candidates does it lack? No counts."""

    entered: Entered | None
    gone: Vector  # places in the index


class Structure(InRound, frozen=True):
    """Member, SA: the missing candidates, as pairs of numbers of the global index."""

    x: Vector
    y: Vector


class AskIndexed(InAttempt, frozen=True):
    """Server, SA, round 2: these pairs enter the index; what are the co-usages of some of its pairs? Masked.

    First the new pairs, then all pairs with one of the elements, in the order of the index.
    """

    x: Vector
    y: Vector
    elements: Vector
    bits: w.Bits


class AskEvaluation(InAttempt, frozen=True):
    """Server, SA: what if this itemset entered? Covers lost, then won, for all numbers of the index. Masked."""

    candidate: Entered
    bits: w.Bits


class AskIndexedSupports(InAttempt, frozen=True):
    """Server, SA: what is the support of each of these itemsets of the index? Masked."""

    entered: Entered | None
    numbers: Vector
    bits: w.Bits


Answer = Masked | Ready | Usages | Candidates | Evaluated | SupportCounts | Structure | Labels
FromMember = Join | Confirm | Answer | Heard | Abort

SoQuestion = AskUsages | AskCandidates | Evaluate | AskSupports
SaQuestion = AskIndexedUsages | AskStructure | AskIndexed | AskEvaluation | AskIndexedSupports
Question = Ask | AskPreparation | AskLabels | SoQuestion | SaQuestion
FromServer = Roster | RosterUpdate | Confirmed | Question | Finish | Abort
