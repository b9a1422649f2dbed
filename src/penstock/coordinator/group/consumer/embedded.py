"""What consumers say in JoinGroup and hear from SyncGroup, inside the bytes of the classic protocol.

Subscription and assignment begin with two bytes for their version. As in Kafka's ConsumerProtocol a version that is too
new is read as the newest one we know: later ones only add fields at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import TypeVar
from uuid import UUID

from penstock.coordinator.group.consumer.current import Owned
from penstock.coordinator.group.consumer.topics import by_name
from penstock.errors import ProtocolError
from penstock.metadata.image import MetadataImage
from penstock.protocol import codec
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

VERSION = Struct(">h")

M = TypeVar("M", bound=Message)


def version_of(data: bytes, cls: type[Message]) -> int:
    """The version of a message. Raises ProtocolError."""
    if len(data) < VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too short for a {cls.NAME}")
    version = int(VERSION.unpack_from(data)[0])
    if version < cls.MIN_VERSION:
        raise ProtocolError(f"a {cls.NAME} has no version {version}")
    return min(version, cls.MAX_VERSION)


def decode(cls: type[M], data: bytes) -> M:
    """Reads a message; what follows is of a later version. Raises ProtocolError."""
    message, _ = codec.decode(cls, version_of(data, cls), data, VERSION.size)
    return message


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a member wants. Raises ProtocolError."""
    return decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What a member has. Raises ProtocolError."""
    return decode(ConsumerProtocolAssignment, data)


def encode_assignment(partitions: Mapping[UUID, Sequence[int]], version: int, image: MetadataImage) -> bytes:
    """What a member has, in a version that it reads. Topics that are gone are left out."""
    named = by_name(partitions, image)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=name, partitions=numbers) for name, numbers in named.items()]
    )
    version = min(version, ConsumerProtocolAssignment.MAX_VERSION)
    return VERSION.pack(version) + codec.encode_bytes(message, version)


def owned_by(subscription: ConsumerProtocolSubscription, image: MetadataImage) -> Owned:
    """What a member says it has, of topics that exist."""
    found = ((image.topics_by_name.get(each.topic), each.partitions) for each in subscription.owned_partitions)
    return [(topic.id, numbers) for topic, numbers in found if topic is not None]
