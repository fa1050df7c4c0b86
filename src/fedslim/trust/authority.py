"""The certificate authority (CA) of a federation: a folder with a key, a ledger and a revocation list.

    authority = Authority.create("ca", "Heart Study CA", now=now)
    signed = authority.sign(request_pem, now=now)                # for a member
    signed = authority.sign(request_pem, role=Role.SERVER, now=now)
    authority.revoke("hospital-a", now=now)

The CA decides what goes into a certificate. A request contributes only a name and a key, with proof that the sender
has that key. Whether the sender is entitled to the name is for people to verify, by comparing key fingerprints.

A name has one key. The CA may sign the same key again at any time; the older certificate stays valid until it expires.
A different key requires `renew`, which revokes the certificates of the older key at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from fedslim.data.textstream import is_file, real_path
from fedslim.errors import CertificateError, ParameterError
from fedslim.trust.anchor import TrustStore, check_authority, public_key
from fedslim.trust.certificates import (
    Request,
    fingerprint_of,
    make_authority,
    make_certificate,
    make_list,
    name_of,
    pem,
    read_certificate,
    read_request,
)
from fedslim.trust.keys import (
    MAX_LIST,
    fingerprint,
    make_private_folder,
    new_key,
    read_key,
    read_public,
    read_trusted,
    write_key,
    write_public,
)
from fedslim.trust.names import (
    SLACK,
    Hosts,
    Role,
    checked_ca_name,
    checked_hosts,
    checked_name,
    format_time,
    validity,
    whole,
)
from fedslim.trust.register import Ledger, Record, alone_with

if TYPE_CHECKING:
    import os
    from datetime import datetime
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from fedslim.trust.names import Host

CERTIFICATE, KEY, REVOCATIONS, LEDGER = "ca.pem", "ca.key", "crl.pem", "ledger.json"

CA_DAYS, MAX_CA_DAYS = 5 * 365, 20 * 365
DAYS, MAX_DAYS = 90, 398
_TICK = timedelta(seconds=1)
LIST_DAYS = 90
"""How long a revocation list is valid: as long as a certificate, since each certificate comes with a new list."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A newly signed certificate."""

    record: Record
    certificate: bytes
    """PEM."""
    bundle: bytes
    """The reply to the requester, one PEM file: the certificate, the CA's certificate and the revocation list."""
    replaced: tuple[Record, ...]
    """Certificates of the previous key, now revoked."""


