"""Run the protocol or the search over other engines. Each is an optional extra, imported by one module only.

The modules:

    exchange.py     the server's session over calls that an engine makes to its sites
    server.py       a whole run at the server, from the federation file to the results
    member.py       a member at a site, configured by a file of the site
    startup_kit.py  agreement keys signed with the certificate of a site's NVFlare startup kit
    job.py          the job that an admin reviews and submits, and the classes that a site must allow for it
    simulator.py    a federation in NVFlare's simulator
    nvflare.py      the only module that imports NVFlare
    row_worker.py   a worker with a part of the rows of one organisation
    rows.py         the driver of such workers
    ray.py          the only module that imports Ray
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedslim.errors import MissingExtraError

_NAMES = {"nvflare": "NVFlare", "ray": "Ray"}


def engine(name: str) -> Any:
    """Return the module that imports this engine.

    Raises:
        MissingExtraError: The engine is not installed; the message says how to install it.
    """
    require(name)
    return import_module(f"fedslim.engines.{name}")


def require(name: str) -> None:
    """Raise `MissingExtraError` if an engine is not installed."""
    if find_spec(name) is None:
        raise MissingExtraError(f"{_NAMES[name]} is not installed: pip install 'fedslim[{name}]'")
