"""`fedslim federation`: the file in which the members of a federation and its server agree on what they do."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli import options
from fedslim.cli.options import whole
from fedslim.cli.output import summary
from fedslim.cli.simulate import Variant
from fedslim.cli.stream import print_json, print_rich, print_text
from fedslim.cli.text import count, duration, printable

if TYPE_CHECKING:
    from fedslim.transport.config import FederationFile

app = typer.Typer(help="Write and check the file of a federation.", rich_markup_mode=None, add_completion=False)

FILE = Path("federation.toml")
DEFAULT_PORT = 7443
"""As the transport has it, which is not loaded for `--help`; a test sees that they agree."""
MOST_SHOWN = 10


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
        str, typer.Option(metavar="A,B,…", help="The names of its members: of a-z, 0-9 and -.")
    ] = "north,south",
    variant: Annotated[
        Variant,
        typer.Option(metavar="x|sa|so", help="x: exact. sa, so: the paper's, with and without secure aggregation."),
    ] = Variant.x,
    host: Annotated[str, typer.Option(metavar="HOST", help="Where the server is.")] = "localhost",
    port: Annotated[int, typer.Option(metavar="N", callback=whole(1, 65535), help="And its port.")] = DEFAULT_PORT,
) -> None:
    """Write the file of a new federation: every key there is, with what it is for.

    It is valid as it is. Look through it, check it, and give a copy to every member and the server.
    """
    from fedslim.transport.config import write_template  # noqa: PLC0415  # see fedslim.cli

    names = [name.strip() for name in members.split(",")]
    made = write_template(file, name, names, variant.value, host=host, port=port)
    told = f"{file}: {made.federation.name}, {count(len(names), 'member')}, variant {variant.value}"
    print_text(printable(told) + "\n")


@app.command(short_help="Check a federation's file, and say what is in it.")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of the federation.")] = FILE,
    json: options.Json = False,
) -> None:
    """Check everything in a federation's file and say what it comes to.

    The digest is of all that everybody must have alike: who sees the same one has agreed to the same.
    """
    from fedslim.transport.config import FederationFile  # noqa: PLC0415  # see fedslim.cli

    read = FederationFile.read(file)
    if json:
        print_json(_record(read))
    else:
        print_rich(summary(_facts(read)))


def _record(file: "FederationFile") -> dict[str, Any]:
    """Everything in the file, those keys included that it leaves out."""
    from dataclasses import asdict  # noqa: PLC0415  # see fedslim.cli

    sections = asdict(file)
    del sections["path"]
    for section in sections.values():
        section.update({key: str(value) for key, value in section.items() if isinstance(value, Path)})
    return {"file": str(file.path), "digest": file.digest().hex(), **sections}


def _facts(file: "FederationFile") -> list[tuple[str, str]]:
    from fedslim.protocol.variant import VARIANTS  # noqa: PLC0415  # see fedslim.cli

    agreed, server, items, limits, timeouts = file.federation, file.server, file.items, file.limits, file.timeouts
    shown = ", ".join(agreed.members[:MOST_SHOWN]) + (", …" if len(agreed.members) > MOST_SHOWN else "")
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
        ("secret", f"fingerprint {items.secret_fingerprint}" if items.secret_fingerprint else "any (no fingerprint)"),
        ("labels", "told to the server" if items.share_vocabulary else "stay with the members"),
        ("transactions", f"up to {limits.most_transactions:,}"),
        ("budgets", _budgets(limits)),
        *([("itemsets", _itemsets(limits))] if agreed.variant == "x" else []),
        ("time-outs", _waits(timeouts)),
        ("lost member", f"{file.lost_member.action}, grace {duration(timeouts.grace) if timeouts.grace else 'none'}"),
        ("log", "off" if log.file is None else f"{log.file}, from {log.level} on"),
        ("metrics", "off" if metrics.port is None else _address(metrics.host, metrics.port)),
        ("digest", file.digest().hex()),
    ]


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _waits(timeouts: Any) -> str:
    waits = {"connect": timeouts.connect, "answer": timeouts.answer, "keep-alive": timeouts.keepalive}
    return ", ".join(f"{what} {duration(seconds)}" for what, seconds in waits.items())


def _budgets(limits: Any) -> str:
    time = "no limit of time" if limits.max_time is None else f"time {duration(limits.max_time)}"
    rounds = "no limit of rounds" if limits.max_rounds is None else count(limits.max_rounds, "round")
    return f"{time}, {rounds}"


def _itemsets(limits: Any) -> str:
    size = "of any size" if limits.max_itemset_size is None else f"of up to {count(limits.max_itemset_size, 'item')}"
    pruning = "with pruning" if limits.pruning else "without pruning"
    return f"{size}, in at least {count(limits.min_support, 'transaction')}, {pruning}"
