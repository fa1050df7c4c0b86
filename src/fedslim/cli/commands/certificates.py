"""`fedslim ca`, for the CA operator of a federation, and `fedslim enroll`, for members and servers."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedslim.cli.console import options, passphrases
from fedslim.cli.console.options import argument, command_group, flag, option, print_help
from fedslim.cli.console.output import grid, print_line, print_result, print_rich, say, warn
from fedslim.cli.console.saving import check_place
from fedslim.errors import InputError, ParameterError
from fedslim.format import count

if TYPE_CHECKING:
    from fedslim.trust.authority import Authority
    from fedslim.trust.enrolment import Requested
    from fedslim.trust.identity import Identity

ca_app = command_group("Sign and revoke the certificates of a federation.")
enroll_app = typer.Typer(
    short_help="Get a certificate for a member or server.", rich_markup_mode=None, add_completion=False
)

CA_FOLDER, CERTIFICATES = Path("ca"), Path("certificates")
"""The default folders of a CA, and of a key; the second is also that of a new federation file."""
ROLES = ("member", "server")
CA_DAYS, DAYS = 1825, 90
"""Of a CA, and of a certificate or list; copied, so that `--help` is fast. A test checks that they agree."""

CA = option("DIR", "The folder of the CA.", name="--ca", envvar="FEDSLIM_CA", default=CA_FOLDER)
VALID_DAYS = partial(option, "N", "Days of validity.", options.whole(1))
HOSTS = option("HOST", "Host name or address of a server; may be repeated.", name="--host")
REQUEST = argument("REQUEST", "The request, NAME.csr.")
KEY_FOLDER = argument("[DIR]", "The folder with the key.", default=CERTIFICATES)


def moment() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def _day(when: datetime) -> str:
    from fedslim.trust.certificates import format_time

    return format_time(when)


def _hosts(hosts: Iterable[object]) -> list[tuple[str, str]]:
    shown = ", ".join(map(str, hosts))
    return [("hosts", shown)] if shown else []


# -- the CA ------------------------------------------------------------------------------------------------------------


@ca_app.command(short_help="Create a CA in a new folder.")
def init(
    folder: Path = argument("DIR", "A new folder.", default=CA_FOLDER),
    name: str = option("NAME", "Name of the CA in certificates.", default="fedslim CA"),
    days: int = VALID_DAYS(default=CA_DAYS),
    passphrase: bool = passphrases.ASK,
    passphrase_file: Path | None = passphrases.FILE,
) -> None:
    """Create a CA in a new folder, and print its fingerprint.

    The CA decides who takes part: keep its folder away from the server, and protect its key with a passphrase. Tell
    the members the fingerprint over a separate channel, such as the telephone.
    """
    from fedslim.trust.authority import Authority

    secret = passphrases.for_new_key(passphrase_file, ask=passphrase)
    made = Authority.create(folder, name, days=days, passphrase=secret, now=moment())
    facts = [
        ("created", f"{folder}: {made.name}"),
        ("fingerprint", made.fingerprint),
        ("valid until", _day(made.certificate.not_valid_after_utc)),
        ("key", f"{folder / 'ca.key'}, {'without' if secret is None else 'with'} a passphrase"),
    ]
    print_rich(facts)


@ca_app.command("show", short_help="Show a request before you sign it.")
def show_request(request: Path = REQUEST, json: bool = options.JSON) -> None:
    """Show a request. Confirm the fingerprint of its key with the member over a separate channel."""
    from fedslim.trust.certificates import read_request
    from fedslim.trust.keys import fingerprint, read_public

    found = read_request(read_public(request), request)
    key = fingerprint(found.public)
    record = {"file": str(request), "name": found.name, "hosts": list(map(str, found.hosts)), "key": key}
    print_result(json, record, [("name", found.name), ("key", key), *_hosts(found.hosts)])


@ca_app.command(short_help="Sign the request of a member or a server.")
def sign(
    request: Path = REQUEST,
    ca: Path = CA,
    role: str | None = option("R", "member or server.  [default: member]"),
    host: list[str] | None = HOSTS,
    days: int = VALID_DAYS(default=DAYS),
    renew: bool = flag("--renew", "Accept a new key for this name, and revoke the older one."),
    out: Path | None = option("FILE", "The file to send back.  [default: NAME.pem beside REQUEST]"),
    passphrase_file: Path | None = passphrases.FILE,
) -> None:
    """Sign the request of a member or a server, and write the file to send back.

    Before you sign, confirm with the member over a separate channel that its key has the fingerprint that
    `fedslim ca show` prints.
    The file has the certificate, the CA's certificate and the revocation list; none of them is secret.
    """
    from fedslim.trust.certificates import Role, read_request
    from fedslim.trust.keys import read_public, write_public

    data = read_public(request)
    asked = read_request(data, request)
    if role is None and asked.hosts:
        raise InputError(
            f"{request}: this request names the hosts {', '.join(map(str, asked.hosts))}, so it seems to be for a "
            "server; choose --role server or --role member"
        )
    if role is not None and role not in ROLES:
        raise ParameterError(f"--role: {role!r:.60} is not a role; choose member or server")
    target = request.parent / f"{asked.name}.pem" if out is None else out
    check_place(target, besides=request, what="the request")
    if target.exists() and not read_public(target).startswith(b"-----BEGIN CERTIFICATE-----"):
        msg = f"--out {target}: this file exists and is not a certificate, so it is not replaced; name another file"
        raise InputError(msg)
    authority, chosen = _open(ca, passphrase_file), Role(role or ROLES[0])
    signed = authority.sign(data, role=chosen, hosts=host or (), days=days, renew=renew, where=request, now=moment())
    write_public(target, signed.bundle)
    record = signed.record
    facts = [("signed", f"{record.name}, as a {record.role.value}"), ("key", record.key), *_hosts(record.hosts)]
    facts += [("valid until", _day(record.end)), ("send back", str(target)), ("fingerprint", authority.fingerprint)]
    if signed.replaced:
        old = count(len(signed.replaced), "certificate")
        facts.append(("revoked", f"{old} of the older key; give {ca / 'crl.pem'} to the server and all members"))
    print_rich(facts)
    _warn_of(authority)


@ca_app.command(short_help="Revoke the certificates of a member or server.")
def revoke(
    name: str = argument("NAME", "Name of the member or server."),
    ca: Path = CA,
    passphrase_file: Path | None = passphrases.FILE,
) -> None:
    """Revoke the certificates of a member or server, and renew the revocation list.

    The revocation takes effect where the new list is installed: give it to the server and all members.
    """
    authority = _open(ca, passphrase_file)
    revoked = count(len(authority.revoke(name, now=moment())), "certificate")
    print_line(f"{name}: revoked {revoked}; give {ca / 'crl.pem'} to the server and all members")
    _warn_of(authority)


@ca_app.command(short_help="Renew the revocation list.")
def crl(ca: Path = CA, days: int = VALID_DAYS(default=DAYS), passphrase_file: Path | None = passphrases.FILE) -> None:
    """Renew the revocation list before it expires. A server or member without a valid list accepts nobody."""
    authority = _open(ca, passphrase_file)
    authority.renew_list(days=days, now=moment())
    trust = authority.trust
    entries = count(len(list(trust.revocations)), "revoked certificate")
    until = _day(trust.revocations.next_update_utc or trust.revocations.last_update_utc)
    listed = f"list {trust.number} with {entries}, valid until {until}"
    print_line(f"{ca / 'crl.pem'}: {listed}; give it to the server and members")
    _warn_of(authority)


@ca_app.command("list", short_help="List the certificates that were signed.")
def list_(ca: Path = CA, json: bool = options.JSON) -> None:
    """List the certificates that this CA has signed, with their state."""
    from fedslim.trust.authority import CertificateState, read_authority, read_records
    from fedslim.trust.certificates import fingerprint_of, name_of

    now, certificate, records = moment(), read_authority(ca), read_records(ca)
    name, fingerprint, until = name_of(certificate), fingerprint_of(certificate), certificate.not_valid_after_utc
    described = [
        {
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
        for record in records
    ]
    rows = [(r.name, r.role.value, r.state(now).value, _day(r.end), r.key[:16], r.hosts) for r in records]
    print_result(
        json,
        {"name": name, "fingerprint": fingerprint, "valid_until": until.isoformat(), "certificates": described},
        grid(("name", "role", "state", "valid until", "key", "hosts"), rows, right=0),
        [
            ("CA", f"{name}, valid until {_day(until)}"),
            ("fingerprint", fingerprint),
            ("signed", count(len(records), "certificate")),
        ],
    )
    newest = {record.name: record for record in records if record.state(now) is CertificateState.VALID}
    for record in () if json else newest.values():
        _warn(f"the certificate of {record.name!r}", record.start, record.end, "ask the member to renew it")


@ca_app.command(short_help="Create keys and certificates for a test on one machine.")
def demo(
    folder: Path = argument("DIR", "A new folder."),
    members: str = option(
        "NAMES", "Names of the members, separated by commas.", default="hospital-a,hospital-b,hospital-c"
    ),
) -> None:
    """Create a CA, a server for this machine and some members, all in one folder.

    Use these keys for tests only: they are all in one place, without passphrases.
    """
    from fedslim.trust.enrolment import make_demo_ca

    made = make_demo_ca(folder, [name.strip() for name in members.split(",")], now=moment())
    facts = [
        (str(folder / "ca"), f"the CA, fingerprint {made.authority.fingerprint}"),
        (str(folder / "server"), f"the server, for {', '.join(map(str, made.server.hosts))}"),
        *((str(folder / member.name), f"the member {member.name}") for member in made.members),
        ("valid until", _day(made.server.expires)),
    ]
    print_rich(facts)
    say("Use these keys for tests only: they are all in one place, without passphrases.")


def _open(folder: Path, passphrase_file: Path | None) -> "Authority":
    from fedslim.trust.authority import Authority, read_authority

    read_authority(folder)  # a missing CA must not ask for a passphrase first
    return Authority.open(folder, passphrases.for_key(folder / "ca.key", passphrase_file))


def _warn_of(authority: "Authority") -> None:
    start, end = authority.certificate.not_valid_before_utc, authority.certificate.not_valid_after_utc
    _warn(f"the CA {authority.name!r}", start, end, "create a new CA in time, and enrol everybody with it")


def _warn(what: str, start: datetime, end: datetime, remedy: str) -> None:
    from fedslim.trust.identity import expiry_warning

    if (warning := expiry_warning(what, start, end, remedy, now=moment())) is not None:
        warn(warning)


# -- members and servers -----------------------------------------------------------------------------------------------


@enroll_app.callback(invoke_without_command=True)
def enroll(
    context: typer.Context,
    name: str | None = option("NAME", "Name of this member or server, such as hospital-a."),
    host: list[str] | None = HOSTS,
    out: Path = option("DIR", "The folder for the key.", default=CERTIFICATES),
    passphrase: bool = passphrases.ASK,
    passphrase_file: Path | None = passphrases.FILE,
) -> None:
    """Create a key and a certificate request; install the certificate that comes back.

    The key stays in its folder. Send the request, NAME.csr, to the CA operator; it is not secret. Tell them the key's
    fingerprint over a separate channel, so that nobody else gets a certificate in your name.
    """
    if name is None:
        print_help(context)
        return
    if context.invoked_subcommand is not None:
        raise ParameterError(f"--name does not go with {context.invoked_subcommand}; leave it out")
    from fedslim.trust.certificates import checked_hosts, checked_name
    from fedslim.trust.enrolment import make_request

    checked_name(name, "--name")
    checked_hosts(host or ())  # before the user is asked for a passphrase
    secret = passphrases.for_new_key(passphrase_file, ask=passphrase)
    _print_request(make_request(name, out, hosts=host or (), passphrase=secret))


@enroll_app.command(short_help="Install a certificate or a revocation list from the CA.")
def install(
    file: Path = argument("FILE", "The file from the CA."),
    out: Path = option("DIR", "The folder with the key.", default=CERTIFICATES),
    fingerprint: str | None = option("HEX", "The CA's fingerprint, for the first certificate."),
    ca: Path | None = option("FILE", "The CA's certificate, if you trust it, instead of --fingerprint."),
    crl: Path | None = option("FILE", "The revocation list, if it is not in FILE."),
    passphrase_file: Path | None = passphrases.FILE,
) -> None:
    """Install a file from the CA: a certificate beside its key, or a newer revocation list.

    With the first certificate, give the fingerprint that the CA operator told you, or the CA's certificate. Later
    certificates must come from the same CA.
    """
    from fedslim.trust import enrolment
    from fedslim.trust.certificates import checked_name
    from fedslim.trust.keys import MAX_LIST, read_public

    data = read_public(file, MAX_LIST)
    name = enrolment.name_in(data, file)
    if name is None:
        known = enrolment.install_list(out, data, where=file)
        print_line(f"{out}: installed revocation list {known.number} of {known.name}")
        return
    checked_name(name, f"{file}: name")
    identity = enrolment.install(
        out,
        data,
        None if ca is None else read_public(ca),
        None if crl is None else read_public(crl, MAX_LIST),
        fingerprint=fingerprint,
        passphrase=passphrases.for_key(out / "key.pem", passphrase_file),
        where=file,
        now=moment(),
    )
    _print_identity(identity)


@enroll_app.command(short_help="Request a new certificate before the old one expires.")
def renew(
    folder: Path = KEY_FOLDER,
    new_key: bool = flag("--new-key", "Use a new key; the CA operator signs it with --renew."),
    host: list[str] | None = HOSTS,
    passphrase_file: Path | None = passphrases.FILE,
) -> None:
    """Request a new certificate before the one in DIR expires. Hosts stay the same unless you give --host.

    With the same key, the old certificate stays valid until it expires. With a new key, it is revoked when the CA
    signs the new one; the old key stays in use until you install that.
    """
    from fedslim.trust.enrolment import make_renewal

    secret = passphrases.for_key(folder / "key.pem", passphrase_file)
    _print_request(make_renewal(folder, new=new_key, hosts=host or (), passphrase=secret))


@enroll_app.command(short_help="Show and check the certificate in a folder.")
def show(folder: Path = KEY_FOLDER, json: bool = options.JSON, passphrase_file: Path | None = passphrases.FILE) -> None:
    """Show the certificate in a folder, check it against its key, and warn if something expires soon."""
    from fedslim.trust.identity import Identity

    _print_identity(Identity.load(folder, passphrases.for_key(folder / "key.pem", passphrase_file)), json=json)


def _print_request(made: "Requested") -> None:
    print_rich([("name", made.name), ("request", f"{made.file}: send this to the CA"), ("key", made.key)])


def _print_identity(identity: "Identity", *, json: bool = False) -> None:
    trust, warnings = identity.trust, identity.warnings(moment())
    record = {
        "name": identity.name,
        "role": identity.role.value,
        "hosts": list(map(str, identity.hosts)),
        "valid_until": identity.expires.isoformat(),
        "ca": trust.name,
        "fingerprint": trust.fingerprint,
        "revocation_list": trust.number,
        "warnings": warnings,
    }
    facts = [
        ("name", f"{identity.name}, a {identity.role.value}"),
        *_hosts(identity.hosts),
        ("valid until", _day(identity.expires)),
        ("CA", f"{trust.name}, revocation list {trust.number}"),
        ("fingerprint", trust.fingerprint),
    ]
    print_result(json, record, facts)
    for sentence in () if json else warnings:
        warn(sentence)
