"""Subscriptions and assignments of the classic protocol in terms of topic ids, by the image of the metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from penstock.coordinator.group.consumer.current import Owned
from penstock.coordinator.group.consumer.topics import by_name
from penstock.metadata.image import MetadataImage
from penstock.protocol.consumer_protocol import encode
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription


def encode_assignment(partitions: Mapping[UUID, Sequence[int]], version: int, image: MetadataImage) -> bytes:
    """What a member has, in a version that it reads. Topics that are gone are left out."""
    named = by_name(partitions, image)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=name, partitions=numbers) for name, numbers in named.items()]
    )
    return encode(message, min(version, ConsumerProtocolAssignment.MAX_VERSION))


def owned_by(subscription: ConsumerProtocolSubscription, image: MetadataImage) -> Owned:
    """What a member says it has, of topics that exist."""
    found = ((image.topics_by_name.get(each.topic), each.partitions) for each in subscription.owned_partitions)
    return [(topic.id, numbers) for topic, numbers in found if topic is not None]
