"""`fedslim ca`: the certificate authority of a federation, for whoever keeps it."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options, passphrases
from fedslim.cli.console.output import grid, summary
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, print_rich, print_text, say
from fedslim.cli.console.text import count, printable
from fedslim.errors import InputError, ParameterError

if TYPE_CHECKING:
    from fedslim.trust import Authority
    from fedslim.trust.register import Record

app = typer.Typer(help="Sign and revoke the certificates of a federation.", rich_markup_mode=None, add_completion=False)

FOLDER = Path("ca")
ROLES = ("member", "server")

Folder = Annotated[Path, typer.Option("--ca", metavar="DIR", envvar="FEDSLIM_CA", help="The folder of the CA.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST", show_default=False, help="A host name or address of a server; repeat it."),
]


@app.callback(invoke_without_command=True)
def ca(context: typer.Context) -> None:
    """What there is to say before the command; without a command, the help."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


@app.command(short_help="Make a CA in a new folder.")
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")] = FOLDER,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="What it is called in certificates.")] = "fedslim CA",
    days: Annotated[
        int | None,
        typer.Option(metavar="N", callback=options.whole(1), show_default=False, help="How long.  [default: 1825]"),
    ] = None,
    passphrase: passphrases.Ask = False,
    passphrase_file: passphrases.File = None,
) -> None:
    """Make a CA in a new folder, and print its fingerprint.

    Who has the folder decides who takes part: keep it apart from the server, and give its key a passphrase. Tell the
    fingerprint to the members on another way than the certificates go, by telephone for instance.
    """
    from fedslim.trust import Authority

    words = passphrases.for_new_key(passphrase_file, ask=passphrase)
    chosen = {} if days is None else {"days": days}
    made = Authority.create(folder, name, passphrase=words, now=moment(), **chosen)
    print_rich(
        summary(
            [
                ("made", f"{folder}: {made.name}"),
                ("fingerprint", made.fingerprint),
                ("valid until", day(made.certificate.not_valid_after_utc)),
                ("key", f"{folder / 'ca.key'}, {'without' if words is None else 'under'} a passphrase"),
            ]
        )
    )


@app.command(short_help="Say what is in a request, before signing it.")
def show(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", show_default=False, help="What a member has sent.")],
    json: options.Json = False,
) -> None:
    """Say what is in a request. Ask the member on another way whether its key has this fingerprint."""
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
    request: Annotated[Path, typer.Argument(metavar="REQUEST", show_default=False, help="What a member has sent.")],
    *,
    ca: Folder = FOLDER,
    role: Annotated[
        str | None, typer.Option(metavar="R", show_default=False, help="member or server.  [default: member]")
    ] = None,
    host: Hosts = None,
    days: Annotated[
        int | None,
        typer.Option(metavar="N", callback=options.whole(1), show_default=False, help="How long.  [default: 90]"),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Let a new key take the place of the one that has the name now.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Where to write it.  [default: NAME.pem beside REQUEST]"),
    ] = None,
    passphrase_file: passphrases.File = None,
) -> None:
    """Sign the request of a member or a server, and write what to send back to it.

    Sign only what is from whom it says: compare the fingerprint of its key (`fedslim ca show`) with the
    member over a separate channel.
    The file has the certificate, that of the CA and the revocation list; none of them is a secret.
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
    more = {} if days is None else {"days": days}
    signed = authority.sign(data, role=chosen, hosts=host or (), renew=renew, where=request, now=moment(), **more)
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
            f"{request}: this request names the hosts {', '.join(hosts)}, so it seems to be for a server; say which "
            "it is to be with --role server or --role member"
        )
        raise InputError(msg)
    if role is not None and role not in ROLES:
        msg = f"--role: {role!r:.60} is none; give member or server"
        raise ParameterError(msg)
    return role or ROLES[0]


def _check_target(target: Path, request: Path) -> None:
    """Check the place before anything is signed; only a certificate is ever replaced."""
    from fedslim.trust.keys import read_public

    check_place(target, besides=request, what="the request")
    if target.exists() and not read_public(target).startswith(b"-----BEGIN CERTIFICATE-----"):
        msg = f"--out {target}: there is something else than a certificate, and it is kept; name another file"
        raise InputError(msg)


@app.command(short_help="Revoke the certificates of a name.")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Of a member or a server.")],
    *,
    ca: Folder = FOLDER,
    passphrase_file: passphrases.File = None,
) -> None:
    """Revoke the certificates of a name, and write the revocation list anew.

    It counts for those who have the new list: give it to the server and to all members.
    """
    authority = _open(ca, passphrase_file)
    revoked = authority.revoke(name, now=moment())
    told = f"{name}: revoked {count(len(revoked), 'certificate')}; give {ca / 'crl.pem'} to the server and all members"
    print_text(printable(told) + "\n")
    _warn_of(authority)


@app.command(short_help="Write the revocation list anew.")
def crl(
    *,
    ca: Folder = FOLDER,
    days: Annotated[
        int | None,
        typer.Option(metavar="N", callback=options.whole(1), show_default=False, help="How long.  [default: 90]"),
    ] = None,
    passphrase_file: passphrases.File = None,
) -> None:
    """Write the revocation list anew, because the last one ends. Whoever has none that is valid lets nobody in."""
    authority = _open(ca, passphrase_file)
    chosen = {} if days is None else {"days": days}
    authority.renew_list(now=moment(), **chosen)
    trust = authority.trust
    entries = count(len(list(trust.revocations)), "revoked certificate")
    until = day(trust.revocations.next_update_utc or trust.revocations.last_update_utc)
    told = f"{ca / 'crl.pem'}: list {trust.number} with {entries}, valid until {until}; give it to all"
    print_text(printable(told) + "\n")
    _warn_of(authority)


@app.command("list", short_help="List what was signed.")
def list_(
    *,
    ca: Folder = FOLDER,
    json: options.Json = False,
) -> None:
    """List what was signed, and how things are with it."""
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
        _warn(f"the certificate of {record.name!r}", (record.start, record.end), "have the member renew it")


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


@app.command(short_help="Make everything for a try on one machine.")
def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="A new folder.")],
    *,
    members: Annotated[
        str, typer.Option(metavar="NAMES", help="What the members are called, with commas between.")
    ] = "hospital-a,hospital-b,hospital-c",
) -> None:
    """Make a CA, a server for this machine and some members, all in one folder.

    These keys are for trying only: they are all in one place, and have no passphrases.
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
    say("These keys are for trying only: they are all in one place, and have no passphrases.")


def moment() -> datetime:
    """The time."""
    return datetime.now(UTC)


def day(when: datetime) -> str:
    """A point in time for people."""
    from fedslim.trust.times import format_time

    return format_time(when)


def _open(folder: Path, passphrase_file: Path | None) -> "Authority":
    from fedslim.trust import Authority
    from fedslim.trust.authority import read_authority

    read_authority(folder)  # before somebody is asked for the passphrase of what is not there
    return Authority.open(folder, passphrases.for_key(folder / "ca.key", passphrase_file))


def _warn_of(authority: "Authority") -> None:
    certificate = authority.certificate
    span = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    _warn(f"the CA {authority.name!r}", span, "make a new one in time, and enrol everybody with it")


def _warn(what: str, span: tuple[datetime, datetime], remedy: str) -> None:
    from fedslim.trust.identity import expiry_warning

    if (told := expiry_warning(what, *span, remedy, now=moment())) is not None:
        say(f"fedslim: warning: {told}")
