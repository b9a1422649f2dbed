"""Fetch (key 1): record batches of partitions, as slices of files; long poll; incremental sessions.

Versions 4-18, flexible from 12. Sessions from v7 (KIP-227), leader epochs from v9, rack id from v11,
last fetched epoch from v12 (truncation detection), topic ids instead of names from v13, current leader and node
endpoints of refused partitions from v16.

A request whose partitions have fewer than `min_bytes` waits for more, at most `max_wait_ms`; an error ends the wait
at once. The first batch of the first partition with data is returned whole even if it is larger than every limit.
Consumers read up to the high watermark, or with read_committed to the last stable offset; replicas to the log end.

From v11 consumers may read from followers too, and are told which one is in their rack when replica.selector.class is
the rack-aware one (KIP-392).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from penstock.config import limits
from penstock.errors import ErrorCode, RequestError
from penstock.log.manager import NotOpen
from penstock.node.handlers.leaders import current_leader, endpoints_of
from penstock.node.request import AGAIN, LATER, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest
from penstock.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from penstock.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    Key,
    Session,
    Subscription,
)
from penstock.replication.partition import Partition
from penstock.security.authorizer import CLUSTER_NAME, Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.log.disk import FileSlice
    from penstock.node.broker import Broker
    from penstock.node.timers import Timer
    from penstock.replication.follower import Follower

AUTHORIZE = Authorize(Operation.READ, ResourceType.TOPIC)

CONSUMER = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
SESSIONS_FROM = 7
FOLLOWERS_FROM = 11
TOPIC_IDS_FROM = 13
LEADERS_FROM = 16
NO_RECORDS = b""
LOOKS_PER_STEP = 100
"""Partitions that a fetch looks at before others have their turn."""
SENT_WITH_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(node: Broker, request: Request[FetchRequest], now_ms: int) -> Outcome:
    if request.listener in node.settings.controller_listener_names:
        node.quorum.handle(request, now_ms)
        return LATER
    fetch = request.state
    if fetch is None:
        isolation_level = request.body.isolation_level
        if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
            raise RequestError(ErrorCode.INVALID_REQUEST, f"there is no isolation level {isolation_level}")
        session = open_session(node, request, now_ms)
        if isinstance(session, ErrorCode):
            return FetchResponse(error_code=session)
        fetch = request.state = Fetch(node, request, session)
    return fetch.attempt(now_ms)


def refuse(request: Request[FetchRequest], code: ErrorCode, message: str) -> Message:
    """A session-level error from v7; before, every partition of the request."""
    if request.version >= SESSIONS_FROM or request.body is None:
        return FetchResponse(error_code=code)
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic.topic, partitions=[failed(entry.partition, code) for entry in topic.partitions]
            )
            for topic in request.body.topics
        ]
    )


# Sessions


def open_session(node: Broker, request: Request[FetchRequest], now_ms: int) -> Session | ErrorCode:
    """The session that the request names, brought up to date with it, or a new one; or why there is none."""
    body = request.body
    by_id = request.version >= TOPIC_IDS_FROM
    sessions = node.fetch_sessions
    if body.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if body.session_id != INVALID_SESSION_ID:
            sessions.remove(body.session_id)
        session = Session(uses_topic_ids=by_id, privileged=replica_id(body) >= 0, now_ms=now_ms)
    else:
        found = sessions.find(body.session_id, body.session_epoch, uses_topic_ids=by_id, now_ms=now_ms)
        if isinstance(found, ErrorCode):
            return found
        session = found
        if session.waiter is not None:
            session.waiter.superseded(now_ms)
    for topic in body.topics:
        for entry in topic.partitions:
            subscribe(node, session, topic.topic, topic.topic_id, entry)
    for forgotten in body.forgotten_topics_data:
        for index in forgotten.partitions:
            session.forget((forgotten.topic_id if by_id else forgotten.topic, index))
    if session.id != INVALID_SESSION_ID and not session.partitions:
        sessions.remove(session.id)
        session.id = INVALID_SESSION_ID
    return session


def subscribe(node: Broker, session: Session, topic: str, topic_id: Any, entry: FetchPartition) -> None:
    """Puts what the request says of a partition into the session."""
    key = (topic_id if session.uses_topic_ids else topic, entry.partition)
    subscription = session.partitions.get(key)
    if subscription is None:
        name = None if session.uses_topic_ids else topic
        number = node.fetch_sessions.subscription_number()
        subscription = session.partitions[key] = Subscription(session, key, name, topic_id, number)
    subscription.fetch_offset = entry.fetch_offset
    subscription.max_bytes = entry.partition_max_bytes
    subscription.leader_epoch = entry.current_leader_epoch
    subscription.last_fetched_epoch = entry.last_fetched_epoch
    subscription.follower_log_start_offset = entry.log_start_offset
    session.ready[key] = subscription


def replica_id(body: FetchRequest) -> int:
    """Who fetches: a broker's id, or -1 for a consumer. From v15 it stands in the replica state."""
    return body.replica_id if body.replica_id != CONSUMER else body.replica_state.replica_id


