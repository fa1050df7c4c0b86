"""The preparation of a search: cuts, kept categories and the vocabulary, by masked sums over all members.

The server asks how many values each open column has, then finds order statistics by `Bisection`. It asks for the
categories of capped columns as sketches of their ids, counts those, and decides which are kept. Then it asks for the
ids of all items as a sketch. At last it tells all members which items there are and which of them several members have,
and each member decides whether it shares enough to stay. Everything else that leaves a member is masked.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedslim.data.vocabulary import ItemSecret
from fedslim.errors import ProtocolError
from fedslim.mdl.steps import Tally
from fedslim.protocol import messages as m
from fedslim.protocol.bisection import PARTS, Bisection, ordered, round_all
from fedslim.protocol.events import Received
from fedslim.protocol.outcome import NO_TABLE, Outcome
from fedslim.protocol.preparation import Outline, Preparation, category_id
from fedslim.protocol.sums import MAX_WORDS, add_up, ask_counts, check_words, pack_counts
from fedslim.protocol.variant import MemberSide, Replies, Round, ServerSide, Situation, UnmaskedWords
from fedslim.protocol.wire_types import ID_BYTES, MAX_ITEMS, split_ids
from fedslim.schema import Conformed, Schema
from fedslim.schema.agreeing import cut_ranks, keep_categories
from fedslim.secagg.id_sketch import IdSketch
from fedslim.secagg.ring import Ring

if TYPE_CHECKING:
    from fedslim.protocol.roster import RosterSigner

FIRST_SKETCH, GROWTH = 256, 4
"""How many ids the first sketch is for, and how much larger the next is if it cannot be read."""

CONTRADICT = "the sums of the preparation contradict each other: a member does not count as the protocol says"


# -- the server ------------------------------------------------------------------------------------------------------


class PrepareServer(ServerSide):
    """The server's side; see `ServerSide`. There is no search yet."""

    members_know = False
    transactions = 0
    search: Any = None

    def __init__(self, situation: Situation) -> None:
        self.supports: list[int] = []
        self._situation = situation
        self._outline = Outline.parse(situation.settings.outline)
        self._bisection = Bisection(self._outline.columns)
        self._chosen: list[int] = []

    def run(self) -> Generator[Round, Replies, Outcome]:
        """See `ServerSide`."""
        if self._outline.columns:
            yield from self._find_statistics()
        kept, flags = (yield from self._keep_categories()) if self._outline.caps else ([], [])
        (found,) = yield from self._union("items", 1, lambda entries: m.WantItems(_vector(flags), entries))
        if any(members > len(self._situation.members) for members in found.values()):
            raise ProtocolError(CONTRADICT)
        shared = _vector([members > 1 for members in found.values()])
        replies = yield Round(self._question(m.WantReady(b"".join(found), shared)), m.Ready, "overlap", 0)
        prepared = Preparation(
            run=self._situation.run,
            schema=self._situation.settings.schema,
            statistics=self._bisection.statistics(),
            kept=kept,
            ids=list(found),
            left={name: reply.signature for name, reply in sorted(replies.items()) if reply.leaves},
        )
        return Outcome(NO_TABLE, Tally(), "converged", preparation=prepared)

    def _find_statistics(self) -> Generator[Round, Replies, None]:
        columns, bisection = self._outline.columns, self._bisection
        most = self._situation.settings.max_transactions
        totals = yield from self._count("values", m.WantValues(), len(columns), most)
        wanted = [cut_ranks(n, bins) for n, (bins, _) in zip(totals.tolist(), columns, strict=True)]
        self._chosen = [len(ranks) for ranks in wanted]
        bisection.begin(self._chosen)
        ranks = [rank for column in wanted for rank in column]  # each within its interval
        sizes = [int(totals[interval.column]) for interval in bisection.intervals]  # of that interval
        while intervals := bisection.open:
            most = max(sizes)
            counts = yield from self._count("values", m.WantBetween(_bits(most)), PARTS * len(intervals), most)
            at = dict(zip(intervals, np.cumsum(counts.reshape(-1, PARTS), axis=1), strict=True))
            self._chosen = []
            for k, interval in enumerate(bisection.intervals):
                if (below := at.get(interval)) is None:
                    continue
                if below[-1] != sizes[k]:
                    raise ProtocolError(CONTRADICT)
                part = int(np.searchsorted(below, ranks[k]))
                before = int(below[part - 1]) if part else 0
                ranks[k], sizes[k] = ranks[k] - before, int(below[part]) - before
                self._chosen.append(part)
            bisection.choose(self._chosen)

    def _keep_categories(self) -> Generator[Round, Replies, tuple[list[list[bytes]], list[bool]]]:
        """Return the ids of the categories that are kept, by column, and for each category whether it is."""
        caps = self._outline.caps
        found = yield from self._union("categories", len(caps), m.WantCategories)
        ids, most = [one for column in found for one in column], self._situation.settings.max_transactions
        want = m.WantCategoryCounts(_vector([len(column) for column in found]), b"".join(ids), _bits(most))
        counts = iter((yield from self._count("categories", want, len(ids), most)).tolist())
        kept = [
            sorted(keep_categories(dict(zip(column, counts, strict=False)), cap))
            for column, cap in zip(map(list, found), caps, strict=True)
        ]
        flags = [one in set(chosen) for column, chosen in zip(found, kept, strict=True) for one in column]
        return kept, flags

    def _union(self, kind: str, sketches: int, want: Any) -> Generator[Round, Replies, list[dict[bytes, int]]]:
        """Ask for sketches of ids, larger ones until they can be read."""
        entries = FIRST_SKETCH
        while entries <= MAX_ITEMS:
            sketch = IdSketch.for_entries(entries)
            if sketches * sketch.words > MAX_WORDS:
                break
            replies = yield Round(self._question(want(entries)), m.Masked, kind, sketches * sketch.words)
            words = add_up(replies, sketches * sketch.words)
            found = [sketch.read(part) for part in np.split(words, sketches)]
            readable = [one for one in found if one is not None]
            if len(readable) == sketches and sum(map(len, readable)) <= MAX_ITEMS:
                return readable
            entries *= GROWTH
        raise ProtocolError(
            "the sum of the members' ids cannot be read: there are too many, or a member does not keep to the protocol"
        )

    def _count(self, kind: str, want: Any, length: int, most: int) -> Generator[Round, Replies, NDArray[np.int64]]:
        return (yield from ask_counts(self._question(want), Ring.for_sums_up_to(most), length, kind))

    def _question(self, want: Any) -> m.AskPreparation:
        if self._situation.ending is not None:
            raise ProtocolError(f"the preparation was not complete ({self._situation.ending})")
        chosen, self._chosen = self._chosen, []
        return m.AskPreparation(self._situation.number, 0, _vector(chosen), want)


