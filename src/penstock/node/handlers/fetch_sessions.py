"""The session of a Fetch (KIP-227): which one the request names, and how the request updates it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.node.fetch_answers import replica_id
from penstock.node.fetches import TOPIC_IDS_FROM
from penstock.node.request import Request
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest
from penstock.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID, Session, Subscription
from penstock.security.rights import ACT_IN_CLUSTER

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def find_session(node: Broker, request: Request[FetchRequest], now_ms: int) -> Session | ErrorCode:
    """The session that the request names, or a new one; or the error."""
    body = request.body
    by_id = request.version >= TOPIC_IDS_FROM
    sessions = node.fetches.sessions
    if body.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if body.session_id != INVALID_SESSION_ID:
            sessions.remove(body.session_id)
        follows = replica_id(body) >= 0 and node.gate.would_allow(request, ACT_IN_CLUSTER)
        session = Session(uses_topic_ids=by_id, privileged=follows, now_ms=now_ms)
    else:
        found = sessions.find(body.session_id, body.session_epoch, uses_topic_ids=by_id, now_ms=now_ms)
        if isinstance(found, ErrorCode):
            return found
        session = found
        if session.waiter is not None:
            session.waiter.superseded(now_ms)
    return session


def update(node: Broker, request: Request[FetchRequest], session: Session) -> Iterator[bool]:
    """Updates a session with a request; yields after every topic and partition."""
    body = request.body
    for topic in body.topics:
        for entry in topic.partitions:
            subscribe(node, session, topic.topic, topic.topic_id, entry)
            yield True
        yield True
    for forgotten in body.forgotten_topics_data:
        name = forgotten.topic_id if session.uses_topic_ids else forgotten.topic
        for index in forgotten.partitions:
            session.forget((name, index))
            yield True
        yield True


def subscribe(node: Broker, session: Session, topic: str, topic_id: UUID, entry: FetchPartition) -> None:
    """Adds a partition of the request to the session."""
    key = (topic_id if session.uses_topic_ids else topic, entry.partition)
    subscription = session.partitions.get(key)
    if subscription is None:
        name = None if session.uses_topic_ids else topic
        number = node.fetches.sessions.subscription_number()
        subscription = session.partitions[key] = Subscription(session, key, name, topic_id, number)
    subscription.fetch_offset = entry.fetch_offset
    subscription.max_bytes = entry.partition_max_bytes
    subscription.leader_epoch = entry.current_leader_epoch
    subscription.last_fetched_epoch = entry.last_fetched_epoch
    subscription.follower_log_start_offset = entry.log_start_offset
    session.ready[key] = subscription
