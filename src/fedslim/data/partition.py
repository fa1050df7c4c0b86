"""Partition a database among members: the paper's four settings (sections 5.1 to 5.4), from a seed.

Every transaction goes to exactly one member, every member gets at least one, and each part keeps the order of the
database. Equal seeds give equal partitions on every machine: only numpy's `Generator.random` is used, whose stream
stays the same across releases, and all computations with it are exact or correctly rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.data.database import TransactionDatabase
from fedslim.data.generators import MAX_SEED, stream_of
from fedslim.data.parsing import check_whole
from fedslim.errors import ParameterError

Itemset = tuple[int, ...]

PER_MEMBER = 3  # maximum number of dominant itemsets per member; fewer if the code table has too few diverse ones
MOST_ALIKE = (0.5, 0.75, 1.0)
"""Two dominant itemsets are diverse if their Jaccard similarity |X ∩ Y| / |X ∪ Y| is at most the first of these.

The next ones apply if there are too few for each member to have one; 1 accepts any two different itemsets.
"""

PAPER_UNEVEN_SIZES = (91850, 61230, 47630, 34020, 27210, 20410, 17010, 13610, 13610, 13610)
"""The member sizes of the paper's uneven setting on Accidents (section 5.3), for `sized`."""

_ROWS = 4096  # transactions scored at a time, to limit memory; results do not depend on it
_DEALING, _CAPACITIES, _TIES = range(3)  # each purpose has its own random stream
_WEIGHT_BITS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A database partitioned among members. `assignment[t]` is the member of transaction `t`, counted from 0."""

    scheme: str
    parameters: dict[str, float]  # of the scheme, without the seed
    seed: int
    assignment: NDArray[np.int32]
    parts: tuple[TransactionDatabase, ...]
    dominant: tuple[tuple[Itemset, ...], ...] = ()  # each member's dominant itemsets, if the scheme uses them

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of transactions of each member."""
        return tuple(len(part) for part in self.parts)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the transactions, ready for JSON."""
        return {
            "scheme": self.scheme,
            "parameters": self.parameters,
            "seed": self.seed,
            "sizes": list(self.sizes),
            "dominant": [[list(itemset) for itemset in itemsets] for itemsets in self.dominant],
        }


def iid(db: TransactionDatabase, members: int, *, seed: int = 0) -> Partition:
    """Assign transactions at random; member sizes differ by at most one (sections 5.1 and 5.2).

    Examples:
        >>> from fedslim.data import iid, load
        >>> iid(load("encounters"), 3).sizes
        (1667, 1667, 1666)
    """
    members, seed = check_member_count(db, members), check_whole("seed", seed, 0, MAX_SEED)
    each, left = divmod(len(db), members)
    sizes = [each + (member < left) for member in range(members)]
    return _divide(db, _deal(sizes, seed), "iid", seed, {"members": members})


def dirichlet(db: TransactionDatabase, members: int, *, alpha: float = 0.5, seed: int = 0) -> Partition:
    """Assign transactions at random, with member sizes in proportions drawn from Dirichlet(alpha) (section 5.3)."""
    members, seed, alpha = check_member_count(db, members), check_whole("seed", seed, 0, MAX_SEED), _check_alpha(alpha)
    sizes = _dirichlet_sizes(len(db), members, alpha, seed)
    return _divide(db, _deal(sizes, seed), "dirichlet", seed, {"members": members, "alpha": alpha})


def sized(db: TransactionDatabase, sizes: Sequence[int], *, seed: int = 0) -> Partition:
    """Assign transactions at random, with the given member sizes, scaled if they do not add up to the database."""
    if len(sizes) == 0:
        raise ParameterError("no member sizes were given; give one whole number of at least 1 per member")
    wanted = [check_whole(f"the size of member {number}", size, 1) for number, size in enumerate(sizes, 1)]
    members, seed = check_member_count(db, len(wanted)), check_whole("seed", seed, 0, MAX_SEED)
    return _divide(db, _deal(_apportion(len(db), wanted), seed), "sized", seed, {"members": members})


def support_skew(
    db: TransactionDatabase,
    members: int,
    dominant: Iterable[tuple[Iterable[int], int]],
    *,
    min_size: int = 3,
    seed: int = 0,
) -> Partition:
    """Assign each transaction to the member whose dominant itemsets fit it best (section 5.4).

    Args:
        db: The transactions to partition.
        members: Number of members.
        dominant: Itemsets (item ids) with their usages, as in a code table of the whole database. Itemsets with at
            least `min_size` items are considered by descending usage, then size, then in lexicographic order. Each one
            that is diverse (see `MOST_ALIKE`) from all chosen before is chosen, up to `PER_MEMBER` per member, and
            they go to the members in turn. If a member would have none, as many less diverse ones as needed are chosen
            too; the parameter `most_alike` of the partition tells.
        min_size: Minimum number of items of a dominant itemset.
        seed: Breaks ties between members.

    The score of a member for a transaction is the total size of its dominant itemsets that the transaction contains;
    ties go to the largest fraction |X ∩ t| / |X| of an itemset that it contains in part. A member without transactions
    gets the first one with its highest score from a member that has more than one.
    """
    members, seed = check_member_count(db, members), check_whole("seed", seed, 0, MAX_SEED)
    min_size = check_whole("min_size", min_size, 1)
    hands, alike = _deal_itemsets(db, members, dominant, min_size)
    scores = _scores(db, hands)
    _, assignment = _strongest(scores, stream_of(seed, _TIES).random(len(db)))
    _leave_nobody_empty(assignment, scores)
    settings = {"members": members, "min_size": min_size, "most_alike": alike}
    return _divide(db, assignment, "support-skew", seed, settings, hands)


def support_quantity_skew(  # noqa: PLR0913  # one parameter for each quantity of the setting
    db: TransactionDatabase,
    members: int,
    dominant: Iterable[tuple[Iterable[int], int]],
    *,
    alpha: float = 0.5,
    min_size: int = 3,
    seed: int = 0,
) -> Partition:
    """Assign as `support_skew`, with member sizes in proportions drawn from Dirichlet(alpha) (section 5.4).

    In descending order of score (ties at random), each transaction goes to the member with its highest score among
    those that have room.
    """
    members, seed, alpha = check_member_count(db, members), check_whole("seed", seed, 0, MAX_SEED), _check_alpha(alpha)
    min_size = check_whole("min_size", min_size, 1)
    hands, alike = _deal_itemsets(db, members, dominant, min_size)
    room = np.array(_dirichlet_sizes(len(db), members, alpha, seed), np.int64)
    assignment = _within_room(_scores(db, hands), room, stream_of(seed, _TIES))
    settings = {"members": members, "alpha": alpha, "min_size": min_size, "most_alike": alike}
    return _divide(db, assignment, "support-quantity-skew", seed, settings, hands)


def _apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide `total` in proportion to the weights, by the largest remainders; every part is at least 1."""
    sizes = [0] * len(weights)
    sharing = list(range(len(weights)))
    while True:
        whole = sum(weights[i] for i in sharing)
        shares = [divmod(total * weights[i], whole) for i in sharing]
        left = total - sum(quotient for quotient, _ in shares)
        lucky = set(sorted(range(len(sharing)), key=lambda j: (-shares[j][1], j))[:left])
        for j, i in enumerate(sharing):
            sizes[i] = shares[j][0] + (j in lucky)
        poor = {i for i in sharing if sizes[i] == 0}
        if not poor:
            break
        for i in poor:
            sizes[i] = 1
        total -= len(poor)
        sharing = [i for i in sharing if i not in poor]
    return sizes


