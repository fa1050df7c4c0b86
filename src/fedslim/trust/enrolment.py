"""How a member gets its certificate without its private key ever leaving it.

    request = make_request("hospital-a", "hospital-a")           # a folder with a new key, and a request for the CA
    install("hospital-a", bundle, fingerprint=told_by_phone, now=now)    # what the CA sent back

The member must know whose word it takes. With the first certificate it names the authority, by its certificate or by
the fingerprint that it was told over a separate channel; later certificates must come from the same one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedslim.data.textstream import is_file, real_path
from fedslim.errors import CertificateError, UntrustedError
from fedslim.trust import certificates
from fedslim.trust.anchor import TrustStore, check_authority, public_key
from fedslim.trust.certificates import (
    fingerprint_of,
    has_certificate,
    has_list,
    hosts_of,
    name_of,
    pem,
    read_certificate,
    read_certificates,
    read_request,
    role_of,
)
from fedslim.trust.identity import AUTHORITY, CERTIFICATE, KEY, REVOCATIONS, Identity, read_trust
from fedslim.trust.keys import (
    MAX_LIST,
    fingerprint,
    make_private_folder,
    new_key,
    read_key,
    read_public,
    write_key,
    write_public,
)
from fedslim.trust.names import Hosts, checked_hosts, checked_name

if TYPE_CHECKING:
    import os
    from datetime import datetime
    from pathlib import Path

    from cryptography import x509

NEXT_KEY = "next-key.pem"
"""A key that waits for its certificate while the old one is in use."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A request that was written."""

    name: str
    file: Path
    """What goes to the authority; it is no secret."""
    key: str
    """The fingerprint of the key, for the authority's keeper to compare."""


def make_request(
    name: str, folder: str | os.PathLike[str], *, hosts: Hosts = (), passphrase: str | None = None
) -> Requested:
    """Make a key and a request for a name, in a folder where there is no key yet.

    Args:
        name: Of the member or server.
        folder: Where the key stays. It is made for its owner only.
        hosts: For a server, under which host names and addresses members reach it.
        passphrase: What the key is kept under, if anything.

    Raises:
        DataError: There is a key already.
        ParameterError: The name, a host or the passphrase will not do.
    """
    folder, name, wanted = real_path(folder), checked_name(name), checked_hosts(hosts)
    if is_file(folder / KEY):
        msg = f"{folder / KEY}: there is a key already, and it is kept; name another folder, or use "
        msg += "`fedslim enroll renew`"
        raise CertificateError(msg)
    make_private_folder(folder)
    key = new_key()
    write_key(key, folder / KEY, passphrase)
    return _write_request(folder, certificates.make_request(key, name, wanted))


def make_renewal(
    folder: str | os.PathLike[str], *, new: bool = False, hosts: Hosts = (), passphrase: str | None = None
) -> Requested:
    """Make a request for another certificate for the same name, for the certificate in a folder ends some day.

    Args:
        folder: With the key and the certificate.
        new: Whether to make a new key. The old one is used until the new certificate is installed.
        hosts: For a server; without them, those of the certificate.
        passphrase: That of the key; a new key gets the same.
    """
    folder = real_path(folder)
    current = read_certificate(read_public(folder / CERTIFICATE), folder / CERTIFICATE)
    wanted = checked_hosts(hosts) or hosts_of(current)
    key = read_key(folder / KEY, passphrase)
    if new:
        if is_file(folder / NEXT_KEY):
            msg = f"{folder / NEXT_KEY}: a new key waits for its certificate already; install that, or remove this file"
            raise CertificateError(msg)
        key = new_key()
        write_key(key, folder / NEXT_KEY, passphrase)
    return _write_request(folder, certificates.make_request(key, name_of(current), wanted))


def _write_request(folder: Path, request: x509.CertificateSigningRequest) -> Requested:
    text = pem(request)
    made = read_request(text, "the request")
    path = folder / f"{made.name}.csr"
    write_public(path, text)
    return Requested(made.name, path, fingerprint(made.public))


