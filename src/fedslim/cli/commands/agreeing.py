"""`fedslim federation`, `schema` and `vocabulary`: what server and members agree on before a run."""

import secrets
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.options import Reading, argument, command_group, flag, option, reads_data, whole
from fedslim.cli.console.output import grid, print_line, print_result, print_text, shown_label, warn
from fedslim.cli.console.progress import reporter
from fedslim.cli.console.saving import check_place
from fedslim.errors import ConfigurationError, ParameterError
from fedslim.format import count, duration, printable

if TYPE_CHECKING:
    from fedslim.data import Vocabulary
    from fedslim.data.columns import EncodedTable
    from fedslim.schema.conforming import ColumnReport
    from fedslim.settings.federation_file import FederationFile

federation_app = command_group("Write and check a federation file.")
schema_app = command_group("Agree with the other members on what the columns mean.")
vocabulary_app = command_group("Agree with the other members on the items.")

# -- federation file ---------------------------------------------------------------------------------------------------

FEDERATION = Path("federation.toml")
DEFAULT_PORT = 7443  # copied from the settings, so that `--help` need not import them; a test checks that they agree
MAX_SHOWN = 10
LABELS = {
    "none": "stay with each member",
    "members": "members learn those in the code table",
    "server": "sent to the server",
}
TWO = 2


@federation_app.command(short_help="Write a new federation file, with comments.")
def init(
    file: Path = argument("FILE", "The new file.", default=FEDERATION),
    name: str = option("NAME", "Name of the federation.", default="our federation"),
    members: str = option("A,B,C,…", "Names of the members, from a-z, 0-9 and -.", default="north,south,west"),
    allow_two_members: bool = flag(
        "--allow-two-members", "Allow two members, though each can compute the other's counts."
    ),
    variant: options.Variant = options.VARIANT,
    host: str = option("HOST", "Host name or address of the server.", default="localhost"),
    port: int = option("N", "Port of the server.", whole(1, 65535), default=DEFAULT_PORT),
    vocabulary: Path | None = options.VOCABULARY,
    secret: Path | None = option("FILE", "The members' secret; the file gets only its fingerprint."),
    fingerprint: str | None = option("HEX", "The fingerprint of the members' secret, if you do not have the secret."),
    schema: Path | None = option("FILE", "The schema of the members' tables, instead of --vocabulary."),
) -> None:
    """Write a new federation file with every key, each explained by a comment.

    It needs --vocabulary, --secret or --fingerprint: members with different secrets would have no item in common. The
    file is valid as written. Review it, check it, and give a copy to the server and every member.
    """
    from fedslim.settings.federation_file import write_template

    names = [name.strip() for name in members.split(",")]
    if len(names) == TWO and not allow_two_members:
        raise ParameterError(
            "--members: with two members, each could subtract its own counts from the result and get the other's; "
            "name three or more, or add --allow-two-members"
        )
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
        raise ParameterError(
            "the file needs the fingerprint of the members' secret: let one member make the secret with `fedslim "
            "vocabulary secret`, and add --secret FILE, --fingerprint HEX or --vocabulary FILE"
        )
    if len(set(prints.values())) > 1:
        given = ", ".join(f"{name} {found!r:.40}" for name, found in prints.items())
        raise ParameterError(
            f"the fingerprints differ ({given}), so the secrets do; use the secret that all members have"
        )
    return chosen | {"items.secret_fingerprint": next(iter(prints.values()))}


@federation_app.command("check", short_help="Check and show a federation file.")
def check_federation(
    file: Path = argument("FILE", "The federation file.", default=FEDERATION),
    json: bool = options.JSON,
    strict: bool = flag("--strict", "Treat warnings as errors."),
) -> None:
    """Check a federation file, show its settings, and warn about those that weaken privacy.

    The digest covers every setting that must be equal for all: the same digest means the same settings.
    """
    from fedslim.settings.federation_file import FederationFile, weaknesses

    read = FederationFile.read(file)
    found = weaknesses(read)
    sections = asdict(read)
    del sections["path"]
    for section in sections.values():
        section.update({key: str(value) for key, value in section.items() if isinstance(value, Path)})
    record = {"file": str(read.path), "digest": read.digest().hex(), **sections}
    record["warnings"] = [{"key": each.key, "text": each.text} for each in found]
    print_result(json, record, _facts(read))
    for each in () if json else found:
        warn(each)
    if strict and found:
        keys = ", ".join(each.key for each in found)
        msg = f"{count(len(found), 'warning')} with --strict: {keys}; change these keys, or check without --strict"
        raise ConfigurationError(f"{file}: {msg}")