class Authority:
    """A CA with its key. It writes only to its own folder."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: Ed25519PrivateKey) -> None:
        self.folder = folder
        self.certificate = certificate
        self._key = key

    def __repr__(self) -> str:
        return f"Authority({self.name!r}, {self.fingerprint[:16]}…)"

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        name: str = "fedslim CA",
        *,
        days: int = CA_DAYS,
        passphrase: str | None = None,
        now: datetime,
    ) -> Authority:
        """Create a CA in a folder that has none.

        Raises:
            DataError: There is a CA already; it is left unchanged.
        """
        folder, start = real_path(folder), whole(now)
        name, lifetime = checked_ca_name(name), validity(days, MAX_CA_DAYS)
        for file in (CERTIFICATE, KEY, REVOCATIONS, LEDGER):
            if is_file(folder / file):
                msg = f"{folder / file}: this folder already contains a CA, which is kept; choose another folder"
                raise CertificateError(msg)
        make_private_folder(folder)
        key = new_key()
        write_key(key, folder / KEY, passphrase)
        authority = cls(folder, make_authority(key, name, start - SLACK, start + lifetime), key)
        write_public(folder / CERTIFICATE, pem(authority.certificate))
        Ledger().write_new(folder / LEDGER)
        authority.renew_list(now=now)
        return authority

    @classmethod
    def open(cls, folder: str | os.PathLike[str], passphrase: str | None = None) -> Authority:
        """Open the CA in a folder.

        Raises:
            CertificateError: There is none, it is damaged, other users may read its key, or the passphrase is wrong.
        """
        folder = real_path(folder)
        certificate = read_authority(folder)
        key = read_key(folder / KEY, passphrase)
        if key.public_key() != public_key(certificate):
            msg = (
                f"{folder / KEY}: this is not the key of {folder / CERTIFICATE}; restore the right one from your backup"
            )
            raise CertificateError(msg)
        return cls(folder, certificate, key)

    @property
    def name(self) -> str:
        """The name of the CA."""
        return name_of(self.certificate)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its certificate, which members compare before they trust it."""
        return fingerprint_of(self.certificate)

    @property
    def trust(self) -> TrustStore:
        """What members trust: its certificate and its newest revocation list."""
        return TrustStore.of(pem(self.certificate), read_public(self.folder / REVOCATIONS, MAX_LIST))

    def sign(  # noqa: PLR0913  # by keyword, and most are left out
        self,
        request: bytes,
        *,
        role: Role = Role.MEMBER,
        hosts: Hosts = (),
        days: int = DAYS,
        renew: bool = False,
        where: object = "the request",
        now: datetime,
    ) -> Signed:
        """Sign a request.

        Args:
            request: As PEM.
            role: What the holder may do.
            hosts: Host names and addresses of a server; by default those in the request.
            days: How long the certificate is valid. It never outlives the CA.
            renew: Whether a new key may replace the current key of the name.
            where: What to call the request in messages.
            now: The current time.

        Raises:
            CertificateError: This is not a request, or it must not be signed; nothing is written.
            ParameterError: The hosts or days are not valid.
        """
        asked, moment = read_request(request, where), whole(now)
        end = min(moment + validity(days, MAX_DAYS), self.certificate.not_valid_after_utc)
        if moment >= end:
            msg = f"{self.folder}: this CA expired on {format_time(end)}; create a new one and enroll everybody again"
            raise CertificateError(msg)
        purpose = role, _hosts(role, checked_hosts(hosts), asked)
        holder = fingerprint(asked.public)
        with alone_with(self.folder / LEDGER):
            ledger = Ledger.read(self.folder / LEDGER)
            replaced = self._replaced(ledger, asked, role, moment, renew=renew)
            certificate = make_certificate(
                self.certificate, self._key, (asked.name, asked.public), purpose, (moment - SLACK, end)
            )
            record = Record(
                f"{certificate.serial_number:x}",
                asked.name,
                role,
                list(map(str, purpose[1])),
                holder,
                certificate.not_valid_before_utc,
                certificate.not_valid_after_utc,
            )
            records = _mark_revoked(ledger, replaced, moment, superseded=True)
            newest = self._write(msgspec.structs.replace(ledger, records=[*records, record]), LIST_DAYS, moment)
        text = pem(certificate)
        return Signed(record, text, text + pem(self.certificate) + newest, tuple(replaced))

    def _replaced(self, ledger: Ledger, asked: Request, role: Role, now: datetime, *, renew: bool) -> list[Record]:
        """Return the certificates that a new one replaces, or raise an error if it must not be signed."""
        name, holder, where = asked.name, fingerprint(asked.public), asked.where
        if name == self.name:
            msg = f"{where}: {name!r} is the name of the CA itself; choose another"
            raise CertificateError(msg)
        for record in ledger.records:
            if record.key != holder:
                continue
            if record.revoked is not None:
                msg = (
                    f"{where}: this key was revoked on {format_time(record.revoked)}; ask for a request with a new key"
                )
                raise CertificateError(msg)
            if record.name != name:
                msg = f"{where}: {record.name!r} has the same key; create a key for each member with `fedslim enroll`"
                raise CertificateError(msg)
        valid = ledger.valid(name, now)
        if any(record.role is not role for record in valid):
            msg = (
                f"{where}: {name!r} has a valid certificate as a {valid[-1].role.value}; revoke it first, or choose "
                "another name"
            )
            raise CertificateError(msg)
        others = [record for record in valid if record.key != holder]
        if others and not renew:
            msg = (
                f"{where}: {name!r} has a valid certificate with another key, until {format_time(others[-1].end)}; "
                "confirm that the request really comes from them, then sign it with --renew, which revokes the old key"
            )
            raise CertificateError(msg)
        if renew and all(record.name != name for record in ledger.records):
            msg = f"{where}: {name!r} never had a certificate from this CA to renew; check the name, or omit --renew"
            raise CertificateError(msg)
        return others

    def revoke(self, name: str, *, now: datetime) -> tuple[Record, ...]:
        """Revoke all valid certificates of a name, and write a new revocation list.

        Raises:
            CertificateError: There are none.
        """
        moment = whole(now)
        with alone_with(self.folder / LEDGER):
            ledger = Ledger.read(self.folder / LEDGER)
            valid = ledger.valid(checked_name(name), moment)
            if not valid:
                raise CertificateError(self._nothing_to_revoke(ledger, name, moment))
            records = _mark_revoked(ledger, valid, moment, superseded=False)
            self._write(msgspec.structs.replace(ledger, records=records), LIST_DAYS, moment)
        return tuple(valid)

    def _nothing_to_revoke(self, ledger: Ledger, name: str, now: datetime) -> str:
        last = next((record for record in reversed(ledger.records) if record.name == name), None)
        if last is None:
            return f"{self.folder}: this CA has signed nothing for {name!r}; see `fedslim ca list`"
        return f"{self.folder}: {name!r} has no valid certificate; its last one is {last.state(now).value}"

    def renew_list(self, *, days: int = LIST_DAYS, now: datetime) -> bytes:
        """Write a new revocation list, before the current one expires."""
        with alone_with(self.folder / LEDGER):
            return self._write(Ledger.read(self.folder / LEDGER), days, whole(now))

    def _write(self, ledger: Ledger, days: int, now: datetime) -> bytes:
        """Write the ledger first: the list can be recreated from it."""
        start = now - SLACK
        if ledger.listed is not None and start <= ledger.listed < now:
            start = ledger.listed + _TICK  # OpenSSL uses the list with the later start
        number = ledger.list_number + 1
        end = now + validity(days, MAX_DAYS)
        newest = pem(make_list(self.certificate, self._key, number, ledger.revoked(), (start, end)))
        msgspec.structs.replace(ledger, list_number=number, listed=start).write(self.folder / LEDGER)
        write_public(self.folder / REVOCATIONS, newest)
        return newest


