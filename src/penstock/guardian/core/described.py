"""What a resource says of itself for people and tools: its operations, and the shapes of what they take and give.

Shapes are JSON Schema, as OpenAPI has it. They describe; what is accepted is decided by the code that reads a body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

Schema = Mapping[str, Any]
Fields = Mapping[str, Schema]
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Operation:
    """One method at the path of a resource, or at that of one of its things (`named`).

    `answer` is the shape of the answer, `body` that of what is sent (None: nothing is), with an `example` and a
    `body_example`; `query`: what the query may have, and what it means.
    """

    method: str
    summary: str
    answer: Schema
    named: bool = False
    body: Schema | None = None
    example: Any = None
    body_example: Any = None
    query: Mapping[str, str] = field(default_factory=lambda: NOTHING)


def text(said: str, **more: Any) -> Schema:
    """The shape of a text; `more` is further JSON Schema."""
    return {"type": "string", "description": said, **more}


def choice(said: str, of: Sequence[str]) -> Schema:
    """The shape of one of several texts."""
    return text(said, enum=list(of))


def whole(said: str, **more: Any) -> Schema:
    """The shape of a whole number."""
    return {"type": "integer", "format": "int64", "description": said, **more}


def flag(said: str) -> Schema:
    """The shape of true or false."""
    return {"type": "boolean", "description": said}


def listed(items: Schema, said: str = "") -> Schema:
    """The shape of a list."""
    return {"type": "array", "items": items, **({"description": said} if said else {})}


def by_name(values: Schema, said: str) -> Schema:
    """The shape of an object whose names are anybody's."""
    return {"type": "object", "additionalProperties": values, "description": said}


def shape(title: str, needed: Fields, optional: Fields = NOTHING) -> Schema:
    """The shape of an object with these fields; its title is its name among all shapes."""
    return {
        "type": "object",
        "title": title,
        "properties": {**needed, **optional},
        "required": list(needed),
    }


def or_null(schema: Schema) -> Schema:
    """A shape that may also be null."""
    return {**schema, "type": [schema["type"], "null"]}


REMOVED = shape("Removed", {"removed": text("The name of what was removed.")})
"""The answer to a DELETE."""