# The fetch itself


class Fetch:
    """One fetch on its session: what it wants, and its wait."""

    __slots__ = (
        "answers",
        "at_once",
        "body_session_epoch",
        "consumer",
        "deadline_ms",
        "expected_epoch",
        "isolation_level",
        "looks_left",
        "max_bytes",
        "min_bytes",
        "missing_bytes",
        "node",
        "rack",
        "replica_epoch",
        "replica_id",
        "request",
        "session",
        "size_bytes",
        "tells_watermarks",
        "throttled",
        "timer",
    )

    def __init__(self, node: Broker, request: Request[FetchRequest], session: Session) -> None:
        body = request.body
        self.node = node
        self.request = request
        self.session = session
        self.expected_epoch = session.epoch
        self.body_session_epoch = body.session_epoch
        self.replica_id = replica_id(body)
        self.replica_epoch = body.replica_state.replica_epoch
        self.consumer = self.replica_id == CONSUMER
        selects = node.settings.replica_selector_class is not None
        self.rack = body.rack_id if self.consumer and selects else ""
        self.tells_watermarks = selects and not self.consumer
        self.isolation_level = body.isolation_level
        self.max_bytes = min(body.max_bytes, node.settings.fetch_max_bytes)
        self.min_bytes = min(body.min_bytes, self.max_bytes)
        self.deadline_ms = request.arrived_ms + body.max_wait_ms
        self.missing_bytes = 0
        self.timer: Timer | None = None
        self.answers: dict[Key, tuple[Subscription, PartitionData]] = {}
        self.looks_left = 0
        self.size_bytes = 0
        self.at_once = False
        self.throttled: dict[Key, None] = {}
        request.abandoned = self.abandon

    def attempt(self, now_ms: int) -> Outcome:
        """Looks at what is ready. Answers, or waits for more."""
        session = self.session
        if session.epoch != self.expected_epoch:
            return self.finished(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id))
        if not self.answers:
            self.looks_left = len(session.ready)
            self.throttled.clear()
        if self.looks_left > 0:
            self.look_at_some(now_ms)
            if self.looks_left > 0:
                return AGAIN
        at_once = self.at_once or now_ms >= self.deadline_ms or not session.partitions
        if at_once or self.size_bytes >= self.min_bytes:
            return self.respond(now_ms)
        self.park(now_ms)
        return LATER

    def look_at_some(self, now_ms: int) -> None:
        """Looks at the next partitions of the ready set. Their answers are kept when one that is not open or not in
        memory has the fetch run again; who changes meanwhile is ready again."""
        ready = self.session.ready
        incremental = self.session.id != INVALID_SESSION_ID
        not_open: NotOpen | None = None
        for subscription in list(islice(ready.values(), min(LOOKS_PER_STEP, self.looks_left))):
            try:
                answer = self.look(subscription, self.max_bytes - self.size_bytes, self.size_bytes == 0, now_ms)
            except NotOpen as error:
                not_open = error
                continue
            ready.pop(subscription.key, None)
            before = self.answers.pop(subscription.key, None)
            if before is not None:
                self.size_bytes -= sum_of(before[1])
            self.answers[subscription.key] = (subscription, answer)
            self.size_bytes += sum_of(answer)
            self.looks_left -= 1
            self.node.fetch_looked_at += 1
            if answer.error_code or answer.diverging_epoch.end_offset >= 0 or answer.preferred_read_replica >= 0:
                self.at_once = True
            if self.tells_watermarks and to_be_told(subscription, answer):
                self.at_once = True  # followers whom consumers read should have high watermarks without delay
            if incremental and self.consumer and self.size_bytes >= self.max_bytes:
                self.looks_left = 0  # the others stay ready, before those that were served now
                break
        if not ready:
            self.looks_left = 0
        if not_open is not None and self.looks_left > 0:
            raise not_open  # the last of them: by then the others are open too

    def look(self, subscription: Subscription, limit_bytes: int, first: bool, now_ms: int) -> PartitionData:
        """What one partition has for the client. Changes nothing but the subscription's own link to the partition."""
        node = self.node
        topic = subscription.topic
        if topic is None:
            topic = node.replicas.topic_name(subscription.topic_id)
            if topic is None:
                return failed(subscription.index, ErrorCode.UNKNOWN_TOPIC_ID)
            subscription.topic = topic
        if not self.allowed(topic):
            return failed(subscription.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self.replica(subscription, topic, now_ms)
        if isinstance(partition, PartitionData):
            return partition
        subscription.attach(partition)
        try:
            return self.read(subscription, partition, limit_bytes, first)
        except RequestError as error:
            return failed(subscription.index, error.code)

    def replica(self, subscription: Subscription, topic: str, now_ms: int) -> Partition | Follower | PartitionData:
        """The replica to read from: led here, or followed, which consumers may read too. Or why there is none."""
        replicas = self.node.replicas
        partition: Partition | Follower | ErrorCode = replicas.leader(topic, subscription.index, now_ms)
        if partition is ErrorCode.NOT_LEADER_OR_FOLLOWER and self.consumer and self.request.version >= FOLLOWERS_FROM:
            partition = replicas.reader(topic, subscription.index, now_ms) or partition
        if isinstance(partition, ErrorCode):
            if self.session.uses_topic_ids and replicas.topic_name(subscription.topic_id) is None:
                subscription.topic = None
                partition = ErrorCode.UNKNOWN_TOPIC_ID
            return self.refused(subscription, topic, partition)
        if self.session.uses_topic_ids and partition.topic_id != subscription.topic_id:
            return failed(subscription.index, ErrorCode.INCONSISTENT_TOPIC_ID)
        wrong = partition.check_epoch(subscription.leader_epoch)
        if not wrong and self.replica_id >= 0 and isinstance(partition, Partition):
            wrong = partition.check_replica(self.replica_id, subscription.leader_epoch)
        return self.refused(subscription, topic, wrong) if wrong else partition

    def read(
        self, subscription: Subscription, partition: Partition | Follower, limit_bytes: int, first: bool
    ) -> PartitionData:
        """Reads from the log of a partition that we lead, or follow, within the limits."""
        assert partition.log is not None
        log = partition.log
        offset = subscription.fetch_offset
        diverging = divergence(partition, subscription) if subscription.last_fetched_epoch >= 0 else None
        if offset < log.log_start_offset or (offset > log.log_end_offset and diverging is None):
            behind = offset > log.log_end_offset and not isinstance(partition, Partition)
            # A follower that is behind must not have a consumer start over: the leader has what it asks for.
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER if behind else ErrorCode.OFFSET_OUT_OF_RANGE)
        # A debugging consumer (-2) reads as a follower does, and is none.
        if self.replica_id >= 0 and diverging is None and isinstance(partition, Partition):
            self.follower_has(subscription, partition)
        subscription.seen_bytes = partition.readable_bytes if self.consumer else partition.written_bytes
        committed = self.isolation_level == READ_COMMITTED
        stable_offset = partition.last_stable_offset
        data = PartitionData(
            partition_index=subscription.index,
            high_watermark=partition.high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=[] if committed else None,
            records=NO_RECORDS,
        )
        if diverging is not None:
            data.diverging_epoch = diverging
            return data
        if self.rack and self.is_closer_elsewhere(partition, offset, data):
            return data
        if not self.consumer:
            upper_offset = log.log_end_offset
        else:
            upper_offset = stable_offset if committed else partition.high_watermark
        if offset >= upper_offset or (limit_bytes <= 0 and not first):
            return data
        if self.replica_id >= 0 and isinstance(partition, Partition) and self.holds_back(subscription, partition):
            return data
        limit_bytes = max(0, min(subscription.max_bytes, limit_bytes))
        found = log.read(offset, limit_bytes, upper_offset, at_least_one=first)
        if found.size_bytes:
            data.records = found.slices
            if committed:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                    for aborted in log.aborted_transactions(offset, found.next_offset)
                ]
        return data

    def is_closer_elsewhere(self, partition: Partition | Follower, offset: int, data: PartitionData) -> bool:
        """Whether a consumer should read from another replica, in its rack; then the answer says which."""
        if not isinstance(partition, Partition) or not partition.followers:
            return False
        closest = partition.closest_replica(self.rack, self.node.rack_of, offset)
        if closest == self.node.node_id:
            return False
        data.preferred_read_replica = closest
        return True

    def follower_has(self, subscription: Subscription, partition: Partition) -> None:
        """A follower asks for an offset that its log goes on from: the leader takes note of it."""
        code = partition.follower_fetched(
            self.replica_id,
            subscription.fetch_offset,
            subscription.follower_log_start_offset,
            broker_epoch=self.replica_epoch,
            session=self.session,
            now_ms=self.node.now_ms,
        )
        if code is not ErrorCode.NONE:
            raise RequestError(code)

    def holds_back(self, subscription: Subscription, partition: Partition) -> bool:
        """Whether a follower has had too much of throttled partitions lately; it gets no more for a while."""
        throttles, now_ms = self.node.throttles, self.node.now_ms
        if not throttles.holds_back(partition, self.replica_id, now_ms):
            return False
        self.throttled[subscription.key] = None
        self.deadline_ms = min(self.deadline_ms, throttles.leader.free_at_ms(now_ms))
        return True

    def allowed(self, topic: str) -> bool:
        """Consumers read topics; replicas need the right of the cluster."""
        node = self.node
        principal = self.request.principal
        if self.consumer:
            return node.authorizer.authorize(principal, Operation.READ, ResourceType.TOPIC, topic)
        return node.authorizer.authorize(principal, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)

    def refused(self, subscription: Subscription, topic: str, code: ErrorCode) -> PartitionData:
        """An error; with the leader that the client should ask, when it is not we."""
        version = self.request.version
        if code is ErrorCode.KAFKA_STORAGE_ERROR and version <= 5:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = failed(subscription.index, code)
        if version >= LEADERS_FROM and code in SENT_WITH_LEADER:
            leader_id, leader_epoch = current_leader(self.node, topic, subscription.index)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        return data

    # Waiting

    def park(self, now_ms: int) -> None:
        """Waits on the session's ready set and the deadline. What had nothing is not ready any more."""
        session = self.session
        self.missing_bytes = self.min_bytes - self.size_bytes
        for subscription, answer in self.answers.values():
            if sum_of(answer) or to_be_told(subscription, answer) or self.has_more(subscription):
                session.ready[subscription.key] = subscription
        self.answers.clear()
        self.size_bytes = 0
        session.waiter = self
        if not self.consumer and self.node.replicas.expects(self.replica_id, now_ms):
            self.deadline_ms = min(self.deadline_ms, now_ms + limits.EXPECTED_FOLLOWER_WAIT_MS)
        if self.timer is None:
            self.timer = self.node.timers.at(self.deadline_ms, self.wake)
            self.node.parked_fetches[self.timer] = self
            if len(self.node.parked_fetches) > limits.PARKED_REQUESTS_MAX:
                oldest = next(iter(self.node.parked_fetches.values()))
                oldest.deadline_ms = now_ms
                oldest.wake(now_ms)

    def changed(self, subscription: Subscription, now_ms: int) -> None:
        """A partition of the session has something new: enough, perhaps. Then we look at the end of the turn, when what
        else was appended in it is there too: one answer instead of one for each partition.
        """
        partition = subscription.partition
        if partition is None:
            self.deadline_ms = now_ms
        elif subscription.key in self.throttled:
            return  # it gets nothing before the deadline
        else:
            self.missing_bytes -= subscription.new_bytes()
        if self.missing_bytes <= 0 or partition is None or self.tells_watermarks:
            self.node.woken_fetches[self] = None

    def hurry(self, now_ms: int) -> None:
        """Answers now: the follower has more to ask for than when it sent this fetch."""
        self.deadline_ms = now_ms
        self.wake(now_ms)

    def superseded(self, now_ms: int) -> None:
        """The client sent the next fetch of the session without waiting for this one."""
        self.wake(now_ms)

    def wake(self, now_ms: int) -> None:
        """Looks again, unless it was answered meanwhile, or a cold read is on its way, after which it looks anyway."""
        if self.request.held or self.timer is None:
            return
        if self.session.waiter is self:
            self.session.waiter = None
        self.node.dispatcher.run(self.request, now_ms)

    def abandon(self) -> None:
        """The connection is gone. A session lives on; subscriptions of a single fetch end."""
        self.stop_waiting()
        for key, (subscription, _) in self.answers.items():
            self.session.ready[key] = subscription
        if self.session.id == INVALID_SESSION_ID:
            self.session.close()

    def stop_waiting(self) -> None:
        if self.session.waiter is self:
            self.session.waiter = None
        if self.timer is not None:
            self.node.timers.cancel(self.timer)
            del self.node.parked_fetches[self.timer]
            self.timer = None

    # Answering

    def respond(self, now_ms: int) -> Message:
        """The response, and what the session remembers of it."""
        session = self.session
        incremental = session.id != INVALID_SESSION_ID
        topics: list[FetchableTopicResponse] = []
        leaders: dict[int, None] = {}
        served: list[Subscription] = []
        for subscription, answer in self.answers.values():
            size_bytes = sum_of(answer)
            told = not incremental or size_bytes > 0 or to_be_told(subscription, answer)
            if size_bytes:
                served.append(subscription)
            elif answer.error_code or self.has_more(subscription):
                session.ready[subscription.key] = subscription
            if told:
                self.told(subscription, answer, size_bytes)
                add_answer(topics, subscription, answer)
                if answer.current_leader.leader_id >= 0:
                    leaders[answer.current_leader.leader_id] = None
        for subscription in served:
            session.to_the_end(subscription)
        if self.replica_id >= 0:
            self.count_throttled(served, now_ms)
        if self.body_session_epoch == INITIAL_EPOCH and self.request.version >= SESSIONS_FROM and session.partitions:
            self.node.fetch_sessions.add(session, now_ms)
        response = FetchResponse(session_id=session.id, responses=topics)
        if leaders:
            response.node_endpoints = endpoints_of(self.node, leaders, self.request.listener)
        return self.finished(response)

    def told(self, subscription: Subscription, answer: PartitionData, size_bytes: int) -> None:
        """Remembers what the client is told of a partition, and counts it."""
        subscription.high_watermark = -1 if answer.error_code else answer.high_watermark
        subscription.log_start_offset = answer.log_start_offset
        if subscription.topic is not None:
            counters = self.node.topic_metrics.of(subscription.topic)
            counters.fetches += 1
            counters.bytes_out += size_bytes
            counters.failed_fetches += answer.error_code != 0

    def count_throttled(self, served: list[Subscription], now_ms: int) -> None:
        """What a follower gets of throttled partitions counts, whether it is in sync or not."""
        throttles = self.node.throttles
        for subscription in served:
            partition = subscription.partition
            if isinstance(partition, Partition) and throttles.leads_throttled(partition):
                throttles.leader.record(sum_of(self.answers[subscription.key][1]), now_ms)

    def has_more(self, subscription: Subscription) -> bool:
        """Whether a partition that gave nothing was only cut off by the limits."""
        partition = subscription.partition
        if partition is None or partition.log is None:
            return False
        if not self.consumer:
            return subscription.fetch_offset < partition.log.log_end_offset
        if self.isolation_level == READ_COMMITTED:
            return subscription.fetch_offset < partition.last_stable_offset
        return subscription.fetch_offset < partition.high_watermark

    def finished(self, response: Message) -> Message:
        self.stop_waiting()
        self.request.abandoned = None
        if self.session.id == INVALID_SESSION_ID:
            self.session.close()
        return response


