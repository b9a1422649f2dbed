"""`/v1/model?cluster=NAME`: what a model of a cluster is made of, as the leader sees it, a page after the other.

The last page has the brokers and disks, too; on the others they are empty. A partition is a list:

    [number, leader, replicas, directories, bytes, written, written_p95, windows]

Directories and bytes are those of the replicas, in their order; directories are indexes into `paths` of the page. What
is not known is null. `written` is in bytes a second: the median of so many windows (`guardian.core.windows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from penstock.guardian.core.calls import BAD_REQUEST, CONFLICT, NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.limits import GUARDIAN_ROWS_PER_ANSWER
from penstock.guardian.core.resources import operations as described
from penstock.guardian.core.resources.seen import Asked
from penstock.guardian.core.sight import CANARY_TOPIC, METADATA, SeenDisk, SeenPartition

BETWEEN = ":"
"""Between topic and number in `after`; no name of a topic has it."""


class ModelOfCluster(Resource):
    """See the module's head."""

    path = "/v1/model"
    operations = described.MODEL
    live = True

    def read(self, known: Known, call: Call, name: str) -> Reply:
        if name:
            raise Refused(NOT_FOUND, f"{self.path} has no parts")
        asked = Asked(known, call)
        seen = asked.seen
        if METADATA not in seen.seen_ms or seen.twice:
            why = next(iter(seen.failures.values()), "it has not been seen whole")
            raise Refused(CONFLICT, f"cluster {asked.cluster.name} has no model: {why}")
        left = partitions_after(asked)
        shown = list(islice(left, GUARDIAN_ROWS_PER_ANSWER))
        more = next(left, None) is not None
        paths: dict[str, int] = {}
        topics: dict[str, list[Any]] = {}
        for each in shown:
            topics.setdefault(each.topic, []).append(partition_row(asked, each, paths))
        body = {
            **asked.head(),
            "labels": dict(asked.cluster.labels),
            "idc": asked.cluster.idc,
            "brokers": [] if more else [[each.id, each.host, each.rack] for each in seen.brokers.values()],
            "disks": [] if more else [disk_row(each) for each in seen.disks.values()],
            "topics": topics,
            "paths": list(paths),
            "moving": sum(bool(each.adding or each.removing) for each in shown),
            "next": f"{shown[-1].topic}{BETWEEN}{shown[-1].index}" if more else None,
        }
        return Reply(OK, body)


def partitions_after(asked: Asked) -> Iterator[SeenPartition]:
    """The partitions of a page and of all later ones, by topic and number. Raises Refused.

    Those of the canaries have one broker each, and are not to be moved.
    """
    topic, _, number = asked.after.partition(BETWEEN)
    if asked.after and not (topic and number.isascii() and number.isdecimal() and len(number) <= 10):
        raise Refused(BAD_REQUEST, "after must be what an answer had as next")
    topics = asked.seen.topics
    for name in sorted(each for each in topics if each >= topic and each != CANARY_TOPIC):
        first = int(number) + 1 if name == topic else 0
        yield from topics[name].partitions[first:]


def disk_row(disk: SeenDisk) -> list[Any]:
    return [disk.broker, disk.path, disk.capacity_bytes, disk.error]


def partition_row(asked: Asked, partition: SeenPartition, paths: dict[str, int]) -> list[Any]:
    """A partition, see the module's head."""
    seen = asked.seen
    place = partition.topic, partition.index
    replicas = [seen.replicas.get((*place, broker)) for broker in partition.replicas]
    windows = seen.windows.get(place)
    figures = windows.figures() if windows is not None else None
    written, peak, count = (None, None, 0) if figures is None else figures
    return [
        partition.index,
        partition.leader,
        list(partition.replicas),
        [None if each is None else paths.setdefault(each.path, len(paths)) for each in replicas],
        [None if each is None else each.size_bytes for each in replicas],
        None if written is None else round(written, 1),
        None if peak is None else round(peak, 1),
        count,
    ]
