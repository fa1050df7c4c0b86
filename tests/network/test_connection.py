"""The reasons that are given for the end of a connection."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from fedslim.errors import LineError
from fedslim.network.connection import read_frame, write_frame

CAUSES = [
    (OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)), "no longer acknowledges"),
    (ConnectionResetError("Connection lost"), "was reset"),
    (OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH)), os.strerror(errno.EHOSTUNREACH)),
]


class Ended:
    """A writer whose connection has ended."""

    def __init__(self, error):
        self.error = error

    def write(self, _data):
        pass

    async def drain(self):
        raise self.error


@pytest.mark.parametrize(("error", "told"), CAUSES)
def test_a_connection_that_has_ended_did_not_take_too_long(error, told):
    async def read():
        reader = asyncio.StreamReader()
        reader.set_exception(error)
        await read_frame(reader, within=60.0)

    with pytest.raises(LineError, match=told):
        asyncio.run(read())
    with pytest.raises(LineError, match=told):
        asyncio.run(write_frame(Ended(error), b"frame", within=60.0))


class Full(Ended):
    """A writer whose peer does not read."""

    async def drain(self):
        await asyncio.sleep(60.0)


def test_a_frame_that_takes_too_long_is_said_to():
    async def read():
        reader = asyncio.StreamReader()
        reader.feed_data(b"\0")
        await read_frame(reader, within=0.01)

    with pytest.raises(LineError, match=r"a message did not end within 0\.01 s"):
        asyncio.run(read())
    with pytest.raises(LineError, match=r"a message of 5 bytes could not be sent within 0\.01 s"):
        asyncio.run(write_frame(Full(None), b"frame", within=0.01))
