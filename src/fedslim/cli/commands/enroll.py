"""`fedslim enroll`: get a certificate for a member or server; its private key never leaves its folder."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedslim.cli.commands.ca import Hosts, day, moment
from fedslim.cli.console import options, passphrases
from fedslim.cli.console.output import summary
from fedslim.cli.console.stream import print_json, print_line, print_rich, print_text, say
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.trust import Identity, Requested

app = typer.Typer(short_help="Get a certificate for a member or server.", rich_markup_mode=None, add_completion=False)

CERTIFICATES = Path("certificates")
"""The default in a new federation file."""

Folder = Annotated[Path, typer.Argument(metavar="[DIR]", help="The folder with the key.")]


@app.callback(invoke_without_command=True)
def enroll(
    context: typer.Context,
    *,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="Name of this member or server, such as hospital-a."),
    ] = None,
    host: Hosts = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the key.")] = CERTIFICATES,
    passphrase: passphrases.Ask = False,
    passphrase_file: passphrases.File = None,
) -> None:
    """Create a key and a certificate request; install the certificate that comes back.

    The key stays in its folder. Send the request, NAME.csr, to the CA operator; it is not secret. Tell them the key's
    fingerprint over a separate channel, so that nobody else gets a certificate in your name.
    """
    if context.invoked_subcommand is not None:
        if name is not None:
            msg = f"--name does not go with {context.invoked_subcommand}; leave it out"
            raise ParameterError(msg)
        return
    if name is None:
        print_text(context.get_help() + "\n")
        return
    from fedslim.trust import make_request
    from fedslim.trust.names import checked_hosts, checked_name

    checked_name(name, "--name")
    checked_hosts(host or ())  # before the user is asked for a passphrase
    secret = passphrases.for_new_key(passphrase_file, ask=passphrase)
    _print_request(make_request(name, out, hosts=host or (), passphrase=secret))


@app.command(short_help="Install a certificate or a revocation list from the CA.")
def install(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="The file from the CA.")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder with the key.")] = CERTIFICATES,
    fingerprint: Annotated[
        str | None,
        typer.Option(metavar="HEX", show_default=False, help="The CA's fingerprint, for the first certificate."),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="The CA's certificate, if you trust it, instead of --fingerprint."
        ),
    ] = None,
    crl: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="The revocation list, if it is not in FILE."),
    ] = None,
    passphrase_file: passphrases.File = None,
) -> None:
    """Install a file from the CA: a certificate beside its key, or a newer revocation list.

    With the first certificate, give the fingerprint that the CA operator told you, or the CA's certificate. Later
    certificates must come from the same CA.
    """
    from fedslim.trust import install as put, install_list  # noqa: I001  # see fedslim.cli
    from fedslim.trust.enrolment import name_in
    from fedslim.trust.keys import MAX_LIST, read_public
    from fedslim.trust.names import checked_name

    data = read_public(file, MAX_LIST)
    name = name_in(data, file)
    if name is None:
        trust = install_list(out, data, where=file)
        print_line(f"{out}: installed revocation list {trust.number} of {trust.name}")
        return
    checked_name(name, f"{file}: name")
    identity = put(
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


@app.command(short_help="Request a new certificate before the old one expires.")
def renew(
    folder: Folder = CERTIFICATES,
    *,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Use a new key; the CA operator signs it with --renew.")
    ] = False,
    host: Hosts = None,
    passphrase_file: passphrases.File = None,
) -> None:
    """Request a new certificate before the one in DIR expires. Hosts stay the same unless you give --host.

    With the same key, the old certificate stays valid until it expires. With a new key, it is revoked when the CA
    signs the new one; the old key stays in use until you install that.
    """
    from fedslim.trust import make_renewal

    secret = passphrases.for_key(folder / "key.pem", passphrase_file)
    _print_request(make_renewal(folder, new=new_key, hosts=host or (), passphrase=secret))


@app.command(short_help="Show and check the certificate in a folder.")
def show(
    folder: Folder = CERTIFICATES,
    *,
    json: options.Json = False,
    passphrase_file: passphrases.File = None,
) -> None:
    """Show the certificate in a folder, check it against its key, and warn if something expires soon."""
    from fedslim.trust import Identity

    identity = Identity.load(folder, passphrases.for_key(folder / "key.pem", passphrase_file))
    if json:
        print_json(
            {
                "name": identity.name,
                "role": identity.role.value,
                "hosts": list(map(str, identity.hosts)),
                "valid_until": identity.expires.isoformat(),
                "ca": identity.trust.name,
                "fingerprint": identity.trust.fingerprint,
                "revocation_list": identity.trust.number,
                "warnings": identity.warnings(moment()),
            }
        )
    else:
        _print_identity(identity)


def _print_request(made: "Requested") -> None:
    facts = [("name", made.name), ("request", f"{made.file}: send this to the CA"), ("key", made.key)]
    print_rich(summary(facts))


def _print_identity(identity: "Identity") -> None:
    facts = [("name", f"{identity.name}, a {identity.role.value}")]
    if identity.hosts:
        facts.append(("hosts", ", ".join(map(str, identity.hosts))))
    facts += [
        ("valid until", day(identity.expires)),
        ("CA", f"{identity.trust.name}, revocation list {identity.trust.number}"),
        ("fingerprint", identity.trust.fingerprint),
    ]
    print_rich(summary(facts))
    for sentence in identity.warnings(moment()):
        say(f"fedslim: warning: {sentence}")
