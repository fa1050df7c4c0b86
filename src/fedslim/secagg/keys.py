"""Key agreement: one X25519 key for each member and run, one secret for each pair of members.

    mine = AgreementKey.from_random(entropy)         # 32 random bytes, handed in
    secret = mine.agree("hospital-a", "hospital-b", their_public, run=run_id)

The secret is bound to the run and to both names and keys: a secret of another run, or one that somebody in the middle
made with keys of its own under the same names, is a different secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedslim.errors import KeyAgreementError

KEY_BYTES = 32
LABEL = b"fedslim secure aggregation v1: pair"


@dataclass(frozen=True, slots=True, repr=False)
class PairSecret:
    """What two members share and nobody else knows. It is never sent, logged or shown."""

    key: bytes

    def __repr__(self) -> str:
        return "PairSecret(…)"


class AgreementKey:
    """A member's private key for one run."""

    def __init__(self, private: X25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw()
        self._exchanged: dict[bytes, bytes] = {}  # by the other key: most members keep theirs when an epoch begins

    @classmethod
    def from_random(cls, entropy: bytes) -> AgreementKey:
        """Make a key from 32 bytes of a cryptographic random source."""
        if len(entropy) != KEY_BYTES:
            msg = f"a key is made from {KEY_BYTES} random bytes, not {len(entropy)}"
            raise KeyAgreementError(msg)
        return cls(X25519PrivateKey.from_private_bytes(entropy))

    def agree(self, own: str, peer: str, peer_public: bytes, *, run: bytes) -> PairSecret:
        """The secret with a peer; both sides get the same one."""
        if own == peer or peer_public == self.public:
            msg = f"member {own!r} cannot agree on a secret with itself"
            raise KeyAgreementError(msg)
        shared = self._exchanged.get(peer_public)
        if shared is None:
            shared = self._exchanged[peer_public] = _exchange(self._private, peer, peer_public)
        parties = sorted([(own.encode(), self.public), (peer.encode(), peer_public)])
        context = b"".join(_frame(part) for party in parties for part in party)
        derived = HKDF(hashes.SHA256(), KEY_BYTES, salt=run, info=LABEL + context).derive(shared)
        return PairSecret(derived)


def check_usable(name: str, public: bytes) -> None:
    """Check that others can agree on a secret with this key, for whoever only passes it on.

    Raises:
        KeyAgreementError: Nobody can: the message names the member.
    """
    # A point of low order gives nothing with any private key, so one that everybody knows will do.
    _exchange(X25519PrivateKey.from_private_bytes(bytes(KEY_BYTES)), name, public)


def _exchange(private: X25519PrivateKey, peer: str, public: bytes) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        # Wrong length, or a point of low order, with which the secret would be known to everybody.
        msg = f"the key of member {peer!r} is not a usable X25519 public key; the run must not go on with it"
        raise KeyAgreementError(msg) from error


def _frame(part: bytes) -> bytes:
    """With its length in front: no two lists of parts are the same bytes."""
    return len(part).to_bytes(4, "little") + part
