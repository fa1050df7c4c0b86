"""How a member gets its certificate without its private key ever leaving it.

The member must know which CA to trust. With its first certificate it gives the CA's certificate, or the fingerprint
that it received over a separate channel; later certificates must come from the same CA.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from fedslim.data.textstream import is_file, real_path
from fedslim.errors import CertificateError, ParameterError, UntrustedError
from fedslim.trust import certificates, identity, keys
from fedslim.trust.authority import Authority
from fedslim.trust.certificates import Hosts, Role, checked_hosts, checked_name, name_of, pem, read_certificate
from fedslim.trust.identity import AUTHORITY, CERTIFICATE, KEY, REVOCATIONS, Identity, TrustStore, read_trust

NEXT_KEY = "next-key.pem"  # a new key without a certificate yet; the old key stays in use until then


class Requested(NamedTuple):
    """A request that was written."""

    name: str
    file: Path  # the file to send to the CA; it is not secret
    key: str  # the fingerprint of the key, for the CA operator to compare


def make_request(
    name: str, folder: str | os.PathLike[str], *, hosts: Hosts = (), passphrase: str | None = None
) -> Requested:
    """Create a key and a request for a name, in a folder that has no key yet and that only its owner can read.

    For a server, `hosts` are the host names and addresses that members connect to. A passphrase encrypts the key.
    """
    folder, name, wanted = real_path(folder), checked_name(name), checked_hosts(hosts)
    if is_file(folder / KEY):
        raise CertificateError(
            f"{folder / KEY}: this folder already contains a key, which is kept; choose another folder, or use "
            "`fedslim enroll renew`"
        )
    keys.make_private_folder(folder)
    key = keys.new_key()
    keys.write_key(key, folder / KEY, passphrase)
    return _write_request(folder, certificates.make_request(key, name, wanted))


def make_renewal(
    folder: str | os.PathLike[str], *, new: bool = False, hosts: Hosts = (), passphrase: str | None = None
) -> Requested:
    """Create a request to renew the certificate in a folder, by default with the hosts that it has.

    A `new` key gets the same passphrase. The old one stays in use until the new certificate is installed.
    """
    folder = real_path(folder)
    current = read_certificate(keys.read_public(folder / CERTIFICATE), folder / CERTIFICATE)
    wanted = checked_hosts(hosts) or certificates.hosts_of(current)
    key = keys.read_key(folder / KEY, passphrase)
    if new:
        if is_file(folder / NEXT_KEY):
            msg = f"{folder / NEXT_KEY}: a new key already awaits its certificate; install that, or remove this file"
            raise CertificateError(msg)
        key = keys.new_key()
        keys.write_key(key, folder / NEXT_KEY, passphrase)
    return _write_request(folder, certificates.make_request(key, name_of(current), wanted))


def _write_request(folder: Path, request: x509.CertificateSigningRequest) -> Requested:
    text = pem(request)
    made = certificates.read_request(text, "the request")
    path = folder / f"{made.name}.csr"
    keys.write_public(path, text)
    return Requested(made.name, path, keys.fingerprint(made.public))


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
    """Install a certificate beside its key, after checking that it belongs there; otherwise nothing is changed.

    The CA sends PEM: the certificate, usually followed by its own, to be chosen by its `fingerprint`, and by its
    revocation list. If they are not there, give `authority`, from a trusted source, and `revocations`.
    """
    folder = real_path(folder)
    found = certificates.read_certificates(certificate, where)
    trusted = folder / AUTHORITY
    known = read_trust(folder) if is_file(trusted) else None
    chosen = _authority(known, found[1:], authority, fingerprint, where)
    if known is not None and known.authority != chosen:
        msg = f"{trusted}: this folder trusts another CA; enroll with this one in a new folder (`fedslim enroll`)"
        raise CertificateError(msg)
    if revocations is not None:
        trust = TrustStore(chosen, certificates.read_list(revocations, "the revocation list"))
    elif certificates.has_list(certificate):
        trust = TrustStore(chosen, certificates.read_list(certificate, where))
    elif known is not None:
        trust = known
    else:
        raise CertificateError(f"{where}: this file contains no revocation list; give the crl.pem of the CA (--crl)")
    if known is not None and known.number > trust.number:
        trust = known
    try:
        role = certificates.role_of(found[0])
        name = trust.check(found[0], role, now)
    except UntrustedError as error:
        raise CertificateError(f"{where}: {error}") from None
    if not is_file(folder / f"{name}.csr"):
        msg = f"{where}: this certificate is for {name!r}, but {folder} has no request for that name; give its folder"
        raise CertificateError(msg)
    fitting = next((key for key in (KEY, NEXT_KEY) if _fits(folder / key, found[0], passphrase)), None)
    if fitting is None:
        msg = f"{where}: this certificate does not belong to the key in {folder}; send the newest {name}.csr to the CA"
        raise CertificateError(msg)
    keys.write_public(trusted, pem(trust.authority))
    keys.write_public(folder / REVOCATIONS, pem(trust.revocations))
    if fitting == NEXT_KEY:
        (folder / NEXT_KEY).replace(folder / KEY)
    keys.write_public(folder / CERTIFICATE, pem(found[0]))
    return Identity.load(folder, passphrase)


def install_list(
    folder: str | os.PathLike[str], revocations: bytes, *, where: object = "the revocation list"
) -> TrustStore:
    """Install a newer revocation list in a folder."""
    folder = real_path(folder)
    trust = read_trust(folder).renewed(revocations, where)
    keys.write_public(folder / REVOCATIONS, pem(trust.revocations))
    return trust


def _authority(
    known: TrustStore | None, sent: list[x509.Certificate], given: bytes | None, expected: str | None, where: object
) -> x509.Certificate:
    """Return the CA to trust: the one given, the one with the expected fingerprint, or the one in the folder."""
    if given is not None:
        return read_certificate(given, "the CA's certificate")
    if expected is not None:
        digits = re.sub(r"[\s:]", "", expected).lower()
        matching = next((each for each in sent if certificates.fingerprint_of(each) == digits), None)
        if matching is None:
            raise CertificateError(
                f"{where}: this file contains no CA with the fingerprint {expected!r:.100}; compare it digit by digit "
                "with the CA operator, and install nothing until it matches"
            )
        return matching
    if known is not None:
        return known.authority
    raise CertificateError(
        f"{where}: it is not known which CA to trust; give the fingerprint that you got from the CA operator "
        "(--fingerprint), or the CA's certificate (--ca)"
    )


def _fits(path: Path, certificate: x509.Certificate, passphrase: str | None) -> bool:
    return is_file(path) and keys.read_key(path, passphrase).public_key() == identity.public_key(certificate)


def name_in(bundle: bytes, where: object) -> str | None:
    """Return the name in a file from the CA, to find its folder; None if the file has only a revocation list."""
    if certificates.has_list(bundle) and b"-----BEGIN CERTIFICATE-----" not in bundle:
        return None
    return name_of(read_certificate(bundle, where))


# -- a CA, a server and members for a demo on one machine -------------------------------------------------------------

DAYS = 30
HOSTS = ("localhost", "127.0.0.1", "::1")
CA, SERVER = "ca", "server"
NAME = "fedslim demo CA, for trying only"


class DemoCa(NamedTuple):
    """The CA, the server and the members of a demo."""

    folder: Path
    authority: Authority
    server: Identity
    members: tuple[Identity, ...]


def make_demo_ca(
    folder: str | os.PathLike[str], members: Sequence[str], *, hosts: Hosts = HOSTS, now: datetime
) -> DemoCa:
    """Create everything in a new folder: `ca`, `server`, and a folder for each member.

    All keys are in one folder and have no passphrases: never do this in a real federation.
    """
    folder = real_path(folder)
    for name in members:
        checked_name(name, "members")
    if len(set(members)) != len(members) or not members or {CA, SERVER} & set(members):
        raise ParameterError(f"members: give at least one name, each once, and neither {CA!r} nor {SERVER!r}")
    keys.make_private_folder(folder)
    if any(folder.iterdir()):
        raise CertificateError(f"{folder}: this folder is not empty, and its files are kept; choose a new one")
    authority = Authority.create(folder / CA, NAME, days=DAYS, now=now)

    def enroll(name: str, role: Role, hosts: Hosts) -> Identity:
        request = make_request(name, folder / name, hosts=hosts).file.read_bytes()
        signed = authority.sign(request, role=role, days=DAYS, now=now)
        return install(folder / name, signed.bundle, fingerprint=authority.fingerprint, now=now)

    server = enroll(SERVER, Role.SERVER, hosts)
    return DemoCa(folder, authority, server, tuple(enroll(name, Role.MEMBER, ()) for name in members))
