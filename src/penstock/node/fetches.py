"""Parked fetches, and all others on their way: what each looks at, what it waits for, and its answer.

A fetch looks at the ready partitions of its session, some in each step. An error, enough bytes or its deadline ends it;
otherwise it is parked on its session, which tells it about every partition that has something new. When that may be
enough, the fetch looks again at the end of the turn, after all appends of the turn; a timer makes it look a last time
at its deadline. If too many are parked, the oldest is answered early.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, NotResident, RequestError
from penstock.log.manager import NotOpen
from penstock.node import limits
from penstock.node.client_quotas import ClientQuotas
from penstock.node.dispatcher import Dispatcher
from penstock.node.fetch_answers import (
    CONSUMER,
    NO_RECORDS,
    Said,
    add_answer,
    divergence,
    failed,
    put_records,
    replica_id,
    sum_of,
    to_be_told,
)
from penstock.node.gate import Gate
from penstock.node.leaders import current_leader, endpoints_of
from penstock.node.metrics import TopicMetrics
from penstock.node.request import AGAIN, LATER, Outcome, Request
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.steps import Pace, Stepped
from penstock.node.throttles import ReplicationThrottles
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import FetchResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData
from penstock.replication.fetch_session import (
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    Key,
    Session,
    SessionCache,
    Subscription,
)
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.security.authorizer import CLUSTER_NAME
from penstock.security.rights import ACT_IN_CLUSTER, READ_TOPIC, Right

if TYPE_CHECKING:
    from penstock.node.timers import Timer
    from penstock.replication.follower import Follower

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
SESSIONS_FROM = 7
FOLLOWERS_FROM = 11
TOPIC_IDS_FROM = 13
LEADERS_FROM = 16
LOOKS_PER_STEP = 100
"""Partitions that a fetch looks at before others have their turn."""
SENT_WITH_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Fetches:
    """What the fetches of a node share, and the parts that they use. It is state alone: what a fetch does is its own.

    Attributes:
        sessions: those that clients name (KIP-227).
        waiting: the parked fetches by their timers, oldest first.
        woken: those that look again at the end of the turn.
        looked_at: how many partitions fetches have looked at.
    """

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        dispatcher: Dispatcher,
        gate: Gate,
        replicas: Replicas,
        *,
        throttles: ReplicationThrottles,
        quotas: ClientQuotas,
        topic_metrics: TopicMetrics,
        partition_error: Callable[[str, str, int, Exception, int], ErrorCode],
    ) -> None:
        self.state = state
        self.scheduler = scheduler
        self.dispatcher = dispatcher
        self.gate = gate
        self.replicas = replicas
        self.throttles = throttles
        self.quotas = quotas
        self.topic_metrics = topic_metrics
        self.partition_error = partition_error
        slots = state.settings.max_incremental_fetch_session_cache_slots
        self.sessions = SessionCache(slots, scheduler.random)
        self.waiting: dict[Timer, Fetch] = {}
        self.woken: dict[Fetch, None] = {}
        self.looked_at = 0


def serve_woken(fetches: Fetches, now_ms: int) -> None:
    """Lets the woken fetches look again, at the end of a turn."""
    woken, fetches.woken = fetches.woken, {}
    for fetch in woken:
        fetches.scheduler.guarded("request", "a fetch that waited", fetch.wake, now_ms)


def answer_followers(fetches: Fetches, now_ms: int) -> None:
    """Answers the fetches of followers of newly led partitions, so that they come back for those."""
    if not fetches.replicas.expected:
        return
    for fetch in list(fetches.waiting.values()):
        if not fetch.consumer and fetches.replicas.expects(fetch.replica_id, now_ms):
            fetch.answer_now(now_ms)


class Fetch:
    """One fetch on its session: what it wants, and its wait."""

    __slots__ = (
        "answers",
        "at_once",
        "body_session_epoch",
        "consumer",
        "deadline_ms",
        "expected_epoch",
        "fetches",
        "isolation_level",
        "looks_left",
        "max_bytes",
        "min_bytes",
        "missing_bytes",
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

    def __init__(self, fetches: Fetches, request: Request[FetchRequest], session: Session) -> None:
        body = request.body
        self.fetches = fetches
        settings = fetches.state.settings
        self.request = request
        self.session = session
        self.expected_epoch = session.epoch
        self.body_session_epoch = body.session_epoch
        self.replica_id = replica_id(body)
        self.replica_epoch = body.replica_state.replica_epoch
        self.consumer = self.replica_id == CONSUMER
        selects = settings.replica_selector_class is not None
        self.rack = body.rack_id if self.consumer and selects else ""
        self.tells_watermarks = selects and not self.consumer
        self.isolation_level = body.isolation_level
        self.max_bytes = min(body.max_bytes, settings.fetch_max_bytes, fetches.quotas.fetch_max_bytes(request))
        self.min_bytes = min(body.min_bytes, self.max_bytes)
        self.deadline_ms = request.arrived_ms + body.max_wait_ms
        self.missing_bytes = 0
        self.timer: Timer | None = None
        self.answers: dict[Subscription, PartitionData] = {}
        self.looks_left = 0
        self.size_bytes = 0
        self.at_once = False
        self.throttled: dict[Key, None] = {}
        request.abandoned = self.abandon

    def attempt(self, now_ms: int) -> Outcome | Stepped[Outcome]:
        """Looks at the ready partitions. Answers, or waits for more."""
        session = self.session
        if session.epoch != self.expected_epoch:
            return self.finished(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id))
        if not self.answers:
            self.looks_left = len(session.ready)
            self.throttled.clear()
            if self.looks_left == 1 and self.timer is None and self.finds_nothing(now_ms):
                self.park(now_ms)
                return LATER
        if self.looks_left > 0:
            self.look_at_some(now_ms)
            if self.looks_left > 0:
                return AGAIN
        at_once = self.at_once or now_ms >= self.deadline_ms or not session.partitions
        if at_once or self.size_bytes >= self.min_bytes:
            if self.size_bytes and self.fetches.dispatcher.exit.holds_back(self.request, self.size_bytes, now_ms):
                return self.respond_with_nothing()
            if len(self.answers) > limits.PARTITIONS_PER_STEP:
                return self.respond_in_steps()
            said = Said()
            for subscription, answer in self.answers.items():
                self.say(subscription, answer, said)
            return self.respond(said, now_ms)
        self.park(now_ms)
        return LATER

    def finds_nothing(self, now_ms: int) -> bool:
        """The first look at the only ready partition, if it is led here and the client has all of it: nearly every
        fetch of a follower, and of a consumer without lag. Such a fetch is parked, and no answer made.

        It leaves everything as `look` does, and the partition ready if an answer, when one is made, has to tell
        something of it. Whatever is unusual, an error above all, is left to `look`, before anything has changed.
        """
        fetches, session = self.fetches, self.session
        (subscription,) = session.ready.values()
        topic = subscription.topic
        if topic is None or self.min_bytes <= 0 or now_ms >= self.deadline_ms or self.rack or self.tells_watermarks:
            return False
        right, name = self.right_on(topic)
        try:
            partition = fetches.replicas.leader(topic, subscription.index, now_ms)
            if not isinstance(partition, Partition) or not self.is_at_the_end(subscription, partition):
                return False
            if self.at_once or not fetches.gate.would_allow(self.request, right, name):
                return False
            subscription.attach(partition)
            if self.replica_id >= 0:
                self.follower_has(subscription, partition)
        except Exception:  # whatever it is, `look` meets it, too, and says or waits for what has to be
            return False
        fetches.gate.allowed(self.request, right, name)
        subscription.seen_bytes = partition.readable_bytes if self.consumer else partition.written_bytes
        fetches.looked_at += 1
        log_start_offset = partition.log.log_start_offset
        known = subscription.high_watermark, subscription.log_start_offset
        if known == (partition.high_watermark, log_start_offset):
            session.ready.pop(subscription.key, None)
        return True

    def right_on(self, topic: str) -> tuple[Right, str]:
        """What the requester needs, and on which name: READ on the topic, unless it fetches as a follower."""
        return (READ_TOPIC, topic) if self.replica_id < 0 else (ACT_IN_CLUSTER, CLUSTER_NAME)

    def is_at_the_end(self, subscription: Subscription, partition: Partition) -> bool:
        """Whether the client asks, with nothing wrong, for what does not exist yet, or is not to be seen by it yet."""
        if self.session.uses_topic_ids and partition.topic_id != subscription.topic_id:
            return False
        epoch = subscription.leader_epoch
        if partition.check_epoch(epoch) or (self.replica_id >= 0 and partition.check_replica(self.replica_id, epoch)):
            return False
        offset, end_offset = subscription.fetch_offset, partition.log.log_end_offset
        if offset != end_offset and (not self.consumer or not self.seen_end(partition) <= offset <= end_offset):
            return False
        return subscription.last_fetched_epoch < 0 or divergence(partition, subscription) is None

    def look_at_some(self, now_ms: int) -> None:
        """Looks at the next partitions of the ready set. If one is not open or not resident, the fetch runs again and
        keeps the answers so far; a partition that changes meanwhile becomes ready again.
        """
        ready = self.session.ready
        incremental = self.session.id != INVALID_SESSION_ID
        not_open: NotOpen | None = None
        login_over = self.timer is not None and self.fetches.dispatcher.logins.is_over(self.request.connection)
        self.at_once = self.at_once or login_over
        for subscription in list(islice(ready.values(), min(LOOKS_PER_STEP, self.looks_left))):
            try:
                limit_bytes = 0 if login_over else self.max_bytes - self.size_bytes
                answer = self.look(subscription, limit_bytes, self.size_bytes == 0 and not login_over, now_ms)
            except NotOpen as error:
                not_open = error
                continue
            ready.pop(subscription.key, None)
            before = self.answers.pop(subscription, None)
            if before is not None:
                self.size_bytes -= sum_of(before)
            self.answers[subscription] = answer
            self.size_bytes += sum_of(answer)
            self.looks_left -= 1
            self.fetches.looked_at += 1
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
        """The answer for one partition. Changes nothing but the subscription's own link to the partition."""
        fetches = self.fetches
        topic = subscription.topic
        if topic is None:
            topic = fetches.replicas.topic_name(subscription.topic_id)
            if topic is None:
                return failed(subscription.index, ErrorCode.UNKNOWN_TOPIC_ID)
            subscription.topic = topic
        if not fetches.gate.allows(self.request, *self.right_on(topic)):
            return failed(subscription.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = self.replica(subscription, topic, now_ms)
        if isinstance(partition, PartitionData):
            return partition
        subscription.attach(partition)
        try:
            return self.read(subscription, partition, limit_bytes, first)
        except RequestError as error:
            return failed(subscription.index, error.code)
        except NotResident:
            raise
        except Exception as error:
            code = fetches.partition_error("fetch", topic, subscription.index, error, now_ms)
            return failed(subscription.index, code)

    def replica(self, subscription: Subscription, topic: str, now_ms: int) -> Partition | Follower | PartitionData:
        """The replica to read from: led here, or followed, which consumers may read, too. Otherwise the error."""
        replicas = self.fetches.replicas
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
        """Reads from the log of a led or followed partition, within the limits."""
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
        upper_offset = log.log_end_offset if not self.consumer else self.seen_end(partition)
        if offset >= upper_offset or (limit_bytes <= 0 and not first):
            return data
        if self.replica_id >= 0 and isinstance(partition, Partition) and self.holds_back(subscription, partition):
            return data
        limit_bytes = max(0, min(subscription.max_bytes, limit_bytes))
        found = log.read(offset, limit_bytes, upper_offset, at_least_one=first)
        if found.size_bytes:
            subscription.next_offset = found.next_offset
            put_records(data, log, offset, found)
        return data

    def seen_end(self, partition: Partition | Follower) -> int:
        """The offset up to which a consumer sees the records of a partition."""
        committed = self.isolation_level == READ_COMMITTED
        return partition.last_stable_offset if committed else partition.high_watermark

    def is_closer_elsewhere(self, partition: Partition | Follower, offset: int, data: PartitionData) -> bool:
        """Whether a consumer should read from another replica, in its rack, which is then put into `data`."""
        if not isinstance(partition, Partition) or not partition.isr.followers:
            return False
        closest = partition.isr.closest(self.rack, self.fetches.state.rack_of, offset)
        if closest == self.fetches.state.node_id:
            return False
        data.preferred_read_replica = closest
        return True

    def follower_has(self, subscription: Subscription, partition: Partition) -> None:
        """Tells the partition how far a follower's log goes: up to the offset that it fetches from."""
        code = partition.follower_fetched(
            self.replica_id,
            subscription.fetch_offset,
            subscription.follower_log_start_offset,
            broker_epoch=self.replica_epoch,
            session=self.session,
            now_ms=self.fetches.scheduler.now_ms,
        )
        if code is not ErrorCode.NONE:
            raise RequestError(code)

    def holds_back(self, subscription: Subscription, partition: Partition) -> bool:
        """Whether a follower gets nothing for now, since throttled partitions have exceeded their rate."""
        throttles, now_ms = self.fetches.throttles, self.fetches.scheduler.now_ms
        if not throttles.holds_back(partition, self.replica_id, now_ms):
            return False
        self.throttled[subscription.key] = None
        self.deadline_ms = min(self.deadline_ms, throttles.leader.free_at_ms(now_ms))
        return True

    def refused(self, subscription: Subscription, topic: str, code: ErrorCode) -> PartitionData:
        """The answer with an error, and with the current leader if the client should ask that instead."""
        version = self.request.version
        if code is ErrorCode.KAFKA_STORAGE_ERROR and version <= 5:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = failed(subscription.index, code)
        if version >= LEADERS_FROM and code in SENT_WITH_LEADER:
            leader_id, leader_epoch = current_leader(self.fetches.state.image, topic, subscription.index)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        return data

    # Waiting

    def park(self, now_ms: int) -> None:
        """Waits on the session's ready set and the deadline. Partitions without anything new are no longer ready."""
        session = self.session
        self.missing_bytes = self.min_bytes - self.size_bytes
        for subscription, answer in self.answers.items():
            if sum_of(answer) or to_be_told(subscription, answer) or self.has_more(subscription):
                session.ready[subscription.key] = subscription
        self.answers.clear()
        self.size_bytes = 0
        session.waiter = self
        if not self.consumer and self.fetches.replicas.expects(self.replica_id, now_ms):
            self.deadline_ms = min(self.deadline_ms, now_ms + limits.EXPECTED_FOLLOWER_WAIT_MS)
        if self.timer is None:
            self.timer = self.fetches.scheduler.timers.at(self.deadline_ms, self.wake)
            waiting = self.fetches.waiting
            waiting[self.timer] = self
            if len(waiting) > limits.PARKED_REQUESTS_MAX:
                next(iter(waiting.values())).answer_now(now_ms)

    def changed(self, subscription: Subscription, now_ms: int) -> None:
        """A partition of the session has something new. If that may be enough, the fetch looks at the end of the turn,
        after all other appends of the turn: one answer instead of one for each partition.
        """
        partition = subscription.partition
        if partition is None:
            self.deadline_ms = now_ms
        elif subscription.key in self.throttled:
            return  # it gets nothing before the deadline
        else:
            self.missing_bytes -= subscription.new_bytes()
        if self.missing_bytes <= 0 or partition is None or self.tells_watermarks:
            self.fetches.woken[self] = None

    def answer_now(self, now_ms: int) -> None:
        """Answers now: a follower has more partitions to fetch by now, or too many fetches are parked."""
        self.deadline_ms = now_ms
        self.wake(now_ms)

    def superseded(self, now_ms: int) -> None:
        """The client sent the next fetch of the session without waiting for this one."""
        self.wake(now_ms)

    def broke(self, error: Exception, now_ms: int) -> None:
        """Ends this fetch after a bug in `changed`."""
        self.fetches.dispatcher.broke(self.request, error, now_ms, place="parked")

    def wake(self, now_ms: int) -> None:
        """Looks again, unless it was answered meanwhile or awaits a cold read, after which it looks anyway."""
        if self.request.held or self.timer is None:
            return
        if self.session.waiter is self:
            self.session.waiter = None
        self.fetches.dispatcher.run(self.request, now_ms)

    def abandon(self) -> None:
        """The connection is gone. A session stays; the subscriptions of a fetch without one end."""
        self.stop_waiting()
        for subscription in self.answers:
            self.session.ready[subscription.key] = subscription
        if self.session.id == INVALID_SESSION_ID:
            self.session.close()

    def stop_waiting(self) -> None:
        if self.session.waiter is self:
            self.session.waiter = None
        if self.timer is not None:
            self.fetches.scheduler.timers.cancel(self.timer)
            del self.fetches.waiting[self.timer]
            self.timer = None

    # Answering

    def respond_with_nothing(self) -> Message:
        """The response of a fetch that is over its quota: it changes nothing of the session."""
        for subscription in self.answers:
            self.session.ready[subscription.key] = subscription
        return self.finished(FetchResponse(session_id=self.session.id, responses=[]))

    def respond_in_steps(self) -> Stepped[Outcome]:
        """The response with many partitions. From now on nothing wakes the fetch."""
        self.stop_waiting()
        said, pace = Said(), Pace()
        for subscription, answer in self.answers.items():
            if pace.is_over():
                yield None
            self.say(subscription, answer, said)
        return self.respond(said, self.fetches.scheduler.now_ms)

    def say(self, subscription: Subscription, answer: PartitionData, said: Said) -> None:
        """Puts the answer for one partition into the response, if it contains anything new."""
        session = self.session
        size_bytes = sum_of(answer)
        told = session.id == INVALID_SESSION_ID or size_bytes > 0 or to_be_told(subscription, answer)
        if size_bytes:
            said.served.append(subscription)
        elif answer.error_code or self.has_more(subscription):
            session.ready[subscription.key] = subscription
        if told:
            self.told(subscription, answer, size_bytes)
            add_answer(said.topics, subscription, answer)
            if answer.current_leader.leader_id >= 0:
                said.leaders[answer.current_leader.leader_id] = None

    def respond(self, said: Said, now_ms: int) -> Message:
        """The response; updates the session by what the response says."""
        session, topics, leaders = self.session, said.topics, said.leaders
        for subscription in said.served:
            session.to_the_end(subscription)
        if self.replica_id >= 0:
            self.count_throttled(said.served, now_ms)
        if self.body_session_epoch == INITIAL_EPOCH and self.request.version >= SESSIONS_FROM and session.partitions:
            self.fetches.sessions.add(session, now_ms)
        response = FetchResponse(session_id=session.id, responses=topics)
        if leaders:
            response.node_endpoints = endpoints_of(
                self.fetches.state.image, leaders, self.request.listener, NodeEndpoint
            )
        return self.finished(response)

    def told(self, subscription: Subscription, answer: PartitionData, size_bytes: int) -> None:
        """Records in the subscription, and in the metrics, what the client is told about a partition."""
        subscription.high_watermark = -1 if answer.error_code else answer.high_watermark
        subscription.log_start_offset = answer.log_start_offset
        if subscription.topic is not None:
            counters = self.fetches.topic_metrics.of(subscription.topic)
            counters.fetches += 1
            counters.bytes_out += size_bytes
            counters.failed_fetches += answer.error_code != 0
            if size_bytes:
                partition = subscription.partition  # None: it has just gone
                topic, index = subscription.topic, subscription.index
                traffic = self.fetches.replicas.traffic.of(topic, index) if partition is None else partition.traffic
                if self.consumer:
                    traffic.bytes_out += size_bytes
                    traffic.records_out += subscription.next_offset - subscription.fetch_offset
                else:
                    traffic.replication_bytes_out += size_bytes

    def count_throttled(self, served: list[Subscription], now_ms: int) -> None:
        """Counts what a follower gets of throttled partitions, in sync or not."""
        throttles = self.fetches.throttles
        for subscription in served:
            partition = subscription.partition
            if isinstance(partition, Partition) and throttles.leads_throttled(partition):
                throttles.leader.record(sum_of(self.answers[subscription]), now_ms)

    def has_more(self, subscription: Subscription) -> bool:
        """Whether only the limits kept a partition from giving more records."""
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