def read_authority(folder: str | os.PathLike[str]) -> x509.Certificate:
    """Read the certificate of the CA in a folder; this needs no passphrase."""
    path = real_path(folder) / CERTIFICATE
    if not is_file(path):
        msg = (
            f"{path}: no such file, so this folder contains no CA; give the CA's folder with --ca, or create a CA with "
        )
        msg += "`fedslim ca init`"
        raise CertificateError(msg)
    certificate = read_certificate(read_trusted(path, "the certificate of this CA"), path)
    try:
        check_authority(certificate)
    except CertificateError as error:
        msg = f"{path}: {error}"
        raise CertificateError(msg) from None
    return certificate


def read_records(folder: str | os.PathLike[str]) -> list[Record]:
    """Read the records of all certificates that the CA in a folder has signed; this needs no passphrase."""
    read_authority(folder)
    return Ledger.read(real_path(folder) / LEDGER).records


def _mark_revoked(ledger: Ledger, which: list[Record], now: datetime, *, superseded: bool) -> list[Record]:
    how = {"revoked": now, "superseded": superseded}
    return [msgspec.structs.replace(each, **how) if each in which else each for each in ledger.records]


def _hosts(role: Role, hosts: tuple[Host, ...], asked: Request) -> tuple[Host, ...]:
    if role is Role.MEMBER:
        if hosts:
            msg = "hosts: a member has none, because nobody connects to it; leave them out, or sign it as a server"
            raise ParameterError(msg)
        return ()
    if not (hosts or asked.hosts):
        msg = f"{asked.where}: a server needs the host names or addresses that members connect to; add them with --host"
        raise CertificateError(msg)
    return hosts or asked.hosts
