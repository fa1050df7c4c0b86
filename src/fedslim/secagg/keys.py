"""Key agreement: one X25519 key per member and run, one secret per pair of members.

The secret depends on the run and on both names and keys, so another run, or a man in the middle with other keys under
the same names, gets a different secret.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedslim.errors import KeyAgreementError

KEY_BYTES = 32
LABEL = b"fedslim secure aggregation v1: pair"


@dataclass(frozen=True, slots=True)
class PairSecret:
    """A secret that only two members know. It is never sent, logged or displayed."""

    key: bytes = field(repr=False)


class AgreementKey:
    """A member's private key for one run."""

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw()
        self._exchanged: dict[bytes, bytes] = {}  # cache by peer key: most members keep their key in a new epoch

    @classmethod
    def from_random(cls, entropy: bytes) -> AgreementKey:
        """Create a key from 32 bytes of a cryptographic random source."""
        if len(entropy) != KEY_BYTES:
            raise KeyAgreementError(f"a key needs {KEY_BYTES} random bytes, not {len(entropy)}")
        return cls(X25519PrivateKey.from_private_bytes(entropy))

    def agree(self, own: str, peer: str, peer_public: bytes, *, run: bytes) -> PairSecret:
        """Return the secret shared with a peer; both sides get the same one."""
        if own == peer or peer_public == self.public:
            raise KeyAgreementError(f"member {own!r} cannot agree on a secret with itself")
        shared = self._exchanged.get(peer_public)
        if shared is None:
            shared = self._exchanged[peer_public] = _exchange(self._private, peer, peer_public)
        parties = sorted([(own.encode(), self.public), (peer.encode(), peer_public)])
        context = b"".join(_frame(part) for party in parties for part in party)
        derived = HKDF(hashes.SHA256(), KEY_BYTES, salt=run, info=LABEL + context).derive(shared)
        return PairSecret(derived)


def check_usable(name: str, public: bytes) -> None:
    """Check that a public key can be used for key agreement, without a private key of one's own.

    Raises:
        KeyAgreementError: The key is unusable; the message names the member.
    """
    # A point of low order fails with every private key, so a publicly known one is enough for the check.
    _exchange(X25519PrivateKey.from_private_bytes(bytes(KEY_BYTES)), name, public)


def _exchange(private: X25519PrivateKey, peer: str, public: bytes) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        # Wrong length, or a point of low order, which would make the secret public.
        msg = f"the key of member {peer!r} is not a usable X25519 public key; the run must not continue with it"
        raise KeyAgreementError(msg) from error


def _frame(part: bytes) -> bytes:
    """Prefix the part with its length, so that different lists of parts give different bytes."""
    return len(part).to_bytes(4, "little") + part
