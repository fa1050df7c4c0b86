"""Helpers for the tests of trust: a clock, and enrolment."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from fedslim.trust.certificates import Role
from fedslim.trust.enrolment import install, make_request

NOW = datetime.now(UTC).replace(microsecond=0)
"""Handshakes use the machine's clock, everything else this time."""

DAY = timedelta(days=1)
WORDS = "seven purple hedgehogs"


def enrolled(authority, folder, name, role=Role.MEMBER, *, now=NOW, **how):
    """Enroll a new identity with a CA."""
    hosts = ("localhost",) if role is Role.SERVER else ()
    request = make_request(name, folder, hosts=hosts).file.read_bytes()
    signed = authority.sign(request, role=role, now=now, **how)
    return install(folder, signed.bundle, fingerprint=authority.fingerprint, now=now)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def extension(certificate, kind):
    return certificate.extensions.get_extension_for_class(kind)


def request_of(name="north", key=None, *extensions, names=None, algorithm=None):
    subject = names if names is not None else [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    for each, critical in extensions:
        builder = builder.add_extension(each, critical=critical)
    return builder.sign(key or Ed25519PrivateKey.generate(), algorithm)
