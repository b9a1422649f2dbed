"""What all message classes share: equality, a readable form, and the names by which the codecs find their definition.

A message class stands for all versions of a message. Fields that a version lacks keep their defaults. The classes are
written by `tools/generate_messages.py` and hold data only; `protocol.codec` turns them into bytes and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol
from uuid import UUID

Buffer = bytes | bytearray | memoryview


class Slice(Protocol):
    """Bytes that are somewhere else, such as a range of a file: the codec knows only how many there are."""

    @property
    def length(self) -> int: ...


Chunk = Buffer | Slice
"""One piece of an encoded message."""

Records = Buffer | Sequence[Chunk]
"""Record batches: one buffer, or several pieces that follow each other. Decoding always gives a memoryview."""

ZERO_UUID = UUID(int=0)
"""Kafka's "no id"."""

ABSENT: Any = object()
"""Default of constructor arguments whose real default is a new object each time: an empty list or a struct."""


class Struct:
    """Fields with equality and a readable form. Subclasses are slotted."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={abridged(getattr(self, name))}" for name in self.__slots__)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A whole message.

    Attributes:
        NAME: Kafka's name, the key into the schema.
        KEY: API key of a request or response, type number of a record; -1 where there is none.
        MIN_VERSION, MAX_VERSION: the versions that exist.
        FLEXIBLE_FROM: first flexible version, or None.
    """

    __slots__: tuple[str, ...] = ()

    NAME: ClassVar[str]
    KEY: ClassVar[int]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int | None]


SHOWN_BYTES = 32


def abridged(value: object) -> str:
    """A value for a person: long byte strings are named by their length."""
    if isinstance(value, bytes | bytearray | memoryview):
        size_bytes = memoryview(value).nbytes
        return repr(bytes(value)) if size_bytes <= SHOWN_BYTES else f"<{size_bytes} bytes>"
    return repr(value)
