"""Protobuf values, bare or in Confluent's framing: a zero byte, a schema's id in four bytes, the path of the message in
that schema, and the message itself.

The path is a list of indexes as zigzag varints, its length first: the first counts the messages of the file, each other
one those nested in the message before. The list [0] is a single zero byte.

Protobuf resolves by field numbers: values of any version of the message are read with the one schema that the column
has. Fields that it lacks are passed over, fields that the writer lacks are null, or their default without presence. So
a writer's schema is only asked which message a value is; another one than the column's is rejected by its name.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.spark.limits import PROTOBUF_INDEXES_MAX, PROTOBUF_PATHS_KEPT
from penstock.spark.load.formats.avro import Bundle
from penstock.spark.load.formats.format import Parsed, Rejected, shortened, type_name
from penstock.spark.load.formats.framing import HEADER_BYTES, id_of
from penstock.spark.load.formats.protobuf_types import Files, Reader

VARINT_BYTES_MAX = 5
MISFIT = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError, OverflowError, TypeError)


def files_of(bundle: Bundle) -> Files:
    """The files of a schema that is kept as base64 text. Raises ConfigError."""
    return Files([b64decode(each) for each in bundle])


class ProtobufFormat:
    """Parses values of one message.

    Args:
        columns: the fields that are made.
        reader: the schema that they are of, and the full name of the message in it.
        schemas: the writers' schemas by id, None for one that the registry does not know, text for why it is of no use;
            None: values are bare.
    """

    def __init__(
        self, columns: pa.Schema, reader: tuple[Bundle, str], schemas: Mapping[int, Bundle | str | None] | None
    ) -> None:
        bundle, self._name = reader
        self._columns = columns
        self._reader = Reader(files_of(bundle).message(self._name), columns.names)
        self._schemas = schemas
        self._files: dict[int, Files | str] = {}
        self._heads: dict[bytes, str | None] = {}

    def parse(self, topic: str, values: pa.Array) -> Parsed:
        """Values without nulls; see Format."""
        rejected: dict[int, str] = {}
        rows: list[tuple[int, dict[str, Any]]] = []
        for at, value in enumerate(values.to_pylist()):
            try:
                rows.append((at, self._reader.row(value if self._schemas is None else self._body(value))))
            except Rejected as error:
                rejected[at] = shortened(error)
        try:
            batch = self._batch(rows)
        except MISFIT:
            for at, row in rows:
                if (reason := self._misfit(row)) is not None:
                    rejected[at] = reason
            rows = [(at, row) for at, row in rows if at not in rejected]
            batch = self._batch(rows)
        kept = pa.array([at for at, _ in rows], pa.int64()) if rejected else None
        return Parsed(batch, kept, rejected)

    def _batch(self, rows: Sequence[tuple[int, dict[str, Any]]]) -> pa.RecordBatch:
        arrays = [pa.array([row[field.name] for _, row in rows], field.type) for field in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _misfit(self, row: Mapping[str, Any]) -> str | None:
        for field in self._columns:
            try:
                pa.array([row[field.name]], field.type)
            except MISFIT:
                kind = type_name(field.type)
                return shortened(f"{field.name}: {row[field.name]!r} does not fit the column, which is {kind}")
        return None

    def _body(self, value: bytes) -> bytes:
        """The message in a framed value. Raises Rejected; RegistryError when the registry does not answer."""
        schema_id = id_of(value)
        path, end = path_of(value)
        head = value[1:end]
        if head not in self._heads:
            if len(self._heads) == PROTOBUF_PATHS_KEPT:
                self._heads.clear()
            self._heads[head] = self._refusal(schema_id, path)
        if (reason := self._heads[head]) is not None:
            raise Rejected(reason)
        return value[end:]

    def _refusal(self, schema_id: int, path: Sequence[int]) -> str | None:
        """Why values of a writer's message cannot be read."""
        if schema_id not in self._files:
            assert self._schemas is not None
            if len(self._files) == PROTOBUF_PATHS_KEPT:
                self._files.clear()
            self._files[schema_id] = _opened(schema_id, self._schemas.get(schema_id))
        files = self._files[schema_id]
        if isinstance(files, str):
            return files
        try:
            name = files.at(path).full_name
        except Rejected as error:
            return str(error)
        return None if name == self._name else f"the value is a {name}, the column is of {self._name}"


def _opened(schema_id: int, bundle: Bundle | str | None) -> Files | str:
    if bundle is None or isinstance(bundle, str):
        return bundle or f"the registry knows no schema {schema_id}"
    try:
        return files_of(bundle)
    except ConfigError as error:
        return f"schema {schema_id}: {error}"


def path_of(value: bytes) -> tuple[Sequence[int], int]:
    """The indexes of the message in a framed value, and where the message begins. Raises Rejected."""
    count, at = _varint(value, HEADER_BYTES)
    if not count:
        return (0,), at
    if not 0 < count <= PROTOBUF_INDEXES_MAX:
        raise Rejected(f"the list of message indexes has {count}")
    path = []
    for _ in range(count):
        index, at = _varint(value, at)
        if index < 0:
            raise Rejected(f"a message index is {index}")
        path.append(index)
    return path, at


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 32 bits, and where it ends."""
    found = 0
    for number in range(VARINT_BYTES_MAX):
        if at + number >= len(value):
            break
        byte = value[at + number]
        found |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at + number + 1
    raise Rejected("no message indexes follow the schema id")
