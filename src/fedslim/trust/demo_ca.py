"""A CA, a server and members for a demo on one machine.

All keys are in one folder and have no passphrases: never do this in a real federation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedslim.data.textstream import real_path
from fedslim.errors import CertificateError, ParameterError
from fedslim.trust.authority import Authority
from fedslim.trust.enrolment import install, make_request
from fedslim.trust.keys import make_private_folder
from fedslim.trust.names import Hosts, Role, checked_name

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from fedslim.trust.identity import Identity

DAYS = 30
HOSTS = ("localhost", "127.0.0.1", "::1")
CA, SERVER = "ca", "server"
NAME = "fedslim demo CA, for trying only"


@dataclass(frozen=True, slots=True)
class DemoCa:
    """The CA, the server and the members of a demo."""

    folder: Path
    authority: Authority
    server: Identity
    members: tuple[Identity, ...]


def make_demo_ca(
    folder: str | os.PathLike[str], members: Sequence[str], *, hosts: Hosts = HOSTS, now: datetime
) -> DemoCa:
    """Create everything in a new folder: `ca`, `server`, and a folder for each member.

    Raises:
        ParameterError: A member's name is not allowed.
        CertificateError: The folder is not empty.
    """
    folder = real_path(folder)
    for name in members:
        checked_name(name, "members")
    if len(set(members)) != len(members) or not members or {CA, SERVER} & set(members):
        msg = f"members: give at least one name, each once, and neither {CA!r} nor {SERVER!r}"
        raise ParameterError(msg)
    make_private_folder(folder)
    if any(folder.iterdir()):
        msg = f"{folder}: this folder is not empty, and its files are kept; choose a new one"
        raise CertificateError(msg)
    authority = Authority.create(folder / CA, NAME, days=DAYS, now=now)

    def enroll(name: str, role: Role, hosts: Hosts) -> Identity:
        request = make_request(name, folder / name, hosts=hosts).file.read_bytes()
        signed = authority.sign(request, role=role, days=DAYS, now=now)
        return install(folder / name, signed.bundle, fingerprint=authority.fingerprint, now=now)

    server = enroll(SERVER, Role.SERVER, hosts)
    return DemoCa(folder, authority, server, tuple(enroll(name, Role.MEMBER, ()) for name in members))
