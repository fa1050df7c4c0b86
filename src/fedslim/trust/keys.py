"""Private keys and the files they live in: readable by their owner only, under a passphrase if wanted.

Keys are Ed25519: TLS 1.3 knows them, signing needs no randomness that could be bad, and there is no parameter to get
wrong. They are made from the system's random source where they are used and never handed around as bytes.
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
"""OpenSSL, which reads the key for TLS, takes no more than 1,024 bytes."""

ROUNDS = 600_000
"""Of PBKDF2: what OWASP asks for. `cryptography` would write 2,048, which a graphics card laughs at."""

MAX_BYTES = 1 << 20
"""No key or certificate is larger."""

MAX_LIST = 1 << 26
"""Bytes of a revocation list or a ledger: room for some hundred thousand entries."""

FOLDER_MODE = 0o700
PUBLIC_MODE = 0o644
_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


def checked_passphrase(passphrase: str) -> str:
    """A passphrase that is worth having. The message has nothing of it.

    Raises:
        ParameterError: It is too short or too long.
    """
    if len(passphrase) < SHORTEST_PASSPHRASE or len(_bytes(passphrase)) > MAX_PASSPHRASE_LENGTH:
        msg = f"passphrase: it needs {SHORTEST_PASSPHRASE} characters or more (at most {MAX_PASSPHRASE_LENGTH} bytes); "
        msg += "take a few words that do not belong together"
        raise ParameterError(msg)
    return passphrase


def _bytes(passphrase: str) -> bytes:
    """As OpenSSL takes it. Python's own complaint would quote a part of it."""
    try:
        return passphrase.encode()
    except UnicodeEncodeError:
        pass
    msg = "passphrase: it is not UTF-8; where it comes from must use the encoding of this program"
    raise ParameterError(msg)


def new_key() -> Ed25519PrivateKey:
    """A new key from the system's random source."""
    return Ed25519PrivateKey.generate()


def write_key(key: Ed25519PrivateKey, path: Path, passphrase: str | None = None) -> None:
    """Write a key to a new file that only its owner may read; PKCS #8, as OpenSSL reads it.

    Raises:
        DataError: Something of that name is there. It may be a key in use, so it is never replaced.
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
        CertificateError: There is none, others may read it, or the passphrase is missing or wrong. The message has
            nothing of the content in it.
    """
    data = read_private(path, "this private key")
    if _ENCRYPTED not in data:
        passphrase = None  # one that is not needed does no harm: it may be there for another key
    elif passphrase is None:
        msg = (
            f"{path}: this key has a passphrase, and none was given; set FEDSLIM_PASSPHRASE or name a --passphrase-file"
        )
        raise CertificateError(msg)
    words = None if passphrase is None else _bytes(passphrase)
    try:
        key = load_pem_private_key(data, words)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        why = "the passphrase is wrong, or the key is damaged" if passphrase is not None else "this is no private key"
        msg = f"{path}: {why}; give the passphrase it was made with, or the file that fedslim made"
        raise CertificateError(msg) from None  # what the library says might quote the content
    if not isinstance(key, Ed25519PrivateKey):
        msg = f"{path}: this key is not of the kind that fedslim uses (Ed25519); make one with `fedslim enroll`"
        raise CertificateError(msg)
    return key


def has_passphrase(path: Path) -> bool:
    """Whether a key needs a passphrase; False also where there is no key, which is told by those who read it."""
    try:
        with path.open("rb") as stream:
            return _ENCRYPTED in stream.read(MAX_BYTES)
    except OSError:
        return False


def fingerprint(key: Ed25519PublicKey) -> str:
    """By which people compare public keys: SHA-256 of the key as certificates have it."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    return digest.finalize().hex()


# -- files ----------------------------------------------------------------------------------------------------------


def make_private_folder(folder: Path) -> None:
    """Make a folder for its owner only; one that is there stays as it is."""
    make_folder_for(folder)
    try:
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: this folder cannot be made ({error.strerror or error}); name another"
        raise CertificateError(msg) from None


def read_private(path: Path, what: str, most: int = MAX_BYTES) -> bytes:
    """The content of a secret file, if nobody but its owner may read or change it."""
    data, mode = _read_file(path, most)
    if os.name == "posix" and mode & 0o077:
        msg = (
            f"{path}: others may read or change {what} (its permissions are {mode:03o}); if nobody has, keep it to "
            "yourself with chmod 600, otherwise make a new one"
        )
        raise CertificateError(msg)
    return data


def read_trusted(path: Path, what: str, most: int = MAX_BYTES) -> bytes:
    """The content of a file that anybody may read, but only its owner change: whoever changes it decides on trust."""
    data, mode = _read_file(path, most)
    if os.name == "posix" and mode & 0o022:
        msg = (
            f"{path}: others may change {what} (its permissions are {mode:03o}); check that it is still what you "
            "installed, or fedslim wrote, then keep them out with chmod go-w"
        )
        raise CertificateError(msg)
    return data


def read_public(path: Path, most: int = MAX_BYTES) -> bytes:
    """The content of a file that came from elsewhere."""
    return _read_file(path, most)[0]


def write_public(path: Path, data: bytes) -> None:
    """Write, or replace, a file that anybody may read and its owner change."""
    make_folder_for(path)
    with replacing(path) as (stream, partial):
        stream.write(data)
        partial.chmod(PUBLIC_MODE)  # whatever the umask: some let the whole group write


def _read_file(path: Path, most: int) -> tuple[bytes, int]:
    path = real_path(path)
    with told_as_data_errors(path), path.open("rb") as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        data = stream.read(most + 1)
    if len(data) > most:
        msg = f"{path}: this file is larger than {most:,} bytes, so it is nothing of fedslim's; name another"
        raise CertificateError(msg)
    return data, mode


# -- encryption -----------------------------------------------------------------------------------------------------


def _encrypt(plain: bytes, passphrase: bytes) -> bytes:
    """A key as EncryptedPrivateKeyInfo (RFC 5958, RFC 8018): PBES2 of PBKDF2 with SHA-256 and AES-256-CBC.

    By hand, because `cryptography` lets nobody choose the number of rounds. OpenSSL reads it, and so does everything
    else that reads PKCS #8.
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
