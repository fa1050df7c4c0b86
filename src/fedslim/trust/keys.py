"""Private keys and their files: readable by their owner only, optionally encrypted with a passphrase.

Keys are Ed25519: TLS 1.3 supports them, signing needs no good randomness, and there are no parameters to get wrong.
They are generated from the system's random source where they are used, and never passed around as bytes.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from fedslim.data.atomic import creating, make_folder_for, replacing
from fedslim.data.textstream import real_path, told_as_data_errors
from fedslim.errors import CertificateError, ParameterError

SHORTEST_PASSPHRASE = 12
MAX_PASSPHRASE_LENGTH = 1000  # OpenSSL, which reads the key for TLS, accepts at most 1,024 bytes
ROUNDS = 600_000
"""PBKDF2 iterations, as OWASP recommends. `cryptography` would use 2,048, which a GPU breaks quickly."""

MAX_BYTES = 1 << 20  # of a key or certificate file; real ones are far smaller
MAX_LIST = 1 << 26  # bytes of a revocation list or a ledger: enough for several hundred thousand entries
FOLDER_MODE = 0o700
PUBLIC_MODE = 0o644
_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


def checked_passphrase(passphrase: str) -> str:
    """Return a passphrase if it is long enough. The error does not quote it."""
    if len(passphrase) < SHORTEST_PASSPHRASE or len(_bytes(passphrase)) > MAX_PASSPHRASE_LENGTH:
        raise ParameterError(
            f"passphrase: it needs at least {SHORTEST_PASSPHRASE} characters (at most {MAX_PASSPHRASE_LENGTH} bytes); "
            "use a few unrelated words"
        )
    return passphrase


def _bytes(passphrase: str) -> bytes:
    """Encode a passphrase for OpenSSL. Python's own error would quote a part of it."""
    try:
        return passphrase.encode()
    except UnicodeEncodeError:
        pass
    raise ParameterError("passphrase: it is not UTF-8; save the file, or set the variable, in UTF-8")


def new_key() -> Ed25519PrivateKey:
    """Generate a key from the system's random source."""
    return Ed25519PrivateKey.generate()


def write_key(key: Ed25519PrivateKey, path: Path, passphrase: str | None = None) -> None:
    """Write a key in PKCS #8 to a file that only its owner may read. An existing one may be in use; it is kept."""
    if passphrase is None:
        data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    else:
        plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        data = _encrypt(plain, _bytes(checked_passphrase(passphrase)))
    with creating(path) as stream:
        stream.write(data)