def install(  # noqa: PLR0913  # by keyword, and most are left out
    folder: str | os.PathLike[str],
    certificate: bytes,
    authority: bytes | None = None,
    revocations: bytes | None = None,
    *,
    fingerprint: str | None = None,
    passphrase: str | None = None,
    where: object = "the certificate",
    now: datetime,
) -> Identity:
    """Put a certificate beside its key, after checking that it belongs there.

    Args:
        folder: Where `make_request` made the key.
        certificate: PEM, as the authority gave it out, with its own certificate and list behind it or not.
        authority: The authority's certificate, which the caller vouches for.
        revocations: Its revocation list, if it is not in the same file.
        fingerprint: That of the authority's certificate, if that is in the same file.
        passphrase: That of the key.
        where: What to call the certificate in messages.
        now: The time.

    Raises:
        CertificateError: It does not belong there. Nothing is changed then.
    """
    folder = real_path(folder)
    found = read_certificates(certificate, where)
    trust = TrustStore(
        _authority(folder, found[1:], authority, fingerprint, where),
        certificates.read_list(*_list(folder, certificate, revocations, where)),
    )
    if is_file(folder / REVOCATIONS):
        known = read_trust(folder)
        trust = trust if trust.number >= known.number else known
    try:
        role = role_of(found[0])
        name = trust.check(found[0], role, now)
    except UntrustedError as error:
        msg = f"{where}: {error}"
        raise CertificateError(msg) from None
    if not is_file(folder / f"{name}.csr"):
        msg = f"{where}: this is a certificate for {name!r}, and nobody in {folder} has asked for that; name its folder"
        raise CertificateError(msg)
    fitting = next((key for key in (KEY, NEXT_KEY) if _fits(folder / key, found[0], passphrase)), None)
    if fitting is None:
        msg = (
            f"{where}: this certificate is for another key than the one in {folder}; send the CA the newest {name}.csr"
        )
        raise CertificateError(msg)
    write_public(folder / AUTHORITY, pem(trust.authority))
    write_public(folder / REVOCATIONS, pem(trust.revocations))
    if fitting == NEXT_KEY:
        (folder / NEXT_KEY).replace(folder / KEY)
    write_public(folder / CERTIFICATE, pem(found[0]))
    return Identity.load(folder, passphrase)


def install_list(
    folder: str | os.PathLike[str], revocations: bytes, *, where: object = "the revocation list"
) -> TrustStore:
    """Put a newer revocation list into a folder.

    Raises:
        CertificateError: It is not of the folder's authority, or older than the one there.
    """
    folder = real_path(folder)
    trust = read_trust(folder).renewed(revocations, where)
    write_public(folder / REVOCATIONS, pem(trust.revocations))
    return trust


def _authority(
    folder: Path, sent: list[x509.Certificate], named: bytes | None, told: str | None, where: object
) -> x509.Certificate:
    """The authority to believe: the one in the folder, the one that was named, or one with the fingerprint told."""
    known = folder / AUTHORITY
    if named is not None:
        chosen = read_certificate(named, "the CA's certificate")
    elif told is not None:
        digits = re.sub(r"[\s:]", "", told).lower()
        matching = [each for each in sent if fingerprint_of(each) == digits]
        if not matching:
            msg = (
                f"{where}: there is no CA with the fingerprint {told!r:.100} in this file; compare it digit by digit "
                "with the CA's keeper, and install nothing before it agrees"
            )
            raise CertificateError(msg)
        chosen = matching[0]
    elif is_file(known):
        return read_trust(folder).authority
    else:
        msg = (
            f"{where}: whose word is this? Give the fingerprint that the CA's keeper told you (--fingerprint), or the "
            "certificate of the CA (--ca)"
        )
        raise CertificateError(msg)
    check_authority(chosen)
    if is_file(known) and read_trust(folder).authority != chosen:
        msg = f"{known}: this folder trusts another CA; make a new key for this one in a new folder (`fedslim enroll`)"
        raise CertificateError(msg)
    return chosen


def _list(folder: Path, certificate: bytes, named: bytes | None, where: object) -> tuple[bytes, object]:
    if named is not None:
        return named, "the revocation list"
    if not has_list(certificate) and is_file(folder / REVOCATIONS):
        return read_public(folder / REVOCATIONS, MAX_LIST), folder / REVOCATIONS
    if not has_list(certificate):
        msg = f"{where}: there is no revocation list in this file; name the crl.pem of the CA (--crl)"
        raise CertificateError(msg)
    return certificate, where


def _fits(path: Path, certificate: x509.Certificate, passphrase: str | None) -> bool:
    return is_file(path) and read_key(path, passphrase).public_key() == public_key(certificate)


def name_in(bundle: bytes, where: object) -> str | None:
    """The name in a file that the authority sent, for finding its folder; None if it has a revocation list only."""
    if has_list(bundle) and not has_certificate(bundle):
        return None
    return name_of(read_certificate(bundle, where))
