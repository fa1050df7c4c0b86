"""Write the NVFlare job of a federation: a few files that an admin can read, without code.

Each site runs the code that it has installed: the job only names two classes, which the site must have allowed. The job
contains nothing about a site. Its federation file is for the server only; sites have their own copy. A job that starts
from the preparation of an earlier one has that file for the server, and its digest for the sites, which have their own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedslim.data.atomic import write_whole
from fedslim.data.textstream import is_file, told_as_data_errors
from fedslim.errors import ConfigurationError, DataError
from fedslim.federated.folder import PREPARATION, find_preparation
from fedslim.settings.federation_file import FederationFile

SERVER_APP, MEMBER_APP = "fedslim_server", "fedslim_member"
FEDERATION = "federation.toml"
META = "meta.json"

OURS = "fedslim.engines.nvflare"
SERVER_CLASS, MEMBER_CLASS = f"{OURS}.FedslimServer", f"{OURS}.FedslimMember"
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
AT_SERVER, AT_SITE = (SERVER_CLASS, CONTROLLER), (MEMBER_CLASS, EXECUTOR)
"""The classes that NVFlare loads for a job of fedslim."""

RESERVED = "server"  # NVFlare's name for its server; no site may have the same name

RESOURCES, DEFAULT_RESOURCES = "resources.json", "resources.json.default"
ALLOWED = "class_allow_list"
SYNC = 300.0  # seconds for the processes of all sites to start
FEWEST_THREADS = 16


def write_job(
    file: FederationFile, folder: Path, sync: float = SYNC, preparation: Path | None = None
) -> tuple[str, ...]:
    """Write the job of a federation, and return its members; all sites must start within `sync` seconds.

    With the `preparation` of an earlier job, the members go on from there, without those that left after it.
    """
    kept = None if preparation is None else find_preparation(preparation, file, folder)
    members = sorted((file if kept is None else file.without(kept.left)).federation.members)
    if RESERVED in members:
        msg = f"{file.path}: federation.members: NVFlare calls its server {RESERVED!r}; give the site another name"
        raise ConfigurationError(msg)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: this folder is not empty; choose a new folder, or remove it")
    with told_as_data_errors(file.path):
        agreed = file.path.read_bytes()
    meta = {
        "name": f"fedslim {file.federation.variant} {file.digest().hex()[:16]}",
        "resource_spec": {},
        "min_clients": len(members),
        "mandatory_clients": members,
        "deploy_map": {SERVER_APP: [RESERVED], MEMBER_APP: members},
    }
    write_whole(folder / META, _json(meta))
    # One thread for each call to a site.
    threads = max(FEWEST_THREADS, len(members))
    called = {"server_obj_id": "_server", "sync_task_timeout": sync, "max_call_threads": threads}
    server = {
        "format_version": 2,
        "components": [{"id": "_server", "path": SERVER_CLASS, "args": {}}],
        "workflows": [{"id": "controller", "path": CONTROLLER, "args": called}],
    }
    write_whole(folder / SERVER_APP / "config" / "config_fed_server.json", _json(server))
    write_whole(folder / SERVER_APP / "config" / FEDERATION, agreed)
    if kept is not None:
        kept.write(folder / SERVER_APP / "config" / PREPARATION)
    start = {} if kept is None else {"preparation": kept.digest().hex()}
    executor = {"path": EXECUTOR, "args": {"client_obj_id": "_client", "max_call_threads": FEWEST_THREADS}}
    member = {
        "format_version": 2,
        "components": [{"id": "_client", "path": MEMBER_CLASS, "args": start}],
        "executors": [{"tasks": ["*"], "executor": executor}],
    }
    write_whole(folder / MEMBER_APP / "config" / "config_fed_client.json", _json(member))
    return tuple(members)


def allow(folder: Path, classes: Sequence[str]) -> list[str]:
    """Let NVFlare load classes at the site or server with this `local` folder; return those that are new."""
    own, default = folder / RESOURCES, folder / DEFAULT_RESOURCES
    source = own if is_file(own) else default
    with told_as_data_errors(source):
        data = source.read_bytes()
    try:
        resources = json.loads(data)
        allowed = resources[ALLOWED]
        new = [name for name in classes if name not in allowed]
        allowed += new
    except (ValueError, TypeError, KeyError):
        raise DataError(
            f"{source}: this is not a resources file of NVFlare, or has no {ALLOWED}; give the folder `local` of a "
            "startup kit of NVFlare 2.9"
        ) from None
    if new:
        write_whole(own, _json(resources))
    return new


def _json(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, indent=2) + "\n").encode()