def _facts(file: "FederationFile") -> list[tuple[str, str]]:
    from fedslim.protocol.variant import VARIANTS

    agreed, server, items, limits = file.federation, file.server, file.items, file.limits
    log, metrics = file.log, file.metrics
    shown = ", ".join(agreed.members[:MAX_SHOWN]) + (", …" if len(agreed.members) > MAX_SHOWN else "")
    vocabulary = (
        f"agreed, digest {items.vocabulary_digest}"
        if items.vocabulary_digest
        else f"found in a preparation, schema {file.schema.digest}"
        if file.prepares
        else "made by the server, the union of all"
    )
    secret = f"fingerprint {items.secret_fingerprint}" if items.secret_fingerprint else "the one of the vocabulary"
    time = "no time limit" if limits.max_time is None else f"time {duration(limits.max_time)}"
    names = {"connect": "connect", "answer": "answer", "grace": "grace", "keepalive": "keep-alive"}
    waits = {shown: getattr(file.timeouts, name) for name, shown in names.items()}
    of_x = [("itemsets", _itemsets(limits)), ("published", _published(limits))] if agreed.variant == "x" else []
    return [
        ("file", str(file.path)),
        ("federation", agreed.name),
        ("id", agreed.id),
        ("variant", f"{agreed.variant}, {VARIANTS[agreed.variant]}"),
        ("members", f"{len(agreed.members):,}: {shown}"),
        ("server", f"{_address(server.host, server.port)}, certificates in {server.certificates}"),
        ("vocabulary", vocabulary),
        ("secret", secret),
        ("labels", LABELS[items.share_labels]),
        ("transactions", f"up to {limits.max_transactions:,}"),
        ("budgets", f"{time}, {count(limits.max_rounds, 'round')}"),
        *of_x,
        ("timeouts", ", ".join(f"{what} {duration(wait) if wait else 'none'}" for what, wait in waits.items())),
        ("log", "off" if log.file is None else f"{log.file}, level {log.level}"),
        ("metrics", "off" if metrics.port is None else _address(metrics.host, metrics.port)),
        ("digest", file.digest().hex()),
    ]


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _itemsets(limits: Any) -> str:
    size = "of any size" if limits.max_itemset_size is None else f"of up to {count(limits.max_itemset_size, 'item')}"
    pruning = "with pruning" if limits.pruning else "without pruning"
    how = f"{pruning}, width {limits.width}, effort {limits.effort}"
    return f"{size}, in at least {count(limits.min_support, 'transaction')}, {how}"


def _published(limits: Any) -> str:
    counts = "any count" if limits.min_count == 1 else f"no count below {limits.min_count:,}"
    return f"{counts}, itemsets of at least {count(limits.min_members_with, 'member')}"


# -- schema ------------------------------------------------------------------------------------------------------------

SCHEMA = argument("SCHEMA", "The schema file.")


@schema_app.command("make", short_help="Propose a schema for a file.")
@options.reads_table
def make_schema(
    data: str = options.DATA,
    *,
    out: Path | None = option("FILE", "The new file. Without it, the schema is printed."),
    with_values: bool = flag("--with-values", "List the categories that are in DATA; by default, no value is shown."),
    reading: Reading,
    quiet: bool = options.QUIET,
) -> None:
    """Propose a schema for DATA, to edit and agree on with the other members."""
    from fedslim.data.atomic import creating
    from fedslim.schema.proposal import propose

    text = propose(_table(reading, quiet=quiet), with_values=with_values)
    if out is None:
        print_text(text)
        return
    with creating(out, private=False) as stream:
        stream.write(text.encode())
    print_line(f"{out}: edit it, then run `fedslim schema check {out} {data}`")


@schema_app.command("check", short_help="Check whether a file fits a schema.")
@options.reads_table
def check_schema(
    schema: Path = SCHEMA,
    data: str = options.DATA,
    *,
    reading: Reading,
    json: bool = options.JSON,
    quiet: bool = options.QUIET,
) -> None:
    """Show, column by column, how the schema reads DATA and what does not fit. Nothing is changed.

    Exit with 0 if the data can be used, and with 1 if not.
    """
    from fedslim.schema import Conformed, Schema

    agreed = Schema.read(schema)
    report = Conformed(agreed, _table(reading, quiet=quiet)).report
    fits = not any(column.errors for column in report)
    record = {"schema": str(schema), "data": data, "usable": fits, "columns": list(map(asdict, report))}
    print_result(json, record, *show_report(report))
    if not fits:
        raise typer.Exit(1)


def show_report(report: "list[ColumnReport]") -> tuple[Any, list[tuple[str, str]]]:
    """Return a table of what each column becomes, and remarks."""
    unfit = sum(bool(column.errors) for column in report)
    names = [(shown_label(each.name or "-"), shown_label(each.found or "-")) for each in report]
    rows = [(*own, r.kind, r.missing, shown_label(r.becomes)) for own, r in zip(names, report, strict=True)]
    remarks = [
        (f"{sign} {shown_label(str(each.found or each.name))}", text)
        for each in report
        for sign, texts in (("error", each.errors), ("note", each.notes))
        for text in texts
    ]
    verdict = f"no: {count(unfit, 'column')} of the schema must be corrected" if unfit else "yes"
    table = grid(("column", "in the data", "kind", "missing", "becomes"), rows, left=3, right=4)
    return table, [*remarks, ("usable", verdict)]


