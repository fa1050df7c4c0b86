"""Keep a preparation in a run folder, and find one that an earlier run kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fedslim.errors import ConfigurationError
from fedslim.protocol.preparation import Outline, Preparation

if TYPE_CHECKING:
    from pathlib import Path

    from fedslim.settings.federation_file import FederationFile

PREPARATION, PREPARATION_JOURNAL = "preparation.json", "preparation.journal"
"""In the run folders of the server and of members; the journal is there until the preparation is complete."""


def keep_preparation(made: Preparation, file: FederationFile, out: Path) -> None:
    """Keep a preparation in the run folder; only then its journal may go."""
    msgspec.structs.replace(made, federation=file.digest()).write(out / PREPARATION)
    (out / PREPARATION_JOURNAL).unlink(missing_ok=True)


def find_preparation(given: Path | None, file: FederationFile, out: Path) -> Preparation | None:
    """Return the preparation that was given or that is in the run folder, from an interrupted run; None if none is.

    Raises:
        ConfigurationError: It belongs to another federation or schema.
    """
    path = given or out / PREPARATION
    if given is None and not path.exists():
        return None
    kept = Preparation.read(path, Outline.parse(file.schema.outline or ""))
    if kept.federation != file.digest():
        msg = (
            f"{path}: this preparation belongs to another federation file or schema than {file.path}; start without "
            "--preparation, in a new run folder"
        )
        raise ConfigurationError(msg)
    return kept
