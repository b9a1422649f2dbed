"""Messages of Protobuf as columns: the descriptors of a schema, and what a field's value becomes.

Descriptors come as serialized FileDescriptorProtos, each after those that it imports; the files `google/protobuf/*`
that come with the library need not be among them.

    protobuf                              column
    bool, string, bytes, float, double    as they are
    int32 and kin; int64 and kin          int; bigint
    uint32, fixed32; uint64, fixed64      bigint; decimal(20, 0): Spark has no unsigned types
    an enum                               its name as text, the number where a value has none
    repeated, map, message                array, map, struct
    Timestamp; Duration; wrappers         timestamp; interval; the wrapped type
    Struct, Value, ListValue, FieldMask,  JSON text
    what contains itself, what has no field

Fields that have presence are null where they are not set; others have their default, as Protobuf says.
"""

from __future__ import annotations

import datetime
import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from penstock.errors import ConfigError
from penstock.spark.limits import PROTOBUF_COLUMNS_MAX, PROTOBUF_NESTED_MAX
from penstock.spark.load.formats.format import Rejected

Convert = Callable[[Any], Any]
Column = tuple[pa.DataType, Convert]
BUNDLED = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip
SIMPLE: dict[int, pa.DataType] = {
    Field.CPPTYPE_INT32: pa.int32(),
    Field.CPPTYPE_INT64: pa.int64(),
    Field.CPPTYPE_UINT32: pa.int64(),
    Field.CPPTYPE_UINT64: pa.decimal128(20, 0),
    Field.CPPTYPE_DOUBLE: pa.float64(),
    Field.CPPTYPE_FLOAT: pa.float32(),
    Field.CPPTYPE_BOOL: pa.bool_(),
    Field.CPPTYPE_ENUM: pa.string(),
}
AS_JSON = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "FieldMask"))
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Files:
    """The files of one schema. Raises ConfigError if they make none.

    Args:
        serialized: FileDescriptorProtos; the last one is the schema's own.
    """

    def __init__(self, serialized: Sequence[bytes]) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._added: set[str] = set()
        try:
            files = [FileDescriptorProto.FromString(each) for each in serialized]
            for each in files:
                self._add(each)
            self._own = self._pool.FindFileByName(files[-1].name)
            self._own_name = str(self._own.name)
        except (DecodeError, KeyError, TypeError, IndexError, UnicodeDecodeError) as error:
            said = str(error).strip("'\"") or type(error).__name__
            raise ConfigError(f"these are no descriptors of Protobuf that fit together: {said}") from None

    def _add(self, file: FileDescriptorProto) -> None:
        if file.name in self._added:
            return
        self._added.add(file.name)
        for name in file.dependency:
            short = name.removeprefix("google/protobuf/").removesuffix(".proto")
            if name not in self._added and name.startswith("google/protobuf/") and short in BUNDLED:
                module = importlib.import_module(f"google.protobuf.{short}_pb2")
                self._add(FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))
        self._pool.AddSerializedFile(file.SerializeToString())

    def message(self, name: str | None) -> Any:
        """The descriptor of a message by its full name; without one, of the first message. Raises ConfigError."""
        messages = list(self._own.message_types_by_name.values())
        if name is None:
            if not messages:
                raise ConfigError(f"{self._own_name} has no message")
            return messages[0]
        try:
            return self._pool.FindMessageTypeByName(name)
        except KeyError:
            known = ", ".join(each.full_name for each in messages) or "none"
            raise ConfigError(f"there is no message {name} (those of {self._own_name}: {known})") from None

    def at(self, path: Sequence[int]) -> Any:
        """The descriptor of the message that a path of indexes names. Raises Rejected."""
        found, inner = None, list(self._own.message_types_by_name.values())
        for index in path:
            if index >= len(inner):
                raise Rejected(f"the schema has no message with the indexes {list(path)}")
            found, inner = inner[index], list(inner[index].nested_types)
        return found


def files_of_set(content: bytes) -> list[bytes]:
    """The files of a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it.

    Raises ConfigError.
    """
    try:
        files = FileDescriptorSet.FromString(content).file
    except DecodeError as error:
        raise ConfigError(f"this is no descriptor set: {error}") from None
    if not files:
        raise ConfigError("the descriptor set has no files")
    return [each.SerializeToString() for each in files]


def columns_of_message(message: Any) -> pa.Schema:
    """The columns of a message. Raises ConfigError for one without fields, or with too many for columns."""
    if not message.fields:
        raise ConfigError(f"message {message.full_name} has no fields, so it has no columns")
    return pa.schema([(name, kind) for name, (kind, _) in _Fields(message).found(message.fields)])


class Reader:
    """Makes rows of messages of one type. Raises ConfigError as `columns_of_message`.

    Args:
        message: its descriptor.
        names: the fields that are wanted.
    """

    def __init__(self, message: Any, names: Sequence[str]) -> None:
        self._class = message_factory.GetMessageClass(message)
        fields = _Fields(message).found([message.fields_by_name[name] for name in names])
        self._fields = [(name, get) for name, (_, get) in fields]

    def row(self, content: bytes) -> dict[str, Any]:
        """The fields of one message. Raises Rejected."""
        try:
            found = self._class.FromString(content)
        except DecodeError as error:
            raise Rejected(f"no value of its Protobuf schema: {error}") from None
        if not self._class.IsInitialized(found):
            missing = self._class.FindInitializationErrors(found)
            raise Rejected(f"required fields are missing: {', '.join(missing)}")
        return {name: get(found) for name, get in self._fields}


