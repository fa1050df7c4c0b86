"""How long a server and its members wait for each other."""

from __future__ import annotations

from dataclasses import dataclass

HANDSHAKE = 10.0
"""Seconds for a handshake."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server or member waits, in seconds."""

    answer: float = 3600.0  # for the answer of a connected member
    grace: float = 600.0  # for a disconnected member, or for the server
    frame: float = 60.0  # for the rest of a frame that has begun
    farewell: float = 5.0  # after the end, for all members to acknowledge the result
    connect: float = HANDSHAKE  # for each attempt to connect
    keepalive: float = 10.0  # between two keepalives
    handshake: float = HANDSHAKE  # for a new peer to show its certificate