def _vector(values: Sequence[int]) -> m.Vector:
    return m.Vector.of(np.array(values, np.int64))


def _bits(most: int) -> int:
    return Ring.for_sums_up_to(most).bits


# -- a member --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """A member's table in terms of the schema, and how much it must share with others to stay.

    All its rows take part in the preparation; `searched` are those of the search, if these are not all.
    """

    schema: Schema
    conformed: Conformed
    secret: ItemSecret
    min_overlap: float = 0.0
    searched: Sequence[int] | None = None

    @cached_property
    def keys(self) -> list[NDArray[np.uint64]]:
        """The rounded values of each open column, ordered."""
        columns = self.schema.columns
        names = self.schema.open_columns
        return [ordered(round_all(self.conformed.values(name), columns[name].resolution)) for name in names]

    @cached_property
    def categories(self) -> list[dict[bytes, int]]:
        """The rows of each category of each capped column, by id."""
        return [
            {category_id(self.secret, name, one): rows for one, rows in self.conformed.categories(name).items()}
            for name in self.schema.capped_columns
        ]


class Overlap(NamedTuple):
    """How much of a member's data others have too. Only the member may see it: NVFlare sends logs to the server."""

    items: int
    items_shared: int
    occurrences: int
    occurrences_shared: int
    missing: int = 0  # items that the server left out

    @property
    def fraction(self) -> float:
        """The fraction of occurrences of items that others have too."""
        return self.occurrences_shared / self.occurrences if self.occurrences else 1.0

    def __str__(self) -> str:
        missing = f"; the server's vocabulary lacks {self.missing:,}, which are left out" if self.missing else ""
        return (
            f"{self.items_shared:,} of this member's {self.items:,} items, and {self.fraction:.1%} of their "
            f"occurrences, are shared with other members{missing}"
        )


