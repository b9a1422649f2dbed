"""Incremental fetch sessions (KIP-227), with a ready set each.

A client names its partitions once; from then on it sends what changed, and gets what changed. Kafka's broker still
looks at every partition of the session at every fetch. Here a session is *subscribed* to its partitions: an append, a
new high watermark or a new log start puts the partition into the session's ready set, and a fetch looks at the ready
set only.

A partition leaves the ready set when a fetch found nothing in it. While it has data or an error it stays, at the end so
that others get their turn: a client that drops an answer repeats its request by not mentioning the partition.

A fetch without a session works in the same way for one request: every partition is ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.replication.limits import FETCH_SESSION_PARTITIONS_MAX

if TYPE_CHECKING:
    from penstock.log.log import Log
    from penstock.replication.traffic import PartitionCounters

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
EVICTION_MS = 120_000
"""A session that was not used for as long may be replaced by any other (Kafka's
MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
"""

Key = tuple[str | UUID, int]
"""A partition within a session: topic name, or topic id from Fetch version 13, and index."""


class Randomness(Protocol):
    """The one method of `random.Random` that session ids need."""

    def randrange(self, start: int, stop: int) -> int: ...


class Readable(Protocol):
    """A led or followed partition, as fetches see it."""

    subscriptions: dict[int, Subscription]
    replica_subscriptions: dict[int, Subscription]
    readable_bytes: int
    high_watermark: int
    traffic: PartitionCounters

    @property
    def log(self) -> Log | None: ...

    @property
    def written_bytes(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...


class Waiter(Protocol):
    """A parked fetch."""

    def changed(self, subscription: Subscription, now_ms: int) -> None:
        """A partition of the session has something new."""

    def superseded(self, now_ms: int) -> None:
        """The client has sent the session's next fetch."""

    def broke(self, error: Exception, now_ms: int) -> None:
        """A bug: `changed` has raised `error`. Other readers of the partition are not affected."""


class Subscription:
    """One partition of a session: the client's request for it, and the last answer.

    Attributes:
        topic: its name, None while no topic has the id.
        partition: the partition it is subscribed to; None before the first read, and after the leader went.
        fetch_offset, max_bytes, leader_epoch, last_fetched_epoch, follower_log_start_offset: the request's.
        seen_bytes: the partition's `written_bytes` (of a replica) or `readable_bytes` when a fetch last looked.
        high_watermark, log_start_offset: as last sent; -1 has the partition sent in any case.
        next_offset: where the client goes on after the records that were found last.
    """

    __slots__ = (
        "fetch_offset",
        "follower_log_start_offset",
        "high_watermark",
        "index",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "next_offset",
        "number",
        "partition",
        "seen_bytes",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(self, session: Session, key: Key, topic: str | None, topic_id: UUID, number: int) -> None:
        self.session = session
        self.key = key
        self.topic = topic
        self.topic_id = topic_id
        self.index = key[1]
        self.number = number
        self.partition: Readable | None = None
        self.fetch_offset = 0
        self.max_bytes = 0
        self.next_offset = 0
        self.seen_bytes = 0
        self.leader_epoch = -1
        self.last_fetched_epoch = -1
        self.follower_log_start_offset = -1
        self.high_watermark = -1
        self.log_start_offset = -1

    def attach(self, partition: Readable) -> None:
        """Subscribes to the partition, unless it is the present one."""
        if self.partition is not partition:
            self.detach()
            self.partition = partition
            if self.session.privileged:
                partition.replica_subscriptions[self.number] = self
            else:
                partition.subscriptions[self.number] = self

    def detach(self) -> None:
        """Ends the subscription."""
        if self.partition is not None:
            self.partition.subscriptions.pop(self.number, None)
            self.partition.replica_subscriptions.pop(self.number, None)
            self.partition = None

    def new_bytes(self) -> int:
        """About how many bytes the client can get that it could not at the last call."""
        partition = self.partition
        assert partition is not None
        there = partition.written_bytes if self.session.privileged else partition.readable_bytes
        before, self.seen_bytes = self.seen_bytes, there
        return there - before

    def changed(self, now_ms: int) -> None:
        """The partition has something new.

        In a session that has been unused for long the subscription ends, since its client has probably died and each
        append would cost something for it. The partition stays ready, and the next look subscribes again.
        """
        session = self.session
        session.ready[self.key] = self
        if session.waiter is not None:
            try:
                session.waiter.changed(self, now_ms)
            except Exception as error:
                session.waiter.broke(error, now_ms)
        elif now_ms - session.last_used_ms > EVICTION_MS:
            self.detach()

    def lost(self, now_ms: int) -> None:
        """Drops a partition that is no longer led here; the next look finds out what to answer."""
        self.partition = None
        self.changed(now_ms)


class Session:
    """The partitions of a client, and which of them a fetch has to look at.

    `id` 0 is a fetch without a session. `waiter` is the fetch parked on it, if any. A follower's is `privileged`;
    `broker_epoch` is the follower's incarnation at its last fetch, -1 if it does not say. `rights` is the number of the
    rights (`SessionCache.rights`) by which its partitions were looked at.
    """

    __slots__ = (
        "broker_epoch",
        "counted",
        "created_ms",
        "epoch",
        "id",
        "last_used_ms",
        "partitions",
        "privileged",
        "ready",
        "rights",
        "uses_topic_ids",
        "waiter",
    )

    def __init__(self, *, uses_topic_ids: bool, privileged: bool, now_ms: int) -> None:
        self.id = INVALID_SESSION_ID
        self.epoch = INITIAL_EPOCH
        self.broker_epoch = -1
        self.rights = -1
        self.counted = 0
        self.uses_topic_ids = uses_topic_ids
        self.privileged = privileged
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.partitions: dict[Key, Subscription] = {}
        self.ready: dict[Key, Subscription] = {}
        self.waiter: Waiter | None = None

    def fetched_as(self, broker_epoch: int) -> None:
        """A follower fetches as this incarnation. Partitions that it does not mention count for the new one, too, so
        each is looked at.
        """
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.ready.update(self.partitions)

    def forget(self, key: Key) -> None:
        """Removes a partition from the session, if it is in it."""
        subscription = self.partitions.pop(key, None)
        if subscription is not None:
            self.ready.pop(key, None)
            subscription.detach()

    def close(self) -> None:
        """Ends all subscriptions."""
        for subscription in self.partitions.values():
            subscription.detach()
        self.partitions.clear()
        self.ready.clear()

    def to_the_end(self, subscription: Subscription) -> None:
        """Keeps a partition ready, behind all others."""
        self.ready.pop(subscription.key, None)
        self.ready[subscription.key] = subscription

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self.partitions.values())


def next_epoch(epoch: int) -> int:
    """The epoch of the following request; after the greatest comes 1, since 0 begins a session."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class SessionCache:
    """The sessions of a node, at most `capacity` of them.

    Together they have at most `partitions_max` partitions. When there are more, the session with the most is removed, a
    follower's only if no other is left: a client that names too many partitions loses its own session.

    A new session may replace one that was idle for EVICTION_MS; or that is not a follower's, when the new one is; or
    that has fewer partitions and is older than EVICTION_MS. If there is none, the client gets no session and names all
    its partitions each time.

    Attributes: `rights` counts the changes of what clients may read: after one, the next fetch of a session looks at
    all of its partitions.
    """

    def __init__(
        self, capacity: int, random: Randomness, *, partitions_max: int = FETCH_SESSION_PARTITIONS_MAX
    ) -> None:
        self.capacity = capacity
        self.partitions_max = partitions_max
        self.evictions = 0
        self.rights = 0
        self._partitions = 0
        self._random = random
        self._sessions: dict[int, Session] = {}
        self._subscriptions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Partitions of all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def subscription_number(self) -> int:
        """A number for a new subscription, unique on this node."""
        self._subscriptions += 1
        return self._subscriptions

    def find(self, session_id: int, epoch: int, *, uses_topic_ids: bool, now_ms: int) -> Session | ErrorCode:
        """The session of an incremental fetch, with its epoch advanced; or why it cannot be used."""
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = next_epoch(epoch)
        del self._sessions[session_id]
        self._sessions[session_id] = session
        session.last_used_ms = now_ms
        if session.rights != self.rights:
            session.rights = self.rights
            session.ready.update(session.partitions)
        return session

    def add(self, session: Session, now_ms: int) -> bool:
        """Gives a new session an id and keeps it, if there is room. Its first request was epoch 0, the next is 1."""
        assert session.id == INVALID_SESSION_ID
        if len(self._sessions) >= self.capacity and not self._evict_for(session, now_ms):
            return False
        while session.id == INVALID_SESSION_ID or session.id in self._sessions:
            session.id = self._random.randrange(1, MAX_EPOCH)
        session.epoch = next_epoch(INITIAL_EPOCH)
        session.last_used_ms = now_ms
        session.rights = self.rights
        self._sessions[session.id] = session
        if not self.recount(session, close=False):
            session.id = INVALID_SESSION_ID
            return False
        return True

    def rights_changed(self) -> None:
        """What clients may read has changed."""
        self.rights += 1

    def recount(self, session: Session, *, close: bool = True) -> bool:
        """Counts the partitions of a changed session. False: there were too many, and it is removed."""
        if len(session.partitions) == session.counted:
            return True
        self._partitions += len(session.partitions) - session.counted
        session.counted = len(session.partitions)
        while self._partitions > self.partitions_max:
            largest = max(self._sessions.values(), key=lambda each: (not each.privileged, each.counted))
            self.evictions += 1
            self._drop(largest)
            if largest is session:
                if close:
                    session.close()
                return False
            largest.close()
        return True

    def _drop(self, session: Session) -> None:
        del self._sessions[session.id]
        self._partitions -= session.counted
        session.counted = 0

    def remove(self, session_id: int) -> None:
        """Ends a session, if it exists."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._drop(session)
            session.close()

    def _evict_for(self, new: Session, now_ms: int) -> bool:
        victim = next(iter(self._sessions.values()), None)
        if victim is None:
            return False
        if now_ms - victim.last_used_ms <= EVICTION_MS:
            victim = min(
                (session for session in self._sessions.values() if self._may_go(session, new, now_ms)),
                key=lambda session: (session.privileged, len(session.partitions), session.id),
                default=None,
            )
            if victim is None or (victim.privileged, len(victim.partitions)) > (new.privileged, len(new.partitions)):
                return False
        self.remove(victim.id)
        self.evictions += 1
        return True

    @staticmethod
    def _may_go(session: Session, new: Session, now_ms: int) -> bool:
        if now_ms - session.created_ms > EVICTION_MS:
            return True
        return new.privileged and not session.privileged
