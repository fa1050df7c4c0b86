"""A client's session: it joins, answers what the variant asks, and receives the end. It does no I/O.

    session = ClientSession("hospital-a", site)
    send(session.join(os.urandom(32)))
    reply = session.receive(message)

What leaves a site leaves it through `receive`: one reply to one question, made by the variant's file, and masked here
where it is made of counts that the server must not see.

After a fault a client joins again, with a new key. A question that it has answered before is answered with the same
counts under new masks. One that was killed brings itself back by receiving again what it had received (`replay`).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from fedslim import __version__
from fedslim.data.vocabulary import ItemSecret, Vocabulary, labels_for, over
from fedslim.errors import FedslimError, ParameterError, ProtocolError
from fedslim.protocol import messages as m
from fedslim.protocol.events import Received
from fedslim.protocol.legality import ClientState, at_client
from fedslim.protocol.outcome import code_table
from fedslim.protocol.sums import Hidden
from fedslim.protocol.variant import Words, client_side
from fedslim.secagg import AgreementKey, MaskLabel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fedslim.data import TransactionDatabase
    from fedslim.protocol.variant import ClientSide
    from fedslim.secagg import PairSecret


class Trust(Protocol):
    """Signs this member's agreement keys and checks those of others: see `transport/trust`."""

    @property
    def certificate(self) -> bytes:
        """The member's own."""

    def sign(self, key: bytes) -> bytes:
        """A signature of the member's agreement key."""

    def check(self, name: str, key: bytes, certificate: bytes, signature: bytes) -> None:
        """Raise `KeyAgreementError` unless this key is that member's."""


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
    trust: Trust | None = None  # without it (in one process) keys are believed to be whose they are said to be


@dataclass(frozen=True, slots=True)
class Answered:
    """The last question, the answer before it was masked, the epoch in which it was last sent, and the transcript.

    The transcript is a digest of all questions so far, this one included. Masks depend on it: members that were asked
    different things, now or ever, have masks that do not cancel, so a server cannot single one of them out.
    """

    question: Any
    answer: m.FromClient | Words
    epoch: int
    transcript: bytes