def _dirichlet_sizes(total: int, members: int, alpha: float, seed: int) -> list[int]:
    """Draw sizes in Dirichlet(alpha) proportions, that is, proportional to independent Gamma(alpha) variables."""
    stream = stream_of(seed, _CAPACITIES)
    with localcontext(Context(40, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX)):
        # Decimal's ln, exp and sqrt are correctly rounded, unlike those of some C libraries.
        logs = [_log_gamma_variate(stream, Decimal(alpha)) for _ in range(members)]
        largest = max(logs)  # logarithms, because a small alpha makes most variables too small for a float
        weights = [int((log - largest).exp() * 2**_WEIGHT_BITS) for log in logs]
    return _apportion(total, weights)


def _log_gamma_variate(stream: np.random.Generator, shape: Decimal) -> Decimal:
    """Draw the logarithm of a Gamma(shape) variable, by Marsaglia and Tsang's rejection without squeeze (2000)."""
    if shape < 1:  # Gamma(shape) = Gamma(shape + 1) · U^(1 / shape)
        return _log_gamma_variate(stream, shape + 1) + _uniform(stream).ln() / shape
    d = shape - Decimal(1) / 3
    while True:
        x = _normal(stream)
        root = 1 + x / (3 * d.sqrt())
        if root <= 0:
            continue
        v = root * root * root
        if _uniform(stream).ln() < x * x / 2 + d * (1 - v + v.ln()):
            return d.ln() + v.ln()


