"""`fedslim federation`: write and check a federation file, which server and members agree on."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.commands.simulate import Variant
from fedslim.cli.console import options
from fedslim.cli.console.groups import command_group
from fedslim.cli.console.options import whole
from fedslim.cli.console.output import summary
from fedslim.cli.console.stream import print_json, print_line, print_rich, say
from fedslim.cli.console.text import count, duration
from fedslim.errors import ConfigurationError, ParameterError

if TYPE_CHECKING:
    from fedslim.settings.federation_file import FederationFile

app = command_group("Write and check a federation file.")

FILE = Path("federation.toml")
DEFAULT_PORT = 7443
"""Copied from the settings, so that `--help` need not import them; a test checks that they agree."""
MAX_SHOWN = 10
LABELS = {
    "none": "stay with each member",
    "members": "members learn those in the code table",
    "server": "sent to the server",
}
TWO = 2


@app.command(short_help="Write a new federation file, with comments.")
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")] = FILE,
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the federation.")] = "our federation",
    members: Annotated[
        str, typer.Option(metavar="A,B,C,…", help="Names of the members, from a-z, 0-9 and -.")
    ] = "north,south,west",
    allow_two_members: Annotated[
        bool,
        typer.Option("--allow-two-members", help="Allow two members, though each can compute the other's counts."),
    ] = False,
    variant: Annotated[
        Variant,
        typer.Option(metavar="x|sa|so", help="x: exact. sa, so: as in the paper, with and without secure aggregation."),
    ] = Variant.x,
    host: Annotated[str, typer.Option(metavar="HOST", help="Host name or address of the server.")] = "localhost",
    port: Annotated[
        int, typer.Option(metavar="N", callback=whole(1, 65535), help="Port of the server.")
    ] = DEFAULT_PORT,
    vocabulary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The vocabulary that the members agreed on.")
    ] = None,
    secret: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The members' secret; the file gets only its fingerprint.")
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="The fingerprint of the members' secret, if you do not have the secret."),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The schema of the members' tables, instead of --vocabulary.")
    ] = None,
) -> None:
    """Write a new federation file with every key, each explained by a comment.

    It needs --vocabulary, --secret or --fingerprint: members with different secrets would have no item in common. The
    file is valid as written. Review it, check it, and give a copy to the server and every member.
    """
    from fedslim.settings.new_federation import write_template

    names = [name.strip() for name in members.split(",")]
    if len(names) == TWO and not allow_two_members:
        msg = (
            "--members: with two members, each could subtract its own counts from the result and get the other's; "
            "name three or more, or add --allow-two-members"
        )
        raise ParameterError(msg)
    chosen = _items(vocabulary, secret, fingerprint)
    if schema is not None:
        from fedslim.protocol.preparation import Outline
        from fedslim.schema import Schema

        agreed = Schema.read(schema)
        chosen |= {"schema.digest": agreed.digest().hex(), "schema.outline": str(Outline.of(agreed))}
    made = write_template(file, name, names, variant.value, host=host, port=port, chosen=chosen)
    print_line(f"{file}: {made.federation.name}, {count(len(names), 'member')}, variant {variant.value}")


def _items(vocabulary: Path | None, secret: Path | None, fingerprint: str | None) -> dict[str, str]:
    """Return the keys of the file about items; of the secret, only its fingerprint."""
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
            "the file needs the fingerprint of the members' secret: let one member make the secret with `fedslim "
            "vocabulary secret`, and add --secret FILE, --fingerprint HEX or --vocabulary FILE"
        )
        raise ParameterError(msg)
    if len(set(prints.values())) > 1:
        given = ", ".join(f"{option} {found!r:.40}" for option, found in prints.items())
        msg = f"the fingerprints differ ({given}), so the secrets do; use the secret that all members have"
        raise ParameterError(msg)
    return chosen | {"items.secret_fingerprint": next(iter(prints.values()))}


@app.command(short_help="Check and show a federation file.")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The federation file.")] = FILE,
    json: options.Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
) -> None:
    """Check a federation file, show its settings, and warn about those that weaken privacy.

    The digest covers every setting that must be equal for all: the same digest means the same settings.
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
        msg = f"{file}: {count(len(found), 'warning')} with --strict: "
        msg += f"{', '.join(each.key for each in found)}; change these keys, or check without --strict"
        raise ConfigurationError(msg)


def _record(file: "FederationFile") -> dict[str, Any]:
    """Return all settings of the file, defaults included."""
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
    vocabulary = (
        f"agreed, digest {items.vocabulary_digest}"
        if items.vocabulary_digest
        else f"found in a preparation, schema {file.schema.digest}"
        if file.prepares
        else "made by the server, the union of all"
    )
    log, metrics = file.log, file.metrics
    return [
        ("file", str(file.path)),
        ("federation", agreed.name),
        ("id", agreed.id),
        ("variant", f"{agreed.variant}, {VARIANTS[agreed.variant]}"),
        ("members", f"{len(agreed.members):,}: {shown}"),
        ("server", f"{_address(server.host, server.port)}, certificates in {server.certificates}"),
        ("vocabulary", vocabulary),
        (
            "secret",
            f"fingerprint {items.secret_fingerprint}" if items.secret_fingerprint else "the one of the vocabulary",
        ),
        ("labels", LABELS[items.share_labels]),
        ("transactions", f"up to {limits.max_transactions:,}"),
        ("budgets", _budgets(limits)),
        *([("itemsets", _itemsets(limits)), ("published", _describe_limits(limits))] if agreed.variant == "x" else []),
        ("timeouts", _waits(timeouts)),
        ("log", "off" if log.file is None else f"{log.file}, level {log.level}"),
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
    time = "no time limit" if limits.max_time is None else f"time {duration(limits.max_time)}"
    return f"{time}, {count(limits.max_rounds, 'round')}"


def _itemsets(limits: Any) -> str:
    size = "of any size" if limits.max_itemset_size is None else f"of up to {count(limits.max_itemset_size, 'item')}"
    pruning = "with pruning" if limits.pruning else "without pruning"
    how = f"{pruning}, width {limits.width}, effort {limits.effort}"
    return f"{size}, in at least {count(limits.min_support, 'transaction')}, {how}"


def _describe_limits(limits: Any) -> str:
    counts = "any count" if limits.min_count == 1 else f"no count below {limits.min_count:,}"
    return f"{counts}, itemsets of at least {count(limits.min_members_with, 'member')}"
