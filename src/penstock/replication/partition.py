"""A partition that this node leads: appends in two phases, the high watermark, and who waits for either.

`append_as_leader` answers `Rejected` (nothing happened), `Deferred` (work comes first that does not belong on the
loop: walking or recompressing a large batch; the caller runs the operation and appends what it gives) or `Prepared`
(offsets and producer state are reserved, the bytes go out with the log's next write). Who answers a client waits
here: for the log end with acks=1, for the high watermark with acks=all. Both queues are first-in first-out, since
offsets only grow.

The log end moves when the write has completed; that wakes the followers. The high watermark is the least log end offset
of the maximal ISR (`penstock.replication.isr`) and of those about to join it, and stands still while there are fewer
than min.insync.replicas (KIP-966); with one replica it follows the log end. When it moves, every subscribed fetch
session finds this partition in its ready set.

Who is in sync is decided in `penstock.replication.followed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from penstock.config import limits
from penstock.errors import ErrorCode, InvalidRecordError, PenstockError, RequestError
from penstock.log.log import Appended, Duplicate, Log
from penstock.records.batch import BatchHeader, WritableBuffer
from penstock.records.compression import Codec, Contexts
from penstock.records.validation import BatchRejectedError, RecordError, Rules, validate_header
from penstock.replication.followed import FollowedPartition
from penstock.replication.isr import PartitionOwner
from penstock.replication.remote import epoch_error
from penstock.replication.rewrite import Rewrite, level_of, rules_of, target_codec

if TYPE_CHECKING:
    from penstock.replication.fetch_session import Subscription

ACKS_ALL = -1
NO_OFFSET = -1


@dataclass(slots=True)
class Rejected:
    """Nothing was appended. `record_errors` names single records at fault, by index."""

    code: ErrorCode
    message: str
    record_errors: Sequence[RecordError] = ()


@dataclass(slots=True)
class Deferred:
    """`rewrite` has to run first (in the lane, it uses no disk); then append what it made by `append_rewritten`."""

    rewrite: Rewrite


@dataclass(slots=True)
class Prepared:
    """Reserved: the batch has these offsets if its write completes. Also for a batch that was appended before.

    `next_offset` is what the log end (acks=1) or the high watermark (acks=all) must reach. `timestamp_ms` is the
    log append time, -1 with create time.
    """

    base_offset: int
    next_offset: int
    timestamp_ms: int


class AppendWaiter(Protocol):
    """Who waits for an append. `slot` is its own note of which append it was."""

    def appended(self, slot: object, code: ErrorCode, now_ms: int) -> None:
        """The append has come as far as was asked (NONE), or never will."""


class Partition(FollowedPartition):
    """One partition that this node leads.

    Attributes:
        topic, index, topic_id: which one.
        leader_epoch: of this leadership; requests with another are refused. It began at `epoch_start_offset`.
        partition_epoch: counts the changes of the partition's state in the metadata.
        replicas, in_sync_replicas: ids of brokers, this one included; as committed by the controller.
        followers: the other replicas, by broker id; empty with one replica.
        proposal: the change of the ISR that the controller has been asked for, and has not decided.
        min_in_sync_replicas: as the topic asks, but not more than there are replicas.
        high_watermark: the offset below which every in-sync replica has everything.
        appended_bytes: appended by this leader since it opened the partition. written_bytes: those below the log end,
            readable_bytes: below the high watermark; parked fetches of replicas and consumers estimate by them.
        subscriptions: the fetch sessions and waiting fetches of consumers that read this partition, by subscription
            number. replica_subscriptions: those of followers.
    """

    __slots__ = (
        "_codec",
        "_end_offset",
        "_rewrites",
        "_unreadable",
        "_waiting_for_end",
        "_waiting_for_watermark",
        "appended_bytes",
        "index",
        "readable_bytes",
        "replica_subscriptions",
        "rules",
        "subscriptions",
        "topic",
        "topic_id",
        "written_bytes",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log,
        *,
        owner: PartitionOwner,
        node_id: int,
        leader_epoch: int,
        partition_epoch: int = 0,
        replicas: tuple[int, ...],
        in_sync_replicas: tuple[int, ...],
        high_watermark: int,
        now_ms: int,
    ) -> None:
        """`log` may still have writes under way, from the time as a follower; nothing of it is to be cut any more."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.node_id = node_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.epoch_start_offset = log.reserved_end_offset
        self.replicas = replicas
        self.in_sync_replicas = in_sync_replicas
        self.proposal = None
        self.followers = {}
        self.high_watermark = high_watermark
        self.subscriptions: dict[int, Subscription] = {}
        self.replica_subscriptions: dict[int, Subscription] = {}
        self._waiting_for_end: deque[tuple[int, AppendWaiter, object]] = deque()
        self._waiting_for_watermark: deque[tuple[int, AppendWaiter, object]] = deque()
        self._unreadable: deque[tuple[int, int]] = deque()
        self.appended_bytes = 0
        self.written_bytes = 0
        self.readable_bytes = 0
        self._owner = owner
        self._end_offset = log.log_end_offset
        self._config = None
        self._codec: Codec | None = None
        self._rewrites = False
        self.rules = Rules()
        self.min_in_sync_replicas = 1
        self._know_followers(now_ms)

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, epoch {self.leader_epoch}, high watermark {self.high_watermark})"

    # Reading

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """What read_committed may read up to: the high watermark, or where the oldest open transaction begins."""
        bound = self.log.last_stable_offset_bound
        return self.high_watermark if bound is None or bound > self.high_watermark else bound

    def check_epoch(self, leader_epoch: int) -> ErrorCode:
        """Compares the leader epoch that a client believes in with ours; -1 is a client that does not say (KIP-320)."""
        return epoch_error(leader_epoch, self.leader_epoch)

    def check_replica(self, replica_id: int, leader_epoch: int) -> ErrorCode:
        """Whether a broker that fetches as a follower has a replica. One that names our epoch just knows more than
        we; and nobody follows itself.
        """
        if replica_id in self.replicas and replica_id != self.node_id:
            return ErrorCode.NONE
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch == NO_OFFSET else ErrorCode.UNKNOWN_LEADER_EPOCH

    # Appending

    def append_as_leader(
        self, records: WritableBuffer, header: BatchHeader, acks: int, now_ms: int, *, deep: bool = False
    ) -> Rejected | Deferred | Prepared:
        """Validates one batch from a client and reserves its place.

        Args:
            records: exactly the batch, writable; kept until its write has completed.
            header: the batch's header, as read by `only_batch`.
            acks: -1, 0 or 1; with -1 there must be min.insync.replicas.
            deep: walk every record, whatever the topic says (penstock.produce.validation=deep).
        """
        log = self.log
        if log.config is not self._config:
            self._read_config()
        if acks == ACKS_ALL and len(self.in_sync_replicas) < self.min_in_sync_replicas:
            have, need = len(self.in_sync_replicas), self.min_in_sync_replicas
            return Rejected(ErrorCode.NOT_ENOUGH_REPLICAS, f"{have} replicas in sync, min.insync.replicas is {need}")
        try:
            validate_header(records, 0, header, self.rules, now_ms)
            rewrite = self._rewrite(records, header, deep) if deep or self._rewrites else None
            if rewrite is None:
                return self._append(records, header, now_ms)
            if header.size_bytes > limits.DEEP_VALIDATION_INLINE_MAX_BYTES:
                return Deferred(rewrite)
            return self.append_rewritten(rewrite, rewrite.rewritten(now_ms, Contexts()), now_ms)
        except BatchRejectedError as error:
            return Rejected(error.code, str(error), error.record_errors)
        except RequestError as error:
            return Rejected(error.code, error.message)
        except PenstockError as error:
            return Rejected(error.code, str(error))

    def append_rewritten(
        self, rewrite: Rewrite, outcome: WritableBuffer | PenstockError, now_ms: int
    ) -> Rejected | Prepared:
        """Appends what a rewrite made, or says why it failed."""
        if isinstance(outcome, BatchRejectedError):
            return Rejected(outcome.code, str(outcome), outcome.record_errors)
        if isinstance(outcome, PenstockError):
            return Rejected(outcome.code, str(outcome))
        try:
            if rewrite.leader_epoch != self.leader_epoch:
                return Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader changed while the batch was validated")
            return self._append(outcome, None, now_ms)
        except RequestError as error:
            return Rejected(error.code, error.message)
        except InvalidRecordError as error:
            return Rejected(error.code, str(error))

    def append_as_coordinator(self, records: WritableBuffer, header: BatchHeader, now_ms: int) -> Prepared:
        """Appends a batch that this node has made itself, as acks=all: there is nothing to check or to rewrite.

        Raises RequestError: NOT_ENOUGH_REPLICAS, or what the log refuses it with.
        """
        log = self.log
        if log.config is not self._config:
            self._read_config()
        if len(self.in_sync_replicas) < self.min_in_sync_replicas:
            have, need = len(self.in_sync_replicas), self.min_in_sync_replicas
            raise RequestError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{have} replicas in sync, min.insync.replicas is {need}")
        return self._append(records, header, now_ms)

    def _rewrite(self, records: WritableBuffer, header: BatchHeader, deep: bool) -> Rewrite | None:
        """What has to be done to a batch before it is appended, if anything."""
        config = self.log.config
        deep = deep or self.rules.compacted
        codec = self._codec if self._codec is not None else header.compression
        if not deep and codec is header.compression:
            return None
        level = level_of(config, codec)
        epoch = self.leader_epoch
        return Rewrite(records, header, self.rules, codec=codec, level=level, deep=deep, leader_epoch=epoch)

    def _append(self, records: WritableBuffer, header: BatchHeader | None, now_ms: int) -> Prepared:
        appended = self.log.append_as_leader(records, self.leader_epoch, now_ms, header=header)
        if type(appended) is Appended:
            self.appended_bytes += appended.size_bytes
            return Prepared(appended.base_offset, appended.last_offset + 1, appended.log_append_time_ms)
        assert type(appended) is Duplicate
        return Prepared(appended.base_offset, appended.last_offset + 1, appended.timestamp_ms)

    def _read_config(self) -> None:
        config = self.log.config
        self._config = config
        self.rules = rules_of(config)
        self._codec = target_codec(config)
        self._rewrites = self.rules.compacted or self._codec is not None
        self.min_in_sync_replicas = min(config.min_insync_replicas, len(self.replicas))

    # Waiting

    def wait(self, prepared: Prepared, acks: int, waiter: AppendWaiter, slot: object, now_ms: int) -> None:
        """Calls `waiter.appended(slot, ...)` once the append has come as far as `acks` asks; at once if it has
        already.
        """
        if acks == ACKS_ALL:
            if self.high_watermark >= prepared.next_offset:
                waiter.appended(slot, self._acks_all_result(), now_ms)
            else:
                self._waiting_for_watermark.append((prepared.next_offset, waiter, slot))
        elif self.log.log_end_offset >= prepared.next_offset:
            waiter.appended(slot, ErrorCode.NONE, now_ms)
        else:
            self._waiting_for_end.append((prepared.next_offset, waiter, slot))

    def _acks_all_result(self) -> ErrorCode:
        if self.followers and len(self.maximal_isr) < self.min_in_sync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def log_advanced(self, now_ms: int) -> None:
        """The log end has moved: answers acks=1, wakes followers, moves the high watermark, which wakes readers."""
        end_offset = self.log.log_end_offset
        waiting = self._waiting_for_end
        while waiting and waiting[0][0] <= end_offset:
            _, waiter, slot = waiting.popleft()
            waiter.appended(slot, ErrorCode.NONE, now_ms)
        self.written_bytes = self.appended_bytes
        if self.followers:
            self._leave_followers_behind(end_offset, now_ms)
        self.advance_high_watermark(now_ms)

    def _leave_followers_behind(self, end_offset: int, now_ms: int) -> None:
        before, self._end_offset = self._end_offset, end_offset
        for follower in self.followers.values():
            follower.leader_advances(before)
        if len(self._unreadable) == limits.UNREADABLE_WRITES_MAX:
            self._unreadable.pop()
        self._unreadable.append((end_offset, self.written_bytes))
        self._owner.lags(self, now_ms)
        for subscription in list(self.replica_subscriptions.values()):
            subscription.changed(now_ms)

    def advance_high_watermark(self, now_ms: int) -> None:
        """Moves the high watermark to where the maximal ISR has everything; never back."""
        offset = self._replicated_offset(now_ms) if self.followers else self.log.log_end_offset
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        self._owner.high_watermark_moved(self)
        if self.followers:
            unreadable = self._unreadable
            while unreadable and unreadable[0][0] <= offset:
                self.readable_bytes = unreadable.popleft()[1]
        else:
            self.readable_bytes = self.written_bytes
        waiting = self._waiting_for_watermark
        if waiting and waiting[0][0] <= offset:
            result = self._acks_all_result()
            while waiting and waiting[0][0] <= offset:
                _, waiter, slot = waiting.popleft()
                waiter.appended(slot, result, now_ms)
        self.wake(now_ms)

    def wake(self, now_ms: int) -> None:
        """Something that readers see has changed: puts this partition into the ready set of each."""
        if self.subscriptions:
            for subscription in list(self.subscriptions.values()):
                subscription.changed(now_ms)
        if self.replica_subscriptions:
            for subscription in list(self.replica_subscriptions.values()):
                subscription.changed(now_ms)

    def delete_records(self, offset: int, now_ms: int) -> int:
        """Moves the log start to `offset` (-1: the high watermark) and gives the new low watermark.

        Raises RequestError: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION when the topic is not cleaned by deletion.
        """
        policy = self.log.config.cleanup_policy
        if "compact" in policy and "delete" not in policy:
            raise RequestError(
                ErrorCode.POLICY_VIOLATION, f"records of {self.topic} cannot be deleted: its cleanup.policy is compact"
            )
        wanted = self.high_watermark if offset == NO_OFFSET else offset
        if wanted < 0:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is negative")
        if self.log.advance_log_start(wanted, self.high_watermark):
            self.wake(now_ms)
        return self.log.log_start_offset

    # Leadership

    def become_leader(
        self,
        leader_epoch: int,
        replicas: tuple[int, ...],
        in_sync: tuple[int, ...],
        now_ms: int,
        *,
        partition_epoch: int = 0,
    ) -> None:
        """A new state of a partition that we lead and go on to lead, out of the metadata.

        A state that we know already from an answer to a proposal, or a later one, changes nothing: a proposal which
        was made since may be accepted, and the high watermark has to wait for who it adds.
        """
        assert leader_epoch >= self.leader_epoch
        if partition_epoch <= self.partition_epoch and leader_epoch == self.leader_epoch:
            return
        self.partition_epoch = partition_epoch
        proposal, self.proposal = self.proposal, None
        if proposal is not None and [each for each, _ in proposal.isr] == list(in_sync):
            self._owner.isr_changed(self, proposal)
        self.in_sync_replicas = in_sync
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.epoch_start_offset = self.log.reserved_end_offset
            self._note_epoch()
            self.replicas = replicas
            self._know_followers(now_ms)
        elif replicas != self.replicas:
            self._assign(replicas, now_ms)
        self._config = None  # what it asks depends on the number of replicas
        if len(in_sync) < len(replicas):
            self._owner.lags(self, now_ms)
        self.advance_high_watermark(now_ms)
        self.consider_joining(now_ms)
        subscriptions, self.replica_subscriptions = self.replica_subscriptions, {}
        for subscription in subscriptions.values():
            subscription.lost(now_ms)  # it comes again, with the new epoch or to be told of it

    def reopened(self, log: Log) -> None:
        """Its log was closed, since others were used more recently, and is open again."""
        self.log = log
        self._note_epoch()

    def _note_epoch(self) -> None:
        """Writes down where this leader epoch begins; of a log that is closed, when it is open again."""
        if not self.log.closed and self.log.leader_epochs.latest < self.leader_epoch:
            self.log.start_epoch(self.leader_epoch)

    def stop(self, code: ErrorCode, now_ms: int) -> None:
        """We lead it no more: whoever waits is told `code`, readers come again and find out."""
        self.proposal = None
        for queue in (self._waiting_for_end, self._waiting_for_watermark):
            while queue:
                _, waiter, slot = queue.popleft()
                waiter.appended(slot, code, now_ms)
        self.followers = {}
        subscriptions = (*self.subscriptions.values(), *self.replica_subscriptions.values())
        self.subscriptions, self.replica_subscriptions = {}, {}
        for subscription in subscriptions:
            subscription.lost(now_ms)
