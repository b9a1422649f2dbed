"""The message definitions: what fields each message has, in which versions, with which defaults.

`schema.txt` beside this module holds the facts of Apache Kafka's own message definitions, one block a message:

    FetchRequest request - 4-18 12+ key=1 listeners=broker,controller
     ReplicaState ReplicaState 15+ tag=1:15+
      ReplicaId int32 15+ default=-1 entity=brokerId
     Topics []FetchTopic 0+
      Topic string 0-12 ignorable entity=topicName

The first line says name, kind, package below `penstock.protocol.messages` ("-" for itself), valid versions and
flexible versions. Each further line is a field: name, type, versions, attributes; the fields of a struct follow it, one
space deeper. A line `*Name versions` begins a struct that several fields of the message share.

That file is written by `tools/kafka_schema.py`. `own_schema.txt` beside it, in the same notation and written by hand,
holds the messages of our own APIs, in the package `own`. Both are read once; a message is parsed when it is first asked
for, so that a process pays for the messages it uses.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

FILES = ("schema.txt", "own_schema.txt")
"""Kafka's messages, and our own."""
OWN_PACKAGE = "own"
"""Where the messages of our own APIs are."""
FOREVER = 0x7FFF
"""Highest version number there can be; the upper end of an open range such as "3+"."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions. Empty when `lowest` is greater than `highest`."""

    lowest: int
    highest: int

    @staticmethod
    def parse(text: str) -> Versions:
        """Reads Kafka's notation: "3", "3-5", "3+" or "none"."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return Versions(int(text[:-1]), FOREVER)
        lowest, _, highest = text.partition("-")
        return Versions(int(lowest), int(highest or lowest))

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __bool__(self) -> bool:
        return self.lowest <= self.highest

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lowest, self.highest + 1))


NO_VERSIONS = Versions(0, -1)
ALL_VERSIONS = Versions(0, FOREVER)

FIXED_TYPES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Types of fixed width and their `struct` format characters."""

FIXED_SIZES_BYTES = {"?": 1, "B": 1, "b": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}


@dataclass(slots=True)
class Struct:
    """A group of fields: a message's own, or an element's."""

    name: str
    versions: Versions
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Field:
    """One field of a struct.

    Attributes:
        name: Kafka's name, as in its definitions (`TopicId`).
        attribute: the name in Python (`topic_id`).
        type: type of the value, or of one element when `is_array`.
        struct: the fields of `type` when that is a struct.
        versions, nullable, tagged, flexible: the versions in which it is there, may be null, is a tagged field, and is
            flexible (never, for the one field that stays in the old form in a flexible header).
        default: Kafka's notation; "" means the type's own zero value.
    """

    name: str
    attribute: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions = NO_VERSIONS
    tagged: Versions = NO_VERSIONS
    flexible: Versions = ALL_VERSIONS
    tag: int = -1
    default: str = ""
    ignorable: bool = False
    map_key: bool = False
    entity: str = ""
    struct: Struct | None = None

    @property
    def null_by_default(self) -> bool:
        """Whether the field is null where nothing is given."""
        return self.default == "null"


@dataclass(frozen=True, slots=True)
class Heading:
    """The first line of a message's block.

    Attributes:
        kind: request, response, header, data, metadata, coordinator-key or coordinator-value.
        package: subpackage of `penstock.protocol.messages`, "" for itself.
        api_key: Kafka's number, -1 where there is none.
        listeners: names of the listener kinds that serve a request.
        unstable: whether the latest version is still a draft in Kafka.
    """

    name: str
    kind: str
    package: str
    versions: Versions
    flexible: Versions
    api_key: int
    listeners: tuple[str, ...]
    unstable: bool

    @property
    def module(self) -> str:
        """Full name of the module that holds the class."""
        inside = f"{self.package}." if self.package else ""
        return f"penstock.protocol.messages.{inside}{snake_case(self.name)}"


@dataclass(slots=True)
class MessageSchema:
    """A whole message: its heading, its fields, and the structs that several of its fields share."""

    heading: Heading
    root: Struct
    shared: dict[str, Struct]


def snake_case(name: str) -> str:
    """Kafka's CamelCase name as a Python name: `TopicId` -> `topic_id`, `KRaftVersion` -> `kraft_version`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


@cache
def blocks() -> dict[str, str]:
    """The text of every message's block, by name."""
    found = {}
    for name in FILES:
        data = pkgutil.get_data("penstock.protocol", name)
        assert data is not None, f"{name} is package data"
        found.update({part[: part.index(" ")]: part for part in data.decode().strip().split("\n\n")})
    return found


@cache
def headings() -> dict[str, Heading]:
    """Every message's heading, by name, in the order of the files."""
    return {name: parse_heading(block.partition("\n")[0]) for name, block in blocks().items()}


@cache
def message(name: str) -> MessageSchema:
    """The definition of one message. Raises KeyError for a name that there is not."""
    return parse_message(blocks()[name])


def parse_heading(line: str) -> Heading:
    """Reads the first line of a block."""
    name, kind, package, versions, flexible, *rest = line.split(" ")
    attributes = dict(part.partition("=")[::2] for part in rest)
    return Heading(
        name=name,
        kind=kind,
        package="" if package == "-" else package,
        versions=Versions.parse(versions),
        flexible=Versions.parse(flexible),
        api_key=int(attributes.get("key", "-1")),
        listeners=tuple(filter(None, attributes.get("listeners", "").split(","))),
        unstable="unstable" in attributes,
    )


def parse_message(block: str) -> MessageSchema:
    """Reads one block of the schema file."""
    first, *lines = block.split("\n")
    heading = parse_heading(first)
    root = Struct(heading.name, heading.versions)
    shared: dict[str, Struct] = {}
    path = [root]
    for line in lines:
        text = line.lstrip(" ")
        depth = len(line) - len(text)
        del path[depth:]
        if text.startswith("*"):
            name, versions = text[1:].split(" ")
            shared[name] = Struct(name, Versions.parse(versions))
            path = [shared[name]]
            continue
        parsed = parse_field(text)
        path[-1].fields.append(parsed)
        if parsed.type[0].isupper():
            parsed.struct = Struct(parsed.type, parsed.versions)
            path.append(parsed.struct)
    for struct in (root, *shared.values()):
        link_shared(struct, shared)
    return MessageSchema(heading, root, shared)


def link_shared(struct: Struct, shared: dict[str, Struct]) -> None:
    """Points fields whose type is a shared struct at that struct."""
    for each in struct.fields:
        if each.type in shared:
            each.struct = shared[each.type]
        elif each.struct is not None:
            link_shared(each.struct, shared)


def parse_field(text: str) -> Field:
    """Reads one field's line, without its indentation."""
    name, type_name, versions, *rest = text.split(" ")
    attributes = dict(part.partition("=")[::2] for part in rest)
    tag, _, tagged = attributes.get("tag", "-1:none").partition(":")
    return Field(
        name=name,
        attribute=snake_case(name),
        type=type_name.removeprefix("[]"),
        is_array=type_name.startswith("[]"),
        versions=Versions.parse(versions),
        nullable=Versions.parse(attributes.get("null", "none")),
        tagged=Versions.parse(tagged),
        flexible=Versions.parse(attributes.get("flexible", "0+")),
        tag=int(tag),
        default=attributes.get("default", ""),
        ignorable="ignorable" in attributes,
        map_key="key" in attributes,
        entity=attributes.get("entity", ""),
    )
