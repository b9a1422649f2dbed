"""A partition that this node leads: appends in two phases, the high watermark, and the requests that wait for either.

`append_as_leader` returns `Rejected` (nothing happened), `Deferred` (work that does not belong on the loop comes first,
such as validating or recompressing a large batch; the caller has it done and passes its result to `resume`) or
`Prepared` (offsets and producer state are reserved, the bytes go out with the log's next write). Requests wait here for
the log end with acks=1, and for the high watermark with acks=all (`penstock.replication.waiting`).

The log end moves when the write has completed; that wakes the followers. With one replica the high watermark follows
it, otherwise it goes as far as `InSyncReplicas` allows. When it moves, this partition enters the ready set of every
subscribed fetch session.

Followers are known by their fetches. `InSyncReplicas` also decides which of them join or leave the ISR; the `IsrDriver`
sends its proposals.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.log.log import Log
from penstock.log.producer_state import Origin, VerificationGuard
from penstock.log.results import Appended, Duplicate
from penstock.records.batch import TRANSACTIONAL_FLAG, BatchHeader, WritableBuffer
from penstock.records.validation import validate_header
from penstock.replication import limits
from penstock.replication.appends import ACKS_ALL, Deferred, Prepared, Rejected, rejected
from penstock.replication.in_sync_replicas import InSyncReplicas, KnownBrokers, Proposal, Verdict
from penstock.replication.remote import UNKNOWN_EPOCH, epoch_error
from penstock.replication.rewrite import Rewrite, level_of, rules_of, target_codec
from penstock.replication.traffic import PartitionCounters
from penstock.replication.waiting import AppendWaiter, Waiters, tell

if TYPE_CHECKING:
    from penstock.config.topic import TopicConfig
    from penstock.protocol.messages.alter_partition_response import PartitionData as AlteredPartition
    from penstock.replication.fetch_session import Session, Subscription

NO_OFFSET = -1
NONE = ErrorCode.NONE  # as `CLIENT` in producer_state: every append of every waiter asks
new_tuple = tuple.__new__
"""Makes a named tuple at a third of the cost of its own constructor, which is written in Python."""


class PartitionOwner(KnownBrokers, Protocol):
    """The calls that a led partition makes to its broker."""

    def high_watermark_moved(self, partition: Partition) -> None:
        """Called when `partition.high_watermark` has to be kept for the next checkpoint."""

    def low_watermark_moved(self, partition: Partition, now_ms: int) -> None:
        """A follower has reported another log start."""


class IsrDriver(Protocol):
    """The driver that checks lagging partitions and sends proposals to the controller."""

    def lags(self, partition: Partition, now_ms: int) -> None:
        """Called for a partition whose followers are behind or out of sync: call its `look_after_followers` from time
        to time.
        """

    def look(self, now_ms: int) -> None:
        """Look at all lagging partitions now; if there are very many, in steps."""

    def forget(self, partition: Partition) -> None:
        """Called when this node no longer leads a partition."""

    def propose(self, partition: Partition, now_ms: int) -> None:
        """Asks for `partition.isr.proposal` to be sent to the controller; its answer goes to
        `partition.alter_answered`.
        """

    def accepted(self, proposal: Proposal) -> None:
        """The controller has made a proposed change."""


class Partition:
    """One partition that this node leads.

    Attributes:
        topic, index, topic_id: which one.
        isr: who is in sync, in this leader epoch.
        high_watermark: the offset below which every in-sync replica has everything.
        appended_bytes: appended by this leader since it opened the partition. written_bytes: those below the log end,
            readable_bytes: below the high watermark; parked fetches of replicas and consumers estimate by them.
        subscriptions: the fetch sessions and waiting fetches of consumers that read this partition, by subscription
            number. replica_subscriptions: those of followers.
        traffic: counts what clients and followers send and get.
        waiting_for_end, waiting_for_watermark: who waits for an append.
    """

    __slots__ = (
        "_codec",
        "_config",
        "_end_offset",
        "_isr_driver",
        "_node_id",
        "_owner",
        "_rewrites",
        "_unreadable",
        "appended_bytes",
        "high_watermark",
        "index",
        "isr",
        "log",
        "readable_bytes",
        "replica_subscriptions",
        "rules",
        "subscriptions",
        "topic",
        "topic_id",
        "traffic",
        "waiting_for_end",
        "waiting_for_watermark",
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
        isr_driver: IsrDriver,
        node_id: int,
        leader_epoch: int,
        partition_epoch: int = 0,
        replicas: tuple[int, ...],
        in_sync_replicas: tuple[int, ...],
        high_watermark: int,
        now_ms: int,
        traffic: PartitionCounters | None = None,
    ) -> None:
        """`log` may still have writes under way from the time as a follower; none of it is truncated any more."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self._node_id = node_id
        self.high_watermark = high_watermark
        self.traffic = traffic or PartitionCounters()
        self.subscriptions: dict[int, Subscription] = {}
        self.replica_subscriptions: dict[int, Subscription] = {}
        self.waiting_for_end = Waiters()
        self.waiting_for_watermark = Waiters()
        self._unreadable: deque[tuple[int, int]] = deque()
        self.appended_bytes = 0
        self.written_bytes = 0
        self.readable_bytes = 0
        self._owner = owner
        self._isr_driver = isr_driver
        self._end_offset = log.log_end_offset
        self._begin_epoch(leader_epoch, partition_epoch, replicas, in_sync_replicas, now_ms)
        self._read_config()
        if self.isr.followers:
            isr_driver.lags(self, now_ms)

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, epoch {self.leader_epoch}, high watermark {self.high_watermark})"

    # Reading

    @property
    def leader_epoch(self) -> int:
        """The epoch of this leadership; requests with another are refused."""
        return self.isr.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end for read_committed: the high watermark, or the start of the oldest open transaction."""
        return self.log.last_stable_offset(self.high_watermark)

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of this leader and its live followers (KIP-107)."""
        starts = [
            follower.log_start_offset
            for follower in self.isr.followers.values()
            if self._owner.broker_epoch_of(follower.broker_id) is not None
        ]
        return min(self.log.log_start_offset, *starts) if starts else self.log.log_start_offset

    def check_epoch(self, leader_epoch: int) -> ErrorCode:
        """Compares a client's leader epoch with ours; -1 if the client does not send it (KIP-320)."""
        return epoch_error(leader_epoch, self.isr.leader_epoch)

    def check_replica(self, replica_id: int, leader_epoch: int) -> ErrorCode:
        """Whether a broker that fetches as a follower has a replica. One that sends our epoch just has newer metadata;
        and nobody follows itself.
        """
        if replica_id in self.isr.followers:
            return ErrorCode.NONE
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch == NO_OFFSET else ErrorCode.UNKNOWN_LEADER_EPOCH

    # Appending

    def append_as_leader(
        self,
        records: WritableBuffer,
        header: BatchHeader,
        acks: int,
        now_ms: int,
        *,
        deep: bool = False,
        guard: VerificationGuard | None = None,
    ) -> Rejected | Deferred | Prepared:
        """Validates one batch from a client and reserves its place.

        Args:
            records: exactly the batch, writable; kept until its write has completed.
            header: the batch's header, as read by `only_batch`.
            acks: -1, 0 or 1; with -1 there must be min.insync.replicas.
            deep: walk every record, whatever the topic says (penstock.produce.validation=deep).
            guard: what `log.producers.guard` gave before the transaction was verified, for a batch that may begin it.
        """
        log = self.log
        if log.config is not self._config:
            self._read_config()
        if acks == ACKS_ALL and len(self.isr.committed) < self.isr.minimum:
            have, need = len(self.isr.committed), self.isr.minimum
            return Rejected(ErrorCode.NOT_ENOUGH_REPLICAS, f"{have} replicas in sync, min.insync.replicas is {need}")
        try:
            wall_ms = log.wall.at(now_ms)
            validate_header(records, 0, header, self.rules, wall_ms)
            rewrite = self._rewrite(records, header, deep) if deep or self._rewrites else None
            if rewrite is None:
                return self._append(records, header, now_ms, header, guard)
            outcome = rewrite.rewritten_inline(wall_ms)
            deferred = Deferred(rewrite, header, self.isr.leader_epoch, guard)
            return deferred if outcome is None else self.resume(deferred, outcome, now_ms)
        except PenstockError as error:
            return rejected(error)

    def resume(self, deferred: Deferred, outcome: WritableBuffer | PenstockError, now_ms: int) -> Rejected | Prepared:
        """Continues a deferred append: appends the resulting batch, or returns the error."""
        if isinstance(outcome, PenstockError):
            return rejected(outcome)
        try:
            if deferred.leader_epoch != self.isr.leader_epoch:
                return Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader changed while the batch was validated")
            return self._append(outcome, None, now_ms, deferred.header, deferred.guard)
        except PenstockError as error:
            return rejected(error)

    def append_as_coordinator(
        self,
        records: WritableBuffer,
        header: BatchHeader,
        now_ms: int,
        *,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> Prepared:
        """Appends a batch that a coordinator has made, as acks=all: its own records, those of a producer that it writes
        for, or the marker that ends a transaction. Nothing is rewritten, and sequences are not looked at.

        Args:
            guard: what `log.producers.guard` gave before the transaction was verified, for a batch that may begin it.
            transaction_version: by whose rules a marker ends its transaction.

        It may use what is kept in reserve of the disk. Raises RequestError: NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR if
        a write has just found no room, or what the log refuses it with (`ProducerState.check_coordinated`).
        """
        log = self.log
        if log.config is not self._config:
            self._read_config()
        if len(self.isr.committed) < self.isr.minimum:
            have, need = len(self.isr.committed), self.isr.minimum
            raise RequestError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{have} replicas in sync, min.insync.replicas is {need}")
        if log.space.exhausted:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of {log.name} is full")
        log.producers.check_coordinated(header, guard, transaction_version)
        epoch = self.isr.leader_epoch
        appended = log.append_as_leader(records, epoch, now_ms, header=header, origin=Origin.COORDINATOR)
        assert type(appended) is Appended, "only clients repeat batches"
        self.appended_bytes += appended.size_bytes
        return Prepared(appended.base_offset, appended.last_offset + 1, appended.log_append_time_ms)

    def _rewrite(self, records: WritableBuffer, header: BatchHeader, deep: bool) -> Rewrite | None:
        """The rewrite that a batch needs before it is appended, if any."""
        config = self.log.config
        deep = deep or self.rules.compacted
        codec = self._codec if self._codec is not None else header.compression
        if not deep and codec is header.compression:
            return None
        level = level_of(config, codec)
        return Rewrite(records, header, self.rules, codec=codec, level=level, deep=deep)

    def _append(
        self,
        records: WritableBuffer,
        header: BatchHeader | None,
        now_ms: int,
        sent: BatchHeader,
        guard: VerificationGuard | None,
    ) -> Prepared:
        """Appends a batch; `header` is None if it is not what was `sent` any more."""
        if self.log.space.full:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.log.name} is full")
        if sent.attributes & TRANSACTIONAL_FLAG and sent.producer_id >= 0:
            producers = self.log.producers
            if producers.duplicate_of(sent) is None:
                producers.check_verified(sent, guard)
        appended = self.log.append_as_leader(records, self.isr.leader_epoch, now_ms, header=header)
        if type(appended) is Appended:
            base_offset, last_offset, append_time_ms, size_bytes = appended
            self.appended_bytes += size_bytes
            return new_tuple(Prepared, (base_offset, last_offset + 1, append_time_ms))
        assert type(appended) is Duplicate
        return Prepared(appended.base_offset, appended.last_offset + 1, appended.timestamp_ms)

    def _read_config(self) -> None:
        """Applies the topic's configuration."""
        config = self.log.config
        self._config: TopicConfig = config
        self.rules = rules_of(config)
        self._codec = target_codec(config)
        self._rewrites = self.rules.compacted or self._codec is not None
        self.isr.require(config.min_insync_replicas)

    # Waiting

    def wait(self, prepared: Prepared, acks: int, waiter: AppendWaiter, slot: object, now_ms: int) -> None:
        """Calls `waiter.appended(slot, ...)` once the append has come as far as `acks` asks; at once if it has
        already.
        """
        if acks == ACKS_ALL:
            if self.high_watermark >= prepared.next_offset:
                tell(waiter, slot, self._acks_all_result(), now_ms)
            else:
                self.waiting_for_watermark.add(prepared.next_offset, waiter, slot)
        elif self.log.log_end_offset >= prepared.next_offset:
            tell(waiter, slot, NONE, now_ms)
        else:
            self.waiting_for_end.add(prepared.next_offset, waiter, slot)

    def give_up(self, prepared: Prepared, waiter: AppendWaiter, slot: object) -> bool:
        """Removes a waiter for the high watermark. False if it was not waiting, because it has already been told."""
        return self.waiting_for_watermark.remove(prepared.next_offset, waiter, slot)

    def _acks_all_result(self) -> ErrorCode:
        isr = self.isr
        if isr.followers and len(isr.maximal) < isr.minimum:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def log_advanced(self, now_ms: int) -> None:
        """The log end has moved: answers acks=1, wakes followers, moves the high watermark, which wakes readers."""
        end_offset = self.log.log_end_offset
        for _, waiter, slot in self.waiting_for_end.reached(end_offset):
            tell(waiter, slot, NONE, now_ms)
        self.written_bytes = self.appended_bytes
        if self.isr.followers:
            self._leave_followers_behind(end_offset, now_ms)
        self.advance_high_watermark(now_ms)

    def appends_undone(self, now_ms: int) -> None:
        """The disk was full: what is beyond the log end is not appended, and whoever waits for it is told."""
        self.appended_bytes = self.written_bytes
        self.isr.epoch_start_offset = min(self.isr.epoch_start_offset, self.log.log_end_offset)
        for waiting in (self.waiting_for_end, self.waiting_for_watermark):
            for _, waiter, slot in waiting.beyond(self.log.log_end_offset):
                tell(waiter, slot, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)

    def _leave_followers_behind(self, end_offset: int, now_ms: int) -> None:
        before, self._end_offset = self._end_offset, end_offset
        for follower in self.isr.followers.values():
            follower.leader_advances(before)
        if len(self._unreadable) == limits.UNREADABLE_WRITES_MAX:
            self._unreadable.pop()
        self._unreadable.append((end_offset, self.written_bytes))
        self._isr_driver.lags(self, now_ms)
        for subscription in list(self.replica_subscriptions.values()):
            subscription.changed(now_ms)

    def advance_high_watermark(self, now_ms: int) -> None:
        """Moves the high watermark to where the maximal ISR has everything; never back."""
        log, isr = self.log, self.isr
        offset = log.log_end_offset
        if isr.followers:
            if log.config is not self._config:
                self._read_config()
            offset = isr.high_watermark_to(self.high_watermark, offset, now_ms)
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        log.producers.replicated_to(offset)
        self._owner.high_watermark_moved(self)
        if isr.followers:
            unreadable = self._unreadable
            while unreadable and unreadable[0][0] <= offset:
                self.readable_bytes = unreadable.popleft()[1]
        else:
            self.readable_bytes = self.written_bytes
        waiting = self.waiting_for_watermark
        if waiting:
            result = self._acks_all_result()
            for _, waiter, slot in waiting.reached(offset):
                tell(waiter, slot, result, now_ms)
        self.wake(now_ms)

    def wake(self, now_ms: int) -> None:
        """Something that readers see has changed: puts this partition into their ready sets."""
        if self.subscriptions:
            for subscription in list(self.subscriptions.values()):
                subscription.changed(now_ms)
        if self.replica_subscriptions:
            for subscription in list(self.replica_subscriptions.values()):
                subscription.changed(now_ms)

    def delete_records(self, offset: int, now_ms: int) -> int:
        """Moves the log start to `offset` (-1: the high watermark) and returns the new low watermark.

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

    # Followers and the ISR

    def follower_fetched(
        self,
        broker_id: int,
        offset: int,
        log_start_offset: int,
        *,
        broker_epoch: int,
        session: Session | None,
        now_ms: int,
    ) -> ErrorCode:
        """A follower asks for `offset` under our leader epoch, and its log does not diverge: it has everything below.

        It may join the ISR thereby, and the high watermark may move. NOT_LEADER_OR_FOLLOWER if the fetch comes from an
        old incarnation of the broker (KIP-903).
        """
        isr = self.isr
        follower = isr.followers[broker_id]
        registered = self._owner.broker_epoch_of(broker_id)
        if broker_epoch != UNKNOWN_EPOCH and registered is not None and registered > broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        before, end_offset = follower.log_end_offset, self.log.log_end_offset
        start_before = follower.log_start_offset
        follower.fetched(
            offset,
            log_start_offset,
            leader_end_offset=end_offset,
            broker_epoch=broker_epoch,
            session=session,
            now_ms=now_ms,
        )
        if broker_id not in isr.committed:
            self.expand_isr(now_ms)
        if log_start_offset != start_before:
            self._owner.low_watermark_moved(self, now_ms)
        if offset != before or self.high_watermark < end_offset:
            self.advance_high_watermark(now_ms)
        return ErrorCode.NONE

    def look_after_followers(self, now_ms: int) -> bool:
        """Proposes to remove in-sync followers that have been behind for too long, or to add those that may join; moves
        the high watermark, which does not wait for followers that cannot join soon.

        Returns whether any follower must be watched further.
        """
        self.expand_isr(now_ms)
        end_offset = self.log.log_end_offset
        if self.isr.shrink(end_offset, now_ms) is not None:
            self._isr_driver.propose(self, now_ms)
        self.advance_high_watermark(now_ms)
        return self.isr.lags(end_offset)

    def expand_isr(self, now_ms: int) -> None:
        """Proposes to add followers that may join: called when one has fetched, and when something else that may have
        kept it out has changed. Its next fetch does not mention a partition in which it has everything.
        """
        if self.isr.expand(self.high_watermark) is not None:
            self._isr_driver.propose(self, now_ms)

    def alter_answered(self, proposal: Proposal, answer: ErrorCode | AlteredPartition, now_ms: int) -> bool:
        """The controller's answer to a proposal: the partition's state as altered, or an error. True: ask again."""
        verdict = self.isr.answered(proposal, answer)
        if verdict is Verdict.ROLLED_BACK:
            self._isr_driver.lags(self, now_ms)
            self.advance_high_watermark(now_ms)
        elif verdict is Verdict.ACCEPTED:
            self._isr_driver.accepted(proposal)
            self.advance_high_watermark(now_ms)
            self.expand_isr(now_ms)
        return verdict is Verdict.RETRY

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
        was made since may be accepted, and the high watermark has to wait for who it adds. But the high watermark may
        go on if it has waited for this state.
        """
        isr = self.isr
        assert leader_epoch >= isr.leader_epoch
        isr.metadata_reached(partition_epoch)
        if partition_epoch <= isr.partition_epoch and leader_epoch == isr.leader_epoch:
            self.advance_high_watermark(now_ms)
            self.expand_isr(now_ms)
            return
        proposal = isr.proposal
        if proposal is not None and [each for each, _ in proposal.isr] == list(in_sync):
            self._isr_driver.accepted(proposal)
        anew = leader_epoch > isr.leader_epoch or replicas != isr.replicas
        if leader_epoch > isr.leader_epoch:
            self._begin_epoch(leader_epoch, partition_epoch, replicas, in_sync, now_ms)
            self.note_epoch()
        else:
            isr.change(partition_epoch, replicas, in_sync, now_ms)
        self._read_config()  # what it asks depends on the number of replicas
        if len(in_sync) < len(replicas) or (anew and self.isr.followers):
            self._isr_driver.lags(self, now_ms)
        self.advance_high_watermark(now_ms)
        self.expand_isr(now_ms)
        subscriptions, self.replica_subscriptions = self.replica_subscriptions, {}
        for subscription in subscriptions.values():
            subscription.lost(now_ms)  # it comes again, with the new epoch or to be told of it

    def _begin_epoch(
        self,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        in_sync: tuple[int, ...],
        now_ms: int,
    ) -> None:
        self.isr = InSyncReplicas(
            self._node_id,
            self._owner,
            leader_epoch=leader_epoch,
            epoch_start_offset=self.log.reserved_end_offset,
            partition_epoch=partition_epoch,
            replicas=replicas,
            committed=in_sync,
            now_ms=now_ms,
        )

    def reopened(self, log: Log) -> None:
        """Takes the log that was reopened after it had been closed as the least recently used."""
        self.log = log
        self.note_epoch()

    def note_epoch(self) -> None:
        """Records where this leader epoch begins; for a closed log, when it is open again."""
        if not self.log.closed and self.log.leader_epochs.latest < self.isr.leader_epoch:
            self.log.start_epoch(self.isr.leader_epoch)

    def stop(self, code: ErrorCode, now_ms: int) -> None:
        """This node no longer leads the partition: waiting requests get `code`, readers come again and find out."""
        self.isr.clear()
        for _, waiter, slot in (*self.waiting_for_end.all(), *self.waiting_for_watermark.all()):
            tell(waiter, slot, code, now_ms)
        subscriptions = (*self.subscriptions.values(), *self.replica_subscriptions.values())
        self.subscriptions, self.replica_subscriptions = {}, {}
        for subscription in subscriptions:
            subscription.lost(now_ms)
