"""`fedslim vocabulary`: how the members of a federation agree on the numbers of items, without showing their labels."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.options import Reading
from fedslim.cli.console.output import summary
from fedslim.cli.console.progress import reporter
from fedslim.cli.console.saving import check_place
from fedslim.cli.console.stream import print_json, print_rich, print_text
from fedslim.cli.console.text import count, printable, shown_label
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.data import Vocabulary

app = typer.Typer(help="Agree with other members on the numbers of items.", rich_markup_mode=None, add_completion=False)

FEWEST_TO_MERGE = 2

Out = Annotated[Path, typer.Option(metavar="FILE", show_default=False, help="Where to write the vocabulary, as JSON.")]


@app.callback(invoke_without_command=True)
def vocabulary(context: typer.Context) -> None:
    """What there is to say before the command; without a command, the help."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


@app.command(short_help="Make the secret that the members share.")
def secret(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="Where to write it; a new file.")],
) -> None:
    """Make the secret that the members share, and print its fingerprint.

    One member makes it and gives it to the others on a safe way; the server must not get it. Who has it can find out
    which labels are behind a vocabulary. The fingerprint is for everybody: who sees the same has the same secret.
    """
    from fedslim.data import ItemSecret

    made = ItemSecret.from_random(secrets.token_bytes(32))
    made.write(file)
    print_text(printable(f"{file}: fingerprint {made.fingerprint}") + "\n")


@app.command(short_help="Write the vocabulary of a data set or file.")
def make(
    data: options.Data,
    *,
    secret: Annotated[
        Path, typer.Option(metavar="FILE", show_default=False, help="What `fedslim vocabulary secret` made.")
    ],
    out: Out,
    format: options.Format = None,  # noqa: A002  # the word that users type
    bins: options.Bins = None,
    transaction_column: options.TransactionColumn = None,
    item_column: options.ItemColumn = None,
    from_: options.From = None,
    seed: options.Seed = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the vocabulary of DATA: the ids of its items in no telling order, without their labels."""
    check_place(out, besides=data)
    check_place(out, besides=secret, what="the secret")
    reading = Reading(data, format, bins, transaction_column, item_column, from_, seed)
    with reporter(quiet=quiet).stage(f"reading {shown_label(data)}"):
        from fedslim.data import ItemSecret, Vocabulary

        shared = ItemSecret.read(secret)  # before the data, which may take long
        ours = Vocabulary.merge(Vocabulary.of(reading.load().vocabulary, shared))  # for the order, which may tell
        ours.write(out)
    _print_written(out, ours)


@app.command(short_help="Put the vocabularies of all members together.")
def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", show_default=False, help="What make or merge wrote.")],
    out: Out,
    quiet: options.Quiet = False,
) -> None:
    """Put the vocabularies of all members together. Their order does not matter: everybody gets the same file."""
    if len(files) < FEWEST_TO_MERGE:
        msg = f"{files[0]} alone cannot be merged; name the vocabularies of all members"
        raise ParameterError(msg)
    for file in files:
        check_place(out, besides=file, what="one of the vocabularies to merge")
    with reporter(quiet=quiet).stage(f"merging {count(len(files), 'vocabulary file')}"):
        from fedslim.data import Vocabulary

        merged = Vocabulary.merge(*map(Vocabulary.read, files), names=list(map(str, files)))
        merged.write(out)
    _print_written(out, merged)


@app.command(short_help="Say what is in a vocabulary, or the fingerprint of a secret.")
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="What make, merge or secret wrote.")],
    json: options.Json = False,
) -> None:
    """Say how many items a vocabulary has, with which secret it was made, and what to compare it by.

    Of the members' secret, only its fingerprint is shown.
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
    told = f"{out}: {count(len(vocabulary), 'item')}, fingerprint {vocabulary.fingerprint}"
    print_text(printable(told) + "\n")