class ClientSession:
    """One run, as a member sees it."""

    def __init__(self, name: str, site: Site) -> None:
        if name not in site.members:
            msg = f"{name!r} is not among the members {', '.join(map(repr, site.members))}"
            raise ParameterError(msg)
        self.name = name
        self.state = ClientState.JOINING
        self.received: Received | None = None
        self._site = site
        self._key: AgreementKey | None = None
        self._roster: m.Roster | None = None
        self._labels: tuple[str, ...] = ()
        self._variant: ClientSide | None = None
        self._secrets: dict[str, PairSecret] = {}
        self._hidden: dict[str, Hidden] = {}
        self._last: Answered | None = None

    # -- joining ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The round that comes next."""
        return 0 if self._last is None else self._last.question.round + 1

    @property
    def run(self) -> bytes:
        """The run that this client is in; empty before it is in one."""
        return b"" if self._roster is None else self._roster.run

    def join(self, entropy: bytes) -> m.Join:
        """The first message on a line, also after a fault; `entropy` is 32 random bytes, new each time."""
        site, agreed = self._site, self._site.vocabulary
        self._key = AgreementKey.from_random(entropy)
        ids = agreed.ids if agreed is not None else site.secret.ids_of(site.database.vocabulary)
        labels: list[str] = []
        if site.share_vocabulary:
            labels = list(site.database.vocabulary if agreed is None else self._own_labels(agreed))
        return m.Join(
            m.PROTOCOL,
            __version__,
            self._key.public,
            b"" if agreed is None else agreed.digest,
            b"".join(ids) if agreed is None or site.share_vocabulary else b"",
            len(ids),
            labels,
            b"" if site.trust is None else site.trust.certificate,
            b"" if site.trust is None else site.trust.sign(self._key.public),
            # Whoever has not answered anything yet is in no run: the server may have been killed before it was in one.
            self.run if self.position else b"",
            self._roster.epoch + 1 if self._roster is not None and self.position else 0,
            self.position,
        )

    def _own_labels(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return labels_for(vocabulary, self._site.secret, self._site.database.vocabulary)

    # -- messages -----------------------------------------------------------------------------------------------

    def receive(self, message: m.FromServer) -> m.FromClient | None:
        """Take in the server's message; returns the reply, if one is due.

        Raises:
            ProtocolError: The server may not say that now, or asks for what this site does not give. The session is as
                it was before; only a question that turned out to make no sense, half answered, ends it.
        """
        after = at_client(self.state, message)
        reply: m.FromClient | None = None
        if isinstance(message, m.Roster):
            secrets = self._shared(message)
            self._take_seat(message)
            self._secrets, self._hidden = secrets, {}
            reply = m.Ready(message.epoch)
        elif isinstance(message, m.Finish):
            self._take_end(message)
        elif isinstance(message, m.Abort):
            self.received = Received(f"ended by the server: {message.reason}", None)
        else:
            self._check_attempt(message)
            reply = self._sent(message, self._answered(message))
        self.state = after
        return reply

    def _take_end(self, message: m.Finish) -> None:
        assert self._variant is not None  # noqa: S101  # it is not legal before the roster
        table = self._variant.own_table() if message.table is None else message.table
        self.received = Received(message.ending, None if table is None else code_table(table, self._labels))

    def _check_attempt(self, message: Any) -> None:
        """Masks are made for the attempt that the roster names: whoever names another wants something else."""
        assert self._roster is not None  # noqa: S101
        if getattr(message, "attempt", self._roster.epoch) != self._roster.epoch:
            msg = f"the server made attempt {message.attempt} in epoch {self._roster.epoch}; it is refused"
            raise ProtocolError(msg)

    def replay(self, messages: Iterable[m.FromServer]) -> None:
        """Receive again what was received before a fault, without answering it: the state is what it was."""
        for message in messages:
            after = at_client(self.state, message)
            if isinstance(message, m.Roster):
                self._take_seat(message)
            elif isinstance(message, m.Finish):
                self._take_end(message)
            else:
                self._answered(message)
            self.state = after

    def _answered(self, message: Any) -> m.FromClient | Words:
        """The answer, which is the same if the question comes again because of a fault."""
        assert self._variant is not None  # noqa: S101  # no question is legal before the roster
        assert self._roster is not None  # noqa: S101
        last, epoch = self._last, self._roster.epoch
        if last is not None and message.round <= last.question.round:
            if epoch == last.epoch:
                msg = (
                    f"the server sent {type(message).__name__} of round {message.round} while this client was "
                    f"{self.state.value} and past round {last.question.round}; a question is answered once, so it is "
                    "refused"
                )
                raise ProtocolError(msg)
            if _first_attempt(message) != _first_attempt(last.question):
                msg = f"the server asked something else in round {message.round} than before; it is refused"
                raise ProtocolError(msg)
            self._last = Answered(last.question, last.answer, epoch, last.transcript)
            return last.answer
        try:
            answer = self._variant.answer(message)
        except FedslimError:
            self.state = ClientState.FINISHED
            raise
        before = b"" if last is None else last.transcript
        transcript = sha256(before + msgspec.msgpack.encode(_first_attempt(message))).digest()
        self._last = Answered(message, answer, epoch, transcript)
        return answer

    def _sent(self, question: Any, answer: m.FromClient | Words) -> m.FromClient:
        """What leaves the site: counts that the server must not see are masked here."""
        if not isinstance(answer, Words):
            return answer
        hidden = self._hidden.get(answer.purpose)
        if hidden is None:
            hidden = self._hidden[answer.purpose] = Hidden(self.name, self._secrets, purpose=answer.purpose)
        assert self._last is not None  # noqa: S101  # it is the answer to that
        label = MaskLabel(question.round, question.attempt)
        vector = hidden.vector(answer.words, label, about=self._last.transcript)
        return m.Masked(question.round, question.attempt, vector)

    # -- the roster ---------------------------------------------------------------------------------------------

    def _take_seat(self, roster: m.Roster) -> None:
        """Check what the server announces against what this site agreed to, and against what it announced before."""
        site, settings, before = self._site, roster.settings, self._roster
        if before is not None and self.position:
            if (roster.run, settings, roster.members, roster.ids) != (
                before.run,
                before.settings,
                before.members,
                before.ids,
            ) or roster.epoch <= before.epoch:
                msg = "the server's new roster is not one of the run that this client is in; it is refused"
                raise ProtocolError(msg)
            self._roster = roster
            return
        if settings.variant not in site.variants:
            msg = f"the server wants to run {settings.variant}; this site agreed to {', '.join(site.variants)}"
            raise ProtocolError(msg)
        if not settings.masked and settings.variant != "so" and not site.unmasked:
            msg = f"the server wants counts without masks in {settings.variant}; this site does not agree to that"
            raise ProtocolError(msg)
        if settings.share_vocabulary and not site.share_vocabulary:
            msg = "the server wants the labels of the items; this site does not agree to that"
            raise ProtocolError(msg)
        if site.database.transactions * len(roster.members) > settings.most_transactions:
            msg = (
                f"the run is for {settings.most_transactions} transactions of {len(roster.members)} members, and this "
                "site has more than its part; the sums would not be safe. Raise most_transactions"
            )
            raise ProtocolError(msg)
        database = over(site.database, self._vocabulary(roster), site.secret)
        self._labels = database.vocabulary
        self._variant = client_side(settings, database)
        self._roster = roster

    def _shared(self, roster: m.Roster) -> dict[str, PairSecret]:
        """A new secret with everybody: no mask of an earlier epoch can come again."""
        if sorted(roster.members) != sorted(self._site.members):
            msg = (
                f"the server's roster has the members {', '.join(map(repr, sorted(roster.members)))}, this site agreed "
                f"to {', '.join(map(repr, sorted(self._site.members)))}; with others it shares nothing"
            )
            raise ProtocolError(msg)
        if len(roster.keys) != len(roster.members):
            n = len(roster.members)
            msg = f"the roster has {n} members and {len(roster.keys)} keys; with others it shares nothing"
            raise ProtocolError(msg)
        keys = dict(zip(roster.members, roster.keys, strict=True))
        own = self._key
        if own is None or keys[self.name] != own.public:
            msg = "the server's roster has another key under this member's name; the run must not go on"
            raise ProtocolError(msg)
        if (trust := self._site.trust) is not None:
            if not len(roster.certificates) == len(roster.signatures) == len(keys):
                msg = "the server's roster has keys that are not signed; the run must not go on"
                raise ProtocolError(msg)
            proofs = zip(roster.members, roster.keys, roster.certificates, roster.signatures, strict=True)
            for name, key, certificate, signature in proofs:
                trust.check(name, key, certificate, signature)
        if not roster.settings.masked:
            return {}
        run = roster.run + roster.epoch.to_bytes(2, "big")
        return {peer: own.agree(self.name, peer, key, run=run) for peer, key in keys.items() if peer != self.name}

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


def _first_attempt(question: Any) -> Any:
    return msgspec.structs.replace(question, attempt=0) if getattr(question, "attempt", 0) else question
