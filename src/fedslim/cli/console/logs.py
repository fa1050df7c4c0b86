"""Logs of a server or member: lines on stderr, and in a file if the federation's file names one."""

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


class OneLine(logging.Formatter):
    """A record in one line. This is the one place where texts that may quote a peer are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        return printable(super().format(record))


class Stderr(logging.Handler):
    """Shows records on whatever stderr is then."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        say(self.format(record))


def set_up_logs(settings: Log) -> None:
    """Show what the package logs, from the level in the settings on, and write it to a file if they name one.

    Whatever was set up before is replaced.

    Raises:
        ParameterError: The log cannot be written.
    """
    handlers: list[logging.Handler] = [Stderr()]
    handlers[0].setFormatter(OneLine("%(message)s"))
    if settings.file is not None:
        try:
            file = PrivateFile(settings.file, maxBytes=MAX_BYTES, backupCount=OLD_FILES, encoding="utf-8")
        except OSError as error:
            msg = f"{settings.file}: the log (log.file) cannot be written: {error.strerror}; name another file"
            raise ParameterError(msg) from error
        file.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
        handlers.append(file)
    logger = logging.getLogger("fedslim")
    for old in logger.handlers:
        old.close()
    logger.handlers, logger.propagate = handlers, False
    logger.setLevel(settings.level.upper())
