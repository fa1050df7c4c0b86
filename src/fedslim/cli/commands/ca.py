"""`fedslim ca`: the certificate authority of a federation, for the CA operator."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options, passphrases
from fedslim.cli.console.groups import command_group
from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, print_line, print_rich, say
from fedslim.cli.console.text import count
from fedslim.errors import InputError, ParameterError

if TYPE_CHECKING:
    from fedslim.trust import Authority
    from fedslim.trust.register import Record

app = command_group("Sign and revoke the certificates of a federation.")

FOLDER = Path("ca")
ROLES = ("member", "server")
CA_DAYS, DAYS = 1825, 90
"""Of a CA, and of a certificate or list; copied, so that `--help` is fast. A test checks that they agree."""

Folder = Annotated[Path, typer.Option("--ca", metavar="DIR", envvar="FEDSLIM_CA", help="The folder of the CA.")]
Days = Annotated[int, typer.Option(metavar="N", callback=options.whole(1), help="Days of validity.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host", metavar="HOST", show_default=False, help="Host name or address of a server; may be repeated."
    ),
]


@app.command(short_help="Create a CA in a new folder.")
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")] = FOLDER,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the CA in certificates.")] = "fedslim CA",
    days: Days = CA_DAYS,
    passphrase: passphrases.Ask = False,
    passphrase_file: passphrases.File = None,
) -> None:
    """Create a CA in a new folder, and print its fingerprint.

    The CA decides who takes part: keep its folder away from the server, and protect its key with a passphrase. Tell
    the members the fingerprint over a separate channel, such as the telephone.
    """
    from fedslim.trust import Authority

    secret = passphrases.for_new_key(passphrase_file, ask=passphrase)
    made = Authority.create(folder, name, days=days, passphrase=secret, now=moment())
    print_rich(
        summary(
            [
                ("created", f"{folder}: {made.name}"),
                ("fingerprint", made.fingerprint),
                ("valid until", day(made.certificate.not_valid_after_utc)),
                ("key", f"{folder / 'ca.key'}, {'without' if secret is None else 'with'} a passphrase"),
            ]
        )
    )


@app.command(short_help="Show a request before you sign it.")
def show(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", show_default=False, help="The request, NAME.csr.")],
    json: options.Json = False,
) -> None:
    """Show a request. Confirm the fingerprint of its key with the member over a separate channel."""
    from fedslim.trust.certificates import read_request
    from fedslim.trust.keys import fingerprint, read_public

    found = read_request(read_public(request), request)
    hosts = list(map(str, found.hosts))
    if json:
        print_json({"file": str(request), "name": found.name, "hosts": hosts, "key": fingerprint(found.public)})
    else:
        facts = [("name", found.name), ("key", fingerprint(found.public))]
        print_rich(summary([*facts, *([("hosts", ", ".join(hosts))] if hosts else [])]))


@app.command(short_help="Sign the request of a member or a server.")
def sign(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", show_default=False, help="The request, NAME.csr.")],
    *,
    ca: Folder = FOLDER,
    role: Annotated[
        str | None, typer.Option(metavar="R", show_default=False, help="member or server.  [default: member]")
    ] = None,
    host: Hosts = None,
    days: Days = DAYS,
    renew: Annotated[
        bool, typer.Option("--renew", help="Accept a new key for this name, and revoke the older one.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="The file to send back.  [default: NAME.pem beside REQUEST]"
        ),
    ] = None,
    passphrase_file: passphrases.File = None,
) -> None:
    """Sign the request of a member or a server, and write the file to send back.

    Before you sign, confirm with the member over a separate channel that its key has the fingerprint that
    `fedslim ca show` prints.
    The file has the certificate, the CA's certificate and the revocation list; none of them is secret.
    """
    from fedslim.trust import Role
    from fedslim.trust.certificates import read_request
    from fedslim.trust.keys import read_public, write_public

    data = read_public(request)
    asked = read_request(data, request)
    chosen = Role(_role(role, request, list(map(str, asked.hosts))))
    target = request.parent / f"{asked.name}.pem" if out is None else out
    _check_target(target, request)
    authority = _open(ca, passphrase_file)
    signed = authority.sign(data, role=chosen, hosts=host or (), days=days, renew=renew, where=request, now=moment())
    write_public(target, signed.bundle)
    record = signed.record
    facts = [("signed", f"{record.name}, as a {record.role.value}"), ("key", record.key)]
    if record.hosts:
        facts.append(("hosts", ", ".join(record.hosts)))
    facts += [("valid until", day(record.end)), ("send back", str(target)), ("fingerprint", authority.fingerprint)]
    if signed.replaced:
        old = count(len(signed.replaced), "certificate")
        facts.append(("revoked", f"{old} of the older key; give {ca / 'crl.pem'} to the server and all members"))
    print_rich(summary(facts))
    _warn_of(authority)


def _role(role: str | None, request: Path, hosts: list[str]) -> str:
    if role is None and hosts:
        msg = (
            f"{request}: this request names the hosts {', '.join(hosts)}, so it seems to be for a server; choose "
            "--role server or --role member"
        )
        raise InputError(msg)
    if role is not None and role not in ROLES:
        msg = f"--role: {role!r:.60} is not a role; choose member or server"
        raise ParameterError(msg)
    return role or ROLES[0]


def _check_target(target: Path, request: Path) -> None:
    """Check the file to write before anything is signed; only a certificate may be replaced."""
    from fedslim.trust.keys import read_public

    check_place(target, besides=request, what="the request")
    if target.exists() and not read_public(target).startswith(b"-----BEGIN CERTIFICATE-----"):
        msg = f"--out {target}: this file exists and is not a certificate, so it is not replaced; name another file"
        raise InputError(msg)


@app.command(short_help="Revoke the certificates of a member or server.")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Name of the member or server.")],
    *,
    ca: Folder = FOLDER,
    passphrase_file: passphrases.File = None,
) -> None:
    """Revoke the certificates of a member or server, and renew the revocation list.

    The revocation takes effect where the new list is installed: give it to the server and all members.
    """
    authority = _open(ca, passphrase_file)
    revoked = authority.revoke(name, now=moment())
    print_line(
        f"{name}: revoked {count(len(revoked), 'certificate')}; give {ca / 'crl.pem'} to the server and all members"
    )
    _warn_of(authority)


@app.command(short_help="Renew the revocation list.")
def crl(
    *,
    ca: Folder = FOLDER,
    days: Days = DAYS,
    passphrase_file: passphrases.File = None,
) -> None:
    """Renew the revocation list before it expires. A server or member without a valid list accepts nobody."""
    authority = _open(ca, passphrase_file)
    authority.renew_list(days=days, now=moment())
    trust = authority.trust
    entries = count(len(list(trust.revocations)), "revoked certificate")
    until = day(trust.revocations.next_update_utc or trust.revocations.last_update_utc)
    print_line(
        f"{ca / 'crl.pem'}: list {trust.number} with {entries}, valid until {until}; give it to the server and members"
    )
    _warn_of(authority)


@app.command("list", short_help="List the certificates that were signed.")
def list_(
    *,
    ca: Folder = FOLDER,
    json: options.Json = False,
) -> None:
    """List the certificates that this CA has signed, with their state."""
    from fedslim.trust.authority import read_authority, read_records
    from fedslim.trust.certificates import fingerprint_of, name_of
    from fedslim.trust.register import CertificateState

    now, certificate, records = moment(), read_authority(ca), read_records(ca)
    if json:
        print_json(
            {
                "name": name_of(certificate),
                "fingerprint": fingerprint_of(certificate),
                "valid_until": certificate.not_valid_after_utc.isoformat(),
                "certificates": [_describe(record, now) for record in records],
            }
        )
        return
    rows = [
        (each.name, each.role.value, each.state(now).value, day(each.end), each.key[:16], ", ".join(each.hosts))
        for each in records
    ]
    facts = [
        ("CA", f"{name_of(certificate)}, valid until {day(certificate.not_valid_after_utc)}"),
        ("fingerprint", fingerprint_of(certificate)),
        ("signed", count(len(records), "certificate")),
    ]
    header = ("name", "role", "state", "valid until", "key", "hosts")
    print_rich(*([grid(header, rows, right=0)] if rows else []), summary(facts))
    newest = {record.name: record for record in records if record.state(now) is CertificateState.VALID}
    for record in newest.values():
        _warn(f"the certificate of {record.name!r}", (record.start, record.end), "ask the member to renew it")


def _describe(record: "Record", now: datetime) -> dict[str, Any]:
    return {
        "name": record.name,
        "role": record.role.value,
        "state": record.state(now).value,
        "hosts": record.hosts,
        "valid_from": record.start.isoformat(),
        "valid_until": record.end.isoformat(),
        "revoked": None if record.revoked is None else record.revoked.isoformat(),
        "key": record.key,
        "serial": record.serial,
    }


@app.command(short_help="Create keys and certificates for a test on one machine.")
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new folder.")],
    *,
    members: Annotated[
        str, typer.Option(metavar="NAMES", help="Names of the members, separated by commas.")
    ] = "hospital-a,hospital-b,hospital-c",
) -> None:
    """Create a CA, a server for this machine and some members, all in one folder.

    Use these keys for tests only: they are all in one place, without passphrases.
    """
    from fedslim.trust import make_demo_ca

    made = make_demo_ca(folder, [name.strip() for name in members.split(",")], now=moment())
    facts = [
        (str(folder / "ca"), f"the CA, fingerprint {made.authority.fingerprint}"),
        (str(folder / "server"), f"the server, for {', '.join(map(str, made.server.hosts))}"),
        *((str(folder / member.name), f"the member {member.name}") for member in made.members),
        ("valid until", day(made.server.expires)),
    ]
    print_rich(summary(facts))
    say("Use these keys for tests only: they are all in one place, without passphrases.")


def moment() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def day(when: datetime) -> str:
    """Format a time for people."""
    from fedslim.trust.names import format_time

    return format_time(when)


def _open(folder: Path, passphrase_file: Path | None) -> "Authority":
    from fedslim.trust import Authority
    from fedslim.trust.authority import read_authority

    read_authority(folder)  # a missing CA must not ask for a passphrase first
    return Authority.open(folder, passphrases.for_key(folder / "ca.key", passphrase_file))


def _warn_of(authority: "Authority") -> None:
    certificate = authority.certificate
    span = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    _warn(f"the CA {authority.name!r}", span, "create a new CA in time, and enrol everybody with it")


def _warn(what: str, span: tuple[datetime, datetime], remedy: str) -> None:
    from fedslim.trust.identity import expiry_warning

    if (warning := expiry_warning(what, *span, remedy, now=moment())) is not None:
        say(f"fedslim: warning: {warning}")