def _normal(stream: np.random.Generator) -> Decimal:
    """Draw a standard normal variable by the polar method; discard the second one."""
    while True:
        x, y = 2 * _uniform(stream) - 1, 2 * _uniform(stream) - 1
        square = x * x + y * y
        if 0 < square < 1:
            return x * (-2 * square.ln() / square).sqrt()


def _uniform(stream: np.random.Generator) -> Decimal:
    """Draw from the uniform distribution on (0, 1]."""
    return Decimal(1.0 - stream.random())


def _deal(sizes: Sequence[int], seed: int) -> NDArray[np.int32]:
    """Return a random assignment with exactly these sizes."""
    shuffled = np.argsort(stream_of(seed, _DEALING).random(sum(sizes)), kind="stable")
    assignment = np.empty(len(shuffled), np.int32)
    assignment[shuffled] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return assignment


def _divide(  # noqa: PLR0913, PLR0917  # the fields of a partition
    db: TransactionDatabase,
    assignment: NDArray[np.int32],
    scheme: str,
    seed: int,
    settings: dict[str, float],
    dominant: tuple[tuple[Itemset, ...], ...] = (),
) -> Partition:
    members = int(settings["members"])
    by_member = np.argsort(assignment, kind="stable")
    ends = np.cumsum(np.bincount(assignment, minlength=members))[:-1]
    parts = tuple(
        db.take(tids, name=f"{db.name}, member {number} of {members}")
        for number, tids in enumerate(np.split(by_member, ends), 1)
    )
    assignment.setflags(write=False)
    return Partition(scheme, settings, seed, assignment, parts, dominant)


def _deal_itemsets(
    db: TransactionDatabase, members: int, dominant: Iterable[tuple[Iterable[int], int]], min_size: int
) -> tuple[tuple[tuple[Itemset, ...], ...], float]:
    """Choose the dominant itemsets of each member, as `support_skew` describes; also return the similarity limit."""
    offered = [
        (_checked_itemset(db, items), check_whole("a usage of a dominant itemset", u, 0)) for items, u in dominant
    ]
    by_usage = sorted(offered, key=lambda pair: (-pair[1], -len(pair[0]), pair[0]))
    large = list(dict.fromkeys(frozenset(items) for items, usage in by_usage if len(items) >= min_size and usage))
    if len(large) < members:
        raise ParameterError(
            f"each of the {members} members needs a dominant itemset, but of the {len(offered)} given only "
            f"{len(large)} are distinct, used and have {min_size} items or more; "
            "use fewer members, lower min_size, or give the itemsets of a larger code table"
        )
    chosen: dict[frozenset[int], None] = {}
    enough = members * PER_MEMBER
    for alike in MOST_ALIKE:
        for items in large:
            if len(chosen) == enough:
                break
            if items not in chosen and all(len(items & other) <= alike * len(items | other) for other in chosen):
                chosen[items] = None
        if len(chosen) >= members:
            break
        enough = members
    itemsets = [tuple(sorted(items)) for items in chosen]
    return tuple(tuple(itemsets[member::members]) for member in range(members)), alike


def _scores(db: TransactionDatabase, hands: tuple[tuple[Itemset, ...], ...]) -> NDArray[np.float32]:
    """Return the score of each member for each transaction: items contained, plus a fraction that breaks ties.

    Overlaps are products of 0-1 matrices over the relevant items. In float32 they are exact for any order of summation,
    and the fraction takes one division and one addition, so scores are the same on every machine.
    """
    rounds, members = max(map(len, hands)), len(hands)
    items = np.array(sorted({item for hand in hands for itemset in hand for item in itemset}), np.int64)
    column_of = np.full(db.n_items, -1, np.int64)
    column_of[items] = np.arange(len(items))
    membership = np.zeros((len(items), rounds * members), np.float32)  # padded with empty itemsets
    for member, hand in enumerate(hands):
        for number, itemset in enumerate(hand):
            membership[column_of[list(itemset)], number * members + member] = 1
    sizes = membership.sum(axis=0)
    scores = np.empty((len(db), members), np.float32)
    for start in range(0, len(db), _ROWS):
        offsets = db.offsets[start : start + _ROWS + 1]
        rows = len(offsets) - 1
        row = np.repeat(np.arange(rows), np.diff(offsets))
        column = column_of[db.items[offsets[0] : offsets[-1]]]
        present = np.zeros((rows, len(items)), np.float32)
        present[row[column >= 0], column[column >= 0]] = 1
        overlap = present @ membership
        whole = overlap == sizes
        contained = np.where(whole, sizes, 0).reshape(rows, rounds, members).sum(axis=1)
        part = np.where(whole, 0, overlap / np.maximum(sizes, 1)).reshape(rows, rounds, members).max(axis=1)
        scores[start : start + rows] = contained + part
    return scores


