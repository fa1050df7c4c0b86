"""`fedslim nvflare`: run a federation over NVFlare, for sites that use it already."""

import os
from pathlib import Path
from typing import Any

from fedslim.cli.commands.serve import status_line
from fedslim.cli.console import options
from fedslim.cli.console.options import argument, command_group, option
from fedslim.cli.console.output import print_json, print_line
from fedslim.errors import ParameterError

app = command_group("Run a federation over NVFlare.")

LOCAL = argument("LOCAL", "The `local` folder of the startup kit.")
JOB = argument("JOB", "The id that NVFlare gave the job.")
KIT = option("DIR", "The startup kit of an admin who may manage the job.", default=...)


@app.command(short_help="Write the NVFlare job of a federation, to review and submit.")
def export(
    file: Path = options.FEDERATION,
    out: Path = option("DIR", "A new folder for the job.", default=...),
    preparation: Path | None = option("FILE", "Start from the preparation.json in an earlier job's results."),
) -> None:
    """Write the NVFlare job of a federation: four short files without code.

    The job contains the names of the members and nothing else about them. Submit it with `nvflare job submit -j DIR`.
    """
    from fedslim.engines.job import MEMBER_APP, SERVER_APP, write_job
    from fedslim.settings.federation_file import FederationFile

    federation = FederationFile.read(file)
    if preparation is not None and not federation.prepares:
        raise ParameterError(f"--preparation is for federations with a schema, and {file} has none; leave it out")
    members = write_job(federation, out, preparation=preparation)
    print_line(f"{out}: {SERVER_APP} for the server, {MEMBER_APP} for {', '.join(members)}")
    print_line(f"digest of the federation file: {federation.digest().hex()}")


@app.command(short_help="At a site: write its site file and policy, and let NVFlare load fedslim.")
def site(folder: Path = LOCAL, name: str = option("NAME", "The site's name in NVFlare.", default=...)) -> None:
    """Write a site file and a policy with every key, and let NVFlare load the classes of fedslim's jobs.

    The site file describes the site's data; the policy limits what may leave the site. Both stay at the site: review
    them and fill them in. An existing policy is kept.
    """
    from fedslim.engines.job import AT_SITE, allow
    from fedslim.settings.policy import FILE as POLICY, write_policy
    from fedslim.settings.site_file import FILE, write_site_file

    new = allow(folder, AT_SITE)
    made = write_site_file(folder / FILE, name, site_policy=POLICY)
    print_line(f"{made.path}: describe this site's data here")
    if not os.path.lexists(folder / POLICY):
        write_policy(folder / POLICY)
        print_line(f"{folder / POLICY}: review what this site allows")
    _tell_allowed(folder, new)


@app.command("allow", short_help="At the server: let NVFlare load fedslim.")
def allow_classes(folder: Path = LOCAL) -> None:
    """Let NVFlare load the classes of fedslim's jobs: add them to the allowed classes in resources.json."""
    from fedslim.engines.job import AT_SERVER, allow

    _tell_allowed(folder, allow(folder, AT_SERVER))


def _tell_allowed(folder: Path, new: list[str]) -> None:
    result = f"allowed {', '.join(new)}; restart NVFlare to apply this" if new else "all classes were allowed already"
    print_line(f"{folder / 'resources.json'}: {result}")


@app.command(short_help="Show the progress of a running job.")
def status(job: str = JOB, kit: Path = KIT, json: bool = options.JSON) -> None:
    """Show the progress of a running job: the round, and the members it is waiting for."""
    found = _engine().ask_job(kit, job, _engine().STATUS_TOPIC)
    if json:
        print_json(found)
    else:
        print_line(status_line(found, digits=2))


@app.command(short_help="Stop a running job after its round, with the best table so far.")
def stop(job: str = JOB, kit: Path = KIT) -> None:
    """Stop a running job after its round. Server and members get the best table so far.

    `nvflare job abort` stops it immediately; then only the server saves the best table so far.
    """
    _engine().ask_job(kit, job, _engine().STOP_TOPIC)
    print_line(f"{job}: stopping after this round, with the best table so far")


def _engine() -> Any:
    from fedslim.engines import engine

    return engine("nvflare")