class _Fields:
    """The fields of one message, and of those in it, as columns: the type of each, and what takes it from its message.

    Messages that are used in many places are columns in each of them; so there may be far more columns than fields, and
    they are counted.
    """

    def __init__(self, message: Any) -> None:
        self._name = message.full_name
        self._within: list[str] = [self._name]
        self._count = 0

    def found(self, fields: Iterable[Any]) -> list[tuple[str, Column]]:
        """The columns of some fields, by name. Raises ConfigError for too many."""
        return [(field.name, self._column(field)) for field in fields]

    def _column(self, field: Any) -> Column:
        """The null of a field that has presence and is not set is made here.

        Methods are the class's own: a field may have the name of one.
        """
        self._count += 1
        if self._count > PROTOBUF_COLUMNS_MAX:
            raise self._too_much(f"more than {PROTOBUF_COLUMNS_MAX} fields, with those of the messages in it")
        name, (kind, convert) = field.name, self._field(field)
        if field.has_presence and not _repeated(field):
            has = message_factory.GetMessageClass(field.containing_type).HasField
            return kind, lambda message: convert(getattr(message, name)) if has(message, name) else None
        return kind, lambda message: convert(getattr(message, name))

    def _field(self, field: Any) -> Column:
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            _check_fields(kind, ["key", "value"], f"{kind.full_name} is no entry of a map")
            key, key_of = self._single(kind.fields_by_name["key"])
            value, value_of = self._single(kind.fields_by_name["value"])
            return pa.map_(key, value), lambda given: [(key_of(k), value_of(given[k])) for k in given]
        single, convert = self._single(field)
        if _repeated(field):
            return pa.list_(single), lambda given: [convert(each) for each in given]
        return single, convert

    def _single(self, field: Any) -> Column:
        if field.cpp_type == Field.CPPTYPE_STRING:
            return (pa.binary() if field.type == Field.TYPE_BYTES else pa.string()), _same
        if field.cpp_type == Field.CPPTYPE_ENUM:
            names: dict[int, str] = {}
            for value in field.enum_type.values:  # of several names of a number the first one counts
                names.setdefault(value.number, value.name)
            return pa.string(), lambda given: names.get(given, str(given))
        if field.cpp_type != Field.CPPTYPE_MESSAGE:
            return SIMPLE[field.cpp_type], _same
        return self._message(field.message_type)

    def _message(self, message: Any) -> Column:
        name = message.full_name
        if name in TIMES:
            _check_known(message, TIMES[name][0])
            return TIMES[name][1:]
        if name in WRAPPERS:
            _check_known(message, ["value"])
            kind, convert = self._single(message.fields_by_name["value"])
            return kind, lambda given: convert(given.value)
        if name in AS_JSON or name in self._within or not message.fields:
            return pa.string(), _text
        if len(self._within) == PROTOBUF_NESTED_MAX:
            raise self._too_much(f"messages more than {PROTOBUF_NESTED_MAX} deep")
        self._within.append(name)
        fields = self.found(message.fields)
        self._within.pop()
        getters = [(each, get) for each, (_, get) in fields]
        kind = pa.struct([(each, kind) for each, (kind, _) in fields])
        return kind, lambda given: {each: get(given) for each, get in getters}

    def _too_much(self, what: str) -> ConfigError:
        return ConfigError(f"message {self._name} has {what}: these are too many for columns")


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == Field.LABEL_REPEATED


def _check_known(message: Any, fields: Sequence[str]) -> None:
    """Raises ConfigError for a message that has the name of one of Protobuf's own, but other fields."""
    said = f"{message.full_name} is not the message that Protobuf has of this name"
    _check_fields(message, fields, said)
    if any(field.message_type is not None for field in message.fields):
        raise ConfigError(said)


def _check_fields(message: Any, names: Sequence[str], said: str) -> None:
    """Raises ConfigError with these words unless the message has these fields, and each once."""
    if [field.name for field in message.fields] != names or any(_repeated(field) for field in message.fields):
        raise ConfigError(said)


def _same(value: Any) -> Any:
    return value


def _timestamp(value: Any) -> datetime.datetime:
    try:
        return EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        raise Rejected(f"a timestamp is out of range: {value.seconds} s") from None


def _duration(value: Any) -> datetime.timedelta:
    try:
        return datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError:
        raise Rejected(f"a duration is out of range: {value.seconds} s") from None


def _text(value: Any) -> str:
    try:
        plain = json_format.MessageToDict(value, preserving_proto_field_name=True)
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise Rejected(f"cannot be written as JSON text: {error}") from None


TIMES: dict[str, tuple[list[str], pa.DataType, Convert]] = {
    "google.protobuf.Timestamp": (["seconds", "nanos"], pa.timestamp("us", tz="UTC"), _timestamp),
    "google.protobuf.Duration": (["seconds", "nanos"], pa.duration("us"), _duration),
}
"""Their fields, the type of the column, the conversion."""
