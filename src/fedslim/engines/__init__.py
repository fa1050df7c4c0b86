"""Run the protocol over other engines. Each engine is an optional extra, imported by one module only.

The modules:

    exchange.py     the server's session over calls that an engine makes to its sites
    server.py       a whole run at the server, from the federation file to the results
    member.py       a member at a site, configured by a file of the site
    startup_kit.py  agreement keys signed with the certificate of a site's NVFlare startup kit
    job.py          the job that an admin reviews and submits, and the classes that a site must allow for it
    simulator.py    a federation in NVFlare's simulator
    nvflare.py      the only module that imports NVFlare
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedslim.errors import MissingExtraError


def nvflare_engine() -> Any:
    """Return the module that imports NVFlare.

    Raises:
        MissingExtraError: NVFlare is not installed; the message says how to install it.
    """
    require_nvflare()
    return import_module("fedslim.engines.nvflare")


def require_nvflare() -> None:
    """Raise `MissingExtraError` if NVFlare is not installed."""
    if find_spec("nvflare") is None:
        msg = "NVFlare is not installed: pip install 'fedslim[nvflare]'"
        raise MissingExtraError(msg)
