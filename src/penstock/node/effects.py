"""What the node asks of the world. The shell or the simulator gets these from `Broker.take_effects` and carries them
out.

A chunk of a frame is a buffer or a `FileSlice`, whose bytes the shell reads when it sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.log.disk import Buffer, FileSlice, Operation

Chunk = Buffer | FileSlice


@dataclass(slots=True)
class Send:
    """Whole response frames (each with its 4-byte length) for a connection, to be sent after all earlier ones."""

    connection: int
    chunks: Sequence[Chunk]


@dataclass(slots=True)
class Close:
    """Close a connection once everything sent so far has left; deliver no more of its frames.

    The node has already forgotten the connection: a later `Broker.disconnected` is ignored.
    """

    connection: int
    reason: str


@dataclass(slots=True)
class Run:
    """Run an operation, inline or in its directory's lane, and tell `Broker.operation_completed` or
    `operation_failed`.
    """

    operation: Operation


@dataclass(slots=True)
class PauseReading:
    """Stop reading from a connection's socket: it has as many requests in flight as it may."""

    connection: int


@dataclass(slots=True)
class ResumeReading:
    """Read from the connection again."""

    connection: int


@dataclass(slots=True)
class LetIn:
    """The client has logged in: its frames may now be as large as anybody's."""

    connection: int


REFUSED = "connection refused"
"""The reason of `link_lost` when nobody listens at the address."""


@dataclass(slots=True)
class Dial:
    """Connect to another node. `Broker.link_up` or `link_lost` follows.

    `link` is a number that is never used again; `listener` names the peer's listener, whose security protocol we speak.
    """

    link: int
    host: str
    port: int
    listener: str


@dataclass(slots=True)
class SendTo:
    """Whole request frames (each with its 4-byte length) for a link that is up, after all earlier ones."""

    link: int
    chunks: Sequence[Chunk]


@dataclass(slots=True)
class HangUp:
    """Close a link, or give up dialling it, at once. The node has forgotten it and wants no more of its events."""

    link: int


Effect = Send | Close | LetIn | Run | PauseReading | ResumeReading | Dial | SendTo | HangUp