def _strongest(scores: NDArray[np.float32], draw: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the highest score of each row and its column; `draw` (uniform on [0, 1)) breaks ties."""
    highest = scores.max(axis=1)
    equal = scores == highest[:, None]
    lot = (draw * equal.sum(axis=1)).astype(np.int64)
    column = np.argmax(np.cumsum(equal, axis=1, dtype=np.int32) > lot[:, None], axis=1)
    return highest, column.astype(np.int32)


def _leave_nobody_empty(assignment: NDArray[np.int32], scores: NDArray[np.float32]) -> None:
    """Move one transaction to each member without any, in place; there are at least as many transactions as members."""
    sizes = np.bincount(assignment, minlength=scores.shape[1])
    for member in np.flatnonzero(sizes == 0):
        chosen = np.argmax(np.where(sizes[assignment] > 1, scores[:, member], -1))
        sizes[assignment[chosen]] -= 1
        sizes[member] = 1
        assignment[chosen] = member


def _within_room(
    scores: NDArray[np.float32], room: NDArray[np.int64], stream: np.random.Generator
) -> NDArray[np.int32]:
    """Assign transactions in descending order of score, each to its best member with room; `room` suffices for all.

    Each turn assigns all transactions up to the one that fills a member. Those that had chosen this member then choose
    again and are sorted anew, so there are at most as many turns as members.
    """
    draw, lot = stream.random(len(scores)), stream.random(len(scores))
    assignment = np.full(len(scores), -1, np.int32)
    highest, choice = _strongest(scores, draw)
    waiting = np.arange(len(scores))
    while len(waiting):
        waiting = waiting[np.lexsort((lot[waiting], -highest[waiting]))]
        chosen = choice[waiting]
        counts = np.bincount(chosen, minlength=len(room))
        filled = np.flatnonzero((counts >= room) & (room > 0))  # never empty: the room equals the number waiting
        last = (np.cumsum(counts) - counts + room)[filled] - 1
        stop = int(np.argsort(chosen, kind="stable")[last].min()) + 1
        assignment[waiting[:stop]] = chosen[:stop]
        room = room - np.bincount(chosen[:stop], minlength=len(room))
        waiting = waiting[stop:]
        refused = waiting[room[choice[waiting]] == 0]
        if len(refused):
            free = np.flatnonzero(room)
            highest[refused], column = _strongest(scores[np.ix_(refused, free)], draw[refused])
            choice[refused] = free[column]
    return assignment


def check_member_count(db: TransactionDatabase, members: Any) -> int:
    """Return the number of members, after checking that there is a transaction for each."""
    wanted = check_whole("the number of members", members, 1)
    if len(db) == 0:
        raise ParameterError("the database has no transactions to partition; give one with transactions")
    if wanted > len(db):
        msg = f"the database has too few transactions for {wanted} members; use at most {len(db)} members"
        raise ParameterError(msg)
    return wanted


def _check_alpha(alpha: Any) -> float:
    """Check the parameter of a Dirichlet distribution: small for very uneven sizes, large for nearly equal ones."""
    number = isinstance(alpha, (int, float, np.integer, np.floating)) and not isinstance(alpha, bool)
    if not number or not math.isfinite(alpha) or alpha <= 0:
        raise ParameterError(f"alpha is {alpha!r}; give a finite number above 0, e.g. 0.5 for very uneven sizes")
    return float(alpha)


def _checked_itemset(db: TransactionDatabase, items: Iterable[int]) -> Itemset:
    itemset = tuple(sorted(check_whole("an item of a dominant itemset", item, 0) for item in items))
    if itemset and itemset[-1] >= db.n_items:
        raise ParameterError(
            f"a dominant itemset has the item {itemset[-1]}, but the last item of the vocabulary is {db.n_items - 1}; "
            "give itemsets of a code table over the same vocabulary"
        )
    if len(set(itemset)) < len(itemset):
        raise ParameterError(f"the dominant itemset {itemset} has an item twice; give each item once")
    return itemset