def add_answer(topics: list[FetchableTopicResponse], subscription: Subscription, answer: PartitionData) -> None:
    """Puts a partition's answer into the response, under its topic if that was the last one."""
    topic = subscription.topic or ""
    if topics and topics[-1].topic == topic and topics[-1].topic_id == subscription.topic_id:
        topics[-1].partitions.append(answer)
    else:
        topics.append(FetchableTopicResponse(topic=topic, topic_id=subscription.topic_id, partitions=[answer]))


def sum_of(answer: PartitionData) -> int:
    """Bytes of records of an answer."""
    records = answer.records
    if records is NO_RECORDS or records is None:
        return 0
    return sum(piece.length for piece in cast("list[FileSlice]", records))


def to_be_told(subscription: Subscription, answer: PartitionData) -> bool:
    """Whether an answer without records says something that the client has not been told."""
    return (
        answer.error_code != 0
        or answer.high_watermark != subscription.high_watermark
        or answer.log_start_offset != subscription.log_start_offset
        or answer.diverging_epoch.end_offset >= 0
        or answer.preferred_read_replica >= 0
    )


def divergence(partition: Partition | Follower, subscription: Subscription) -> EpochEndOffset | None:
    """Where the reader's log parts from ours, by the epoch of its last record (KIP-595); None if it does not."""
    log = partition.log
    assert log is not None
    epoch, end_offset = log.leader_epochs.end_offset_for(subscription.last_fetched_epoch, log.log_end_offset)
    if epoch < 0 or end_offset < 0 or subscription.fetch_offset < log.log_start_offset:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < subscription.last_fetched_epoch or end_offset < subscription.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def failed(index: int, code: ErrorCode) -> PartitionData:
    """The answer for a partition with an error."""
    return PartitionData(
        partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=None, records=NO_RECORDS
    )


def hurry_followers(node: Broker, now_ms: int) -> None:
    """We lead partitions anew: fetches of their followers that wait are answered, so that they come back for those."""
    if not node.replicas.expected:
        return
    for fetch in list(node.parked_fetches.values()):
        if not fetch.consumer and node.replicas.expects(fetch.replica_id, now_ms):
            fetch.hurry(now_ms)


HANDLERS = (Handler(ApiKey.FETCH, handle, AUTHORIZE, refuse),)
