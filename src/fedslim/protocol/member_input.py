"""What a member brings to a run: its data, and what it agreed to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedslim.data.database import TransactionDatabase
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import ParameterError
from fedslim.protocol.roster import RosterSigner, Unsigned

if TYPE_CHECKING:
    from fedslim.protocol import messages as m
    from fedslim.protocol.prepare import Site


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
            msg = (
                f"the run allows {self.settings.max_transactions} transactions for {len(self.members)} members, and "
                f"this member's {self.database.transactions} are more than its share; raise max_transactions"
            )
            raise ParameterError(msg)

    @property
    def fingerprint(self) -> bytes:
        """The fingerprint of the secret, by which the server sees that all members use the same one."""
        return bytes.fromhex(self.secret.fingerprint)
