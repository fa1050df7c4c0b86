"""`fedslim nvflare`: federations over NVFlare, where sites run that already."""

# Typer looks at annotations when the program runs, so the modules with commands do without postponed ones.
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from fedslim.cli.console import options
from fedslim.cli.console.stream import print_json, print_text
from fedslim.cli.console.text import count, printable, size

app = typer.Typer(help="Run a federation over NVFlare.", rich_markup_mode=None, add_completion=False)

LOCAL = typer.Argument(metavar="LOCAL", help="The folder `local` of the startup kit.")
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="The id that NVFlare gave the job.")]
KitOption = Annotated[Path, typer.Option(metavar="DIR", help="The startup kit of an admin, who may manage the job.")]


@app.callback(invoke_without_command=True)
def nvflare(context: typer.Context) -> None:
    """What there is to say before the command; without a command, the help."""
    if context.invoked_subcommand is None:
        print_text(context.get_help() + "\n")


@app.command(short_help="Write the job of a federation, to be reviewed and submitted.")
def export(
    file: Annotated[Path, typer.Argument(metavar="FEDERATION", help="The federation's file (TOML).")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to; a new folder.")],
) -> None:
    """Write the job of a federation: four short files, and no code.

    It names the members, and nothing else about them. Submit it with `nvflare job submit -j DIR`.
    """
    from fedslim.engines.job import MEMBER_APP, SERVER_APP, write_job
    from fedslim.settings.federation_file import FederationFile

    federation = FederationFile.read(file)
    write_job(federation, out)
    members = federation.federation.members
    told = f"{out}: {SERVER_APP} for the server, {MEMBER_APP} for {', '.join(sorted(members))}"
    print_text(f"{printable(told)}\ndigest of the federation's file: {federation.digest().hex()}\n")


@app.command(short_help="At a site: write its own file, and let NVFlare load fedslim.")
def site(
    folder: Annotated[Path, LOCAL],
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="The site's name in NVFlare.")],
) -> None:
    """Write a site's file and its policy with every key there is, and let NVFlare load the classes that our jobs name.

    The file says what the site's data are, the policy what may leave it. Both are the site's: look through them, and
    fill them in. A policy that is there already is kept.
    """
    from fedslim.engines.job import AT_SITE, allow
    from fedslim.settings.policy import FILE as POLICY
    from fedslim.settings.policy import write_policy
    from fedslim.settings.site_file import FILE, write_site_file

    new = allow(folder, AT_SITE)
    made = write_site_file(folder / FILE, name, site_policy=POLICY)
    print_text(printable(f"{made.path}: fill in what this site has") + "\n")
    if not os.path.lexists(folder / POLICY):
        write_policy(folder / POLICY)
        print_text(printable(f"{folder / POLICY}: look through what this site allows") + "\n")
    _tell_allowed(folder, new)


@app.command("allow", short_help="At the server: let NVFlare load fedslim.")
def allow_classes(folder: Annotated[Path, LOCAL]) -> None:
    """Let NVFlare load the classes that our jobs name: they go on the list of allowed classes in resources.json."""
    from fedslim.engines.job import AT_SERVER, allow

    _tell_allowed(folder, allow(folder, AT_SERVER))


def _tell_allowed(folder: Path, new: list[str]) -> None:
    told = f"allowed {', '.join(new)}; NVFlare reads it when it starts" if new else "everything was allowed already"
    print_text(printable(f"{folder / 'resources.json'}: {told}") + "\n")


@app.command(short_help="Ask a running job how far it is.")
def status(job: JobArgument, *, kit: KitOption, json: options.Json = False) -> None:
    """Ask a running job how far it is: which round, who is awaited."""
    found = _engine().ask_job(kit, job, _engine().STATUS_TOPIC)
    if json:
        print_json(found)
        return
    percent = "" if found["L_percent"] is None else f", L% {found['L_percent']:.2f}"
    awaited = ", ".join(found["waiting_for"]) or "nobody"
    print_text(
        f"round {found['rounds']}: {count(found['itemsets'], 'itemset')}{percent}, {size(found['bytes_up'])} up, "
        f"{size(found['bytes_down'])} down; waiting for {awaited}\n"
    )


@app.command(short_help="End a running job after its round, with the best so far.")
def stop(job: JobArgument, *, kit: KitOption) -> None:
    """End a running job after its round: everybody gets the best table so far.

    `nvflare job abort` ends it at once; what was reached is saved at the server then, too.
    """
    _engine().ask_job(kit, job, _engine().STOP_TOPIC)
    print_text(f"{job}: it ends after its round, with the best so far\n")


def _engine() -> Any:
    from fedslim.engines import nvflare_engine

    return nvflare_engine()
