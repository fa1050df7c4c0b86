"""What a variant is: two classes behind one small interface, chosen by name. Each variant has one file.

The server's side is a generator: it yields rounds, receives the replies of exactly the members it asked, and returns
what the search came to. A member's side answers one message at a time. Neither does any input or output.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fedslim.errors import ParameterError
from fedslim.mdl.driver import DrivenSearch, WatchedSearch, run_search
from fedslim.mdl.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from fedslim.data import TransactionDatabase
    from fedslim.protocol.messages import FromMember, FromServer, PackedTable, Settings
    from fedslim.protocol.outcome import Ending, Outcome

VARIANTS: Mapping[str, str] = {
    "x": "exact: one table for all, found by masked sums; equal to mining all data in one place",
    "sa": "the paper's secure aggregation: a table for each member, masked sums",
    "so": "the paper's server-observable: a table for each member, the server sees their counts",
}

HOMES = {
    "x": ("fedslim.protocol.x", "XServer", "XMember"),
    "sa": ("fedslim.algorithm1.sa", "SaServer", "SaMember"),
    "so": ("fedslim.algorithm1.so", "SoServer", "SoMember"),
}
"""The module of each variant, and its classes for the server and for a member."""


@dataclass(frozen=True, slots=True)
class Round:
    """Messages to some members, from each of whom one reply of this kind is due."""

    messages: Mapping[str, FromServer] | FromServer  # one for each, or the same for all members
    reply: type[FromMember]
    kind: str  # for people: what is asked
    words: int | None = None  # of the reply, where that is known


class UnmaskedWords(NamedTuple):
    """An answer that leaves the member only masked: the session does that, and nothing else can."""

    purpose: str
    words: NDArray[np.uint64]


Replies = dict[str, Any]
"""For each member that was asked its reply, of the kind that was due."""


@dataclass(slots=True)
class Situation:
    """What the session lets the server's side of a variant know while it runs."""

    members: tuple[str, ...]
    items: int
    settings: Settings
    policy: Policy
    number: int = 0  # of the next round
    ending: Ending | None = None  # set when the search must stop; what was reached is then the result


class Search(WatchedSearch, DrivenSearch, Protocol):
    """A search at the server, and what is known of it while it runs."""


class ServerSide(Protocol):
    """A variant at the server."""

    members_know: bool  # whether members are told the table that was found
    supports: list[int]  # of all items, once they are known
    transactions: int
    search: Search

    def run(self) -> Generator[Round, Replies, Outcome]:
        """Ask until there is nothing left to ask, or `situation.ending` says to stop."""

    def member_usages(self) -> dict[str, list[int]] | None:
        """How often each member uses each itemset of the table now, in its order; None where the server cannot see."""


class MemberSide(Protocol):
    """A variant at a member."""

    def answer(self, message: Any) -> FromMember | UnmaskedWords:
        """Answer one message of the server's; what makes no sense raises, and there is no going on after that."""

    def is_final(self, message: Any) -> bool:
        """Whether this asks for what is asked for at the end, and nothing else after it."""

    def own_table(self) -> PackedTable | None:
        """The member's own table at the end, where members have one and are not told another."""

    def check_end(self, table: PackedTable) -> None:
        """Check the table that the server sends at the end, as far as it is known here."""


def search_in_rounds(
    search: Search, situation: Situation, answer: Callable[[Any], Generator[Round, Replies, Any]]
) -> Generator[Round, Replies, Ending]:
    """Let a search run until it ends or the session ends it; returns why it ended."""
    yield from run_search(search, answer, lambda: situation.ending is not None)
    return "converged" if search.converged or situation.ending is None else situation.ending


def server_side(situation: Situation) -> ServerSide:
    """The server's side of the variant that the settings name."""
    side: ServerSide = _sides(situation.settings.variant)[0](situation)
    return side


def member_side(settings: Settings, database: TransactionDatabase, members: int) -> MemberSide:
    """A member's side of the variant that the settings name, in a federation of so many."""
    side: MemberSide = _sides(settings.variant)[1](database, settings, members)
    return side


def policy_of(settings: Settings) -> Policy:
    """How the search goes about it, as far as that was agreed on."""
    return Policy(
        pruning=settings.pruning,
        order=settings.order,  # type: ignore[arg-type]  # a text on the wire
        max_itemset_size=settings.max_itemset_size,
        min_support=settings.min_support,
        min_count=settings.min_count,
    )


def _sides(variant: str) -> tuple[Any, Any]:
    if variant not in VARIANTS:
        msg = f"there is no variant {variant!r}; choose one of {', '.join(VARIANTS)}"
        raise ParameterError(msg)
    # By name: SA and SO stand above this package, and nobody loads a variant that is not used.
    module, server, member = HOMES[variant]
    home = import_module(module)
    return getattr(home, server), getattr(home, member)
