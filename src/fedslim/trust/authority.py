"""The certificate authority (CA) of a federation: a folder with a key, a ledger and a revocation list.

The CA decides what goes into a certificate. A request contributes only a name and a key, with proof that the sender
has that key. Whether the sender is entitled to the name is for people to verify, by comparing key fingerprints.

A name has one key. The CA may sign the same key again at any time; the older certificate stays valid until it expires.
A different key requires `renew`, which revokes the certificates of the older key at once.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedslim.data.documents import Format
from fedslim.data.textstream import is_file, real_path
from fedslim.errors import CertificateError, ParameterError
from fedslim.trust import certificates, keys
from fedslim.trust.certificates import SLACK, Host, Hosts, Request, Role, format_time, pem, validity, whole
from fedslim.trust.identity import TrustStore, check_authority, public_key

CERTIFICATE, KEY, REVOCATIONS, LEDGER = "ca.pem", "ca.key", "crl.pem", "ledger.json"

CA_DAYS, MAX_CA_DAYS = 5 * 365, 20 * 365
DAYS, MAX_DAYS = 90, 398
_TICK = timedelta(seconds=1)
LIST_DAYS = 90
"""How long a revocation list is valid: as long as a certificate, since each certificate comes with a new list."""

FORMAT, VERSION = "fedslim-ca-ledger", 1

Time = Annotated[datetime, msgspec.Meta(tz=True)]


class CertificateState(Enum):
    """The state of a certificate."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"
    SUPERSEDED = "superseded"


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed certificate."""

    serial: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,40}$")]
    name: Annotated[str, msgspec.Meta(max_length=63)]
    role: Role
    hosts: list[str]
    key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]  # the fingerprint of the holder's key
    start: Time
    end: Time
    revoked: Time | None = None
    superseded: bool = False

    def state(self, now: datetime) -> CertificateState:
        """Return the state at a point in time. A certificate that is not valid yet counts as valid."""
        if self.revoked is not None:
            return CertificateState.SUPERSEDED if self.superseded else CertificateState.REVOKED
        return CertificateState.EXPIRED if now > self.end else CertificateState.VALID


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All records, oldest first, and the number and start of the latest revocation list.

    A certificate that is not in it could not be revoked, so it is written before a certificate is handed out.
    """

    format: str = FORMAT
    version: int = VERSION
    list_number: Annotated[int, msgspec.Meta(ge=0)] = 0
    listed: Time | None = None
    records: list[Record] = []

    def valid(self, name: str, now: datetime) -> list[Record]:
        """Return the valid certificates of a name."""
        return [each for each in self.records if each.name == name and each.state(now) is CertificateState.VALID]

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Read a ledger that others can neither read nor change."""
        return FILES.decode(keys.read_private(path, "the ledger of this CA", keys.MAX_LIST), path, cls)


_BAD = (
    "{path}: the ledger of this CA is damaged, or of another version ({why}); restore it from your backup, or use a "
    "newer fedslim"
)
FILES = Format(FORMAT, VERSION, CertificateError, _BAD)


class Signed(NamedTuple):
    """A newly signed certificate."""

    record: Record
    certificate: bytes  # PEM
    bundle: bytes
    """The reply to the requester, one PEM file: the certificate, the CA's certificate and the revocation list."""
    replaced: tuple[Record, ...]  # certificates of the previous key, now revoked


