"""Logs of a server or member: lines on stderr, and in a file if the federation file names one."""

from __future__ import annotations

import io
import logging
import os
from logging.handlers import RotatingFileHandler

from fedslim.cli.console.output import Said
from fedslim.data.atomic import PRIVATE
from fedslim.errors import ParameterError
from fedslim.format import printable
from fedslim.settings.federation_keys import Log

MAX_BYTES = 10_000_000
OLD_FILES = 5  # number of old log files to keep (`run.log.1`, …), each of at most `MAX_BYTES`


class PrivateFile(RotatingFileHandler):
    """A rotating log file that only its owner can read; each record is one line."""

    def _open(self) -> io.TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, PRIVATE)

        return open(self.baseFilename, "a", encoding="utf-8", opener=private)

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line, escaped, as it may quote a peer; `say` does the same on stderr."""
        return printable(super().format(record))


def set_up_logs(settings: Log) -> None:
    """Print the package's logs, and write them to a file, as the settings say; this replaces earlier handlers."""
    handlers: list[logging.Handler] = [Said("%(message)s")]
    if settings.file is not None:
        try:
            file = PrivateFile(settings.file, maxBytes=MAX_BYTES, backupCount=OLD_FILES, encoding="utf-8")
        except OSError as error:
            msg = f"{settings.file}: the log file (log.file) cannot be written: {error.strerror}; name another file"
            raise ParameterError(msg) from error
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        handlers.append(file)
    logger = logging.getLogger("fedslim")
    for old in logger.handlers:
        old.close()
    logger.handlers, logger.propagate = handlers, False
    logger.setLevel(settings.level.upper())
