"""A member's session: it joins, confirms the roster, answers questions, and receives the result. It does no I/O.

After `join`, everything that a member sends comes from `receive`: one reply to one question. The variant computes it;
counts that the server must not see are masked here. The member answers nothing before all members have confirmed the
same roster. Whether it refuses a question depends only on the question, never on its counts.

After a fault a member joins again, with a new key. It answers a repeated question with the same counts under new
masks. A member that was killed restores its state by replaying the messages that it had received (`replay`). When a
party has lost its last records, the roster names an earlier round: the member goes back to it, and answers the same
questions again, and no others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fedslim import __version__
from fedslim.data.database import TransactionDatabase
from fedslim.data.vocabulary import ItemSecret, Vocabulary, labels_for, over
from fedslim.errors import DataError, FedslimError, KeyAgreementError, ParameterError, ProtocolError, UntrustedError
from fedslim.mdl.codetable import CodeTable
from fedslim.protocol import messages as m
from fedslim.protocol.events import Received
from fedslim.protocol.outcome import code_table
from fedslim.protocol.prepare import PrepareMember, Site
from fedslim.protocol.roster import RosterSigner, Unsigned, apply_update, roster_digest
from fedslim.protocol.sealing import UnsealedLabels, sealed_labels, unsealed, unsealed_labels
from fedslim.protocol.state import SessionState, at_member
from fedslim.protocol.sums import WORD_BITS
from fedslim.protocol.variant import MemberSide, UnmaskedWords, sides
from fedslim.protocol.wire_types import ID_BYTES, split_ids
from fedslim.secagg.keys import AgreementKey, PairSecret
from fedslim.secagg.masking import Masker, MaskLabel

Answer = m.FromMember | UnmaskedWords | UnsealedLabels
CANNOT = "it cannot go on; its own log says why"


@dataclass(frozen=True, slots=True)
class MemberInput:
    """A member's data and what it agreed to: nothing of this comes from the server."""

    database: TransactionDatabase
    members: tuple[str, ...]
    settings: m.Settings
    secret: ItemSecret
    vocabulary: Vocabulary | None = None  # agreed among the members; without one, the server forms the union
    trust: RosterSigner = field(default_factory=Unsigned)
    site: Site | None = None  # in a preparation, in place of the database

    @classmethod
    def preparing(cls, site: Site, members: tuple[str, ...], settings: m.Settings, trust: RosterSigner) -> MemberInput:
        """Return the input of a preparation: there are no items yet."""
        rows = TransactionDatabase(np.zeros(site.conformed.rows + 1, np.int64), np.empty(0, np.int32), ())
        return cls(rows, members, settings, site.secret, Vocabulary((), site.secret.fingerprint), trust, site)

    def __post_init__(self) -> None:
        """Check the member's own data before anything is sent."""
        if self.database.transactions * len(self.members) > self.settings.max_transactions:
            raise ParameterError(
                f"the run allows {self.settings.max_transactions} transactions for {len(self.members)} members, and "
                f"this member's {self.database.transactions} are more than its share; raise max_transactions"
            )

    @property
    def fingerprint(self) -> bytes:
        """The fingerprint of the secret, by which the server sees that all members use the same one."""
        return bytes.fromhex(self.secret.fingerprint)


class Answered(NamedTuple):
    """The last question, its answer before masking, the epoch in which it was last sent, and the transcript.

    The transcript is a digest of all questions so far, this one included. Masks depend on it and on the roster: if
    members ever saw different rosters or questions, their masks do not cancel, so a server cannot single one out.
    """

    question: Any
    answer: Answer
    epoch: int
    transcript: bytes


