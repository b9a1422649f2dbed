"""The offsets that a stream's checkpoint keeps, as JSON.

    {"version": 1, "topics": {"clicks": {"id": "6f0c…", "offsets": {"0": 120, "1": 98}, "begins": {"1": 98}}}}

The topic's id tells a topic from one of the same name that was deleted before it. `begins` is there because Spark's log
has only the *end* of each microbatch: when it repeats the first one after a crash it asks anew where to begin, and
"latest" is elsewhere by then; and where partitions begin that appear later stands nowhere else. So an end says by
itself where reading begins in the partitions that nothing has been read of before it.

What the official connector wrote, {"clicks": {"0": 120, "1": 98}}, is understood, so that a query can be moved with its
checkpoint; topic ids come in with the next microbatch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from penstock.client.client import Partition
from penstock.errors import ConfigError
from penstock.spark.read.plan import Position, Positions

VERSION = 1


def to_json(positions: Positions) -> dict[str, Any]:
    """Positions as Spark keeps them. The same positions are always the same text."""
    topics: dict[str, Any] = {}
    for (name, index), position in sorted(positions.items()):
        topic = topics.setdefault(name, {"id": str(position.topic_id) if position.topic_id else None, "offsets": {}})
        topic["offsets"][str(index)] = position.offset
        if position.begin is not None:
            topic.setdefault("begins", {})[str(index)] = position.begin
    return {"version": VERSION, "topics": topics}


def from_json(given: Mapping[str, Any]) -> dict[Partition, Position]:
    """Positions from a checkpoint, ours or the official connector's. Raises ConfigError for anything else."""
    try:
        if not isinstance(given.get("version"), int):
            return {
                (topic, int(index)): Position(None, _offset(offset))
                for topic, offsets in given.items()
                for index, offset in offsets.items()
            }
        if given["version"] == VERSION:
            return _ours(given["topics"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"the checkpoint holds offsets that nobody can read ({error!r}): {given}") from None
    raise ConfigError(f"the checkpoint holds offsets of version {given['version']}; this Penstock knows {VERSION}")


def ends_of(progress: Any) -> dict[Partition, int]:
    """Where a batch ended in each partition; empty for a source that is not of topics."""
    ends: dict[Partition, int] = {}
    for source in progress["sources"]:
        try:
            told = source["endOffset"]
            positions = from_json(json.loads(told) if isinstance(told, str) else told)
        except (ConfigError, KeyError, TypeError, ValueError, AttributeError):
            continue
        ends |= {partition: position.offset for partition, position in positions.items()}
    return ends


def _ours(topics: Mapping[str, Any]) -> dict[Partition, Position]:
    positions = {}
    for name, topic in topics.items():
        topic_id = None if topic["id"] is None else UUID(topic["id"])
        begins = topic.get("begins", {})
        for index, offset in topic["offsets"].items():
            begin = _offset(begins[index]) if index in begins else None
            positions[name, int(index)] = Position(topic_id, _offset(offset), begin)
    return positions


def _offset(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no offset")
    return value
