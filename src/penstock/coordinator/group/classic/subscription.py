"""The topics that consumers subscribe to, read from the metadata of the consumer protocol
(ConsumerProtocolSubscription).

Only version 0 is read, with which every later version begins. It is the client's data: if it cannot be read, the group
works all the same, without its topics being known here.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import ProtocolError
from penstock.protocol import codec
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

VERSION_BYTES = 2


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None when the metadata of one cannot be read."""
    topics: set[str] = set()
    for each in metadata:
        if len(each) < VERSION_BYTES or int.from_bytes(each[:VERSION_BYTES], "big", signed=True) < 0:
            return None
        try:
            subscription, _ = codec.decode(ConsumerProtocolSubscription, 0, each, VERSION_BYTES)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
