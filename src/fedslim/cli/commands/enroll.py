"""`fedslim enroll`: how a member gets its certificate, while its private key stays where it is."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedslim.cli.commands.ca import Hosts, day, moment
from fedslim.cli.console import options, passphrases
from fedslim.cli.console.output import summary
from fedslim.cli.console.stream import print_json, print_rich, print_text, say
from fedslim.cli.console.text import printable
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.trust import Identity, Requested

app = typer.Typer(rich_markup_mode=None, add_completion=False)

CERTIFICATES = Path("certificates")
"""Where a new federation's file has them."""

Folder = Annotated[Path, typer.Argument(metavar="[DIR]", help="The folder with the key.")]


@app.callback(invoke_without_command=True)
def enroll(
    context: typer.Context,
    *,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="Of this member or server, such as hospital-a."),
    ] = None,
    host: Hosts = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the key stays.")] = CERTIFICATES,
    passphrase: passphrases.Ask = False,
    passphrase_file: passphrases.File = None,
) -> None:
    """Make a key and a request for a certificate; install what comes back.

    The key stays in its folder. The request, NAME.csr, goes to the CA; it is no secret. Tell the CA's keeper the key's
    fingerprint on another way, so that nobody gets a certificate in your name.
    """
    if context.invoked_subcommand is not None:
        if name is not None:
            msg = f"--name is for making a request, and does not go with {context.invoked_subcommand}; leave it out"
            raise ParameterError(msg)
        return
    if name is None:
        print_text(context.get_help() + "\n")
        return
    from fedslim.trust import make_request
    from fedslim.trust.names import checked_hosts, checked_name

    checked_name(name, "--name")
    checked_hosts(host or ())  # before somebody is asked for a passphrase
    words = passphrases.for_new_key(passphrase_file, ask=passphrase)
    _print_request(make_request(name, out, hosts=host or (), passphrase=words))


@app.command(short_help="Install what the CA has sent: a certificate or a revocation list.")
def install(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="What the CA has sent.")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder with the key.")] = CERTIFICATES,
    fingerprint: Annotated[
        str | None,
        typer.Option(metavar="HEX", show_default=False, help="Of the CA, as its keeper told you; for the first time."),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Or the certificate of the CA, if you are sure of it."),
    ] = None,
    crl: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="The revocation list, if it is not in FILE."),
    ] = None,
    passphrase_file: passphrases.File = None,
) -> None:
    """Install what the CA has sent: a certificate beside its key, or a newer revocation list.

    With the first certificate say which CA you trust, by its fingerprint or its certificate. Later ones must be from
    the same CA.
    """
    from fedslim.trust import install as put, install_list  # noqa: I001  # see fedslim.cli
    from fedslim.trust.enrolment import name_in
    from fedslim.trust.keys import MAX_LIST, read_public
    from fedslim.trust.names import checked_name

    data = read_public(file, MAX_LIST)
    name = name_in(data, file)
    if name is None:
        trust = install_list(out, data, where=file)
        print_text(printable(f"{out}: has revocation list {trust.number} of {trust.name} now") + "\n")
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


@app.command(short_help="Make a request for the next certificate.")
def renew(
    folder: Folder = CERTIFICATES,
    *,
    new_key: Annotated[bool, typer.Option("--new-key", help="With a new key; the CA signs it with --renew.")] = False,
    host: Hosts = None,
    passphrase_file: passphrases.File = None,
) -> None:
    """Make a request for the next certificate, in time before the one in DIR ends. Hosts stay as they are.

    With the same key, the old certificate is good until it ends. With a new key it is revoked when the CA signs the
    new one; until that is installed, the old key stays in use.
    """
    from fedslim.trust import make_renewal

    words = passphrases.for_key(folder / "key.pem", passphrase_file)
    _print_request(make_renewal(folder, new=new_key, hosts=host or (), passphrase=words))


@app.command(short_help="Say whose certificate it is, and until when.")
def show(
    folder: Folder = CERTIFICATES,
    *,
    json: options.Json = False,
    passphrase_file: passphrases.File = None,
) -> None:
    """Say whose certificate is in a folder and until when, check it with its key, and warn of what ends soon."""
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
