"""A partition that this node follows: what to fetch from its leader, and what to do with the answers.

    opening -> fetching <-> writing        the log's write of what was fetched is under way
                  | ^
                  v |
            truncating, asking, retrying   truncating; asking where the leader's log begins; a pause after an error

A follower asks for the offset at the end of its log and sends the epoch of its last record. If the leader's log
diverges from it, the answer is a *diverging epoch* instead of records. The follower then truncates its log, as far as
the leader says, or as far as it can tell itself, and asks again (KIP-595, as Kafka's replicas since 2.7). So a new
leader epoch needs no other step than the next fetch. A log without any epoch is first truncated to the high watermark.

It never asks for an offset before everything below is written: the leader relies on that.

Records go into the log unchanged, batch by batch, after their CRCs have been checked. High watermark and log start are
the leader's, as far as this log goes; neither goes back except by a truncation.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from penstock.errors import CorruptRecordError, ErrorCode, PenstockError, RequestError, StorageError
from penstock.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET
from penstock.log.log import Log
from penstock.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from penstock.records.batch import Buffer, read_entry
from penstock.replication import limits
from penstock.replication.remote import epoch_error
from penstock.replication.traffic import PartitionCounters

if TYPE_CHECKING:
    from penstock.replication.fetch_session import Subscription

NO_RECORDS = b""


class State(Enum):
    """The states of a follower: what it waits for."""

    OPENING = "opening"
    """Its log."""
    FETCHING = "fetching"
    """Nothing: it may be in a fetch."""
    WRITING = "writing"
    """The write of what it has fetched, or of what it appended before it became a follower."""
    TRUNCATING = "truncating"
    ASKING = "asking"
    """The leader's first and last offset: the one that it asked for is not among them."""
    RETRYING = "retrying"
    """A pause after an error."""
    FENCED = "fenced"
    """A newer leader epoch in the metadata: the leader has it already."""
    BROKEN = "broken"
    """Its log directory has failed."""


class Position(NamedTuple):
    """The position that a fetch asks for."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FollowerOwner(Protocol):
    """The driver of a follower."""

    def follower_moved(self, follower: Follower, now_ms: int) -> None:
        """Called when a follower's state or position has changed: look at `ready` and `position`, and at `state`
        ASKING.
        """

    def follower_retries(self, follower: Follower, delay_ms: int, now_ms: int) -> None:
        """Asks for a call of `follower.retry` after a delay."""

    def follower_wrote(self, follower: Follower, size_bytes: int) -> None:
        """Called when bytes were fetched and appended."""

    def high_watermark_moved(self, follower: Follower) -> None:
        """Called when `follower.high_watermark` has to be kept for the next checkpoint."""

    def follower_failed(self, follower: Follower, error: Exception) -> None:
        """Called when the leader's answer makes no sense, to report it; the follower tries again."""


