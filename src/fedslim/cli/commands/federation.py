"""`fedslim federation`: the file in which the members of a federation and its server agree on what they do."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.commands.simulate import Variant
from fedslim.cli.console import options
from fedslim.cli.console.options import whole
from fedslim.cli.console.output import summary
from fedslim.cli.console.stream import print_json, print_rich, print_text, say
from fedslim.cli.console.text import count, duration, printable
from fedslim.errors import ConfigurationError, ParameterError

if TYPE_CHECKING:
    from fedslim.settings.federation_file import FederationFile

app = typer.Typer(help="Write and check the file of a federation.", rich_markup_mode=None, add_completion=False)

FILE = Path("federation.toml")
DEFAULT_PORT = 7443
"""As the transport has it, which is not loaded for `--help`; a test sees that they agree."""
MAX_SHOWN = 10
TWO = 2


@app.callback(invoke_without_command=True)
def federation(context: typer.Context) -> None:
    """What there is to say before the command; without a command, the help."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


@app.command(short_help="Write the file of a new federation, with comments.")
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; a new file.")] = FILE,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="What people call the federation.")] = "our federation",
    members: Annotated[
        str, typer.Option(metavar="A,B,C,…", help="The names of its members: of a-z, 0-9 and -.")
    ] = "north,south,west",
    allow_two_members: Annotated[
        bool,
        typer.Option("--allow-two-members", help="Two members will do: each can then work out the other's counts."),
    ] = False,
    variant: Annotated[
        Variant,
        typer.Option(metavar="x|sa|so", help="x: exact. sa, so: the paper's, with and without secure aggregation."),
    ] = Variant.x,
    host: Annotated[str, typer.Option(metavar="HOST", help="Where the server is.")] = "localhost",
    port: Annotated[int, typer.Option(metavar="N", callback=whole(1, 65535), help="And its port.")] = DEFAULT_PORT,
    vocabulary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The vocabulary that the members agreed on.")
    ] = None,
    secret: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The members' secret; only its fingerprint is written.")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(metavar="HEX", help="The fingerprint of the members' secret, as they told you.")
    ] = None,
) -> None:
    """Write the file of a new federation: every key there is, with what it is for.

    It needs --vocabulary, --secret or --fingerprint: members with different secrets would have no item in common. The
    file is valid as it is. Look through it, check it, and give a copy to every member and the server.
    """
    from fedslim.settings.federation_file import write_template

    names = [name.strip() for name in members.split(",")]
    if len(names) == TWO and not allow_two_members:
        msg = (
            "--members: there are two, and each could subtract its own counts from the result and have the other's; "
            "name three or more, or add --allow-two-members"
        )
        raise ParameterError(msg)
    chosen = _items(vocabulary, secret, fingerprint)
    made = write_template(file, name, names, variant.value, host=host, port=port, chosen=chosen)
    told = f"{file}: {made.federation.name}, {count(len(names), 'member')}, variant {variant.value}"
    print_text(printable(told) + "\n")


def _items(vocabulary: Path | None, secret: Path | None, fingerprint: str | None) -> dict[str, str]:
    """What the file says about items: of the secret no more than its fingerprint."""
    from fedslim.data import ItemSecret, Vocabulary

    chosen, prints = {}, {}
    if vocabulary is not None:
        agreed = Vocabulary.read(vocabulary)
        chosen["items.vocabulary_digest"] = agreed.digest.hex()
        prints["--vocabulary"] = agreed.fingerprint
    if secret is not None:
        prints["--secret"] = ItemSecret.read(secret).fingerprint
    if fingerprint is not None:
        prints["--fingerprint"] = fingerprint
    if not prints:
        msg = (
            "the file needs the fingerprint of the members' secret: one member makes the secret with `fedslim "
            "vocabulary secret`; then say --secret FILE, --fingerprint HEX or --vocabulary FILE"
        )
        raise ParameterError(msg)
    if len(set(prints.values())) > 1:
        told = ", ".join(f"{option} {found!r:.40}" for option, found in prints.items())
        msg = f"the fingerprints differ ({told}), so these are of different secrets; take the one that all members have"
        raise ParameterError(msg)
    return chosen | {"items.secret_fingerprint": next(iter(prints.values()))}


