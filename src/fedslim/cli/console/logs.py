"""What a server or member tells while it runs: a line on stderr, and in the log if the federation's file names one."""

from __future__ import annotations

import logging
import os
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING

from fedslim.cli.console.stream import say
from fedslim.cli.console.text import printable
from fedslim.data.atomic import PRIVATE
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    import io

    from fedslim.network.telling import Tell
    from fedslim.settings.federation_file import Log

MAX_BYTES = 10_000_000
OLD_FILES = 5
"""Old log files that are kept (`run.log.1`, …), each of `MAX_BYTES` at most."""


class PrivateFile(RotatingFileHandler):
    """A log that starts a new file when it is full. New files are readable by their owner only."""

    def _open(self) -> io.TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, PRIVATE)

        return open(self.baseFilename, "a", encoding="utf-8", opener=private)


def teller(settings: Log) -> Tell:
    """How to tell something: it is shown, and logged if the settings name a file.

    This is the one place where texts that may quote a peer are escaped.

    Raises:
        ParameterError: The log cannot be written.
    """
    log = logging.getLogger("fedslim")
    log.setLevel(settings.level.upper())
    log.propagate = False
    handler: logging.Handler = logging.NullHandler()  # with none at all, warnings would be shown a second time
    if settings.file is not None:
        try:
            handler = PrivateFile(settings.file, maxBytes=MAX_BYTES, backupCount=OLD_FILES, encoding="utf-8")
        except OSError as error:
            msg = f"{settings.file}: the log (log.file) cannot be written: {error.strerror}; name another file"
            raise ParameterError(msg) from error
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.handlers = [handler]

    def tell(text: str, level: int = logging.INFO, /) -> None:
        line = printable(text)
        say(line)
        log.log(level, line)

    return tell