class Follower:
    """See the module's head.

    Attributes:
        topic, index, topic_id: which partition.
        leader_id, leader_epoch: the leader that it follows.
        log: its log, once it was opened; a log that was closed meanwhile still knows its end.
        high_watermark: the leader's, as last heard, but not beyond the log's end.
        fetch_offset: the end of the log; or the leader's start, when the first batch there begins before it.
        lag: how far the high watermark was ahead at the last answer; None before the first.
        failures: errors in a row.
        traffic: counts what was fetched, and what consumers read here.
        subscriptions: the fetch sessions and waiting fetches of consumers that read this replica (KIP-392).
        readable_bytes: appended since the start, as of the last high watermark; those fetches estimate by it.
    """

    __slots__ = (
        "_appended_bytes",
        "_leader_high_watermark",
        "_leader_start_offset",
        "_owner",
        "_recut",
        "failures",
        "fetch_offset",
        "high_watermark",
        "index",
        "lag",
        "leader_epoch",
        "leader_id",
        "log",
        "readable_bytes",
        "replica_subscriptions",
        "state",
        "subscriptions",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: UUID,
        *,
        leader_id: int,
        leader_epoch: int,
        owner: FollowerOwner,
        traffic: PartitionCounters | None = None,
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.log: Log | None = None
        self.traffic = traffic or PartitionCounters()
        self.state = State.OPENING
        self.high_watermark = 0
        self.fetch_offset = 0
        self.lag: int | None = None
        self.failures = 0
        self.subscriptions: dict[int, Subscription] = {}
        self.replica_subscriptions: dict[int, Subscription] = {}
        self.readable_bytes = 0
        self._appended_bytes = 0
        self._leader_high_watermark = 0
        self._leader_start_offset = 0
        self._recut: int | None = None
        self._owner = owner

    def __repr__(self) -> str:
        return f"Follower({self.topic}-{self.index} of {self.leader_id}, epoch {self.leader_epoch}, {self.state.value})"

    @property
    def key(self) -> tuple[UUID, int]:
        """Topic id and index: the partition in a fetch session."""
        return (self.topic_id, self.index)

    @property
    def ready(self) -> bool:
        """Whether it can be in a fetch."""
        return self.state is State.FETCHING

    @property
    def position(self) -> Position:
        """The position to fetch from next."""
        log = self.log
        assert log is not None
        return Position(self.leader_epoch, self.fetch_offset, log.leader_epochs.latest, log.log_start_offset)

    @property
    def written_bytes(self) -> int:
        """The bytes in the log; only consumers read from a follower."""
        return self._appended_bytes

    # What consumers read here

    @property
    def last_stable_offset(self) -> int:
        """The end for read_committed: the high watermark, or the start of the oldest open transaction."""
        return self.high_watermark if self.log is None else self.log.last_stable_offset(self.high_watermark)

    def check_epoch(self, leader_epoch: int) -> ErrorCode:
        """Compares a client's leader epoch with ours (KIP-320)."""
        return epoch_error(leader_epoch, self.leader_epoch)

    def send_readers_away(self, now_ms: int) -> None:
        """Has readers come again after a change of the leader, to find out about it."""
        subscriptions, self.subscriptions = self.subscriptions, {}
        for subscription in subscriptions.values():
            subscription.lost(now_ms)

    # Who is followed

    def follow(self, leader_id: int, leader_epoch: int, now_ms: int) -> None:
        """Follows another leader, or the same one in another epoch."""
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.lag = None
        self.failures = 0
        self.send_readers_away(now_ms)
        if self.state in (State.FENCED, State.ASKING, State.RETRYING):
            self._take_position(now_ms)
        else:
            self._owner.follower_moved(self, now_ms)

    def opened(self, log: Log, high_watermark: int, now_ms: int) -> None:
        """Takes its position from its log, now open. `high_watermark` is the last one known, checkpointed or in use."""
        self.log = log
        if self.state is not State.OPENING:
            return
        if not log.truncating:
            high_watermark = min(high_watermark, log.log_end_offset)
        self.high_watermark = max(high_watermark, log.log_start_offset)
        if log.leader_epochs.latest == UNDEFINED_EPOCH and log.reserved_end_offset > self.high_watermark:
            self._truncate(self.high_watermark, now_ms)
        else:
            self._take_position(now_ms)

    def broken(self, now_ms: int) -> None:
        """Stops following, since the log cannot be used."""
        self._enter(State.BROKEN, now_ms)

    def _take_position(self, now_ms: int) -> None:
        """Takes the position from the log, unless that is being changed."""
        log = self.log
        if log is None:
            self._enter(State.OPENING, now_ms)
        elif log.truncating:
            self._enter(State.TRUNCATING, now_ms)
        elif log.log_end_offset != log.reserved_end_offset:
            self._enter(State.WRITING, now_ms)
        else:
            self.fetch_offset = log.log_end_offset
            if log.log_start_offset == log.log_end_offset < self._leader_start_offset:
                self.fetch_offset = self._leader_start_offset
            self._follow_leader_offsets(log, now_ms)
            self._enter(State.FETCHING, now_ms)

    def _enter(self, state: State, now_ms: int) -> None:
        self.state = state
        self._owner.follower_moved(self, now_ms)

    # Answers

    def fetched(self, asked: Position, data: PartitionData, now_ms: int) -> None:
        """Handles the leader's answer to a fetch at `asked`, unless that is no longer the position."""
        if self.state is not State.FETCHING or asked[:2] != self.position[:2]:
            return
        assert self.log is not None
        if self.log.closed:
            self._enter(State.OPENING, now_ms)  # it was the one least recently used; asked for again when it is open
            return
        code = ErrorCode(data.error_code)
        try:
            if code is not ErrorCode.NONE:
                self._refused(code, now_ms)
            elif data.diverging_epoch.end_offset >= 0:
                self.failures = 0
                self._truncate(self._end_of_common(data.diverging_epoch), now_ms)
            else:
                self._append(data, now_ms)
        except StorageError:
            self.broken(now_ms)
        except PenstockError as error:
            self._owner.follower_failed(self, error)
            self._retry_later(now_ms)
        except Exception as error:
            self._owner.follower_failed(self, error)
            self.broken(now_ms)

    def _append(self, data: PartitionData, now_ms: int) -> None:
        """Appends records from the leader, unchanged."""
        log = self.log
        assert log is not None
        records: Buffer = data.records if data.records else NO_RECORDS  # type: ignore[assignment]
        if records and log.log_start_offset == log.log_end_offset and self._begins_before(records, log):
            return self._start_over(read_entry(records).base_offset, data.log_start_offset, now_ms)
        appended = log.append_as_follower(records, now_ms, leader_epoch=self.leader_epoch, check_crcs=True)
        if records and not appended.size_bytes:
            raise CorruptRecordError(f"{len(records)} bytes at offset {self.fetch_offset} have no batch to append")
        self.failures = 0
        self.lag = max(0, data.high_watermark - appended.last_offset - 1)
        self._leader_high_watermark = data.high_watermark
        self._leader_start_offset = data.log_start_offset
        if appended.size_bytes:
            self._appended_bytes += appended.size_bytes
            self.traffic.replication_bytes_in += appended.size_bytes
            self._owner.follower_wrote(self, appended.size_bytes)
            self._enter(State.WRITING, now_ms)
        else:
            self._follow_leader_offsets(log, now_ms)
        return None

    def _begins_before(self, records: Buffer, log: Log) -> bool:
        """Whether the first batch holds the offset asked for and begins before the (empty) log does."""
        return read_entry(records).base_offset < log.log_end_offset

    def _start_over(self, base_offset: int, leader_start_offset: int, now_ms: int) -> None:
        """The leader's log starts within a batch, which is sent whole; so ours has to begin where the batch does."""
        assert self.log is not None
        self._leader_start_offset = leader_start_offset
        self.log.truncate_fully_and_start_at(base_offset, now_ms)
        self._take_position(now_ms)

    def _follow_leader_offsets(self, log: Log, now_ms: int) -> None:
        """Takes over the leader's high watermark and log start, as far as this log has come."""
        high_watermark = min(self._leader_high_watermark, log.log_end_offset)
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            log.producers.replicated_to(high_watermark)
            self._owner.high_watermark_moved(self)
            self.readable_bytes = self._appended_bytes
            for subscription in list(self.subscriptions.values()):
                subscription.changed(now_ms)
        behind = log.log_start_offset < self._leader_start_offset <= self.high_watermark
        if behind and not (log.failed or log.closed):  # a log that has closed hears of its last writes
            log.advance_log_start(self._leader_start_offset, self.high_watermark)

    def _refused(self, code: ErrorCode, now_ms: int) -> None:
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._enter(State.ASKING, now_ms)
        elif code is ErrorCode.FENCED_LEADER_EPOCH:
            self._enter(State.FENCED, now_ms)
        else:
            self._retry_later(now_ms)

    def _retry_later(self, now_ms: int) -> None:
        """Pauses: briefly at first, since most errors only last until a new leader has heard of its leadership."""
        delay_ms = limits.FETCH_RETRY_MS << min(self.failures, 20)
        self.failures += 1
        self._enter(State.RETRYING, now_ms)
        self._owner.follower_retries(self, delay_ms, now_ms)

    def retry(self, now_ms: int) -> None:
        """Continues after a pause."""
        if self.state is State.RETRYING:
            self._take_position(now_ms)

    # Where the logs part

    def _end_of_common(self, leader: EpochEndOffset) -> int:
        """The end of what both logs may share, given the leader's largest epoch up to our last, and its end there.

        If we do not have that epoch, the leader has none of our epochs after the one before it: truncate there, and ask
        again (KIP-279).
        """
        log = self.log
        assert log is not None
        end_offset = log.log_end_offset
        epoch, our_end_offset = log.leader_epochs.end_offset_for(leader.epoch, end_offset)
        if our_end_offset == UNDEFINED_OFFSET:
            return min(leader.end_offset, end_offset)
        if epoch != leader.epoch:
            return min(our_end_offset, end_offset)
        return min(our_end_offset, leader.end_offset, end_offset)

    def _truncate(self, offset: int, now_ms: int) -> None:
        """Truncates the log; with clean elections only, nothing below a high watermark is ever lost."""
        log = self.log
        assert log is not None
        if log.truncating:
            self._recut = offset
            return
        log.truncate_to(offset, now_ms)
        self._bound_high_watermark(log)
        self._take_position(now_ms)

    def _bound_high_watermark(self, log: Log) -> None:
        if log.log_end_offset < self.high_watermark:
            self.high_watermark = self._leader_high_watermark = log.log_end_offset
            self._owner.high_watermark_moved(self)

    def leader_offsets(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Where the leader's log begins and ends, as asked for in state ASKING.

        After an unclean election the leader's log may end before ours: then ours is truncated. If it begins after our
        end, we lack what it has deleted: our log begins anew at its start. Otherwise we just fetch again.
        """
        log = self.log
        if self.state is not State.ASKING or log is None:
            return
        if log.closed:
            self._enter(State.OPENING, now_ms)
            return
        try:
            if log_end_offset < log.log_end_offset:
                self._truncate(log_end_offset, now_ms)
            elif log_start_offset > log.log_end_offset:
                self._leader_start_offset = log_start_offset
                log.truncate_fully_and_start_at(log_start_offset, now_ms)
                self.high_watermark = log_start_offset
                self._owner.high_watermark_moved(self)
                self._take_position(now_ms)
            else:
                self._retry_later(now_ms)
        except StorageError:
            self.broken(now_ms)
        except RequestError as error:
            self._owner.follower_failed(self, error)
            self._retry_later(now_ms)

    def leader_offsets_failed(self, code: ErrorCode, now_ms: int) -> None:
        """Handles a failed request for the leader's offsets."""
        if self.state is State.ASKING:
            if code is ErrorCode.FENCED_LEADER_EPOCH:
                self._enter(State.FENCED, now_ms)
            else:
                self._retry_later(now_ms)

    # The log

    def log_start_moved(self, now_ms: int) -> None:
        """Retention or the leader has moved the log start, which the next fetch reports."""
        self._owner.follower_moved(self, now_ms)

    def log_changed(self, now_ms: int) -> None:
        """A write or a truncation of the log has completed."""
        log = self.log
        if log is None:
            return
        if not log.truncating:
            recut, self._recut = self._recut, None
            if recut is not None:
                self._truncate(recut, now_ms)
                return
            self._bound_high_watermark(log)
        if self.state in (State.WRITING, State.TRUNCATING):
            self._take_position(now_ms)
