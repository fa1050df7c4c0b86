"""What members sign for each other: data with its purpose, its federation and the name of the member.

    statement = Statement.agreement_key(federation, "hospital-a", public_key)
    signature = identity.sign(statement)

The same key also signs TLS handshakes and certificate requests. Those start with 64 spaces and with 0x30, a statement
with its label, so that none of them can be mistaken for another.
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
    """Data that a member signs, with its purpose, its federation and the member's name."""

    what: str
    federation: bytes
    name: str
    data: bytes

    def __post_init__(self) -> None:
        checked_name(self.name)
        if not self.federation:
            msg = "federation: the id of the federation is empty, and a statement needs it; give the federation's id"
            raise ParameterError(msg)

    @classmethod
    def agreement_key(cls, federation: bytes, name: str, public: bytes) -> Statement:
        """State the member's X25519 key for secure aggregation.

        Args:
            federation: The id of the federation, or better of one run: then the statement cannot be replayed in
                another run.
            name: The member.
            public: The public key, or other bytes that the member commits to.
        """
        return cls(AGREEMENT_KEY, federation, name, public)

    @classmethod
    def roster(cls, federation: bytes, name: str, digest: bytes) -> Statement:
        """State the digest of what the member received before a run, or a new epoch of it, started."""
        return cls(ROSTER, federation, name, digest)

    @property
    def encoded(self) -> bytes:
        """The bytes to sign: each part with its length in front, so that different statements have different bytes."""
        parts = (self.what.encode(), self.federation, self.name.encode(), self.data)
        return LABEL + b"".join(len(part).to_bytes(4, "little") + part for part in parts)