@app.command(short_help="Check a federation's file, and say what is in it.")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of the federation.")] = FILE,
    json: options.Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Take a warning for an error.")] = False,
) -> None:
    """Check everything in a federation's file, say what it comes to, and warn of what weakens its promise.

    The digest is of all that everybody must have alike: who sees the same one has agreed to the same.
    """
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.weaknesses import weaknesses

    read = FederationFile.read(file)
    found = weaknesses(read)
    if json:
        print_json(_record(read) | {"warnings": [{"key": each.key, "text": each.text} for each in found]})
    else:
        print_rich(summary(_facts(read)))
        for each in found:
            say(f"fedslim: warning: {each}")
    if strict and found:
        msg = f"{file}: --strict, and there {'is' if len(found) == 1 else 'are'} {count(len(found), 'warning')}: "
        msg += f"{', '.join(each.key for each in found)}; change these keys, or check without --strict"
        raise ConfigurationError(msg)


def _record(file: "FederationFile") -> dict[str, Any]:
    """Everything in the file, those keys included that it leaves out."""
    from dataclasses import asdict

    sections = asdict(file)
    del sections["path"]
    for section in sections.values():
        section.update({key: str(value) for key, value in section.items() if isinstance(value, Path)})
    return {"file": str(file.path), "digest": file.digest().hex(), **sections}


def _facts(file: "FederationFile") -> list[tuple[str, str]]:
    from fedslim.protocol.variant import VARIANTS

    agreed, server, items, limits, timeouts = file.federation, file.server, file.items, file.limits, file.timeouts
    shown = ", ".join(agreed.members[:MAX_SHOWN]) + (", …" if len(agreed.members) > MAX_SHOWN else "")
    vocabulary = f"agreed, digest {items.vocabulary_digest}" if items.vocabulary_digest else "the union, by the server"
    log, metrics = file.log, file.metrics
    return [
        ("file", str(file.path)),
        ("federation", agreed.name),
        ("id", agreed.id),
        ("variant", f"{agreed.variant}, {VARIANTS[agreed.variant]}"),
        ("members", f"{len(agreed.members):,}: {shown}"),
        ("server", f"{_address(server.host, server.port)}, certificates in {server.certificates}"),
        ("vocabulary", vocabulary),
        ("secret", f"fingerprint {items.secret_fingerprint}" if items.secret_fingerprint else "that of the vocabulary"),
        ("labels", "told to the server" if items.share_vocabulary else "stay with the members"),
        ("transactions", f"up to {limits.max_transactions:,}"),
        ("budgets", _budgets(limits)),
        *([("itemsets", _itemsets(limits)), ("published", _describe_limits(limits))] if agreed.variant == "x" else []),
        ("time-outs", _waits(timeouts)),
        ("log", "off" if log.file is None else f"{log.file}, from {log.level} on"),
        ("metrics", "off" if metrics.port is None else _address(metrics.host, metrics.port)),
        ("digest", file.digest().hex()),
    ]


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _waits(timeouts: Any) -> str:
    names = {"connect": "connect", "answer": "answer", "grace": "grace", "keepalive": "keep-alive"}
    waits = {shown: getattr(timeouts, name) for name, shown in names.items()}
    return ", ".join(f"{what} {duration(seconds) if seconds else 'none'}" for what, seconds in waits.items())


def _budgets(limits: Any) -> str:
    time = "no limit of time" if limits.max_time is None else f"time {duration(limits.max_time)}"
    return f"{time}, {count(limits.max_rounds, 'round')}"


def _itemsets(limits: Any) -> str:
    size = "of any size" if limits.max_itemset_size is None else f"of up to {count(limits.max_itemset_size, 'item')}"
    pruning = "with pruning" if limits.pruning else "without pruning"
    return f"{size}, in at least {count(limits.min_support, 'transaction')}, {pruning}"


def _describe_limits(limits: Any) -> str:
    counts = "any count" if limits.min_count == 1 else f"no count below {limits.min_count:,}"
    return f"{counts}, itemsets of at least {count(limits.min_members_with, 'member')}"