class Authority:
    """A CA with its key. It writes only to its own folder."""

    def __init__(self, folder: Path, certificate: x509.Certificate, key: Ed25519PrivateKey) -> None:
        self.folder, self.certificate, self._key = folder, certificate, key

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
        """Create a CA in a folder that has none."""
        folder, start = real_path(folder), whole(now)
        name, lifetime = certificates.checked_ca_name(name), validity(days, MAX_CA_DAYS)
        for file in (CERTIFICATE, KEY, REVOCATIONS, LEDGER):
            if is_file(folder / file):
                msg = f"{folder / file}: this folder already contains a CA, which is kept; choose another folder"
                raise CertificateError(msg)
        keys.make_private_folder(folder)
        key = keys.new_key()
        keys.write_key(key, folder / KEY, passphrase)
        authority = cls(folder, certificates.make_authority(key, name, start - SLACK, start + lifetime), key)
        keys.write_public(folder / CERTIFICATE, pem(authority.certificate))
        authority._write(Ledger(), LIST_DAYS, start)
        return authority

    @classmethod
    def open(cls, folder: str | os.PathLike[str], passphrase: str | None = None) -> Authority:
        """Open the CA in a folder."""
        folder = real_path(folder)
        certificate = read_authority(folder)
        key = keys.read_key(folder / KEY, passphrase)
        if key.public_key() != public_key(certificate):
            raise CertificateError(
                f"{folder / KEY}: this is not the key of {folder / CERTIFICATE}; restore the right one from your backup"
            )
        return cls(folder, certificate, key)

    @property
    def name(self) -> str:
        """The name of the CA."""
        return certificates.name_of(self.certificate)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its certificate, which members compare before they trust it."""
        return certificates.fingerprint_of(self.certificate)

    @property
    def trust(self) -> TrustStore:
        """What members trust: its certificate and its newest revocation list."""
        listed = keys.read_public(self.folder / REVOCATIONS, keys.MAX_LIST)
        return TrustStore(self.certificate, certificates.read_list(listed, "the revocation list"))

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
        """Sign a request (PEM), which messages call `where`. Unless all is well, nothing is written.

        By default a server has the hosts in the request. The certificate never outlives the CA. With `renew`, a new key
        may replace the current key of the name.
        """
        asked, moment = certificates.read_request(request, where), whole(now)
        end = min(moment + validity(days, MAX_DAYS), self.certificate.not_valid_after_utc)
        if moment >= end:
            msg = f"{self.folder}: this CA expired on {format_time(end)}; create a new one and enroll everybody again"
            raise CertificateError(msg)
        hosts = _hosts(role, certificates.checked_hosts(hosts), asked)
        with keys.alone_with(self.folder / LEDGER):
            ledger = Ledger.read(self.folder / LEDGER)
            replaced = self._replaced(ledger, asked, role, moment, renew=renew)
            holder, lifetime = (asked.name, asked.public), (moment - SLACK, end)
            certificate = certificates.make_certificate(self.certificate, self._key, holder, (role, hosts), lifetime)
            serial, key = f"{certificate.serial_number:x}", keys.fingerprint(asked.public)
            record = Record(serial, asked.name, role, list(map(str, hosts)), key, *lifetime)
            records = _mark_revoked(ledger, replaced, moment, superseded=True)
            newest = self._write(msgspec.structs.replace(ledger, records=[*records, record]), LIST_DAYS, moment)
        text = pem(certificate)
        return Signed(record, text, text + pem(self.certificate) + newest, tuple(replaced))

    def _replaced(self, ledger: Ledger, asked: Request, role: Role, now: datetime, *, renew: bool) -> list[Record]:
        """Return the certificates that a new one replaces, or raise an error if it must not be signed."""
        name, holder, where = asked.name, keys.fingerprint(asked.public), asked.where
        if name == self.name:
            raise CertificateError(f"{where}: {name!r} is the name of the CA itself; choose another")
        for record in (each for each in ledger.records if each.key == holder):
            if record.revoked is not None:
                raise CertificateError(
                    f"{where}: this key was revoked on {format_time(record.revoked)}; ask for a request with a new key"
                )
            if record.name != name:
                msg = f"{where}: {record.name!r} has the same key; create a key for each member with `fedslim enroll`"
                raise CertificateError(msg)
        valid = ledger.valid(name, now)
        if any(record.role is not role for record in valid):
            raise CertificateError(
                f"{where}: {name!r} has a valid certificate as a {valid[-1].role.value}; revoke it first, or choose "
                "another name"
            )
        others = [record for record in valid if record.key != holder]
        if others and not renew:
            raise CertificateError(
                f"{where}: {name!r} has a valid certificate with another key, until {format_time(others[-1].end)}; "
                "confirm that the request really comes from them, then sign it with --renew, which revokes the old key"
            )
        if renew and all(record.name != name for record in ledger.records):
            msg = f"{where}: {name!r} never had a certificate from this CA to renew; check the name, or omit --renew"
            raise CertificateError(msg)
        return others

    def revoke(self, name: str, *, now: datetime) -> tuple[Record, ...]:
        """Revoke all valid certificates of a name, and write a new revocation list."""
        moment = whole(now)
        with keys.alone_with(self.folder / LEDGER):
            ledger = Ledger.read(self.folder / LEDGER)
            valid = ledger.valid(certificates.checked_name(name), moment)
            if not valid:
                why = f"this CA has signed nothing for {name!r}; see `fedslim ca list`"
                for record in ledger.records:
                    if record.name == name:
                        why = f"{name!r} has no valid certificate; its last one is {record.state(moment).value}"
                raise CertificateError(f"{self.folder}: {why}")
            records = _mark_revoked(ledger, valid, moment, superseded=False)
            self._write(msgspec.structs.replace(ledger, records=records), LIST_DAYS, moment)
        return tuple(valid)

    def renew_list(self, *, days: int = LIST_DAYS, now: datetime) -> bytes:
        """Write a new revocation list, before the current one expires."""
        with keys.alone_with(self.folder / LEDGER):
            return self._write(Ledger.read(self.folder / LEDGER), days, whole(now))

    def _write(self, ledger: Ledger, days: int, now: datetime) -> bytes:
        """Write the ledger first: the list can be recreated from it."""
        start = now - SLACK
        if ledger.listed is not None and start <= ledger.listed < now:
            start = ledger.listed + _TICK  # OpenSSL uses the list with the later start
        number = ledger.list_number + 1
        end = now + validity(days, MAX_DAYS)
        revoked = [(int(each.serial, 16), each.revoked, each.superseded) for each in ledger.records if each.revoked]
        newest = pem(certificates.make_list(self.certificate, self._key, number, revoked, (start, end)))
        listed = msgspec.structs.replace(ledger, list_number=number, listed=start)
        FILES.write(self.folder / LEDGER, listed)
        keys.write_public(self.folder / REVOCATIONS, newest)
        return newest


def read_authority(folder: str | os.PathLike[str]) -> x509.Certificate:
    """Read the certificate of the CA in a folder; this needs no passphrase."""
    path = real_path(folder) / CERTIFICATE
    if not is_file(path):
        raise CertificateError(
            f"{path}: no such file, so this folder contains no CA; give the CA's folder with --ca, or create a CA with "
            "`fedslim ca init`"
        )
    certificate = certificates.read_certificate(keys.read_trusted(path, "the certificate of this CA"), path)
    check_authority(certificate, f"{path}: ")
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
