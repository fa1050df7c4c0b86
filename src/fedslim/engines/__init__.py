"""Engines that carry the protocol for us, each an optional extra, each in one file that alone imports it.

What they have in common needs none of them:

    exchange.py     the server's session over calls that an engine makes to its sites
    serving.py      a whole run at the server: from the federation's file to what is left in a folder
    site.py         a member at a site; sitefile.py: what it brings and allows, in a file of its own
    kit.py          agreement keys signed by the certificate that NVFlare's provisioning gave the site
    job.py          the job that an admin reviews and submits, and what a site must allow for it
    simulator.py    a federation in NVFlare's simulator
    nvflare.py      NVFlare: what moves the frames
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fedslim.errors import MissingExtraError


def nvflare_engine() -> Any:
    """The module that imports NVFlare.

    Raises:
        MissingExtraError: NVFlare is not installed; the message says how to get it.
    """
    require_nvflare()
    return import_module("fedslim.engines.nvflare")


def require_nvflare() -> None:
    """Raise `MissingExtraError` where NVFlare is not installed."""
    if find_spec("nvflare") is None:
        msg = "NVFlare is not installed: pip install 'fedslim[nvflare]'"
        raise MissingExtraError(msg)
