"""Private keys and their files: readable by their owner only, optionally encrypted with a passphrase.

Keys are Ed25519: TLS 1.3 supports them, signing needs no good randomness, and there are no parameters to get wrong.
They are generated from the system's random source where they are used, and never passed around as bytes.
"""

from __future__ import annotations

import base64
import os
import secrets
import stat
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from pathlib import Path

SHORTEST_PASSPHRASE = 12
MAX_PASSPHRASE_LENGTH = 1000
"""OpenSSL, which reads the key for TLS, accepts at most 1,024 bytes."""

ROUNDS = 600_000
"""PBKDF2 iterations, as OWASP recommends. `cryptography` would use 2,048, which a GPU breaks quickly."""

MAX_BYTES = 1 << 20
"""Of a key or certificate file; real ones are far smaller."""

MAX_LIST = 1 << 26
"""Bytes of a revocation list or a ledger: enough for several hundred thousand entries."""

FOLDER_MODE = 0o700
PUBLIC_MODE = 0o644
_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


def checked_passphrase(passphrase: str) -> str:
    """Return a passphrase if it is long enough.

    Raises:
        ParameterError: It is too short or too long. The message does not quote it.
    """
    if len(passphrase) < SHORTEST_PASSPHRASE or len(_bytes(passphrase)) > MAX_PASSPHRASE_LENGTH:
        msg = (
            f"passphrase: it needs at least {SHORTEST_PASSPHRASE} characters (at most {MAX_PASSPHRASE_LENGTH} bytes); "
        )
        msg += "use a few unrelated words"
        raise ParameterError(msg)
    return passphrase


def _bytes(passphrase: str) -> bytes:
    """Encode a passphrase for OpenSSL. Python's own error would quote a part of it."""
    try:
        return passphrase.encode()
    except UnicodeEncodeError:
        pass
    msg = "passphrase: it is not UTF-8; save the file, or set the variable, in UTF-8"
    raise ParameterError(msg)


def new_key() -> Ed25519PrivateKey:
    """Generate a key from the system's random source."""
    return Ed25519PrivateKey.generate()


def write_key(key: Ed25519PrivateKey, path: Path, passphrase: str | None = None) -> None:
    """Write a key to a new file in PKCS #8 that only its owner may read.

    Raises:
        DataError: The file exists. It may be a key in use, so it is never replaced.
        ParameterError: The passphrase is too short.
    """
    if passphrase is None:
        data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    else:
        plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        data = _encrypt(plain, _bytes(checked_passphrase(passphrase)))
    with creating(path) as stream:
        stream.write(data)


def read_key(path: Path, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Read a key.

    Raises:
        CertificateError: There is none, other users may read it, or the passphrase is missing or wrong. The message
            does not quote the content.
    """
    data = read_private(path, "this private key")
    if _ENCRYPTED not in data:
        passphrase = None  # not needed here; it may be meant for another key
    elif passphrase is None:
        msg = f"{path}: this key needs a passphrase; set FEDSLIM_PASSPHRASE or give a file with --passphrase-file"
        raise CertificateError(msg)
    words = None if passphrase is None else _bytes(passphrase)
    try:
        key = load_pem_private_key(data, words)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if passphrase is None:
            msg = f"{path}: this is not a private key; give the file that `fedslim enroll` made"
        else:
            msg = f"{path}: the passphrase is wrong, or the key is damaged; give the passphrase it was created with"
        raise CertificateError(msg) from None  # the library's message might quote the content
    if not isinstance(key, Ed25519PrivateKey):
        msg = f"{path}: this is not an Ed25519 key; create one with `fedslim enroll`"
        raise CertificateError(msg)
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
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return digest.finalize().hex()


# -- files ----------------------------------------------------------------------------------------------------------


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
    return _read_file(path, most, 0o077, f"others may read or change {what}", remedy)


def read_trusted(path: Path, what: str, most: int = MAX_BYTES) -> bytes:
    """Read a file that decides on trust; refuse one that other users may change."""
    remedy = "check that nobody has changed it, then run chmod go-w on it"
    return _read_file(path, most, 0o022, f"others may change {what}", remedy)


def read_public(path: Path, most: int = MAX_BYTES) -> bytes:
    """Read a file without any check of its permissions."""
    return _read_file(path, most)


def write_public(path: Path, data: bytes) -> None:
    """Write or replace a file that everybody may read, and only its owner change."""
    make_folder_for(path)
    with replacing(path) as (stream, partial):
        stream.write(data)
        partial.chmod(PUBLIC_MODE)  # some umasks let the whole group write


def _read_file(path: Path, most: int, forbidden: int = 0, problem: str = "", remedy: str = "") -> bytes:
    """Read a file; refuse one with any of the forbidden permissions."""
    path = real_path(path)
    with told_as_data_errors(path), path.open("rb") as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        data = stream.read(most + 1)
    if len(data) > most:
        msg = f"{path}: this file is larger than {most:,} bytes, so fedslim did not write it; choose another"
        raise CertificateError(msg)
    if os.name == "posix" and mode & forbidden:
        msg = f"{path}: {problem} (its permissions are {mode:03o}); {remedy}"
        raise CertificateError(msg)
    return data


# -- encryption -----------------------------------------------------------------------------------------------------


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

    derivation = _sequence(
        _oid("2a864886f70d01050c"),  # PBKDF2
        _sequence(_octets(salt), _integer(ROUNDS), _sequence(_oid("2a864886f70d0209"), b"\x05\x00")),  # HMAC-SHA-256
    )
    encryption = _sequence(_oid("60864801650304012a"), _octets(start))  # AES-256-CBC
    scheme = _sequence(_oid("2a864886f70d01050d"), _sequence(derivation, encryption))  # PBES2
    text = base64.encodebytes(_sequence(scheme, _octets(sealed))).replace(b"\n", b"")
    lines = b"".join(text[k : k + 64] + b"\n" for k in range(0, len(text), 64))
    return _ENCRYPTED + b"\n" + lines + _ENCRYPTED.replace(b"BEGIN", b"END") + b"\n"


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x81, size])  # noqa: PLR2004  # nothing here has 256 bytes
    return bytes([tag]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, b"".join(parts))


def _octets(content: bytes) -> bytes:
    return _der(0x04, content)


def _oid(content: str) -> bytes:
    return _der(0x06, bytes.fromhex(content))


def _integer(number: int) -> bytes:
    return _der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))
