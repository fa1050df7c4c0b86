"""How far each member is in a run, and to which round all go back if one has lost its last records.

The server knows the answers to all rounds before that one, and brings its search there by replaying them. The questions
that follow are then the same as before, and have the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m

if TYPE_CHECKING:
    from fedslim.protocol.outcome import Ending

MAX_LOST_ROUNDS = 1 << 16
"""How many rounds members may be ahead of a server that was killed and may have lost its last records."""

MAX_RETREATS = 16  # how often members may lose records: each time, all members answer earlier questions again


@dataclass(slots=True)
class ServerRecords:
    """What a server has written down about a run: see `network/journal.py`."""

    rounds: list[Any] = field(default_factory=list)
    """Records with `replies` and `ending`, in order; of repeated rounds, the last repetition."""
    epoch: int = 0  # the last epoch
    furthest: int = 0  # the last round that any member had reached before all went back
    endings: dict[int, Ending] = field(default_factory=dict)
    """The decisions to end the search, by round, also of rounds that were not reached again after going back."""
    retreats: int = 0  # how often all members went back
    heard: set[str] = field(default_factory=set)  # the members that acknowledged the end of the run


class Positions:
    """The next round of each member, as the server knows it, and which members have lost records."""

    def __init__(
        self, members: Iterable[str], max_rounds: int | None, history: Callable[[], Iterable[Any]] | None
    ) -> None:
        self._next = dict.fromkeys(members, 0)  # for each member, the round after the last one it answered
        self._max_rounds = max_rounds
        self.history = history
        self.furthest = 0  # the highest next round of any member, before any of them went back
        self.retreats = 0
        self._lost_rounds = 0  # how many rounds may have followed the known ones
        self._behind: dict[str, int] = {}  # members that have lost records, and their next round
        self.endings: dict[int, Ending] = {}  # decisions to stop, by round; they hold when rounds are asked again

    def restore(self, past: ServerRecords) -> None:
        """Restore the state of a server that was killed; its last records may be lost."""
        self.furthest, self.endings, self.retreats = past.furthest, past.endings, past.retreats
        self._lost_rounds = MAX_LOST_ROUNDS

    def advance(self, members: Iterable[str], number: int) -> None:
        """Note that these members have answered, so that round `number` comes next for them."""
        for member in members:
            self._next[member] = number

    def check_return(self, member: str, join: m.Join, run: bytes, number: int | None, *, gathered: bool) -> None:
        """Check that a member can come back to this run from its position; note if it has lost records.

        `number` is that of the next round, None before the first; `gathered` is whether all members were present once.
        """
        where = self._next[member]
        self._behind.pop(member, None)
        lost_all = (join.run, join.position) == (b"", 0)
        if not where and lost_all:
            return  # it was away before it had answered anything
        if not gathered or (join.run != run and not lost_all):
            raise ProtocolError(
                f"member {member!r} comes back from round {join.position} of run {join.run.hex() or '(none)'}, but "
                f"this is run {run.hex()}; it cannot continue here"
            )
        ahead = where if number is None else number
        if join.position in {where, ahead}:
            return
        set_back = join.position < ahead
        # A member that was away when the others went back is still where all of them had been.
        most = max(ahead + self._lost_rounds, self.furthest)
        if self._max_rounds is not None:
            most = min(most, self._max_rounds + m.ROUNDS_TO_FINISH)
        if (set_back and self.history is None) or join.position > most:
            raise ProtocolError(
                f"member {member!r} comes back from round {join.position}, but was in round {where}. It cannot go on: "
                "it has lost its journal, or another one was put in its place"
            )
        self.furthest = max(self.furthest, join.position)
        if set_back:
            self._behind[member] = join.position

    def retreat(self, number: int) -> tuple[str, int] | None:
        """Return the member that is furthest behind, and its round, to which all go back; None if none lost records.

        `number` is that of the round that would have come next.
        """
        self._lost_rounds = 0  # all members have reported their position
        if not self._behind:
            return None
        last = min(self._behind.items(), key=itemgetter(1))
        self._behind = {}
        self.furthest = max(self.furthest, number)
        self.retreats += 1
        return last

    def rounds_before(self, number: int) -> list[Any] | None:
        """Return the rounds before this one from the history; None if it lacks some."""
        assert self.history is not None  # noqa: S101  # `check_return` lets no member fall back otherwise
        rounds = iter(self.history())
        before = list(islice(rounds, number))
        if len(before) != number:
            return None
        # Keep the decisions to stop, so that the same questions follow as before.
        self.endings |= {at: kept.ending for at, kept in enumerate(rounds, number) if kept.ending is not None}
        return before
