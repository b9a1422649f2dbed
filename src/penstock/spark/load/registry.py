"""What a load or a read knows of a schema registry: writers' schemas by id, and each topic's latest one.

Asked only when something new turns up: at the start, and for ids that tasks report (a load) or meet (a read). Ids
never change their meaning.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.limits import REGISTRY_TIMEOUT_S
from penstock.spark.load.formats.avro import Bundle, columns_of

NOT_FOUND = range(40400, 40500)
"""Codes of a registry for what it does not know. A bare 404 is that of a proxy, or of another server."""
CREDENTIALS = re.compile(r"(?<=//)[^,]*@|\?[^,]*")
SUBJECT = "{topic}-value"
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
KINDS = {AVRO: "Avro", JSON: "JSON Schema", PROTOBUF: "Protobuf"}
FORMATS = {PROTOBUF: "serialized"}
"""How schemas are asked for: of Protobuf as descriptors, since nothing here compiles their text."""


NO_DESCRIPTORS = (
    "the registry gives the schema as text and not as descriptors (`?format=serialized`), and nothing here compiles it;"
    " penstock.value.descriptors takes what protoc makes of it"
)


def named_descriptor(text: str, name: str | None) -> str | None:
    """The base64 text of a FileDescriptorProto, with the name by which it is imported; None if it is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        file = FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (DecodeError, ValueError):
        return None
    file.name = name or file.name or "schema.proto"
    return b64encode(file.SerializeToString()).decode()


class RegistryError(PenstockError):
    """The schema registry cannot be reached or refuses to answer. Nothing was committed."""


class Registry:
    """One registry, by its URL; `http://user:password@host` gives credentials. `kind` is what schemas must be."""

    def __init__(self, url: str, kind: str = AVRO) -> None:
        self._url = url
        self._kind = kind
        self.readers: dict[str, Bundle | None] = {}
        self.schemas: dict[int, Bundle | str | None] = {}
        self.known: dict[str, list[int]] = {}

    def learn(self, seen: Mapping[str, Iterable[int]]) -> None:
        """Asks for the latest schema of each topic, and for the ids seen in it that are not known.

        Raises RegistryError.
        """
        with self._client() as client:
            for topic, ids in seen.items():
                self.readers[topic] = self._latest(client, SUBJECT.format(topic=topic))
                for schema_id in ids:
                    if schema_id not in self.schemas:
                        self.schemas[schema_id] = self._by_id(client, schema_id)
                self.known[topic] = sorted({*self.known.get(topic, ()), *ids})

    def versions(self, topic: str) -> list[Bundle]:
        """The schemas that were a topic's latest one after the other, the newest first. Raises RegistryError."""
        subject, found = SUBJECT.format(topic=topic), []
        with self._client() as client:
            for number in sorted(self._ask(lambda: client.get_versions(subject)) or (), reverse=True):
                version = self._ask(lambda n=number: client.get_version(subject, n))
                bundle = None if version is None else self._bundle(client, version.schema)
                if bundle is not None and not isinstance(bundle, str):
                    found.append(bundle)
        return found

    def version(self, subject: str, number: int | None) -> tuple[int, Bundle]:
        """A subject's version (None: the latest) and its schema. Raises RegistryError if there is none, or another
        kind of it."""
        which = "latest" if number is None else number
        with self._client() as client:
            found = self._ask(lambda: client.get_version(subject, which, fmt=FORMATS.get(self._kind)))
            bundle = None if found is None else self._bundle(client, found.schema)
        if bundle is None:
            lacking = "no version" if number is None else f"no version {number}"
            raise RegistryError(f"the schema registry {self._address} has {lacking} of the subject {subject}")
        if isinstance(bundle, str):
            raise RegistryError(f"the subject {subject} at {self._address}: {bundle}")
        return int(found.version), bundle

    def schema(self, schema_id: int) -> Bundle | str | None:
        """The schema of an id; None for one that does not exist, text for why it is of no use. Raises RegistryError."""
        with self._client() as client:
            return self._by_id(client, schema_id)

    def columns(self, topic: str, own: Iterable[str]) -> pa.Schema:
        """The columns that a topic's values need."""
        found = [self.schemas[each] for each in self.known.get(topic, ())]
        return columns_of(self.readers.get(topic), [b for b in found if b and not isinstance(b, str)], tuple(own))

    def plan(self) -> dict[str, Any]:
        """What tasks need, as JSON."""
        return {"readers": self.readers, "schemas": list(self.schemas.items()), "known": self.known}

    def _client(self) -> Any:
        """A client to be closed after use: it keeps its connections open."""
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ModuleNotFoundError as error:
            raise PenstockError(f"a schema registry needs penstock[avro]: {error}") from None
        try:
            return SchemaRegistryClient({"url": self._url, "timeout": REGISTRY_TIMEOUT_S})
        except (ValueError, TypeError) as error:
            raise RegistryError(f"the schema registry {self._address} cannot be used: {self._said(error)}") from None

    @property
    def _address(self) -> str:
        """The URL, or several with commas between, as a message may have it: without credentials."""
        return CREDENTIALS.sub("", self._url)

    def _said(self, error: Exception) -> str:
        said = str(error)
        for url in self._url.split(","):
            said = said.replace(url.strip(), CREDENTIALS.sub("", url.strip()))
        return said

    def _latest(self, client: Any, subject: str) -> Bundle | None:
        found = self._ask(lambda: client.get_latest_version(subject))
        if found is None:
            return None
        bundle = self._bundle(client, found.schema)
        if isinstance(bundle, str):
            raise RegistryError(f"the subject {subject} at {self._address}: {bundle}")
        return bundle

    def _by_id(self, client: Any, schema_id: int) -> Bundle | str | None:
        schema = self._ask(lambda: client.get_schema(schema_id, fmt=FORMATS.get(self._kind)))
        return None if schema is None else self._bundle(client, schema)

    def _bundle(self, client: Any, schema: Any, name: str | None = None) -> Bundle | str:
        """A schema after those that it refers to; why not, if it is of another kind. `name` is what others call it."""
        if (schema.schema_type or AVRO) != self._kind:
            return f"the schema is {schema.schema_type or AVRO}, not {KINDS[self._kind]}"
        if schema.references and self._kind == JSON:
            return "the schema refers to other schemas, which is not supported for JSON Schema"
        bundle: list[Any] = []
        for reference in schema.references or ():
            found = self._ask(lambda r=reference: client.get_version(r.subject, r.version, fmt=FORMATS.get(self._kind)))
            if found is None:
                return f"the schema refers to {reference.subject} version {reference.version}, which does not exist"
            inner = self._bundle(client, found.schema, reference.name)
            if isinstance(inner, str):
                return inner
            bundle += [each for each in inner if each not in bundle]
        if self._kind == PROTOBUF:
            own = named_descriptor(schema.schema_str, name)
            return NO_DESCRIPTORS if own is None else [*bundle, own]
        try:
            return [*bundle, json.loads(schema.schema_str)]
        except ValueError:
            return [*bundle, schema.schema_str.strip('"')]

    def _ask(self, question: Any) -> Any:
        """The registry's answer; None for what it does not know."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return question()
        except SchemaRegistryError as error:
            if error.error_code in NOT_FOUND:
                return None
            raise RegistryError(f"the schema registry {self._address} refused: {self._said(error)}") from error
        except Exception as error:  # its HTTP library's errors are not its interface
            raise RegistryError(f"the schema registry {self._address} does not answer: {self._said(error)}") from error