class MemberSession:
    """One run, as a member sees it."""

    def __init__(self, name: str, own: MemberInput) -> None:
        if name not in own.members:
            raise ParameterError(f"{name!r} is not among the members {', '.join(map(repr, own.members))}")
        self.name = name
        self.state = SessionState.JOINING
        self.received: Received | None = None
        self._own = own
        self._key: AgreementKey | None = None
        self._roster: m.Roster | None = None
        self._digest = b""  # of that roster
        self._variant: MemberSide  # since the first roster, as is …
        self._numbered: TransactionDatabase  # … the data in the numbers of the agreed vocabulary
        self._secrets: dict[str, PairSecret] = {}
        self._maskers: dict[str, Masker] = {}
        self._last: Answered | None = None
        self._asked: dict[int, Any] = {}  # every question answered so far, by round
        self._shared: dict[str, Any] = {}  # with the other members of this process
        self._again: deque[Any] = deque()  # questions that must come again after a return to an earlier round
        if own.vocabulary is not None:
            self._numbered = over(own.database, own.vocabulary, own.secret)

    # -- joining ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The round that comes next."""
        return 0 if self._last is None else self._last.question.round + 1

    @property
    def has_answered(self) -> bool:
        """Whether this member has answered a question of the run, even if it went back to the beginning since."""
        return bool(self._asked)

    @property
    def run(self) -> bytes:
        """The run that this member is in; empty before it has a roster."""
        return b"" if self._roster is None else self._roster.run

    def is_closing(self, message: m.FromServer) -> bool:
        """Return whether a message is one of the last of the run: the final question, or `Finish`."""
        if isinstance(message, (m.AskLabels, m.Finish)):
            return True
        return self._roster is not None and isinstance(message, m.InRound) and self._variant.is_final(message)

    def is_too_early(self, message: m.FromServer) -> bool:
        """Return whether a message ends the preparation before this search: the server is not ready for it yet."""
        return isinstance(message, m.Finish) and bool(self._own.settings.preparation) and self._roster is None

    def join(self, entropy: bytes) -> m.Join:
        """Return the first message on a connection, also after a fault; `entropy` is 32 new random bytes."""
        own, agreed = self._own, self._own.vocabulary
        if self.state is not SessionState.FINISHED:
            # An earlier confirmation, perhaps from the journal, belongs to another connection and another key.
            self.state = SessionState.JOINING
        self._secrets, self._maskers = {}, {}
        self._key = AgreementKey.from_random(entropy)
        ids = agreed.ids if agreed is not None else own.secret.ids_of(own.database.vocabulary)
        labels: list[str] = []
        if own.settings.share_labels == "server":
            mine = own.database.vocabulary
            labels = list(mine if agreed is None else labels_for(agreed, own.secret, mine))
        return m.Join(
            m.PROTOCOL,
            __version__,
            self._key.public,
            own.fingerprint,
            b"" if agreed is None else agreed.digest,
            b"".join(ids) if agreed is None or labels else b"",
            len(ids),
            labels,
            own.trust.certificate,
            own.trust.sign("agreement key", self._key.public),
            # A member without answers is in no run: the server may have been killed before it wrote down the run.
            self.run if self.has_answered else b"",
            self._roster.epoch + 1 if self._roster is not None and self.has_answered else 0,
            self.position,
        )

    # -- messages -----------------------------------------------------------------------------------------------

    def receive(self, message: m.FromServer) -> m.FromMember | None:
        """Process a message from the server; return the reply, if one is due.

        After a `ProtocolError` the session is unchanged, unless the variant found it while answering: that ends it.
        """
        after = at_member(self.state, message, self._own.settings.variant)
        reply: m.FromMember | None = None
        if isinstance(message, (m.Roster, m.RosterUpdate)):
            self._take_seat(message)
            reply = m.Confirm(message.epoch, self._own.trust.sign("roster", self._digest))
        elif isinstance(message, m.Confirmed):
            self._share_secrets(message)
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
        if self._roster is None or (self.state is SessionState.JOINING and not self.has_answered):
            # A run can end while a member is away only if the member has answered in it.
            raise m.refused(f"the server sent Finish while this member was {self.state.value}")
        if message.table is not None:
            self._variant.check_end(message.table)
        elif isinstance(self._variant, PrepareMember):
            self.received = self._variant.end(message, self.name, self._roster, self._digest, self._own.trust)
            return
        table = message.table or self._variant.own_table()
        found = None if table is None else self._code_table(table, self._names(message, self._roster))
        self.received = Received(message.ending, found)

    def _code_table(self, table: m.PackedTable, names: tuple[str, ...]) -> CodeTable:
        """Return a table that was received; members who share their work check and name it once."""
        last, its_names, made = self._shared.get("table", (None, (), None))
        if last is not table or its_names != names:
            made = code_table(table, names)
            self._shared["table"] = (table, names, made)
        found: CodeTable = replace(made, encoding=self._numbered.encoding)
        return found

    def _names(self, message: m.Finish, roster: m.Roster) -> tuple[str, ...]:
        """Return the label of each item as far as it is known: our own, and those of other members."""
        if self._last is None or not isinstance(question := self._last.question, m.AskLabels):
            return self._numbered.vocabulary
        secret = self._own.secret
        received = unsealed(message, question, roster.members, secret, self._digest)
        return labels_for(self._vocabulary(roster), secret, [*received, *self._own.database.vocabulary])

    def _check_attempt(self, message: Any) -> None:
        """Check the attempt number: masks are made only for the epoch of the roster."""
        assert self._roster is not None  # noqa: S101
        if isinstance(message, m.InAttempt) and message.attempt != self._roster.epoch:
            raise m.refused(f"the server sent attempt {message.attempt} in epoch {self._roster.epoch}")

    def share_work(self, shared: dict[str, Any]) -> None:
        """Compute with the other members of this process, once all have taken their seats; masks stay our own."""
        self._shared = shared
        self._variant.share_work(shared)

    def replay(self, messages: Iterable[m.FromServer]) -> None:
        """Restore the state before a fault: process again the messages received then, without replying."""
        for message in messages:
            after = at_member(self.state, message, self._own.settings.variant)
            if isinstance(message, (m.Roster, m.RosterUpdate)):
                self._take_seat(message, replayed=True)
            elif isinstance(message, m.Finish):
                self._take_end(message)
            elif not isinstance(message, m.Confirmed):
                self._answered(message)
            self.state = after

    def _answered(self, message: Any) -> Answer:
        """Return the answer to a question; a question repeated after a fault gets the same answer."""
        assert self._roster is not None  # noqa: S101  # no question is legal before it
        last, epoch = self._last, self._roster.epoch
        question = _first_attempt(message)
        if last is not None and message.round <= last.question.round:
            if epoch == last.epoch:
                sent = f"{type(message).__name__} of round {message.round} while this member was {self.state.value}"
                past = f"past round {last.question.round}; a question is answered only once"
                raise m.refused(f"the server sent {sent} and {past}")
            _check_same(question, _first_attempt(last.question))
            self._last = Answered(last.question, last.answer, epoch, last.transcript)
            return last.answer
        if last is not None and isinstance(last.question, m.AskLabels):
            raise m.refused(f"the server sent {type(message).__name__} after it had asked for labels")
        limit, answered = self._own.settings.max_rounds, len(self._asked)
        if self._again:
            _check_same(question, self._again[0])
        elif limit is not None and answered >= limit + m.ROUNDS_TO_FINISH and not self.is_closing(message):
            raise m.refused(f"the server asked another question after {answered} rounds; {limit} were agreed on")
        try:
            answer = self._labels(message) if isinstance(message, m.AskLabels) else self._variant.answer(message)
        except FedslimError:
            self.state = SessionState.FINISHED
            raise
        before = b"" if last is None else last.transcript
        self._last = Answered(message, answer, epoch, self._transcript(question, before))
        self._asked[message.round] = question
        if self._again:
            self._again.popleft()
        return answer

    def _transcript(self, question: Any, before: bytes) -> bytes:
        """Return the transcript with another question; members who share their work compute it once."""
        about: tuple[Any, bytes] | None
        digest: bytes
        about, digest = self._shared.get("transcript", (None, b""))
        if about != (question, before):
            digest = sha256(before + msgspec.msgpack.encode(question)).digest()
            self._shared["transcript"] = ((question, before), digest)
        return digest

    def _side(self) -> MemberSide:
        own = self._own
        side: MemberSide = sides(own.settings.variant)[1](own.site or self._numbered, own.settings, len(own.members))
        return side

    def _labels(self, question: m.AskLabels) -> UnsealedLabels:
        """Return the labels of our items in a table that may be published."""
        self._variant.check_end(question.table)
        code_table(question.table, self._numbered.vocabulary)  # checks the counts and min_count
        own = set(self._own.database.vocabulary)
        return unsealed_labels(question, self._own.settings, len(self._own.members), self._numbered.vocabulary, own)

    def _go_back(self, number: int) -> None:
        """Go back to the state before this round, by answering the earlier questions again."""
        self._variant = self._side()
        self._last, self._again = None, deque(self._asked.values())
        while self._again and self._again[0].round < number:
            self._answered(self._again[0])

    def _sent(self, question: Any, answer: Answer) -> m.FromMember:
        """Return the answer as it is sent: with masks where the server must not see the counts."""
        if isinstance(self._variant, PrepareMember) and isinstance(answer, m.Ready):
            return self._variant.signed(answer, self._digest, self._own.trust)
        if isinstance(answer, UnsealedLabels):
            return sealed_labels(answer, question, self._own.secret, self._digest, self.name)
        if not isinstance(answer, UnmaskedWords):
            return answer
        if self._own.settings.masked and len(self._secrets) != len(self._own.members) - 1:
            raise ProtocolError("counts must not leave this member without masks; the run must not continue")
        masker = self._maskers.get(answer.purpose)
        if masker is None:
            masker = self._maskers[answer.purpose] = Masker(self.name, self._secrets, purpose=answer.purpose)
        assert self._last is not None  # noqa: S101  # `_answered` has just set it
        label, about = MaskLabel(question.round, question.attempt), self._digest + self._last.transcript
        # Without secrets (one member, a measurement) words stay unmasked.
        words = m.Vector(len(answer.words), WORD_BITS, masker.mask(answer.words, label, about=about))
        return m.Masked(question.round, question.attempt, words)

    # -- the roster ---------------------------------------------------------------------------------------------

    def _take_seat(self, message: m.Roster | m.RosterUpdate, *, replayed: bool = False) -> None:
        """Check the roster against what this member agreed to, and against the roster before; then use it."""
        before = self._roster
        roster = message if isinstance(message, m.Roster) else self._updated(message)
        n = len(roster.members)
        if not len(roster.keys) == len(roster.certificates) == n:
            msg = f"the roster has {n} members, {len(roster.keys)} keys and {len(roster.certificates)} certificates"
            raise ProtocolError(msg)
        own_key = dict(zip(roster.members, roster.keys, strict=True)).get(self.name)
        if not replayed and (self._key is None or own_key != self._key.public):
            msg = "the server's roster has another key under this member's name; the run must not continue"
            raise ProtocolError(msg)
        if before is not None and self.has_answered:
            known = (before.run, before.settings, before.members, before.ids)
            if (roster.run, roster.settings, roster.members, roster.ids) != known or roster.epoch <= before.epoch:
                raise m.refused("the server's new roster does not belong to the run that this member is in")
            vocabulary = self._vocabulary(roster)
        else:
            if roster.next_round:
                msg = f"the server continues with round {roster.next_round}, but this member has answered nothing yet"
                raise ProtocolError(msg)
            self._check_terms(roster)
            vocabulary = self._vocabulary(roster)
            if self._own.vocabulary is None:
                try:
                    self._numbered = over(self._own.database, vocabulary, self._own.secret)
                except DataError:
                    raise m.refused("the server's vocabulary lacks ids that this member has sent") from None
            self._variant = self._side()
        self._roster = roster
        if roster.next_round + 1 < self.position:
            self._go_back(roster.next_round)
        self._digest = roster_digest(roster, vocabulary=vocabulary.digest, fingerprint=self._own.fingerprint)
        self._secrets, self._maskers = {}, {}

    def _updated(self, update: m.RosterUpdate) -> m.Roster:
        assert self._roster is not None  # noqa: S101  # no update is legal before a roster
        try:
            return apply_update(self._roster, update)
        except IndexError:
            msg = f"the server replaced a key at a place outside of the roster of {len(self._roster.keys)} members"
            raise ProtocolError(msg) from None

    def _check_terms(self, roster: m.Roster) -> None:
        """Check that settings and members are those of this member's own federation file."""
        own, settings = self._own, roster.settings
        if settings != own.settings:
            fields = (
                (name, getattr(settings, name), getattr(own.settings, name)) for name in settings.__struct_fields__
            )
            name, theirs, ours = next(one for one in fields if one[1] != one[2])
            raise ProtocolError(
                f"the server announced {name} = {theirs!r:.60}, and this member agreed to {ours!r}; all parties need "
                "the same federation file"
            )
        if sorted(roster.members) != sorted(own.members):
            raise ProtocolError(
                f"the server's roster has the members {', '.join(map(repr, sorted(roster.members)))}, but this member "
                f"agreed to {', '.join(map(repr, sorted(own.members)))}; with others it shares nothing"
            )

    def _share_secrets(self, confirmed: m.Confirmed) -> None:
        """Check that all members signed the same roster, then derive a new secret with each of them.

        No mask of an earlier epoch can recur: the epoch is part of what they signed.
        """
        roster, own = self._roster, self._key
        assert roster is not None  # noqa: S101  # Confirmed is not legal before a roster
        assert own is not None  # noqa: S101  # nor is a roster before joining
        if confirmed.epoch != roster.epoch or len(confirmed.signatures) != len(roster.members):
            raise ProtocolError(
                f"the server sent {len(confirmed.signatures)} signatures of epoch {confirmed.epoch} for a roster of "
                f"{len(roster.members)} members in epoch {roster.epoch}; the run must not continue"
            )
        for name, certificate, signature in zip(roster.members, roster.certificates, confirmed.signatures, strict=True):
            self._own.trust.check("roster", name, self._digest, certificate, signature)
        if roster.settings.masked:
            peers = zip(roster.members, roster.keys, strict=True)
            self._secrets = {peer: self._secret_with(peer, key, own) for peer, key in peers if peer != self.name}

    def _secret_with(self, peer: str, key: bytes, own: AgreementKey) -> PairSecret:
        """Return the secret with another member; two of this process, who find the same one, agree once."""
        agreed: dict[frozenset[str], PairSecret]
        digest, agreed = self._shared.get("secrets", (b"", {}))
        if digest != self._digest:  # forget those of an earlier epoch
            self._shared["secrets"] = (self._digest, agreed := {})
        pair = frozenset((self.name, peer))
        if pair not in agreed:
            agreed[pair] = own.agree(self.name, peer, key, run=self._digest)
        return agreed[pair]

    def _vocabulary(self, roster: m.Roster) -> Vocabulary:
        if self._own.vocabulary is not None:
            if roster.ids:
                raise m.refused("the server's roster has a vocabulary, but the members agreed on another")
            return self._own.vocabulary
        if len(roster.ids) % ID_BYTES:
            msg = f"the server's vocabulary has {len(roster.ids)} bytes, which is not a whole number of ids"
            raise ProtocolError(msg)
        ids = split_ids(roster.ids)
        if any(one >= other for one, other in pairwise(ids)):
            raise m.refused("the server's vocabulary is not in ascending order")
        return Vocabulary(ids, self._own.secret.fingerprint)


def farewell(error: FedslimError) -> m.Abort:
    """Return the message for the server when a member cannot continue.

    A member's own errors may name its data, so only errors about messages and other members' keys leave the member.
    """
    public = isinstance(error, (ProtocolError, UntrustedError, KeyAgreementError))
    return m.Abort(str(error)[:2000] if public else CANNOT)


def _check_same(question: Any, before: Any) -> None:
    """Check that a repeated round asks the same question: two different answers would reveal more than one."""
    if question != before:
        raise m.refused(f"the server asked another question in round {question.round} than before")


def _first_attempt(question: Any) -> Any:
    return msgspec.structs.replace(question, attempt=0) if isinstance(question, m.InAttempt) else question
