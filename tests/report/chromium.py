"""Find a Chromium for the tests: the system's, or the distribution's package if it can be installed."""

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
    """Return the path of a browser and an empty string, or None and the reason."""
    if found := _found():
        return found, ""
    apt = shutil.which("apt-get")
    if apt is None:
        return None, "Chromium is not installed, and neither is apt-get; install the package chromium"
    if os.geteuid() != 0:
        return None, "Chromium is not installed; as root, run apt-get install chromium"
    install, reason = ["install", "--no-install-recommends", "chromium"], ""
    for arguments in (install, ["update"], install):
        try:
            done = subprocess.run(
                [apt, "-y", "-q", "-o", f"DPkg::Lock::Timeout={PATIENCE:.0f}", *arguments],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return None, f"Chromium is not installed, and apt-get failed: {error}"
        if found := _found():
            return found, ""
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return None, f"Chromium is not installed, and apt-get could not install it: {reason}"


def _found():
    return next(filter(None, map(shutil.which, NAMES)), None)
