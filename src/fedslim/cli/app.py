"""The commands put together, and one run of them from the arguments to the exit code."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
import os
from typing import Annotated

import typer
from typer.main import get_command

from fedslim import __version__
from fedslim.cli.commands import (
    audit,
    ca,
    data,
    demo,
    enroll,
    experiment,
    federation,
    ledger,
    mine,
    nvflare,
    policy,
    report,
    serve,
    show,
    simulate,
    vocabulary,
)
from fedslim.cli.console.failures import exit_code
from fedslim.cli.console.stream import forgiving_streams, print_text

DEBUG = "--debug"
COMPLETE = "_FEDSLIM_COMPLETE"
"""Set by the scripts of --show-completion: the shell asks what may come next."""

app = typer.Typer(
    name="fedslim",
    help="Find the few itemsets that describe your data best: SLIM, by minimum description length.",
    epilog="Start with: fedslim mine encounters",
    rich_markup_mode=None,  # plain help reads well at any width and in any pipe, and needs no rich
    pretty_exceptions_enable=False,
)
app.command("mine", short_help="Find the itemsets that compress your data best.")(mine.mine)
app.command("simulate", short_help="Let members mine together, and see what it finds and costs.")(simulate.simulate)
app.command("show", short_help="Show a saved code table or run.")(show.show)
app.command("report", short_help="Make a page of runs that opens in any browser.")(report.report)
app.command("demo", short_help="See what six hospitals find together that none finds alone.")(demo.demo)
app.command("server", short_help="Run the server of a federation.")(serve.server)
app.command("member", short_help="Take part in a federation.")(serve.member)
app.command("client", hidden=True)(serve.member)  # what the command was called before 0.1
app.command("status", short_help="Ask a running server how far it is.")(serve.status)
app.command("audit", short_help="Say what left a member, from its audit log.")(audit.audit)
app.add_typer(data.app, name="data")
app.add_typer(vocabulary.app, name="vocabulary")
app.add_typer(federation.app, name="federation")
app.add_typer(policy.app, name="policy")
app.add_typer(ledger.app, name="ledger")
app.add_typer(experiment.app, name="experiment")
app.add_typer(ca.app, name="ca")
app.add_typer(enroll.app, name="enroll")
app.add_typer(nvflare.app, name="nvflare")


def _version(wanted: bool) -> None:
    if wanted:
        print_text(f"fedslim {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def fedslim(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where an error came from.")] = False,
) -> None:
    """What there is to say before the command; without a command, the help."""
    del version, debug  # the one has answered already, and `run` has taken the other out
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


def run(arguments: list[str]) -> int:
    """Run the command in the arguments and give back the exit code; errors are told on stderr, as one line.

    Typer's own main is left aside because it would tell errors in its way, and end the process.
    """
    arguments, debug = _without_debug(arguments)
    forgiving_streams()
    try:
        command = get_command(app)
        if os.environ.get(COMPLETE):
            command.main(arguments, prog_name="fedslim", complete_var=COMPLETE)  # answers, and ends
        with command.make_context("fedslim", arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:  # how typer's completion ends
        return int(end.code or 0)
    except Exception as error:  # noqa: BLE001  # this is where every error ends
        return exit_code(error, debug=debug)
    return 0


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """Take --debug out wherever it stands: people add it to the end of the line that failed."""
    options = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:options] if argument != DEBUG]
    return kept + arguments[options:], len(kept) < options
