"""A Chromium for the tests: the system's, or the distribution's package where we may install it."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE = 600.0


@cache
def chromium():
    """The path of a browser, or None, and why there is none."""
    if found := _found():
        return found, ""
    apt = shutil.which("apt-get")
    if apt is None:
        return None, "there is no Chromium, and no apt-get to install it with; install the package chromium"
    if os.geteuid() != 0:
        return None, "there is no Chromium, and only root may install it: apt-get install chromium"
    install, said = ["install", "--no-install-recommends", "chromium"], ""
    for arguments in (install, ["update"], install):
        try:
            done = subprocess.run(
                [apt, "-y", "-q", *arguments],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, f"there is no Chromium, and installing it failed: {error}"
        if found := _found():
            return found, ""
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return None, f"there is no Chromium, and apt-get could not install it: {said}"


def _found():
    return next(filter(None, map(shutil.which, NAMES)), None)