class PrepareMember(MemberSide):
    """A member's side; see `MemberSide`. What it refuses depends on the schema and on earlier questions only."""

    def __init__(self, site: Site, settings: m.Settings, members: int) -> None:
        self._site, self._settings, self._members = site, settings, members
        self._outline = Outline.of(site.schema)
        self._bisection = Bisection(self._outline.columns)
        self._last: Any = None  # the question before
        self._categories: list[list[bytes]] = []
        self._flags: m.Vector | None = None  # which categories are kept
        self._shared = b""  # which items the server said that several members have
        self.preparation: Preparation | None = None
        self.overlap: Overlap | None = None

    def is_final(self, message: m.AskPreparation) -> bool:
        """See `MemberSide`."""
        return isinstance(message.want, m.WantReady)

    def check_end(self, table: m.PackedTable) -> None:
        """See `MemberSide`."""
        raise m.refused(f"the server ended a preparation with a table of {len(table.itemsets)} itemsets")

    def answer(self, message: m.AskPreparation) -> m.FromMember | UnmaskedWords:
        """Take the decisions of the server, if it may make them now, and count."""
        chosen, want = _numbers(message.chosen, MAX_ITEMS), message.want
        match self._last:
            case m.WantValues():
                self._bisection.begin(chosen)
            case m.WantBetween():
                self._bisection.choose(chosen)
            case _ if chosen:
                raise m.refused("the server chose parts of intervals at the wrong time")
        self._check_turn(want)
        before, self._last = self._last, want
        match want:
            case m.WantValues():
                return _packed(map(len, self._site.keys), _bits(self._settings.max_transactions))
            case m.WantBetween(bits):
                return _packed(self._between(), bits)
            case m.WantCategories(entries):
                _check_size(want, before)
                return self._sketches(self._site.categories, entries)
            case m.WantCategoryCounts(sizes, ids, bits):
                self._categories = _split(_numbers(sizes, MAX_ITEMS), ids, len(self._outline.caps))
                pairs = zip(self._categories, self._site.categories, strict=True)
                return _packed((own.get(one, 0) for column, own in pairs for one in column), bits)
            case m.WantItems(kept, entries):
                _check_size(want, before)
                self._keep(kept)
                return self._sketches([self._ids], entries)
            case m.WantReady(ids, shared):
                return self._ready(message.round, ids, shared)

    def _check_turn(self, want: Any) -> None:
        """Check that a preparation can ask this now."""
        after_cuts = m.WantCategories if self._outline.caps else m.WantItems
        allowed: tuple[type, ...] = ()
        match self._last:
            case None:
                allowed = (m.WantValues if self._outline.columns else after_cuts,)
            case m.WantValues() | m.WantBetween():
                allowed = (m.WantBetween if self._bisection.open else after_cuts,)
            case m.WantCategories():
                allowed = (m.WantCategories, m.WantCategoryCounts)
            case m.WantCategoryCounts():
                allowed = (m.WantItems,)
            case m.WantItems():
                allowed = (m.WantItems, m.WantReady)
        if not isinstance(want, allowed):
            after = "at the start" if self._last is None else f"after {type(self._last).__name__}"
            raise m.refused(f"the server sent {type(want).__name__} {after}; a preparation never does")

    def _between(self) -> Iterable[int]:
        for interval in self._bisection.open:
            yield from np.diff(np.searchsorted(self._site.keys[interval.column], interval.edges())).tolist()

    def _keep(self, flags: m.Vector) -> None:
        """Take the decision which categories are kept; it stays the same if a larger sketch is asked for."""
        if self._flags is not None and flags != self._flags:
            raise m.refused("the server changed which categories are kept")
        self._flags = flags
        chosen = _numbers(flags, 1)
        if len(chosen) != sum(map(len, self._categories)):
            raise m.refused(f"the server decided about {len(chosen)} categories, and asked about others")
        is_kept = iter(chosen)
        kept = [[one for one in column if next(is_kept)] for column in self._categories]
        if any(len(column) > cap for column, cap in zip(kept, self._outline.caps, strict=True)):
            raise m.refused(f"the server keeps {list(map(len, kept))!s:.60} categories, more than the schema does")
        site = self._site
        self.preparation = Preparation(
            run=b"", schema=self._settings.schema, statistics=self._bisection.statistics(), kept=kept, ids=[]
        )
        self._database = site.conformed.items(self.preparation.agreed(site.schema, site.conformed, site.secret))
        self._ids = site.secret.ids_of(self._database.vocabulary)

    def _ready(self, number: int, ids: bytes, shared: m.Vector) -> m.Ready:
        """Find out how much this member shares, and whether it stays. A lack of own items is no reason to refuse."""
        (found,) = _split([len(ids) // ID_BYTES], ids, 1)
        several = _numbers(shared, 1)
        if len(several) != len(found):
            raise m.refused(f"the server announced {len(found)} items and {len(several)} flags")
        assert self.preparation is not None  # noqa: S101  # since WantItems
        self.preparation, self._shared = msgspec.structs.replace(self.preparation, ids=found), bytes(several)
        others = {one for one, flag in zip(found, several, strict=True) if flag}
        flags, rows = [one in others for one in self._ids], np.bincount(self._database.items, minlength=len(self._ids))
        occurrences = int(rows.sum()), int(rows[np.array(flags, bool)].sum())
        self.overlap = Overlap(len(flags), sum(flags), *occurrences, missing=len(set(self._ids) - set(found)))
        return m.Ready(number, self._leaves, b"")

    @property
    def _leaves(self) -> bool:
        return self.overlap is not None and self.overlap.fraction < self._site.min_overlap

    def signed(self, answer: m.Ready, digest: bytes, trust: RosterSigner) -> m.Ready:
        """Sign that this member leaves, if it does; the digest is that of the roster."""
        if not answer.leaves:
            return answer
        assert self.preparation is not None  # noqa: S101  # since WantItems
        departure = self.preparation.departure(digest, self._shared)
        return msgspec.structs.replace(answer, signature=trust.sign("roster", departure))

    def end(self, message: m.Finish, name: str, roster: m.Roster, digest: bytes, trust: RosterSigner) -> Received:
        """Return the outcome; exactly the members that left must have signed that they leave this preparation."""
        if self.preparation is None or self.overlap is None:
            raise m.refused("the server ended the preparation before it was complete")
        certificates = dict(zip(roster.members, roster.certificates, strict=True))
        for one in message.left:
            if one.name not in certificates:
                raise m.refused(f"the server says that {one.name!r} left, which is not a member")
            departure = self.preparation.departure(digest, self._shared)
            trust.check("roster", one.name, departure, certificates[one.name], one.signature)
        left = {one.name: one.signature for one in message.left}
        if self._leaves and name not in left:
            raise m.refused("the server goes on as if this member had not left")
        prepared = msgspec.structs.replace(self.preparation, run=roster.run, left=left)
        return Received(message.ending, None, prepared, self.overlap)

    def _sketches(self, sets: Iterable[Iterable[bytes]], entries: int) -> UnmaskedWords:
        sketch, sets = IdSketch.for_entries(entries), list(sets)
        check_words(len(sets) * sketch.words)
        return UnmaskedWords("preparation", np.concatenate([sketch.words_of(ids) for ids in sets]))


def _packed(counts: Iterable[int], bits: int) -> UnmaskedWords:
    return pack_counts("preparation", np.fromiter(counts, np.int64), bits)


def _check_size(want: m.WantCategories | m.WantItems, before: Any) -> None:
    """Check that sketches grow as they do in a preparation."""
    expected = before.entries * GROWTH if type(before) is type(want) else FIRST_SKETCH
    if want.entries != expected:
        raise m.refused(f"the server asked for a sketch of {want.entries} ids, but {expected} is next")


def _numbers(vector: m.Vector, most: int) -> list[int]:
    """Return the numbers of a vector that a preparation can have: 64 MB of bytes would become 1 GB of numbers."""
    if vector.length > MAX_ITEMS:
        raise m.refused(f"the server sent {vector.length} numbers; a preparation has at most {MAX_ITEMS}")
    found: list[int] = vector.values(most).tolist()
    return found


def _split(sizes: Sequence[int], ids: bytes, parts: int) -> list[list[bytes]]:
    """Return ids by column; those of a column must be in ascending order."""
    if len(sizes) != parts or sum(sizes) * ID_BYTES != len(ids):
        raise m.refused(f"the server sent {len(ids)} bytes of ids for {len(sizes)} columns")
    every = iter(split_ids(ids))
    found = [list(islice(every, size)) for size in sizes]
    if any(one >= other for column in found for one, other in pairwise(column)):
        raise m.refused("the server sent ids that are not in ascending order")
    return found
