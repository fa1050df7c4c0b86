"""What a variant is: two classes behind one small interface, chosen by name. Each variant has one file.

The server's side is a generator: it yields rounds, receives the replies of exactly the members it asked, and returns
the outcome. A member's side answers one message at a time. Neither does any I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedslim.errors import ParameterError
from fedslim.mdl.driver import Search, run_search
from fedslim.mdl.policy import Policy

if TYPE_CHECKING:
    from fedslim.protocol.messages import FromMember, FromServer, PackedTable, Settings
    from fedslim.protocol.outcome import Ending, Outcome

VARIANTS: Mapping[str, str] = {
    "x": "exact: one table for all, found by masked sums; equal to mining all data in one place",
    "sa": "the paper's secure aggregation: a table for each member, masked sums",
    "so": "the paper's server-observable: a table for each member, the server sees their counts",
}

HOMES = {
    "prepare": ("fedslim.protocol.prepare", "PrepareServer", "PrepareMember"),
    "x": ("fedslim.protocol.x", "XServer", "XMember"),
    "sa": ("fedslim.algorithm1.sa", "SaServer", "SaMember"),
    "so": ("fedslim.algorithm1.so", "SoServer", "SoMember"),
}
"""The module of each variant, and its classes for the server and for a member; `prepare` comes before a search."""


@dataclass(frozen=True, slots=True)
class Round:
    """Messages to some members, each of which owes one reply of this type."""

    messages: Mapping[str, FromServer] | FromServer  # one for each, or the same for all members
    reply: type[FromMember]
    kind: str  # what is asked, for logs and reports
    words: int | None = None  # the length of the reply, where it is known


class UnmaskedWords(NamedTuple):
    """An answer that must be masked before it leaves the member; the session does that."""

    purpose: str
    words: NDArray[np.uint64]


Replies = dict[str, Any]  # the reply of each member that was asked, of the type that was due


@dataclass(slots=True)
class Situation:
    """What the server's side of a variant knows from the session while it runs."""

    members: tuple[str, ...]
    items: int
    settings: Settings
    policy: Policy
    number: int = 0  # of the next round
    run: bytes = b""
    ending: Ending | None = None  # set when the search must stop; the best table so far is then the result


class ServerSide(Protocol):
    """A variant at the server."""

    members_know: bool  # whether members receive the table that was found
    supports: list[int]  # of all items; empty until they are known
    transactions: int
    search: Search

    def run(self) -> Generator[Round, Replies, Outcome]:
        """Ask until the search ends, or `situation.ending` stops it."""

    def member_usages(self) -> dict[str, list[int]] | None:
        """Return each member's usage of each itemset, in table order; None where the server cannot see it."""
        return None


class MemberSide(Protocol):
    """A variant at a member."""

    def share_work(self, shared: dict[str, Any]) -> None:
        """Compute with the other sides that get this what is the same for all of them; called before any question."""

    def answer(self, message: Any) -> FromMember | UnmaskedWords:
        """Answer one question; an invalid one raises, and the session cannot continue after that."""

    def is_final(self, message: Any) -> bool:
        """Return whether this is a question that is asked only at the end."""

    def own_table(self) -> PackedTable | None:
        """Return the member's own table at the end, in variants where the server sends none."""
        return None

    def check_end(self, table: PackedTable) -> None:
        """Check the table that the server sends at the end, as far as this member knows it."""


def search_in_rounds(
    search: Search, situation: Situation, answer: Callable[[Any], Generator[Round, Replies, Any]]
) -> Generator[Round, Replies, Ending]:
    """Run a search until it ends or the session ends it; return why it ended."""
    yield from run_search(search, answer, lambda: situation.ending is not None)
    return "converged" if search.converged or situation.ending is None else situation.ending


def policy_of(settings: Settings) -> Policy:
    """Return the search policy that the settings describe."""
    names = ("pruning", "order", "max_itemset_size", "min_support", "min_count", "width")
    return Policy(**{name: getattr(settings, name) for name in names})


def sides(variant: str) -> tuple[Any, Any]:
    """Return the classes of a variant: the server's is made of a `Situation`, a member's of data, settings and members.

    `members` is the size of the federation.
    """
    if variant not in HOMES:
        raise ParameterError(f"there is no variant {variant!r}; choose one of {', '.join(VARIANTS)}")
    # Imported by name: SA and SO are above this package in the import order, and unused variants are not loaded.
    module, server, member = HOMES[variant]
    home = import_module(module)
    return getattr(home, server), getattr(home, member)
