"""What the consumer groups of a partition know about topics: whether those that they subscribe to have changed.

A group keeps one number for all its topics, the *metadata hash*: of ids, names, partition counts, and the racks of the
replicas. It is the number that Kafka computes, so a group which moves between the two does not rebalance for it.
Source: Utils.computeTopicHash and computeGroupHash of Apache Kafka 4.3 (XXH3, 64 bits).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from uuid import UUID

import xxhash

from penstock.coordinator.group.assignors.spec import topic_order
from penstock.coordinator.group.by_topic import GroupsByTopic
from penstock.coordinator.group.consumer.regex import RegexScan
from penstock.metadata.image import MetadataImage, TopicImage
from penstock.metadata.timeline import Timeline

HASH_VERSION = b"\0"
INT = Struct("<i")
LONG = Struct("<q")


class Topics:
    """See the module's head.

    Attributes:
        groups: the consumer groups that subscribe to a topic; replicated state. The rest is soft state.
        created_offset: of the image with the newest topic; regular expressions that were evaluated before are stale.
        scans: by group id, the evaluations of regular expressions that are under way.
    """

    __slots__ = ("_hashes", "created_offset", "groups", "scans")

    def __init__(self, timeline: Timeline) -> None:
        self.groups = GroupsByTopic(timeline)
        self.created_offset = -1
        self.scans: dict[str, RegexScan] = {}
        self._hashes: dict[UUID, tuple[TopicImage, int]] = {}

    def hash(self, names: Iterable[str], image: MetadataImage) -> int:
        """The metadata hash of a group with these topics; those that do not exist do not count."""
        found = [image.topics_by_name.get(name) for name in sorted(names)]
        return group_hash([self._hash(topic, image) for topic in found if topic is not None])

    def _hash(self, topic: TopicImage, image: MetadataImage) -> int:
        held = self._hashes.get(topic.id)
        if held is None or held[0] is not topic:
            held = self._hashes[topic.id] = topic, topic_hash(topic, image)
        return held[1]

    def forget(self, topic_id: UUID) -> None:
        """The topic is gone."""
        self._hashes.pop(topic_id, None)

    def forget_all(self) -> None:
        """The racks of brokers may have changed."""
        self._hashes.clear()


def signed_xxh3(data: bytes) -> int:
    """XXH3 as a signed number, as Java has it."""
    digest = int(xxhash.xxh3_64_intdigest(data))
    return digest - (1 << 64) if digest >> 63 else digest


def text(value: str) -> bytes:
    """A text as it is hashed: its UTF-16 units, then how many there are."""
    encoded = value.encode("utf-16-le", "surrogatepass")
    return encoded + INT.pack(len(encoded) // 2)


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    parts = [HASH_VERSION, *(topic.id.bytes[at : at + 8][::-1] for at in (0, 8)), text(topic.name)]
    parts.append(INT.pack(len(topic.partitions)))
    for index, partition in enumerate(topic.partitions):
        parts.append(INT.pack(index))
        brokers = (image.brokers.get(replica) for replica in partition.replicas)
        racks = sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None)
        for rack in racks:
            parts += (INT.pack(len(rack.encode("utf-16-le", "surrogatepass")) // 2), text(rack))
    return signed_xxh3(b"".join(parts))


def group_hash(topic_hashes: list[int]) -> int:
    """The hash of a group's topics, given in the order of their names; 0 without any."""
    return signed_xxh3(b"".join(map(LONG.pack, topic_hashes))) if topic_hashes else 0


def topic_ids(names: Iterable[str], image: MetadataImage) -> tuple[UUID, ...]:
    """The ids of the topics that exist, in order."""
    found = (image.topics_by_name.get(name) for name in names)
    return tuple(sorted((topic.id for topic in found if topic is not None), key=topic_order))


def by_name(partitions: Mapping[UUID, Iterable[int]], image: MetadataImage) -> dict[str, list[int]]:
    """Partitions by the names of their topics, of those that exist."""
    found = ((image.topics_by_id.get(topic_id), numbers) for topic_id, numbers in partitions.items())
    return {topic.name: list(numbers) for topic, numbers in found if topic is not None}