def read_key(path: Path, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Read a key that only its owner may read. No error quotes its content."""
    data = read_private(path, "this private key")
    if _ENCRYPTED not in data:
        passphrase = None  # not needed here; it may be meant for another key
    elif passphrase is None:
        msg = f"{path}: this key needs a passphrase; set FEDSLIM_PASSPHRASE or give a file with --passphrase-file"
        raise CertificateError(msg)
    try:
        key = load_pem_private_key(data, None if passphrase is None else _bytes(passphrase))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if passphrase is None:
            msg = f"{path}: this is not a private key; give the file that `fedslim enroll` made"
        else:
            msg = f"{path}: the passphrase is wrong, or the key is damaged; give the passphrase it was created with"
        raise CertificateError(msg) from None  # the library's message might quote the content
    if not isinstance(key, Ed25519PrivateKey):
        raise CertificateError(f"{path}: this is not an Ed25519 key; create one with `fedslim enroll`")
    return key


def has_passphrase(path: Path) -> bool:
    """Return whether a key needs a passphrase; False if there is no key (reading it raises the error)."""
    try:
        with path.open("rb") as stream:
            return _ENCRYPTED in stream.read(MAX_BYTES)
    except OSError:
        return False


def fingerprint(key: Ed25519PublicKey) -> str:
    """Return the fingerprint of a public key for people to compare: SHA-256 of its SubjectPublicKeyInfo."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def make_private_folder(folder: Path) -> None:
    """Create a folder that only its owner can access; an existing one is left unchanged."""
    make_folder_for(folder)
    try:
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: cannot create this folder ({error.strerror or error}); choose another"
        raise CertificateError(msg) from None


def read_private(path: Path, what: str, most: int = MAX_BYTES) -> bytes:
    """Read a secret file; refuse one that other users may read or change."""
    remedy = "run chmod 600 on it, or, if somebody may have read it, create a new one"
    return read_public(path, most, 0o077, f"others may read or change {what}", remedy)


def read_trusted(path: Path, what: str, most: int = MAX_BYTES) -> bytes:
    """Read a file that decides on trust; refuse one that other users may change."""
    remedy = "check that nobody has changed it, then run chmod go-w on it"
    return read_public(path, most, 0o022, f"others may change {what}", remedy)


def write_public(path: Path, data: bytes) -> None:
    """Write or replace a file that everybody may read, and only its owner change."""
    make_folder_for(path)
    with replacing(path) as (stream, partial):
        stream.write(data)
        partial.chmod(PUBLIC_MODE)  # some umasks let the whole group write


def read_public(path: Path, most: int = MAX_BYTES, forbidden: int = 0, problem: str = "", remedy: str = "") -> bytes:
    """Read a file; refuse one with any of the forbidden permissions, of which there are none by default."""
    path = real_path(path)
    with told_as_data_errors(path), path.open("rb") as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        data = stream.read(most + 1)
    if len(data) > most:
        msg = f"{path}: this file is larger than {most:,} bytes, so fedslim did not write it; choose another"
        raise CertificateError(msg)
    if os.name == "posix" and mode & forbidden:
        raise CertificateError(f"{path}: {problem} (its permissions are {mode:03o}); {remedy}")
    return data


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Keep other processes from writing a file, such as a ledger, at the same time, which would lose records."""
    make_folder_for(path)
    try:
        import fcntl  # noqa: PLC0415  # not on every system

        descriptor = os.open(path.parent, os.O_RDONLY)
    except (ImportError, OSError):  # if the folder cannot be read, reading the file raises the error
        yield
        return
    try:
        with suppress(OSError):  # some network file systems do not support locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _encrypt(plain: bytes, passphrase: bytes) -> bytes:
    """Encode a key as EncryptedPrivateKeyInfo (RFC 5958, RFC 8018): PBES2, PBKDF2 with SHA-256, AES-256-CBC.

    Written by hand because `cryptography` does not let callers choose the number of iterations. OpenSSL and every
    other reader of PKCS #8 can read it.
    """
    salt, start = secrets.token_bytes(16), secrets.token_bytes(16)
    key = PBKDF2HMAC(hashes.SHA256(), 32, salt, ROUNDS).derive(passphrase)
    padder = padding.PKCS7(128).padder()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(start)).encryptor()
    sealed = encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()

    oids = ("2a864886f70d01050d", "2a864886f70d01050c", "2a864886f70d0209", "60864801650304012a")
    pbes2, pbkdf2, hmac_sha256, aes256_cbc = (_der(0x06, bytes.fromhex(oid)) for oid in oids)
    rounds = _der(0x02, ROUNDS.to_bytes(ROUNDS.bit_length() // 8 + 1, "big"))
    sequence, octets = partial(_der, 0x30), partial(_der, 0x04)
    derivation = sequence(pbkdf2, sequence(octets(salt), rounds, sequence(hmac_sha256, b"\x05\x00")))
    scheme = sequence(pbes2, sequence(derivation, sequence(aes256_cbc, octets(start))))
    text = base64.b64encode(sequence(scheme, octets(sealed)))
    lines = (text[k : k + 64] for k in range(0, len(text), 64))
    return b"\n".join((_ENCRYPTED, *lines, _ENCRYPTED.replace(b"BEGIN", b"END"), b""))


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x81, size])  # noqa: PLR2004  # nothing here has 256 bytes
    return bytes([tag]) + length + content