@schema_app.command("show", short_help="Show what a schema says.")
def show_schema(schema: Path = SCHEMA, json: bool = options.JSON) -> None:
    """Show what a schema says, without defaults and comments, and its digest, which members compare."""
    from fedslim.schema import Schema

    agreed = Schema.read(schema)
    digest = agreed.digest().hex()
    if not json:
        print_text("".join(f"{printable(line)}\n" for line in agreed.text().splitlines()))
    print_result(json, {"schema": str(schema), "digest": digest, **agreed.to_dict()}, [("digest", digest)])


def _table(reading: Reading, *, quiet: bool) -> "EncodedTable":
    with reporter(quiet=quiet).stage(f"reading {shown_label(reading.source)}"):
        return reading.table_for_schema()


# -- vocabulary --------------------------------------------------------------------------------------------------------

OUT = option("FILE", "The vocabulary file to write (JSON).", default=...)


@vocabulary_app.command(short_help="Make the secret that the members share.")
def secret(file: Path = argument("FILE", "The new file.")) -> None:
    """Make the secret that the members share, and print its fingerprint.

    One member makes it and gives it to the others over a secure channel, but never to the server: anyone who has it can
    find out the labels behind a vocabulary. The fingerprint is public: compare it to check that all have the same.
    """
    from fedslim.data import ItemSecret

    made = ItemSecret.from_random(secrets.token_bytes(32))
    made.write(file)
    print_line(f"{file}: fingerprint {made.fingerprint}")


@vocabulary_app.command("make", short_help="Write the vocabulary of a data set or file.")
@reads_data
def make_vocabulary(
    data: str = options.DATA,
    *,
    secret: Path = option("FILE", "The members' secret, from `fedslim vocabulary secret`.", default=...),
    out: Path = OUT,
    reading: Reading,
    seed: int | None = options.SEED,
    quiet: bool = options.QUIET,
) -> None:
    """Write the vocabulary of DATA: the ids of its items, in an order that reveals nothing, without their labels."""
    check_place(out, besides=data)
    check_place(out, besides=secret, what="the secret")
    with reporter(quiet=quiet).stage(f"reading {shown_label(data)}"):
        from fedslim.data import ItemSecret, Vocabulary

        shared = ItemSecret.read(secret)  # before the data, which may take long
        database = replace(reading, seed=seed).load()
        merged = Vocabulary.merge(Vocabulary.of(database.vocabulary, shared))  # hides the order of the data
    _write(merged, out)


@vocabulary_app.command(short_help="Merge the vocabularies of all members.")
def merge(
    files: list[Path] = argument("FILE", "A vocabulary, from make or merge."),
    out: Path = OUT,
    quiet: bool = options.QUIET,
) -> None:
    """Merge the vocabularies of all members. Their order does not matter: everybody gets the same file."""
    if len(files) == 1:
        raise ParameterError(f"FILE: {files[0]} is the only vocabulary; name those of all members")
    for file in files:
        check_place(out, besides=file, what="one of the vocabularies to merge")
    with reporter(quiet=quiet).stage(f"merging {count(len(files), 'vocabulary file')}"):
        from fedslim.data import Vocabulary

        merged = Vocabulary.merge(*map(Vocabulary.read, files), names=list(map(str, files)))
    _write(merged, out)


def _write(vocabulary: "Vocabulary", out: Path) -> None:
    vocabulary.write(out)
    print_line(f"{out}: {count(len(vocabulary), 'item')}, fingerprint {vocabulary.fingerprint}")


@vocabulary_app.command("show", short_help="Describe a vocabulary, or show the fingerprint of a secret.")
def show_vocabulary(
    file: Path = argument("FILE", "A vocabulary or the members' secret."), json: bool = options.JSON
) -> None:
    """Show the number of items of a vocabulary, the fingerprint of its secret, and its digest, for comparison.

    For the members' secret, show only its fingerprint.
    """
    from fedslim.data import ItemSecret, Vocabulary

    record: dict[str, Any] = {"file": str(file)}
    if ItemSecret.is_in(file):
        record["fingerprint"] = ItemSecret.read(file).fingerprint
    else:
        found = Vocabulary.read(file)
        record |= {"items": len(found), "fingerprint": found.fingerprint, "digest": found.digest.hex()}
    print_result(json, record, [(name, f"{x:,}" if isinstance(x, int) else x) for name, x in record.items()])
