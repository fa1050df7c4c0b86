"""Startup kits as NVFlare provisions them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def certificate(name, issuer, key, signer, *, days=30):
    def named(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(issuer))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    start = now - timedelta(days=60)
    return builder.not_valid_before(start).not_valid_after(now + timedelta(days=days)).sign(signer, hashes.SHA256())


def make_kits(folder, names, expired=()):
    """Write the startup kits of sites and of the server below a folder, and return the folder."""
    keys = {name: rsa.generate_private_key(65537, 2048) for name in ("root", *names, *expired, "server")}
    root = certificate("project", "project", keys["root"], keys["root"])
    for name, key in keys.items():
        kit = folder / name
        kit.mkdir(parents=True)
        (kit / "rootCA.pem").write_bytes(root.public_bytes(Encoding.PEM))
        mine = certificate(name, "project", key, keys["root"], days=-1 if name in expired else 30)
        (kit / "client.crt").write_bytes(mine.public_bytes(Encoding.PEM))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (kit / "client.key").write_bytes(private)
    return folder
