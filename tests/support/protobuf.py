"""Schemas of Protobuf without a compiler, and values as Confluent's serializers send them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from google.protobuf import descriptor_pool, duration_pb2, message_factory, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

Field = FieldDescriptorProto
KNOWN = (timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2)


def field(number: int, name: str, kind: int, *, of: str = "", repeated: bool = False, optional: bool = False) -> Any:
    """A field of a message; `of` is the full name of its enum or message."""
    made = Field(name=name, number=number, type=kind, label=Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL)
    if of:
        made.type_name = f".{of}"
    if optional:
        made.proto3_optional = True
    return made


def message(name: str, *fields: Any, nested: tuple[Any, ...] = ()) -> Any:
    """A message of proto3; what is `optional` has a oneof of its own, as protoc makes it."""
    made = DescriptorProto(name=name, field=fields, nested_type=nested)
    for each in made.field:
        if each.proto3_optional:
            each.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{each.name}")
    return made


def file(*messages: Any, name: str = "orders.proto", imports: tuple[str, ...] = ()) -> Any:
    """A file of the package `shop` with an enum `Status`."""
    known = tuple(module.DESCRIPTOR.name for module in KNOWN)
    made = FileDescriptorProto(name=name, package="shop", syntax="proto3", message_type=messages)
    made.dependency.extend((*known, *imports))
    if not imports:
        status = made.enum_type.add(name="Status")
        status.value.add(name="NEW", number=0)
        status.value.add(name="PAID", number=1)
    return made


BY_ENTRY = message("ByEntry", field(1, "key", Field.TYPE_STRING), field(2, "value", Field.TYPE_INT32))
BY_ENTRY.options.map_entry = True
WHO = message("Who", field(1, "id", Field.TYPE_INT64))
ORDER = message(
    "Order",
    field(1, "page", Field.TYPE_STRING),
    field(2, "note", Field.TYPE_STRING, optional=True),
    field(3, "at", Field.TYPE_MESSAGE, of="google.protobuf.Timestamp"),
    field(4, "took", Field.TYPE_MESSAGE, of="google.protobuf.Duration"),
    field(5, "status", Field.TYPE_ENUM, of="shop.Status"),
    field(6, "tags", Field.TYPE_STRING, repeated=True),
    field(7, "by", Field.TYPE_MESSAGE, of="shop.Order.ByEntry", repeated=True),
    field(8, "who", Field.TYPE_MESSAGE, of="shop.Order.Who"),
    field(9, "big", Field.TYPE_UINT64),
    field(10, "child", Field.TYPE_MESSAGE, of="shop.Order"),
    field(11, "price", Field.TYPE_MESSAGE, of="google.protobuf.DoubleValue"),
    field(12, "more", Field.TYPE_MESSAGE, of="google.protobuf.Struct"),
    field(13, "data", Field.TYPE_BYTES),
    field(14, "small", Field.TYPE_UINT32),
    nested=(BY_ENTRY, WHO),
)
REFUND = message("Refund", field(1, "page", Field.TYPE_STRING))
ORDERS = file(ORDER, REFUND)


def of(schema: Any, name: str, *imported: Any) -> Any:
    """The class of a message."""
    pool = descriptor_pool.DescriptorPool()
    for module in KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for each in (*imported, schema):
        pool.AddSerializedFile(each.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def as_base64(schema: Any) -> str:
    """As registries give it for `?format=serialized`."""
    return b64encode(schema.SerializeToString()).decode()


def descriptor_set(*schemas: Any) -> bytes:
    """As `protoc --descriptor_set_out` writes it."""
    return bytes(FileDescriptorSet(file=schemas).SerializeToString())


def framed(schema_id: int, value: Any, path: bytes) -> bytes:
    """A value in Confluent's framing; `path` are its message indexes, encoded."""
    return b"\0" + schema_id.to_bytes(4, "big") + path + bytes(value.SerializeToString())
