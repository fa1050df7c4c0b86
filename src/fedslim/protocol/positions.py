"""How far each member is in a run, and to which round everybody goes back if one has lost its last records.

The answers to all rounds before that one are known, so the server's search is brought there by playing them again. The
questions that follow are then those that followed before, and have the same answers.
"""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol, TypeVar

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fedslim.protocol.outcome import Ending
    from fedslim.protocol.variant import Replies

MAX_LOST_ROUNDS = 1 << 16
"""By how many rounds members may be ahead of a server that was killed: its last records may be lost with the disk."""

MAX_RETREATS = 16
"""How often members may lose records: each time, everybody answers again what was answered before."""


class Kept(Protocol):
    """What was kept of a round: its replies, and whether the run came to its end from there on."""

    @property
    def replies(self) -> Replies:
        """For each member that was asked its reply."""

    @property
    def ending(self) -> Ending | None:
        """Why the search was told to stop, if it was."""


AnyKept = TypeVar("AnyKept", bound=Kept)


class Positions:
    """The next round of each member, as the server knows it, and who has to go back."""

    def __init__(
        self, members: Iterable[str], max_rounds: int | None, history: Callable[[], Iterable[Kept]] | None
    ) -> None:
        self._next = dict.fromkeys(members, 0)  # for each member, the round after the last it answered
        self._max_rounds = max_rounds
        self.history = history
        self.furthest = 0  # the round that came next for the member that was furthest, before anybody went back
        self.retreats = 0
        self._lost_rounds = 0  # how many may have come after those that are known
        self._behind: dict[str, int] = {}  # members that were set back, and to which round
        self._endings: dict[int, Ending] = {}  # what was decided with rounds, also where they are played again

    def restore(self, furthest: int, endings: Mapping[int, Ending], retreats: int) -> None:
        """Know what a server knew that was killed; its last records may be lost."""
        self.furthest, self._endings, self.retreats = furthest, dict(endings), retreats
        self._lost_rounds = MAX_LOST_ROUNDS

    def start_over(self) -> None:
        """The rounds are played from the first one on."""
        self._next = dict.fromkeys(self._next, 0)

    def advance(self, members: Iterable[str], number: int) -> None:
        """These members have answered; this round comes next."""
        for member in members:
            self._next[member] = number

    def ending_of(self, number: int) -> Ending | None:
        """What was decided with this round, if it was asked before."""
        return self._endings.get(number)

    def all_here(self) -> None:
        """Everybody has said how far it is."""
        self._lost_rounds = 0

    def check_return(self, member: str, join: m.Join, run: bytes, number: int | None, *, gathered: bool) -> None:
        """Check that a member can come back to this run from where it is; if it was set back, note that.

        `number` is that of the next round, None before there is any; `gathered` is whether all have been here once.
        """
        where = self._next[member]
        self._behind.pop(member, None)
        lost_all = (join.run, join.position) == (b"", 0)
        if not where and lost_all:
            return  # it was lost before it had answered anything
        if not gathered or (join.run != run and not lost_all):
            msg = (
                f"member {member!r} comes back from round {join.position} of run {join.run.hex() or '(none)'}; this is "
                f"run {run.hex()}. It cannot go on: it belongs to another run"
            )
            raise ProtocolError(msg)
        ahead = where if number is None else number
        if join.position in {where, ahead}:
            return
        set_back = join.position < ahead
        # Whoever was away when the others went back is where they all had been.
        most = max(ahead + self._lost_rounds, self.furthest)
        if self._max_rounds is not None:
            most = min(most, self._max_rounds + m.ROUNDS_TO_FINISH)
        if (set_back and self.history is None) or join.position > most:
            msg = (
                f"member {member!r} comes back from round {join.position}, and was in round {where}. It cannot go on: "
                "it has lost its journal, or another one was put in its place"
            )
            raise ProtocolError(msg)
        self.furthest = max(self.furthest, join.position)
        if set_back:
            self._behind[member] = join.position

    def retreat(self, number: int) -> tuple[str, int] | None:
        """The member that is furthest behind, and the round it is in; None if nobody was set back.

        Everybody goes back there. `number` is that of the round that would have come next.
        """
        if not self._behind:
            return None
        last = min(self._behind.items(), key=itemgetter(1))
        self._behind = {}
        self.furthest = max(self.furthest, number)
        self.retreats += 1
        return last

    def rounds_before(self, number: int) -> list[Kept] | None:
        """The rounds before this one, from the history; None if it lacks some."""
        assert self.history is not None  # noqa: S101  # nobody is taken back otherwise
        rounds = iter(self.history())
        before = list(islice(rounds, number))
        if len(before) != number:
            return None
        # Decided once: the questions that follow must be those that followed before.
        self._endings |= {at: kept.ending for at, kept in enumerate(rounds, number) if kept.ending is not None}
        return before
