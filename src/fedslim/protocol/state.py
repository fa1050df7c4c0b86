"""Who may send what, and when: two tables decide, and nothing else.

The server keeps a state for each member, named after what it waits for; a member has one state. A message that the
table does not list for the state is refused with an error that names state, message and peer.

    server:  (join) → seated, invited → confirmed ⇄ waits for an answer of one kind → finished
             away, from any of these → (join) → seated …
    member:  joining → (roster) → confirming → (all signatures) → running a variant → finished

A member answers no question before it has checked that all members signed the roster that it signed. When a member
comes back, all members confirm a new roster, and the interrupted round is asked again. Answers that were on their way
then arrive before the member has confirmed: they are legal, and dropped, as are messages that were on their way when
the run ended. A member may send Abort at any time, the server only before the end; Heard is legal only after the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import get_args

from fedslim.errors import ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.messages import Message


class MemberState(Enum):
    """The state of a member, as the server sees it."""

    EXPECTED = "waiting for it to join"
    SEATED = "waiting for the others to join"
    INVITED = "waiting for it to confirm the roster"
    IDLE = "idle"
    ASKED_MASKED = "waiting for masked counts"
    ASKED_READY = "waiting to hear whether it stays"
    ASKED_USAGES = "waiting for usages"
    ASKED_CANDIDATES = "waiting for candidates"
    ASKED_EVALUATED = "waiting for an evaluation"
    ASKED_SUPPORTS = "waiting for supports"
    ASKED_STRUCTURE = "waiting for candidate structure"
    ASKED_LABELS = "waiting for sealed labels"
    AWAY = "waiting for it to come back"
    FINISHED = "finished"


class SessionState(Enum):
    """The state of a member's session."""

    JOINING = "waiting for the roster"
    CONFIRMING = "waiting for the others to confirm the roster"
    PREPARING = "preparing a run"
    RUNNING_X = "running X"
    RUNNING_SA = "running SA"
    RUNNING_SO = "running SO"
    FINISHED = "finished"


M, C = MemberState, SessionState

AWAITING: Mapping[type[Message], MemberState] = {
    m.Masked: M.ASKED_MASKED,
    m.Ready: M.ASKED_READY,
    m.Usages: M.ASKED_USAGES,
    m.Candidates: M.ASKED_CANDIDATES,
    m.Evaluated: M.ASKED_EVALUATED,
    m.SupportCounts: M.ASKED_SUPPORTS,
    m.Structure: M.ASKED_STRUCTURE,
    m.Labels: M.ASKED_LABELS,
}
"""The state of a member that owes a reply of this kind."""

AT_SERVER: Mapping[tuple[MemberState, type[Message]], MemberState] = {
    (M.EXPECTED, m.Join): M.SEATED,
    (M.AWAY, m.Join): M.SEATED,
    (M.EXPECTED, m.Heard): M.EXPECTED,  # it missed the end of the preparation, and has now heard it
    (M.INVITED, m.Confirm): M.IDLE,
    **{(state, reply): M.IDLE for reply, state in AWAITING.items()},
    **{(state, late): state for state in (M.SEATED, M.INVITED) for late in AWAITING},
    (M.SEATED, m.Confirm): M.SEATED,
    **{(M.FINISHED, late): M.FINISHED for late in AWAITING},
    **{(M.FINISHED, late): M.FINISHED for late in (m.Confirm, m.Abort, m.Heard)},
    **{(state, m.Abort): M.FINISHED for state in M if state is not M.FINISHED},
}

RUNNING: Mapping[str, SessionState] = {"prepare": C.PREPARING, "x": C.RUNNING_X, "sa": C.RUNNING_SA, "so": C.RUNNING_SO}
"""The state after a confirmed roster, by variant."""

_ASKED_OF: Mapping[SessionState, tuple[type[Message], ...]] = {
    C.PREPARING: (m.AskPreparation,),
    C.RUNNING_X: (m.Ask, m.AskLabels),
    C.RUNNING_SA: (*get_args(m.SaQuestion), m.AskLabels),
    C.RUNNING_SO: get_args(m.SoQuestion),
}

AT_MEMBER: Mapping[tuple[SessionState, type[Message]], SessionState | None] = {
    (C.JOINING, m.Roster): C.CONFIRMING,
    # A member has come back.
    **{(state, kind): C.CONFIRMING for state in (C.CONFIRMING, *_ASKED_OF) for kind in (m.Roster, m.RosterUpdate)},
    (C.CONFIRMING, m.Confirmed): None,  # the state depends on the variant: see RUNNING
    **{(state, kind): state for state, kinds in _ASKED_OF.items() for kind in kinds},
    # Also while joining: the run may have ended while the member was away.
    **{(state, m.Finish): C.FINISHED for state in (C.JOINING, *_ASKED_OF)},
    **{(state, m.Abort): C.FINISHED for state in C if state is not C.FINISHED},
}


def at_server(state: MemberState, message: Message, member: str) -> MemberState:
    """Return the state of a member after its message; raise `ProtocolError` if it may not send it now."""
    after = AT_SERVER.get((state, type(message)))
    if after is None:
        raise untimely(state, message, member)
    return after


def untimely(state: MemberState, message: Message, member: str) -> ProtocolError:
    """Return the error for a message that a member may not send now."""
    kind = type(message).__name__
    return m.refused(f"member {member!r} sent {kind} while the server was {state.value}")


def at_member(state: SessionState, message: Message, variant: str) -> SessionState:
    """Return a member's state after the server's message; raise `ProtocolError` if the server may not send it now."""
    after = AT_MEMBER.get((state, type(message)), C.JOINING)
    if after is C.JOINING:
        raise m.refused(f"the server sent {type(message).__name__} while this member was {state.value}")
    return RUNNING[variant] if after is None else after
