"""Register all commands, and run one from its arguments to its exit code."""

import errno
import os
import re
import traceback
from collections.abc import Callable

import typer
from typer.main import get_command

from fedslim import __version__
from fedslim.cli.commands import (
    agreeing,
    certificates,
    data,
    demo,
    experiment,
    mine,
    nvflare,
    safeguards,
    serve,
    show,
    simulate,
    uses,
)
from fedslim.cli.console.live import with_port
from fedslim.cli.console.options import flag, print_help
from fedslim.cli.console.output import forgiving_streams, let_go_of_stdout, print_text, say
from fedslim.errors import FedslimError

DEBUG = "--debug"
COMPLETE = "_FEDSLIM_COMPLETE"  # set by the scripts of --show-completion when the shell asks for completions

app = typer.Typer(
    name="fedslim",
    help="Find the few itemsets that describe your data best, by minimum description length (SLIM).",
    epilog="Start with: fedslim mine encounters",
    rich_markup_mode=None,  # plain help reads well at any width and in pipes, and does not import rich
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "mine": (mine.mine, "Find the itemsets that compress your data best."),
    "simulate": (simulate.simulate, "Simulate a federation, and see what it finds and costs."),
    "show": (show.show, "Show a saved code table or run."),
    "score": (uses.score, "Score rows with a code table: the unusual ones first."),
    "explain": (uses.explain, "Explain the bits of one row."),
    "compare": (uses.compare, "Compare data, tables, runs, a site with its federation."),
    "complete": (uses.complete, "Complete missing cells with a code table."),
    "rules": (uses.rules, "Read a code table as rules: if, then."),
    "report": (show.report, "Write an HTML report about runs."),
    "demo": (demo.demo, "See what six hospitals find together that none finds alone."),
    "server": (serve.server, "Run the server of a federation."),
    "member": (serve.member, "Take part in a federation."),
    "status": (serve.status, "Show the progress of a running server."),
    "audit": (safeguards.audit, "Summarise what a member has sent, from its audit log."),
}
GROUPS = {
    "data": data.app,
    "schema": agreeing.schema_app,
    "vocabulary": agreeing.vocabulary_app,
    "federation": agreeing.federation_app,
    "policy": safeguards.policy_app,
    "ledger": safeguards.ledger_app,
    "experiment": experiment.app,
    "ca": certificates.ca_app,
    "enroll": certificates.enroll_app,
    "nvflare": nvflare.app,
}
for _name, (_command, _short) in COMMANDS.items():
    app.command(_name, short_help=_short)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def _version(wanted: bool) -> None:
    if wanted:
        print_text(f"fedslim {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def fedslim(
    context: typer.Context,
    *,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
    debug: bool = flag(DEBUG, "Show the traceback of an error."),
) -> None:
    """Print the help if no command is given."""
    del version, debug  # a callback handles --version, and `run` has removed --debug
    print_help(context)


def run(arguments: list[str]) -> int:
    """Run the command in the arguments and return the exit code; print an error as one line on stderr."""
    # Not by typer's own main, which would print errors in another format and exit the process.
    arguments, debug = _without_debug(arguments)
    if arguments[:1] == ["client"]:  # the name of this command before 0.1
        arguments[0] = "member"
    arguments = with_port(arguments)
    forgiving_streams()
    try:
        command = get_command(app)
        if os.environ.get(COMPLETE):
            command.main(arguments, prog_name="fedslim", complete_var=COMPLETE)  # prints completions and exits
        with command.make_context("fedslim", arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:  # raised by typer's completion
        return int(end.code or 0)
    except Exception as error:  # noqa: BLE001  # every error becomes an exit code
        return exit_code(error, debug=debug)
    return 0


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Remove --debug wherever it is: people append it to the command that failed."""
    options = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:options] if argument != DEBUG]
    return kept + arguments[options:], len(kept) < options


# -- errors: one line on stderr, and an exit code (2 for bad input, 1 for a failed run) -------------------------------

FAILED = 1
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
NOBODY_READS = 141
"""The exit code of shells for a program whose output is no longer read: `fedslim show table.json | head -1`."""

# Some releases of typer bundle click and some depend on it; this finds the base of usage errors in both.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def exit_code(error: Exception, *, debug: bool) -> int:
    """Print an error and return the exit code; with `debug`, print the traceback too."""
    if isinstance(error, BrokenPipeError):
        let_go_of_stdout()
        return NOBODY_READS
    if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
        let_go_of_stdout()  # typer prints the help itself, for example
        say(f"fedslim: error: the output cannot be written ({error.strerror}); check its destination")
        return FAILED
    if isinstance(error, UsageError):
        say(f"fedslim: error: {_usage_sentence(error)}")
        return int(getattr(error, "exit_code", 2))
    if debug:
        for line in "".join(traceback.format_exception(error)).splitlines():
            say(line)
    if isinstance(error, FedslimError):
        say(f"fedslim: error: {_one_line(error)}")
        return error.exit_code
    if isinstance(error, MemoryError):
        say("fedslim: error: there is not enough memory; free some, or mine a part of the data")
        return FAILED
    what = f"{type(error).__name__}: {_one_line(error)}".removesuffix(": ")
    say(f"fedslim: internal error: {what}; {'' if debug else 'run again with --debug, and '}report this as a bug")
    return FAILED


PLAINER = {
    "Input should be a valid integer, unable to parse string as an integer": "give a whole number",
    "Input should be a valid number, unable to parse string as a number": "give a number",
    "Input should be less than or equal to": "give a number of at most",
    "Input should be greater than or equal to": "give a number of at least",
}
"""What some releases of typer say of a wrong value, and what fedslim says."""


def _usage_sentence(error: Exception) -> str:
    """Return typer's message in the style of fedslim's own."""
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = "fedslim" if context is None else context.command_path
    sentence = _one_line(text).rstrip(".").replace("Value error, ", "")  # a prefix in some releases
    for theirs, ours in PLAINER.items():
        sentence = sentence.replace(theirs, ours)
    return f"{sentence[:1].lower()}{sentence[1:]} (see {command} --help)"


def _one_line(text: object) -> str:
    return re.sub(r"\s*\n\s*", " ", str(text)).strip()
