"""Run the preparation of a federation in this process, with the messages and masks of a real one.

Items are numbered by their ids, as in a federation: the same in one place is `fedslim mine --schema S --secret F`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from fedslim.data.encoding import Encoding
from fedslim.data.vocabulary import ItemSecret, Vocabulary, labels_for, over
from fedslim.federated.accounting import Account
from fedslim.network.in_process import MemoryFederation
from fedslim.protocol.member import MemberInput
from fedslim.protocol.messages import Settings
from fedslim.protocol.preparation import MAX_ROUNDS, Outline, Preparation
from fedslim.protocol.prepare import Site
from fedslim.protocol.roster import Unsigned
from fedslim.protocol.server import ServerSession
from fedslim.schema import Agreed, Conformed, Schema, SchemaRules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fedslim.data.database import TransactionDatabase
    from fedslim.network.traffic import Communication

MAX_TRANSACTIONS = 1 << 40


@dataclass(frozen=True, slots=True)
class Prepared:
    """The members' databases over one vocabulary, and what it took."""

    databases: Mapping[str, TransactionDatabase]
    encoding: Encoding
    preparation: Preparation
    communication: Communication
    seconds: float


def prepare_together(
    schema: Schema,
    sites: Mapping[str, Conformed],
    secret: ItemSecret,
    entropy: Callable[[int], bytes],
    *,
    masking: bool = True,
) -> Prepared:
    """Let members agree on cuts and vocabulary, and return their data as items. All labels are known in this process.

    Raises:
        RunError: A member could not continue.
    """
    names = tuple(sites)
    outline = str(Outline.of(schema))
    settings = Settings(
        "prepare", masking, MAX_TRANSACTIONS, max_rounds=MAX_ROUNDS, schema=schema.digest(), outline=outline
    )
    none = Vocabulary((), secret.fingerprint)
    server = ServerSession(names, settings, run=entropy(16), vocabulary=none.digest)
    own = {
        name: MemberInput.preparing(Site(schema, one, secret), names, settings, Unsigned())
        for name, one in sites.items()
    }
    account = Account(server)
    made = MemoryFederation(server, own, entropy=entropy, trace=account).run().preparation
    assert made is not None  # noqa: S101  # the outcome of a preparation
    vocabulary = made.vocabulary(secret.fingerprint)
    databases = {name: made.database(schema, site, secret) for name, site in sites.items()}
    every = labels_for(vocabulary, secret, dict.fromkeys(chain(*(one.vocabulary for one in databases.values()))))
    numbered = {name: over(database, vocabulary, secret) for name, database in databases.items()}
    agreed = [made.agreed(schema, site, secret) for site in sites.values()]
    kept = {name: frozenset[str]().union(*(one.kept[name] for one in agreed)) for name in schema.capped_columns}
    rules = SchemaRules(schema, Agreed(agreed[0].cuts, kept))
    encoding = Encoding("schema", rules=rules)
    named = {n: replace(one, vocabulary=every, name=n, encoding=encoding) for n, one in numbered.items()}
    return Prepared(named, encoding, made, account.communication, account.seconds)
