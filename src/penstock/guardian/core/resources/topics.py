"""`/v1/topics?cluster=NAME`: the topics of a cluster as the leader sees them; `/v1/topics/TOPIC?cluster=NAME`: the
partitions of one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.config.nearest import did_you_mean
from penstock.guardian.core.calls import NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.limits import GUARDIAN_TEXT_MAX, GUARDIAN_TOPICS_COMPARED_MAX
from penstock.guardian.core.resources import operations as described
from penstock.guardian.core.resources.seen import Asked
from penstock.guardian.core.sight import ClusterSight, SeenPartition, SeenTopic
from penstock.log.meta_properties import uuid_text


class Topics(Resource):
    """See the module's head."""

    path = "/v1/topics"
    operations = described.TOPICS
    live = True

    def read(self, known: Known, call: Call, name: str) -> Reply:
        asked = Asked(known, call)
        topics = asked.seen.topics
        if not name:

            def rows(names: Iterable[str]) -> list[Any]:
                return [topic_row(asked.seen, topics[each]) for each in names]

            page = asked.page(sorted(topics), rows)
            return Reply(OK, {**asked.head(), "topics": page["rows"], "next": page["next"]})
        topic = topics.get(name)
        if topic is None:
            near = did_you_mean(name, list(topics)) if len(topics) <= GUARDIAN_TOPICS_COMPARED_MAX else ""
            raise Refused(NOT_FOUND, f"cluster {asked.cluster.name} has no topic {name[:GUARDIAN_TEXT_MAX]}{near}")
        by_name = {f"{each.index:010d}": each for each in topic.partitions}

        def partitions(names: Iterable[str]) -> list[Any]:
            return [partition_row(asked.seen, by_name[each]) for each in names]

        page = asked.page(list(by_name), partitions)
        found = {**asked.head(), **topic_row(asked.seen, topic), "rows": page["rows"], "next": page["next"]}
        return Reply(OK, found)


def topic_row(seen: ClusterSight, topic: SeenTopic) -> dict[str, Any]:
    """A topic as answers have it."""
    partitions = topic.partitions
    return {
        "name": topic.name,
        "id": uuid_text(topic.id),
        "internal": topic.internal,
        "partitions": len(partitions),
        "replicas": max((len(each.replicas) for each in partitions), default=0),
        "min_insync_replicas": topic.min_insync_replicas,
        "under_replicated": sum(len(each.in_sync) < len(each.replicas) for each in partitions),
        "without_leader": sum(each.leader < 0 for each in partitions),
        "moving": sum(bool(each.adding or each.removing) for each in partitions),
        "bytes": sum(size for each in partitions for size in sizes_of(seen, each).values()),
        "bytes_in_per_second": written(seen, partitions),
    }


def partition_row(seen: ClusterSight, partition: SeenPartition) -> dict[str, Any]:
    """A partition as answers have it; sizes by broker, where they are known."""
    return {
        "partition": partition.index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
        "adding": list(partition.adding),
        "removing": list(partition.removing),
        "bytes": {str(broker): size for broker, size in sizes_of(seen, partition).items()},
        "bytes_in_per_second": written(seen, (partition,)),
    }


def written(seen: ClusterSight, partitions: Sequence[SeenPartition]) -> int | None:
    """What is written to partitions in the present window of five minutes, as far as it is known; None: not at all."""
    windows = [seen.windows.get((each.topic, each.index)) for each in partitions]
    rates = [each.latest() for each in windows if each is not None]
    known = [each for each in rates if each is not None]
    return round(sum(known)) if known else None


def sizes_of(seen: ClusterSight, partition: SeenPartition) -> dict[int, int]:
    """The sizes of a partition's replicas by broker, of those that are known."""
    found = {}
    for broker in partition.replicas:
        replica = seen.replicas.get((partition.topic, partition.index, broker))
        if replica is not None:
            found[broker] = replica.size_bytes
    return found
