"""What members sign for each other: bytes that say what they are for, of which federation, and by whom.

    statement = Statement.agreement_key(federation, "hospital-a", public_key)
    signature = identity.sign(statement)

The certificate's key also signs TLS handshakes and requests. Those begin with 64 blanks and with 0x30, and a statement
with its label, so that none of them can pass for another.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedslim.errors import ParameterError
from fedslim.trust.names import checked_name

LABEL = b"fedslim statement v1: "
AGREEMENT_KEY = "agreement key"
ROSTER = "roster"


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that a member says, and what it belongs to."""

    what: str
    federation: bytes
    name: str
    data: bytes

    def __post_init__(self) -> None:
        checked_name(self.name)
        if not self.federation:
            msg = "federation: a statement needs the id of the federation it is made in, which is empty"
            raise ParameterError(msg)

    @classmethod
    def agreement_key(cls, federation: bytes, name: str, public: bytes) -> Statement:
        """Say that this is the member's X25519 key for secure aggregation.

        Args:
            federation: What the members agreed on beforehand as the id of their federation, or of one run of it. The
                more it says, the less an old statement is good for: with the id of the run in it, for nothing.
            name: The member.
            public: The key, or whatever the member is to be held to.
        """
        return cls(AGREEMENT_KEY, federation, name, public)

    @classmethod
    def roster(cls, federation: bytes, name: str, digest: bytes) -> Statement:
        """Say that this is the digest of all that the member was shown before a run, or a new epoch of it, began."""
        return cls(ROSTER, federation, name, digest)

    @property
    def encoded(self) -> bytes:
        """The bytes to sign: every part with its length in front, so that no two statements are the same bytes."""
        parts = (self.what.encode(), self.federation, self.name.encode(), self.data)
        return LABEL + b"".join(len(part).to_bytes(4, "little") + part for part in parts)
