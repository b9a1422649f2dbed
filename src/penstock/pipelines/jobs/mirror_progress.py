"""How far a mirror is: a record for each partition in a compacted topic of the target, in its records' transaction.

The topic is `__penstock_mirrors`: one partition, `cleanup.policy=compact`. A key has the mirror's id, the ids of the
topic at the source and at the target, and the partition; the value is a JSON object for people and for the next start.
A topic that was made again, on either side, has another id: it is mirrored from its start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from penstock.client.client import Client
from penstock.errors import PenstockError
from penstock.records.run import SeenEpoch
from penstock.spark.write.committed_values import committed_values
from penstock.spark.write.committing import check_markers_topic, make_markers_topic

PROGRESS, PROGRESS_PARTITION = "__penstock_mirrors", 0
VERSION = 1


class Place(NamedTuple):
    """A partition of a topic of the source that is mirrored into a topic of the target."""

    topic_id: UUID
    to_id: UUID
    partition: int


class Reached(NamedTuple):
    """How far a partition is: the next offset of the source, and the leader epoch of the last batch seen before it."""

    offset: int
    last_epoch: SeenEpoch | None = None


def key_of(mirror_id: str, place: Place) -> bytes:
    """The key of a place's record."""
    return f"{mirror_id} {place.topic_id} {place.to_id} {place.partition}".encode()


def value_of(reached: Reached, topic: str, to: str) -> bytes:
    """The value of its record; the names are for people."""
    return json.dumps({"version": VERSION, "topic": topic, "to": to, **reached._asdict()}).encode()


def decoded(key: bytes, value: bytes) -> tuple[Place, Reached]:
    """Raises PenstockError for a record that this version does not know."""
    try:
        _, topic_id, to_id, partition = key.decode().split(" ")
        told: Any = json.loads(value)
        if told["version"] == VERSION:
            last_epoch = told["last_epoch"]
            reached = Reached(int(told["offset"]), None if last_epoch is None else SeenEpoch(*last_epoch))
            return Place(UUID(topic_id), UUID(to_id), int(partition)), reached
    except (ValueError, KeyError, TypeError):
        pass
    raise PenstockError(
        f"topic {PROGRESS} of the target has a record that this version cannot read: {key[:200]!r} {value[:200]!r}."
        " A newer version may have written it"
    )


@dataclass(slots=True)
class Kept:
    """The last progress that a running mirror knows of, should the topic be deleted under it.

    Attributes:
        topic_id: of the topic that has it.
        values: its records, by key.
        is_sure: whether they are the last; not while the end of a round is not known.
    """

    topic_id: UUID | None = None
    values: dict[bytes, bytes] = field(default_factory=dict)
    is_sure: bool = False

    def lost(self, topic_id: UUID) -> bool:
        """Whether the topic is another one now."""
        return self.topic_id not in (None, topic_id)


async def prepare_progress(target: Client) -> None:
    """Makes the topic if need be. Raises SinkError unless it is compacted, RequestError."""
    await make_markers_topic(target, PROGRESS)
    await check_markers_topic(target, PROGRESS)


async def read_progress(target: Client, mirror_id: str) -> Mapping[bytes, bytes]:
    """All records of what a mirror has reached, for `reached_of`. Call it as the producer of the mirror's transactions:
    then no other adds to it.

    Raises PenstockError.
    """
    place = (PROGRESS, PROGRESS_PARTITION)
    values, hanging = await committed_values(target, place, lambda key: key.startswith(f"{mirror_id} ".encode()))
    if hanging is not None:
        raise PenstockError(
            f"a transaction of mirror {mirror_id} hangs in {PROGRESS}-{PROGRESS_PARTITION} of the target at offset"
            f" {hanging}; `penstock transactions hanging` shows it and how to end it"
        )
    return values


def reached_of(values: Mapping[bytes, bytes]) -> Mapping[Place, Reached]:
    """How far all partitions are, by the records of `read_progress`. Raises PenstockError."""
    return dict(decoded(key, value) for key, value in values.items())
