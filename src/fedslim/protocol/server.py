"""The server's session: members join and confirm the roster, a variant runs, all receive the end. It does no I/O.

    session = ServerSession(["a", "b"], settings, run=entropy)
    for output in session.receive("a", message, now):
        ...                                     # a Send to members, or an event

The driver carries the messages and supplies the time. It also supplies the names of members, which it knows from
certificates; no message can claim one.

A member that is away can come back: all members then confirm a new roster, and the interrupted round is asked again.
`replay` restores a server that was killed, from the answers that it had received; all its members are then away. See
docs/explanation/decisions/faults.md, also for parties that have lost their last records.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from fedslim.errors import FedslimError, ParameterError, ProtocolError
from fedslim.protocol import framing, messages as m
from fedslim.protocol.events import Began, Ended, Failed, Resumed, RoundEnded, Send, ServerOutput, WentBack
from fedslim.protocol.outcome import Ending, Outcome, found_by, pack_table
from fedslim.protocol.positions import MAX_RETREATS, Positions, ServerRecords
from fedslim.protocol.roster import Gathering, KeyCheck
from fedslim.protocol.sealing import rounds_of
from fedslim.protocol.state import AWAITING, MemberState, at_server, untimely
from fedslim.protocol.variant import Replies, Round, ServerSide, Situation, policy_of, sides
from fedslim.protocol.wire_types import ID_BYTES, MAX_ITEMS

if TYPE_CHECKING:
    from fedslim.protocol.preparation import Preparation

WORD_BYTES = 8
MAX_LATE = 3
"""Messages that one member may send after the end: an answer that was on its way, `Abort`, `Heard`."""
MISSING = {MemberState.EXPECTED, MemberState.AWAY}


class ServerSession:
    """One run, as the server sees it."""

    def __init__(  # noqa: PLR0913  # what a run is made of
        self,
        members: Sequence[str],
        settings: m.Settings,
        *,
        run: bytes,
        max_time: float | None = None,
        keys: KeyCheck | None = None,
        vocabulary: bytes | None = None,
        history: Callable[[], Iterable[Any]] | None = None,  # the rounds so far, from a journal
        prepared: Preparation | None = None,  # what the members agreed on before
    ) -> None:
        if not members or len(set(members)) != len(members):
            raise ParameterError(f"a federation needs members with different names, not {list(members)}")
        self.members = tuple(sorted(members))
        self.settings = settings
        self.outcome: Outcome | None = None
        self.variant: ServerSide | None = None  # set when the run starts
        self._max_time = max_time
        self.gathering = Gathering(self.members, settings, run, keys=keys, vocabulary=vocabulary)
        self._states = dict.fromkeys(self.members, MemberState.EXPECTED)
        self._began = 0.0
        self._stop_asked = False
        self._rounds: Generator[Round, Replies, Outcome]  # set when the run starts
        self._round: Round | None = None
        self._replies: Replies = {}
        self._waiting: set[str] = set()
        self._farewell: m.Finish | m.Abort | None = None  # the message that ended the run
        self._late = dict.fromkeys(self.members, 0)  # for each member, how many messages came after that
        self.positions = Positions(self.members, settings.max_rounds, history)
        self._prepared = prepared
        if prepared is not None:
            self.gathering.name_items(b"".join(prepared.ids), ())

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether the run has ended for all members."""
        return set(self._states.values()) == {MemberState.FINISHED}

    @property
    def rounds(self) -> int:
        """How many rounds have begun."""
        return self._situation.number if self.variant is not None else 0

    def state_of(self, member: str) -> MemberState:
        """Return the state of a member."""
        return self._states[member]

    def waiting_for(self) -> tuple[str, ...]:
        """Return the members whose messages the run is waiting for."""
        idle = {MemberState.IDLE, MemberState.SEATED, MemberState.FINISHED}
        return tuple(member for member, state in self._states.items() if state not in idle)

    @property
    def gathered(self) -> bool:
        """Whether all members were present at the same time once."""
        return self.gathering.epoch >= 0

    def max_bytes(self, member: str) -> int:
        """Return the largest size, before compression, of a message that this member may send now.

        The question bounds an answer; before a member has joined, its ids bound its message. Only answers of unknown
        length (pairs in SA and SO) and labels may fill a whole frame.
        """
        most = framing.SMALL
        if self._states[member] in MISSING:
            if self.settings.share_labels == "server":
                return framing.MAX_PLAIN
            items = 0 if self.gathering.agreed else self.gathering.items if self.gathered else MAX_ITEMS
            return most + ID_BYTES * items
        if self._round is not None:  # an answer may still be on its way when the round is asked again
            words = self._round.words
            most = framing.MAX_PLAIN if words is None else most + WORD_BYTES * words
        return most

    def best(self) -> Outcome | None:
        """Return the best table so far without asking members; usages stand for the supports of itemsets."""
        if self.outcome is not None:
            return self.outcome
        if self.variant is None or not self.variant.supports:
            return None
        result = self.variant.search.result()
        found = found_by(result, [entry.usage for entry in result.entries if len(entry.items) > 1])
        table = pack_table(found, self.variant.supports, self.variant.transactions, self.settings.min_count)
        return Outcome(table, result.tally, "member lost", self.variant.member_usages())

    def elapsed(self, now: float) -> float:
        """Return the seconds since all members had confirmed, as `max_time` counts them."""
        return now - self._began

    def stop(self) -> None:
        """Stop before the next round; the best table so far is the result."""
        self._stop_asked = True

    # -- messages in, messages and events out -------------------------------------------------------------------

    def receive(self, member: str, message: m.FromMember, now: float) -> list[ServerOutput]:  # noqa: C901, PLR0911
        """Process a member's message; `ProtocolError` if it may not send this now, and the session is unchanged."""
        if member not in self._states:
            msg = f"{member!r} is not a member of this federation; its {type(message).__name__} is refused"
            raise ProtocolError(msg)
        state = self._states[member]
        if isinstance(message, m.Join) and (end := self._missed(message)) is not None:
            self._late[member] = 0
            return [Send((member,), end)]
        after = at_server(state, message, member)
        if state is MemberState.FINISHED:  # it was on its way when the run ended; only the driver needs `Heard`
            self._late[member] += 1
            if self._late[member] > MAX_LATE:
                raise m.refused(f"member {member!r} sent {type(message).__name__} long after the end")
            return []
        if isinstance(message, m.Abort):
            return self._fail(f"member {member!r} gave up: {message.reason}", member)
        if isinstance(message, m.Join):
            self.gathering.check(member, message)
            if (message.run, message.epoch, message.position) != (b"", 0, 0) or self.gathered:
                number = self._situation.number if self.gathered and self._round is not None else None
                self.positions.check_return(member, message, self.gathering.run, number, gathered=self.gathered)
            self._states[member] = after
            self.gathering.seat(member, message)
            return self._gather(member)
        if after is state:
            missed = isinstance(message, m.Heard) and self._prepared is not None  # the end of the preparation
            if self.gathering.epoch <= 0 and not missed:
                raise untimely(state, message, member)
            return []  # the round will be asked again, or it confirms an earlier roster
        if isinstance(message, m.Confirm):
            if message.epoch != self.gathering.epoch:
                return []
            self.gathering.confirm(member, message)
            self._states[member] = after
            return self._begin(now) if set(self._states.values()) == {MemberState.IDLE} else []
        self._check_round(member, message)
        self._states[member] = after
        self._replies[member] = message
        self._waiting.discard(member)
        return [] if self._waiting else self._resume(now)

    def _missed(self, join: m.Join) -> m.Finish | m.Abort | None:
        """Return the message that a member missed if the run, or the preparation before it, ended while it was away."""
        before = self._prepared
        if self._farewell is None and before is not None and join.run == before.run:
            return m.Finish("converged", None, (), _departures(before))
        return self._farewell

    def disconnect(self, member: str) -> bool:
        """Note that the connection to a member is lost; it may come back. Return whether the run waits for that now."""
        if self._states[member] in {MemberState.FINISHED, *MISSING}:
            return False
        self.gathering.leave(member)
        self._states[member] = MemberState.AWAY if self.gathered else MemberState.EXPECTED
        return self.gathered

    def replay(self, past: ServerRecords, items: int, now: float, passed: Callable[[int], None] | None = None) -> None:
        """Bring a new session to the state of an earlier one, which had written this down.

        All members are then away; they join with their run and round. `now` is the present time less what the run had
        taken. `passed` is called with the number of each round after it.
        """
        self.positions.restore(past)
        self.gathering.resume(items, past.epoch)
        self._start(now)
        if not self._play(past.rounds, passed):
            self._states = dict.fromkeys(self.members, MemberState.AWAY)

    def _play(self, rounds: Iterable[Any], passed: Callable[[int], None] | None = None) -> bool:
        """Replay rounds from the first on; return whether that was the whole run."""
        self.positions.advance(self.members, 0)
        self._round = next(self._rounds)
        self._situation.number += 1
        for number, kept in enumerate(rounds):
            self.positions.advance(kept.replies, self._situation.number)
            self._situation.ending = kept.ending
            try:
                self._round = self._rounds.send(kept.replies)
                self._situation.number += 1
            except StopIteration as end:  # the search was over, though perhaps not all members knew
                self._finish(end.value)
            if passed is not None:
                passed(number)
            if self.outcome is not None:
                return True
        return False

    def lose(self, member: str, reason: str) -> list[ServerOutput]:
        """End the run because a member is lost; `best` has the best table so far."""
        return [] if self._states[member] is MemberState.FINISHED else self._fail(reason, member)

    # -- gathering ----------------------------------------------------------------------------------------------

    def _go_back(self) -> list[ServerOutput]:
        """If a member has lost records, bring the run back to the start of its round."""
        retreat = self.positions.retreat(self.rounds)
        if retreat is None:
            return []
        member, number = retreat
        if self.positions.retreats > MAX_RETREATS:
            return self._fail(f"members lost records {self.positions.retreats} times, the last was {member!r}", member)
        before = self.positions.rounds_before(number)
        if before is None:
            return self._fail(f"the journal lacks rounds before {number}, where {member!r} has to continue", None)
        self._rounds.close()
        self._start(self._began)
        self._play(before)
        return [WentBack(number, member)]

    def _gather(self, last: str) -> list[ServerOutput]:
        """Send a new roster once all members have joined; until then those that have joined wait."""
        if not MISSING.isdisjoint(self._states.values()):
            return []
        if self.gathering.exhausted:
            return self._fail(f"member {last!r} came back once too often: the limit of epochs is reached", last)
        retreat = self._go_back()
        if self._farewell is not None:
            return retreat
        number = 0 if self._round is None else self._situation.number - 1
        try:
            invitation = self.gathering.invite(number)
        except ProtocolError as error:
            return self._fail(str(error), None)
        self._states = dict.fromkeys(self.members, MemberState.INVITED)
        return [*retreat, *invitation]

    # -- running ------------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> list[ServerOutput]:
        confirmed = self.gathering.confirmed()
        if self._round is not None:
            return [Resumed(self._situation.number - 1), confirmed, *self._ask()]
        self._start(now)
        return [Began(self.members, self.gathering.items), confirmed, *self._next()]

    def _start(self, now: float) -> None:
        self._began = now
        items, policy = self.gathering.items, policy_of(self.settings)
        self._situation = Situation(self.members, items, self.settings, policy, run=self.gathering.run)
        self.variant = sides(self.settings.variant)[0](self._situation)
        self._rounds = rounds_of(self.variant, self._situation)

    def _check_round(self, member: str, reply: m.FromMember) -> None:
        number = getattr(reply, "round", None)
        if number != self._situation.number - 1:
            raise m.refused(f"member {member!r} answered round {number} during round {self._situation.number - 1}")
        if getattr(reply, "attempt", self.gathering.epoch) != self.gathering.epoch:
            raise m.refused(f"member {member!r} answered an earlier attempt at round {number}")

    def _resume(self, now: float) -> list[ServerOutput]:
        assert self._round is not None  # noqa: S101  # a member has just answered it
        self.positions.advance(self._replies, self._situation.number)
        # Decided once and journaled with the round: a restored server must decide the same.
        decided = self.positions.endings.get(self._situation.number - 1) or self._reason_to_stop(now)
        self._situation.ending = self._situation.ending or decided
        ended = RoundEnded(self._situation.number - 1, self._round.kind, self._replies, self._situation.ending)
        following = self._next()
        # A round that cannot be used is not journaled: nobody could go on from it.
        return following if isinstance(self._farewell, m.Abort) else [ended, *following]

    def _next(self) -> list[ServerOutput]:
        """Let the variant continue to its next round, or to the end."""
        replies, self._replies = self._replies, {}
        try:
            current = next(self._rounds) if self._round is None else self._rounds.send(replies)
        except StopIteration as end:
            return self._finish(end.value)
        except FedslimError as error:
            return self._fail(f"the round cannot be used: {error}", None)
        except MemoryError:
            # Tables grow with the counts, and a lying member can send counts up to `max_transactions`.
            return self._fail("the round cannot be used: its counts are too large for the server's memory", None)
        self._round = current
        self._situation.number += 1
        # Members that are away now had answered; the next round begins when they are back.
        away = {MemberState.AWAY, MemberState.SEATED}
        return self._ask() if away.isdisjoint(self._states.values()) else []

    def _ask(self) -> list[ServerOutput]:
        """Ask the question of the round; after a fault, ask it again, all members that were asked before."""
        assert self._round is not None  # noqa: S101
        same = self._round.messages  # for all members, unless there is one for each
        asked = {self.members: same} if isinstance(same, m.Message) else {(one,): own for one, own in same.items()}
        self._replies, self._waiting = {}, {member for to in asked for member in to}
        self._states |= dict.fromkeys(self._waiting, AWAITING[self._round.reply])
        return [Send(to, _number_attempt(message, self.gathering.epoch)) for to, message in asked.items()]

    def _reason_to_stop(self, now: float) -> Ending | None:
        # Questions that members answered before are asked again unchanged, so the search cannot stop among them.
        may_stop = self._situation.number >= self.positions.furthest
        if self._stop_asked and may_stop:
            return "interrupted"
        if self._max_time is not None and now - self._began >= self._max_time and may_stop:
            return "out of time"
        if self.settings.max_rounds is not None and self._situation.number >= self.settings.max_rounds:
            return "out of rounds"
        return None

    # -- the end ------------------------------------------------------------------------------------------------

    def _finish(self, outcome: Outcome) -> list[ServerOutput]:
        assert self.variant is not None  # noqa: S101
        self.outcome = outcome
        self._end()
        table = outcome.table if self.variant.members_know else None
        self._farewell = m.Finish(outcome.ending, table, outcome.labels, _departures(outcome.preparation))
        return [Send(self.members, self._farewell), Ended(outcome)]

    def _fail(self, reason: str, member: str | None) -> list[ServerOutput]:
        here = (MemberState.EXPECTED, MemberState.FINISHED)
        others = tuple(other for other, state in self._states.items() if other != member and state not in here)
        self._end()
        self._farewell = m.Abort(reason[:2000])
        sends: list[ServerOutput] = [Send(others, self._farewell)] if others else []
        return [*sends, Failed(reason, member)]

    def _end(self) -> None:
        self._states = dict.fromkeys(self.members, MemberState.FINISHED)
        if self.variant is not None:
            self._rounds.close()


def _departures(prepared: Preparation | None) -> list[m.Departure]:
    return [] if prepared is None else [m.Departure(*one) for one in prepared.left.items()]


def _number_attempt(message: m.FromServer, number: int) -> m.FromServer:
    """Set the attempt number of a message that has one."""
    return msgspec.structs.replace(message, attempt=number) if isinstance(message, m.InAttempt) else message
