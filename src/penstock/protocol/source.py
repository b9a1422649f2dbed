"""Writing Python source: indentation, fresh names, and runs of fixed-width values that become one struct call."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.protocol.limits import ELEMENTS_PER_STEP
from penstock.protocol.schema import FIXED_SIZES_BYTES, FIXED_TYPES, Field, MessageSchema, Struct
from penstock.protocol.wire import COMMON


class SourceWriter:
    """One function that is being written, for one version of a message.

    Attributes:
        lines: the source so far.
        namespace: the globals that the function needs: classes, struct formats, defaults.
        run: fixed-width values that are next to each other, as (format character, expression), not written yet.
        stepped: the function is a generator, which yields after every ELEMENTS_PER_STEP elements of arrays.
    """

    def __init__(self, schema: MessageSchema, version: int, classes: dict[str, Any], *, stepped: bool = False) -> None:
        self.schema = schema
        self.version = version
        self.flexible = version in schema.heading.flexible
        self.classes = classes
        self.namespace: dict[str, Any] = {**COMMON, **classes}
        self.lines: list[str] = []
        self.run: list[tuple[str, str]] = []
        self.depth = 1
        self.names = 0
        self.stepped = stepped

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def begin_steps(self) -> None:
        """Writes the line that makes the function a generator even without arrays."""
        if self.stepped:
            self.add("element = 0")
            with self.block("if element:"):
                self.add("yield")

    def pace(self) -> None:
        """Writes the end of a step, at the beginning of a loop's body."""
        if self.stepped:
            self.add("element += 1")
            with self.block(f"if not element % {ELEMENTS_PER_STEP}:"):
                self.end_of_step()

    def end_of_step(self) -> None:
        """Writes what happens after a step."""
        self.add("yield")

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """Writes a line that opens a block; what is written inside is indented."""
        self.add(line)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, prefix: str) -> str:
        """A variable name that is not used yet."""
        self.names += 1
        return f"{prefix}{self.names}"

    def packer(self, formats: str, method: str) -> str:
        """The global name of a method of a struct format: `pack`, `unpack_from` or `iter_unpack`."""
        name = f"{method}_{formats.replace('?', 'o')}"
        self.namespace[name] = getattr(struct.Struct(">" + formats), method)
        return name

    def is_flexible(self, field: Field) -> bool:
        return self.flexible and self.version in field.flexible

    def untagged(self, group: Struct) -> list[Field]:
        """Fields that this version carries in order."""
        return [f for f in group.fields if self.version in f.versions and self.version not in f.tagged]

    def tagged(self, group: Struct) -> list[Field]:
        """Fields that this version carries as tagged fields, by tag."""
        found = [f for f in group.fields if self.version in f.versions and self.version in f.tagged]
        return sorted(found, key=lambda field: field.tag)

    def has_type(self, group: Struct, type_name: str) -> bool:
        """Whether this version of the struct has a field of the type, at any depth."""
        present = self.untagged(group) + self.tagged(group)
        return any(f.type == type_name or (f.struct and self.has_type(f.struct, type_name)) for f in present)

    def fixed_formats(self, group: Struct) -> list[str] | None:
        """The format characters of a struct that is as wide as its fixed-width fields, without tags; else None."""
        fields = self.untagged(group)
        if any(f.is_array or f.type not in FIXED_TYPES for f in fields):
            return None
        return [FIXED_TYPES[f.type] for f in fields]

    def minimum_size(self, group: Struct) -> int:
        """The fewest bytes that an element takes: what bounds the number of elements in a frame."""
        size_bytes = 1 if self.flexible else 0
        for each in self.untagged(group):
            if each.is_array or each.type not in FIXED_TYPES:
                wide = 2 if each.type == "string" and not each.is_array else 4
                if each.struct is not None and not each.is_array:
                    nullable = self.version in each.nullable
                    size_bytes += 1 if nullable else self.minimum_size(each.struct)
                else:
                    size_bytes += 1 if self.is_flexible(each) else wide
            else:
                size_bytes += FIXED_SIZES_BYTES[FIXED_TYPES[each.type]]
        return size_bytes


def qualified(group: Struct, field: Field) -> str:
    """How errors name a field: `FetchPartition.partition_max_bytes`."""
    return f"{group.name}.{field.attribute}"
