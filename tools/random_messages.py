"""Random messages of any class and version, for tests, fuzzing and benchmarks.

Fields that the version lacks keep their defaults, so a message equals what decoding its bytes gives.
"""

from __future__ import annotations

import importlib
from random import Random
from types import ModuleType
from typing import Any
from uuid import UUID

from penstock.protocol import schema
from penstock.protocol.message import Message
from penstock.protocol.schema import Field, Struct

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = (
    "",
    "a",
    "topic",
    "clicks-2024",
    "Straße",
    "données-€",
    "日本語",
    "\U0001f600",
    "x" * 126,
    "y" * 127,
    "z" * 400,
)
LENGTHS = (0, 1, 1, 1, 2, 3)
LONG_LENGTHS = (0, 1, 2, 3, 5, 15, 16, 126, 127, 128, 300)


class RandomMessages:
    """Draws messages from a generator of random numbers.

    Parameters:
        random: where the randomness comes from.
        moderate: whether to stay within what other libraries accept: known error codes, times that a calendar has.
    """

    def __init__(self, random: Random, *, moderate: bool = False) -> None:
        self.random = random
        self.moderate = moderate

    def message(self, name: str, version: int) -> Message:
        """A message by Kafka's name."""
        definition = schema.message(name)
        module = importlib.import_module(definition.heading.module)
        message = self.struct(module, definition.root, version)
        assert isinstance(message, Message)
        return message

    def struct(self, module: ModuleType, group: Struct, version: int) -> Any:
        """A struct with random values in the fields of this version."""
        value = getattr(module, group.name)()
        for field in group.fields:
            if version in field.versions and self.random.random() > 0.1:
                setattr(value, field.attribute, self.value(module, field, version))
        return value

    def value(self, module: ModuleType, field: Field, version: int) -> Any:
        """A value of a field."""
        if version in field.nullable and self.random.random() < 0.2:
            return None
        if not field.is_array:
            return self.element(module, field, version)
        lengths = LENGTHS if field.struct is not None or self.random.random() < 0.7 else LONG_LENGTHS
        if field.struct is not None and self.random.random() < 0.03:
            lengths = (4, 8)
        return [self.element(module, field, version) for _ in range(self.random.choice(lengths))]

    def element(self, module: ModuleType, field: Field, version: int) -> Any:
        """A value of a field, or of one element of an array."""
        if field.struct is not None:
            return self.struct(module, field.struct, version)
        random = self.random
        match field.type:
            case "string":
                return random.choice(TEXTS)
            case "bytes" | "records":
                data = random.randbytes(random.choice(LONG_LENGTHS))
                return memoryview(data) if field.type == "records" else data
            case "uuid":
                return UUID(int=random.choice((0, 1, random.getrandbits(128))))
            case "bool":
                return random.random() < 0.5
            case "float64":
                return random.choice((0.0, -1.5, random.random()))
            case "uint16":
                return random.getrandbits(16)
            case "uint32":
                return random.getrandbits(32)
        return self.integer(field)

    def integer(self, field: Field) -> int:
        """A signed number: small, extreme or anything."""
        bits = INTEGER_BITS[field.type]
        if self.moderate and field.name.endswith("ErrorCode"):
            return self.random.randrange(-1, 120)
        if self.moderate and bits == 64:
            return self.random.choice((0, 1, self.random.getrandbits(40)))
        top = 1 << (bits - 1)
        anything = self.random.getrandbits(bits) - top
        return self.random.choice((-1, 0, 1, 2, -top, top - 1, anything, anything))
