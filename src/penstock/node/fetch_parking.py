"""The first look of a fetch that finds nothing: its only ready partition is led here, and its reader has all of it. So
is nearly every fetch of a follower, and of a consumer without lag; then it is parked, and no answer made.

It leaves everything as `Fetch.look` does. Whatever is unusual, an error above all, is left to that, before anything has
changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.node.fetch_answers import divergence
from penstock.replication.partition import Partition
from penstock.security.authorizer import CLUSTER_NAME
from penstock.security.rights import ACT_IN_CLUSTER, READ_TOPIC

if TYPE_CHECKING:
    from penstock.node.fetches import Fetch
    from penstock.replication.fetch_session import Subscription


def finds_nothing(fetch: Fetch, now_ms: int) -> bool:
    """Looks at the only ready partition, if there is nothing in it for the client. It stays ready if an answer, when
    one is made, has to tell something of it.
    """
    fetches, session = fetch.fetches, fetch.session
    (subscription,) = session.ready.values()
    topic = subscription.topic
    if (
        topic is None
        or fetch.min_bytes <= 0
        or now_ms >= fetch.deadline_ms
        or fetch.at_once
        or fetch.rack
        or fetch.tells_watermarks
    ):
        return False
    right, name = (READ_TOPIC, topic) if fetch.consumer else (ACT_IN_CLUSTER, CLUSTER_NAME)
    try:
        partition = fetches.replicas.leader(topic, subscription.index, now_ms)
        if not isinstance(partition, Partition) or not is_at_the_end(fetch, subscription, partition):
            return False
        if not fetches.gate.would_allow(fetch.request, right, name):
            return False
        subscription.attach(partition)
        if fetch.replica_id >= 0:
            fetch.follower_has(subscription, partition)
    except Exception:  # whatever it is, `Fetch.look` meets it, too, and says or waits for what has to be
        return False
    fetches.gate.allowed(fetch.request, right, name)
    subscription.seen_bytes = partition.readable_bytes if fetch.consumer else partition.written_bytes
    fetches.looked_at += 1
    if (
        subscription.high_watermark == partition.high_watermark
        and subscription.log_start_offset == partition.log.log_start_offset
    ):
        session.ready.pop(subscription.key, None)
    return True


def is_at_the_end(fetch: Fetch, subscription: Subscription, partition: Partition) -> bool:
    """Whether the client asks, with nothing wrong, for what does not exist yet, or is not to be seen by it yet."""
    if fetch.session.uses_topic_ids and partition.topic_id != subscription.topic_id:
        return False
    epoch = subscription.leader_epoch
    if partition.check_epoch(epoch) or (fetch.replica_id >= 0 and partition.check_replica(fetch.replica_id, epoch)):
        return False
    offset, end_offset = subscription.fetch_offset, partition.log.log_end_offset
    if offset != end_offset and (not fetch.consumer or not fetch.seen_end(partition) <= offset <= end_offset):
        return False
    return subscription.last_fetched_epoch < 0 or divergence(partition, subscription) is None
