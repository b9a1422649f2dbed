"""What the driver of a load knows of a schema registry: writers' schemas by id, and each topic's latest one.

Asked only when something new turns up: at the start, and for ids that tasks report. Ids never change their meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.load.formats.avro import Bundle, columns_of

NOT_FOUND = 404
SUBJECT = "{topic}-value"


class RegistryError(PenstockError):
    """The schema registry cannot be reached or refuses to answer. Nothing was committed."""


class Registry:
    """One registry, by its URL; `http://user:password@host` gives credentials."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.readers: dict[str, Bundle | None] = {}
        self.schemas: dict[int, Bundle | str | None] = {}
        self.known: dict[str, list[int]] = {}

    def learn(self, seen: Mapping[str, Iterable[int]]) -> None:
        """Asks for the latest schema of each topic, and for the ids seen in it that are not known.

        Raises RegistryError.
        """
        client = self._client()
        for topic, ids in seen.items():
            self.readers[topic] = self._latest(client, SUBJECT.format(topic=topic))
            for schema_id in ids:
                if schema_id not in self.schemas:
                    self.schemas[schema_id] = self._by_id(client, schema_id)
            self.known[topic] = sorted({*self.known.get(topic, ()), *ids})

    def versions(self, topic: str) -> list[Bundle]:
        """The schemas that were a topic's latest one after the other, the newest first. Raises RegistryError."""
        client, subject = self._client(), SUBJECT.format(topic=topic)
        found = []
        for number in sorted(self._ask(lambda: client.get_versions(subject)) or (), reverse=True):
            version = self._ask(lambda n=number: client.get_version(subject, n))
            bundle = None if version is None else self._bundle(client, version.schema)
            if bundle is not None and not isinstance(bundle, str):
                found.append(bundle)
        return found

    def columns(self, topic: str, own: Iterable[str]) -> pa.Schema:
        """The columns that a topic's values need."""
        found = [self.schemas[each] for each in self.known.get(topic, ())]
        return columns_of(self.readers.get(topic), [b for b in found if b and not isinstance(b, str)], tuple(own))

    def plan(self) -> dict[str, Any]:
        """What tasks need, as JSON."""
        return {"readers": self.readers, "schemas": list(self.schemas.items()), "known": self.known}

    def _client(self) -> Any:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ModuleNotFoundError as error:
            raise PenstockError(f"Avro needs penstock[avro]: {error}") from None
        try:
            return SchemaRegistryClient({"url": self._url})
        except (ValueError, TypeError) as error:
            raise RegistryError(f"the schema registry {self._url} cannot be used: {error}") from None

    def _latest(self, client: Any, subject: str) -> Bundle | None:
        found = self._ask(lambda: client.get_latest_version(subject))
        if found is None:
            return None
        bundle = self._bundle(client, found.schema)
        if isinstance(bundle, str):
            raise RegistryError(f"the subject {subject} at {self._url}: {bundle}")
        return bundle

    def _by_id(self, client: Any, schema_id: int) -> Bundle | str | None:
        schema = self._ask(lambda: client.get_schema(schema_id))
        return None if schema is None else self._bundle(client, schema)

    def _bundle(self, client: Any, schema: Any) -> Bundle | str:
        """A schema after those that it refers to; why not, if it is no Avro schema."""
        if schema.schema_type not in (None, "AVRO"):
            return f"the schema is {schema.schema_type}, not Avro"
        bundle: list[Any] = []
        for reference in schema.references or ():
            found = self._ask(lambda r=reference: client.get_version(r.subject, r.version))
            if found is None:
                return f"the schema refers to {reference.subject} version {reference.version}, which does not exist"
            inner = self._bundle(client, found.schema)
            if isinstance(inner, str):
                return inner
            bundle += [each for each in inner if each not in bundle]
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
            if error.http_status_code == NOT_FOUND:
                return None
            raise RegistryError(f"the schema registry {self._url} refused: {error}") from error
        except Exception as error:  # its HTTP library's errors are not its interface
            raise RegistryError(f"the schema registry {self._url} does not answer: {error}") from error
