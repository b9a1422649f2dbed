"""Requests that nobody means well with, made from the schema: the longest and shortest of everything, and huge arrays.

They are legal: each decodes. Names are `NAME` where they are not to be long, so that with a topic and a group of that
name much of what is asked for exists.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from uuid import UUID

from penstock.protocol import schema
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.schema import Field, Struct

NAME = "t"
LONGEST_TEXT = "x" * 32767
WAIT_MS = 20
GREATEST = {"int8": 2**7 - 1, "int16": 2**15 - 1, "uint16": 2**16 - 1, "int32": 2**31 - 1, "uint32": 2**32 - 1}

Path = tuple[str, ...]


def longest(name: str, version: int, *, wait_ms: int | None = WAIT_MS) -> Message:
    """Every string as long as it may be, every number as great, one element in each array. Waits for what it asks for
    `wait_ms`; None: as long as can be said.
    """
    return build(name, version, text=LONGEST_TEXT, number=None, wait_ms=wait_ms)


def shortest(name: str, version: int) -> Message:
    """Nothing in any string, null where that is allowed, no elements."""
    return build(name, version, text="", number=0, elements=0, null=True)


def wide(name: str, version: int, path: Path, count: int) -> Message:
    """`count` elements in the array at `path`, one in each other."""
    return build(name, version, text=NAME, number=0, wide=path, count=count)


def arrays(name: str, version: int) -> Iterator[Path]:
    """The arrays of a message: for each the names of the fields that lead to it."""

    def within(group: Struct, above: Path) -> Iterator[Path]:
        for field in group.fields:
            if version in field.versions:
                path = (*above, field.attribute)
                if field.is_array:
                    yield path
                if field.struct is not None:
                    yield from within(field.struct, path)

    return within(schema.message(name).root, ())


def build(name: str, version: int, **wishes: Any) -> Message:
    definition = schema.message(name)
    module = importlib.import_module(definition.heading.module)
    message = Builder(module, version, **wishes).struct(definition.root, ())
    assert isinstance(message, Message)
    return message


class Builder:
    """Makes one message. `number` None: the greatest that a field holds."""

    def __init__(
        self,
        module: ModuleType,
        version: int,
        *,
        text: str,
        number: int | None,
        elements: int = 1,
        null: bool = False,
        wide: Path = (),
        count: int = 0,
        topic_id: UUID = ZERO_UUID,
        wait_ms: int | None = WAIT_MS,
    ) -> None:
        self.module = module
        self.version = version
        self.text = text
        self.number = number
        self.elements = elements
        self.null = null
        self.wide = wide
        self.count = count
        self.topic_id = topic_id
        self.wait_ms = wait_ms

    def struct(self, group: Struct, above: Path) -> Any:
        made = getattr(self.module, group.name)()
        for field in group.fields:
            if self.version in field.versions:
                setattr(made, field.attribute, self.value(field, (*above, field.attribute)))
        return made

    def value(self, field: Field, path: Path) -> Any:
        if self.null and self.version in field.nullable:
            return None
        if not field.is_array:
            return self.element(field, path, 0)
        count = self.count if path == self.wide else self.elements
        if count > self.elements and field.struct is not None and path == self.wide[: len(path)]:
            one = self.element(field, path, 0)
            return [one] * count if not varied(field.struct) else [self.element(field, path, i) for i in range(count)]
        return [self.element(field, path, index) for index in range(count)]

    def element(self, field: Field, path: Path, index: int) -> Any:
        if field.struct is not None:
            made = self.struct(field.struct, path)
            if index and varied(field.struct):
                setattr(made, field.struct.fields[0].attribute, index)
            return made
        match field.type:
            case "string":
                return self.text
            case "bytes":
                return b""
            case "records":
                return memoryview(b"")
            case "uuid":
                return self.topic_id
            case "bool":
                return False
            case "float64":
                return 0.0
        return self.integer(field, index)

    def integer(self, field: Field, index: int) -> int:
        greatest = GREATEST.get(field.type, 2**63 - 1)
        if field.attribute.endswith(("timeout_ms", "wait_ms")) and self.wait_ms is not None:
            return self.wait_ms
        if index:
            return min(index, greatest)
        if self.number is None:
            return greatest
        return 1 if field.attribute == "acks" else self.number  # with acks=0 there is no answer


def varied(group: Struct) -> bool:
    """Whether elements are told apart by their first field, a partition's index."""
    first = next(iter(group.fields))
    return first.type == "int32" and not first.is_array
