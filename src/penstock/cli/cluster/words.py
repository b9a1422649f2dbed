"""How the commands of a cluster write partitions and ids, and read ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.view import PartitionView


def partition_json(partition: PartitionView) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.index,
        "leader": partition.leader,
        "replicas": partition.replicas,
        "in_sync_replicas": partition.in_sync,
        "min_insync_replicas": partition.min_insync_replicas,
    }


def names_of(partitions: Sequence[PartitionView | str], shown_max: int = 10) -> str:
    """Partitions or topics in a sentence, not all of too many."""
    more = f" and {len(partitions) - shown_max} more" if len(partitions) > shown_max else ""
    return ", ".join(map(str, partitions[:shown_max])) + more


def ids_text(ids: Iterable[object]) -> str:
    """Ids as people write them: `1,2,3`, `none`."""
    return ",".join(map(str, ids)) or "none"


def parse_ids(text: str, option: str) -> tuple[int, ...]:
    """`1,2,3` as ids, each once. Raises UsageError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"{option} {text}: it must be ids such as 1,2,3")
    ids = tuple(map(int, words))
    if len(set(ids)) < len(ids):
        raise UsageError(f"{option} {text}: an id is there twice")
    return ids
