"""`fedslim vocabulary`: agree with the other members on the items, without showing their labels."""

# Typer evaluates annotations at run time, so command modules do not postpone them.
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.groups import command_group
from fedslim.cli.console.options import Reading, reads_data
from fedslim.cli.console.output import summary
from fedslim.cli.console.progress import reporter
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, print_line, print_rich
from fedslim.cli.console.text import count, shown_label
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.data import Vocabulary

app = command_group("Agree with the other members on the items.")

FEWEST_TO_MERGE = 2

Out = Annotated[Path, typer.Option(metavar="FILE", show_default=False, help="The vocabulary file to write (JSON).")]


@app.command(short_help="Make the secret that the members share.")
def secret(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="The new file.")],
) -> None:
    """Make the secret that the members share, and print its fingerprint.

    One member makes it and gives it to the others over a secure channel, but never to the server: anyone who has it can
    find out the labels behind a vocabulary. The fingerprint is public: compare it to check that all have the same.
    """
    from fedslim.data import ItemSecret

    made = ItemSecret.from_random(secrets.token_bytes(32))
    made.write(file)
    print_line(f"{file}: fingerprint {made.fingerprint}")


@app.command(short_help="Write the vocabulary of a data set or file.")
@reads_data
def make(
    data: options.Data,
    *,
    secret: Annotated[
        Path,
        typer.Option(metavar="FILE", show_default=False, help="The members' secret, from `fedslim vocabulary secret`."),
    ],
    out: Out,
    reading: Reading,
    seed: options.Seed = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the vocabulary of DATA: the ids of its items, in an order that reveals nothing, without their labels."""
    check_place(out, besides=data)
    check_place(out, besides=secret, what="the secret")
    with reporter(quiet=quiet).stage(f"reading {shown_label(data)}"):
        from fedslim.data import ItemSecret, Vocabulary

        shared = ItemSecret.read(secret)  # before the data, which may take long
        database = replace(reading, seed=seed).load()
        merged = Vocabulary.merge(Vocabulary.of(database.vocabulary, shared))  # hides the order of the data
        merged.write(out)
    _print_written(out, merged)


@app.command(short_help="Merge the vocabularies of all members.")
def merge(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", show_default=False, help="A vocabulary, from make or merge.")
    ],
    out: Out,
    quiet: options.Quiet = False,
) -> None:
    """Merge the vocabularies of all members. Their order does not matter: everybody gets the same file."""
    if len(files) < FEWEST_TO_MERGE:
        msg = f"FILE: {files[0]} is the only vocabulary; name those of all members"
        raise ParameterError(msg)
    for file in files:
        check_place(out, besides=file, what="one of the vocabularies to merge")
    with reporter(quiet=quiet).stage(f"merging {count(len(files), 'vocabulary file')}"):
        from fedslim.data import Vocabulary

        merged = Vocabulary.merge(*map(Vocabulary.read, files), names=list(map(str, files)))
        merged.write(out)
    _print_written(out, merged)


@app.command(short_help="Describe a vocabulary, or show the fingerprint of a secret.")
def show(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="A vocabulary or the members' secret.")
    ],
    json: options.Json = False,
) -> None:
    """Show the number of items of a vocabulary, the fingerprint of its secret, and its digest, for comparison.

    For the members' secret, show only its fingerprint.
    """
    from fedslim.data import ItemSecret, Vocabulary

    if ItemSecret.is_in(file):
        record: dict[str, Any] = {"file": str(file), "fingerprint": ItemSecret.read(file).fingerprint}
    else:
        record = _record(file, Vocabulary.read(file))
    if json:
        print_json(record)
    else:
        print_rich(summary((name, f"{fact:,}" if isinstance(fact, int) else fact) for name, fact in record.items()))


def _record(file: Path, vocabulary: "Vocabulary") -> dict[str, Any]:
    return {
        "file": str(file),
        "items": len(vocabulary),
        "fingerprint": vocabulary.fingerprint,
        "digest": vocabulary.digest.hex(),
    }


def _print_written(out: Path, vocabulary: "Vocabulary") -> None:
    print_line(f"{out}: {count(len(vocabulary), 'item')}, fingerprint {vocabulary.fingerprint}")
