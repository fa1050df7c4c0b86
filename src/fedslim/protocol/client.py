"""A client's session: it joins, answers what the variant asks, and receives the end. It does no I/O.

    session = ClientSession("hospital-a", site, entropy=os.urandom(32))
    send(session.join())
    reply = session.receive(message)

What leaves a site leaves it through `receive`: one reply to one question, made by the variant's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fedslim import __version__
from fedslim.data.vocabulary import ItemSecret, Vocabulary, labels_for, over
from fedslim.errors import FedslimError, ParameterError, ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.events import Received
from fedslim.protocol.legality import ClientState, at_client
from fedslim.protocol.outcome import code_table
from fedslim.protocol.variant import client_side
from fedslim.secagg import AgreementKey

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.protocol.variant import ClientSide


@dataclass(frozen=True, slots=True)
class Site:
    """A member's data and what it agreed to: nothing of this comes from the server."""

    database: TransactionDatabase
    members: tuple[str, ...]
    secret: ItemSecret
    vocabulary: Vocabulary | None = None  # agreed on among the members; without one, the server forms the union
    variants: tuple[str, ...] = ("x", "sa", "so")
    unmasked: bool = False  # whether it may answer X and SA without masks: for measurements only
    share_vocabulary: bool = False  # whether the server may have the labels


class ClientSession:
    """One run, as a member sees it."""

    def __init__(self, name: str, site: Site, *, entropy: bytes) -> None:
        if name not in site.members:
            msg = f"{name!r} is not among the members {', '.join(map(repr, site.members))}"
            raise ParameterError(msg)
        self.name = name
        self.state = ClientState.JOINING
        self.received: Received | None = None
        self._site = site
        self._key = AgreementKey.from_random(entropy)
        self._labels: tuple[str, ...] = ()
        self._variant: ClientSide | None = None
        self._last = (-1, 0)  # round and attempt of the last question answered

    def join(self) -> m.Join:
        """The first message."""
        site = self._site
        share = site.share_vocabulary
        agreed = site.vocabulary
        ids = agreed.ids if agreed is not None else site.secret.ids_of(site.database.vocabulary)
        labels: list[str] = []
        if share:
            labels = list(site.database.vocabulary if agreed is None else self._own_labels(agreed))
        return m.Join(
            m.PROTOCOL,
            __version__,
            self._key.public,
            b"" if agreed is None else agreed.digest,
            b"".join(ids) if agreed is None or share else b"",
            len(ids),
            labels,
        )

    def _own_labels(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return labels_for(vocabulary, self._site.secret, self._site.database.vocabulary)

    def receive(self, message: m.FromServer) -> m.FromClient | None:
        """Take in the server's message; returns the reply, if one is due.

        Raises:
            ProtocolError: The server may not say that now, or asks for what this site does not give. The session is as
                it was before; only a question that turned out to make no sense, half answered, ends it.
        """
        after = at_client(self.state, message)
        reply: m.FromClient | None = None
        if isinstance(message, m.Roster):
            self._take_seat(message)
            reply = m.Ready()
        elif isinstance(message, m.Finish):
            table = None if message.table is None else code_table(message.table, self._labels)
            self.received = Received(message.ending, table)
        elif isinstance(message, m.Abort):
            self.received = Received(f"ended by the server: {message.reason}", None)
        else:
            reply = self._answer(message)
        self.state = after
        return reply

    def _answer(self, ask: Any) -> m.FromClient:
        assert self._variant is not None  # noqa: S101  # no question is legal before the roster
        now = (ask.round, getattr(ask, "attempt", 0))
        if now <= self._last:
            msg = (
                f"the server sent {type(ask).__name__} of round {ask.round} while this client was {self.state.value} "
                f"and past round {self._last[0]}; a question is answered once, so it is refused"
            )
            raise ProtocolError(msg)
        try:
            reply = self._variant.answer(ask)
        except FedslimError:
            self.state = ClientState.FINISHED
            raise
        self._last = now
        return reply

    def _take_seat(self, roster: m.Roster) -> None:
        """Check what the server announces against what this site agreed to, and share a secret with everybody."""
        site, settings = self._site, roster.settings
        if sorted(roster.members) != sorted(site.members) or len(roster.keys) != len(roster.members):
            msg = (
                f"the server's roster has the members {', '.join(map(repr, sorted(roster.members)))}, this site agreed "
                f"to {', '.join(map(repr, sorted(site.members)))}; with others it shares nothing"
            )
            raise ProtocolError(msg)
        if settings.variant not in site.variants:
            msg = f"the server wants to run {settings.variant}; this site agreed to {', '.join(site.variants)}"
            raise ProtocolError(msg)
        if not settings.masked and settings.variant != "so" and not site.unmasked:
            msg = f"the server wants counts without masks in {settings.variant}; this site does not agree to that"
            raise ProtocolError(msg)
        if settings.share_vocabulary and not site.share_vocabulary:
            msg = "the server wants the labels of the items; this site does not agree to that"
            raise ProtocolError(msg)
        keys = dict(zip(roster.members, roster.keys, strict=True))
        if keys[self.name] != self._key.public:
            msg = "the server's roster has another key under this member's name; the run must not go on"
            raise ProtocolError(msg)
        if site.database.transactions * len(roster.members) > settings.most_transactions:
            msg = (
                f"the run is for {settings.most_transactions} transactions of {len(roster.members)} members, and this "
                "site has more than its part; the sums would not be safe. Raise most_transactions"
            )
            raise ProtocolError(msg)
        vocabulary = self._vocabulary(roster)
        database = over(site.database, vocabulary, site.secret)
        secrets = {
            peer: self._key.agree(self.name, peer, key, run=roster.run)
            for peer, key in keys.items()
            if peer != self.name
        }
        self._labels = database.vocabulary
        self._variant = client_side(settings, self.name, secrets, database)

    def _vocabulary(self, roster: m.Roster) -> Vocabulary:
        if self._site.vocabulary is not None:
            if roster.ids:
                msg = "the server's roster has a vocabulary of its own, but one was agreed on; it is refused"
                raise ProtocolError(msg)
            return self._site.vocabulary
        if len(roster.ids) % m.ID_BYTES:
            msg = f"the server's vocabulary has {len(roster.ids)} bytes, which is no whole number of ids"
            raise ProtocolError(msg)
        ids = tuple(roster.ids[k : k + m.ID_BYTES] for k in range(0, len(roster.ids), m.ID_BYTES))
        if any(one >= other for one, other in pairwise(ids)):
            msg = "the server's vocabulary is not in ascending order; it is refused"
            raise ProtocolError(msg)
        return Vocabulary(ids, self._site.secret.fingerprint)
