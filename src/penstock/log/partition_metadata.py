"""`partition.metadata`, which ties a log's directory to the id of its topic (KIP-516).

version: 0
topic_id: <the UUID in URL-safe base64 without padding>
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID

from penstock.errors import StorageError

VERSION = 0
ID_CHARACTERS = 22


def encode(topic_id: UUID) -> bytes:
    """The content of the file. A zero id is not a topic's."""
    assert topic_id.int, "the zero id stands for no id"
    return f"version: {VERSION}\ntopic_id: {urlsafe_b64encode(topic_id.bytes).decode().rstrip('=')}".encode()


def decode(data: bytes, path: str) -> UUID:
    """The topic id in the file. Raises StorageError that says what is wrong with it."""
    values = {}
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        values[key.strip()] = value.strip()
    if values.get("version") != str(VERSION):
        raise StorageError(f"{path}: version {values.get('version')} is unknown, it should be {VERSION}")
    text = values.get("topic_id", "")
    try:
        topic_id = UUID(bytes=urlsafe_b64decode(text + "=="))
    except ValueError as error:
        raise StorageError(f"{path}: topic_id {text!r} is not a UUID in base64") from error
    if len(text) != ID_CHARACTERS or not topic_id.int:
        raise StorageError(f"{path}: topic_id {text!r} is not a topic's id")
    return topic_id
