"""The same message in other Kafka libraries, kio and kafka-python: what our bytes are compared with."""

from __future__ import annotations

import datetime
import importlib
import io
import pkgutil
import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, get_args
from uuid import UUID

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from penstock.protocol import schema
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.schema import Heading, Struct

EPOCH = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)


def present(group: Struct, version: int) -> list[schema.Field]:
    """The fields of a struct that a version has, in the order of the definition."""
    return [field for field in group.fields if version in field.versions]


# kio


def kio_name(heading: Heading) -> str:
    """How kio's index names a message."""
    name = heading.name
    if heading.kind in ("request", "response"):
        name = name.removesuffix("Request").removesuffix("Response")
    return "k_raft_version_record" if name == "KRaftVersionRecord" else schema.snake_case(name)


@cache
def kio_class(name: str, version: int) -> Any:
    """kio's class of a message version, or None where kio has none."""
    heading = schema.headings()[name]
    index = schema_name_map.get(kio_name(heading), {})
    if heading.package or version not in index:
        return None
    return load_entity_schema(kio_name(heading), version, EntityType[heading.kind])


@cache
def kio_writer(cls: Any) -> Any:
    return entity_writer(cls)


@cache
def kio_reader(cls: Any) -> Any:
    return entity_reader(cls)


def to_kio(value: Any, group: Struct, cls: Any, version: int) -> Any:
    """Our struct as kio's."""
    ours = present(group, version)
    theirs = fields(cls)
    assert len(ours) == len(theirs), f"{group.name} version {version}: {len(ours)} fields, kio has {len(theirs)}"
    values = {}
    for field, other in zip(ours, theirs, strict=True):
        values[other.name] = kio_value(getattr(value, field.attribute), field, other, version)
    return cls(**values)


def kio_value(value: Any, field: schema.Field, other: Any, version: int) -> Any:
    """The value of one field as kio wants it."""
    if value is None:
        return None
    if field.is_array:
        return tuple(kio_element(item, field, other, version) for item in value)
    return kio_element(value, field, other, version)


def kio_element(value: Any, field: schema.Field, other: Any, version: int) -> Any:
    """One value or element as kio wants it."""
    if field.struct is not None:
        return to_kio(value, field.struct, nested_class(other.type), version)
    convert: dict[str, Callable[[Any], Any]] = {
        "error_code": ErrorCode,
        "timedelta_i32": lambda ms: datetime.timedelta(milliseconds=ms),
        "timedelta_i64": lambda ms: datetime.timedelta(milliseconds=ms),
        "datetime_i64": lambda ms: None if ms == -1 else EPOCH + datetime.timedelta(milliseconds=ms),
        "uuid": lambda uuid: None if uuid == UUID(int=0) else uuid,
        "records": bytes,
    }
    return convert.get(other.metadata["kafka_type"], lambda same: same)(value)


def nested_class(annotation: Any) -> Any:
    """The dataclass inside `X`, `X | None`, `tuple[X, ...]` and their combinations."""
    while not hasattr(annotation, "__dataclass_fields__"):
        annotation = next(arg for arg in get_args(annotation) if arg not in (type(None), Ellipsis))
    return annotation


def kio_bytes(message: Message, version: int) -> bytes | None:
    """What kio writes for the message; None where it has no such version."""
    cls = kio_class(message.NAME, version)
    if cls is None:
        return None
    buffer = io.BytesIO()
    kio_writer(cls)(buffer, to_kio(message, schema.message(message.NAME).root, cls, version))
    return buffer.getvalue()


# kafka-python


@cache
def kafka_python_classes() -> dict[str, Any]:
    """kafka-python's message classes by Kafka's names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, which kafka-python uses
        protocol = importlib.import_module("kafka.protocol")
        for module in pkgutil.walk_packages(protocol.__path__, "kafka.protocol."):
            if ".old" not in module.name and "generate_stubs" not in module.name:
                importlib.import_module(module.name)
    found: dict[str, Any] = {}
    waiting = list(importlib.import_module("kafka.protocol.api_message").ApiMessage.__subclasses__())
    while waiting:
        cls = waiting.pop()
        if cls.__dict__.get("_json"):
            found[cls._json["name"]] = cls
        waiting += cls.__subclasses__()
    return found


def kafka_python_class(name: str, version: int) -> Any:
    """kafka-python's class of a message, or None where it lacks the message or the version."""
    cls = kafka_python_classes().get(name)
    return cls if cls is not None and cls.min_version <= version <= cls.max_version else None


def to_kafka_python(value: Any, group: Struct, cls: Any, version: int) -> Any:
    """Our struct as kafka-python's."""
    theirs = [field for field in cls._struct.fields.values() if field.for_version_q(version)]
    values = {}
    for field, other in zip(present(group, version), theirs, strict=True):
        inner = getattr(value, field.attribute)
        if version in field.tagged and not field.is_array and inner in (ZERO_UUID, field.struct and type(inner)()):
            continue  # kafka-python knows no default for ids and structs: it leaves out only what is not set
        values[other.name] = kafka_python_value(inner, field, other, version)
    return cls(version=version, **values)


def kafka_python_value(value: Any, field: schema.Field, other: Any, version: int) -> Any:
    """The value of one field as kafka-python wants it."""
    if value is None:
        return None
    if field.struct is not None:
        if field.is_array:
            return [to_kafka_python(item, field.struct, other.data_class, version) for item in value]
        return to_kafka_python(value, field.struct, other.data_class, version)
    if other.type_str == "bitfield":
        return {bit for bit in range(32) if value >> bit & 1}
    return bytes(value) if isinstance(value, memoryview) else value


def kafka_python_bytes(message: Message, version: int) -> bytes | None:
    """What kafka-python writes for the message; None where it has no such version."""
    cls = kafka_python_class(message.NAME, version)
    if cls is None:
        return None
    theirs = to_kafka_python(message, schema.message(message.NAME).root, cls, version)
    return bytes(theirs.encode(version=version))
