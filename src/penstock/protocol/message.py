"""What all message classes share: how their fields become slots and a constructor, equality, a readable form, and the
names by which the codecs find their definition.

A message class stands for all versions of a message. Fields that a version lacks keep their defaults. The classes are
written by `tools/generate_messages.py` and hold data only; `protocol.codec` turns them into bytes and back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, ClassVar, Protocol, dataclass_transform
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
"""Default of a field whose real default is a new object for each message: an empty list or a struct."""


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Makes slots of the fields that a class declares, a line each: `name: type = default`.

    The constructor is written when it is first called: most classes of a process never make an object, or only by the
    decoder, which needs none.
    """

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int = -1,
        versions: tuple[int, int] = (0, 0),
        flexible_from: int | None = None,
    ) -> StructType:
        if "__slots__" in namespace:  # Struct and Message themselves
            return super().__new__(cls, name, bases, namespace)
        kinds = namespace.get("__annotations__", {})
        defaults = {field: namespace.pop(field) for field in kinds}
        namespace["__slots__"] = tuple(kinds)
        namespace["__init__"] = construct_first
        base: Any = bases[0]
        namespace["KINDS"] = base.KINDS | kinds if base.KINDS else kinds
        namespace["DEFAULTS"] = base.DEFAULTS | defaults if base.KINDS else defaults
        if Message in bases:
            lowest, highest = versions
            namespace.update(NAME=name, KEY=key, MIN_VERSION=lowest, MAX_VERSION=highest, FLEXIBLE_FROM=flexible_from)
        return super().__new__(cls, name, bases, namespace)


def constructor(cls: type[Struct]) -> Callable[..., None]:
    """The constructor of a class, as one would write it: keyword arguments with their defaults, an assignment each."""
    scope: dict[str, Any] = {"ABSENT": ABSENT}
    named = f", *, {', '.join(cls.DEFAULTS)}" if cls.DEFAULTS else ""
    lines = [f"def __init__(self{named}):", "    pass"]
    for field, default in cls.DEFAULTS.items():
        value = field
        if default is ABSENT:
            kind = cls.KINDS[field].removesuffix(" | None")
            if kind.startswith("list["):
                new = "[]"
            else:
                scope[kind] = getattr(sys.modules[cls.__module__], kind)
                new = f"{kind}()"
            value = f"{new} if {field} is ABSENT else {field}"
        lines.append(f"    self.{field} = {value}")
    exec(compile("\n".join(lines), f"<constructor of {cls.__name__}>", "exec"), scope)
    made: FunctionType = scope["__init__"]
    made.__kwdefaults__ = dict(cls.DEFAULTS)
    return made


def construct_first(self: Any, **fields: Any) -> None:
    """The constructor of a class until it is called."""
    self.__class__.__init__ = constructor(self.__class__)
    self.__init__(**fields)


class Struct(metaclass=StructType):
    """Fields with equality and a readable form.

    Attributes:
        KINDS: the types of its fields, in order, as they are written.
        DEFAULTS: by field; ABSENT for what is new in each message.
    """

    __slots__: ClassVar[tuple[str, ...]] = ()
    __hash__ = None  # type: ignore[assignment]
    KINDS: ClassVar[dict[str, str]] = {}
    DEFAULTS: ClassVar[dict[str, Any]] = {}

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.KINDS)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={abridged(getattr(self, name))}" for name in self.KINDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A whole message: `class X(Message, key=…, versions=(lowest, highest), flexible_from=…)`.

    Attributes:
        NAME: Kafka's name, the key into the schema.
        KEY: API key of a request or response, type number of a record; -1 where there is none.
        MIN_VERSION, MAX_VERSION: the versions that exist.
        FLEXIBLE_FROM: first flexible version, or None.
    """

    __slots__: ClassVar[tuple[str, ...]] = ()

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
