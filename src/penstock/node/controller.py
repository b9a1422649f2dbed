"""The active controller: its state machines on top of the metadata quorum, while this node leads it.

Requests read `state` (the metadata including everything appended) and get a `Result`; `append` replays its records at
once, writes them, and answers when they are committed. Brokers' images follow committed records only. When the
leadership is lost, or the log fails, everything uncommitted is undone and whoever waits for it is told.

The controller becomes active when this node leads the quorum and everything in the log is committed, loaded and
published; an empty log gets its first records then. It fences brokers that have fallen silent, balances leaders, and
elects leaders for partitions without one (`metadata.duties`). When nothing happens for a while it appends a NoOpRecord,
which shows others that it is alive. While there is no room for the log, which ends the leadership unless nobody else
can lead, it refuses changes and does nothing by itself.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from penstock.config.server import Settings
from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.metadata.activation import activation_records
from penstock.metadata.controller import Controller
from penstock.metadata.duties import Duties
from penstock.metadata.features import METADATA_VERSIONS, MetadataVersion
from penstock.metadata.heartbeats import Heartbeat
from penstock.metadata.limits import CONTROLLER_RECORDS_PER_BATCH_MAX
from penstock.metadata.loader import MetadataLoader, Publication
from penstock.metadata.records import encode_records
from penstock.metadata.result import MetadataMessage
from penstock.node.limits import METADATA_APPENDS_MAX
from penstock.node.quorum import Quorum
from penstock.protocol.messages.metadata.no_op_record import NoOpRecord
from penstock.records.builder import BatchBuilder

TRY_AGAIN_MS = 100
"""After which time the controller tries again to append what it could not."""

logger = logging.getLogger(__name__)


class ControllerObserver(Protocol):
    """The node around the controller."""

    def controller_active(self, now_ms: int) -> None:
        """This node is the active controller from now on: its state is complete, and `append` is allowed."""

    def broker_suspected(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """The connection to a broker is lost: call `ControllerNode.process_gone` if the broker's process has ended."""

    def bug(self, place: str, what: str, error: Exception) -> None:
        """An error that should never happen was raised."""


Done = Callable[[int], None]
Failed = Callable[[ErrorCode, int], None]


@dataclass(slots=True)
class _Waiting:
    """The callbacks of one append: everything through `last_offset` is committed, or it is lost."""

    last_offset: int
    committed: Done
    failed: Failed


class ControllerNode:
    """See the module's head.

    Attributes:
        state: the state machines, for handlers; they decide on everything appended so far. None before this node has
            led for the first time.
        duties: what the controller does without being asked, and the brokers' sessions; exists whenever `state` does.
        active: whether this node is the active controller.
    """

    def __init__(
        self,
        settings: Settings,
        quorum: Quorum,
        observer: ControllerObserver,
        *,
        bootstrap: Sequence[MetadataMessage],
        random: Random,
        own_broker_epoch: Callable[[], int] = lambda: -1,
    ) -> None:
        """`bootstrap`: the records that an empty metadata log starts with. `own_broker_epoch`: returns the epoch of the
        broker in this process, which lives as long as the controller does; -1 without one.
        """
        self.settings = settings
        self.active = False
        self.state: Controller
        self.duties: Duties
        self._own_broker_epoch = own_broker_epoch
        self._due = False
        self._try_again_ms: int | None = None
        self._appended_ms = 0
        self._heartbeat_connections: dict[int, tuple[int, int]] = {}
        self._quorum = quorum
        self._observer = observer
        self._bootstrap = bootstrap
        self._random = random
        self._waiting: deque[_Waiting] = deque()

    # What the quorum tells the controller

    def claim(self, loader: MetadataLoader, now_ms: int) -> None:
        """This node leads: takes over the loaded state."""
        self.state = Controller(self.settings, self._random, loader)
        self.duties = Duties(self.state, now_ms, self._quorum.wall)
        self._heartbeat_connections.clear()
        self._suspect_predecessor(now_ms)
        self._due = True
        self._try_again_ms = None
        self._appended_ms = now_ms
        self.active = True
        first = activation_records(self.state, self._bootstrap)
        if first.records:
            active = self._observer.controller_active
            self._append(first.records, active, lambda code, at_ms: None, now_ms, atomic=first.atomic)
        else:
            self._observer.controller_active(now_ms)

    def advance(self, last_offset: int, epoch: int, now_ms: int) -> None:
        """The quorum has appended a batch of its own."""
        self._appended_ms = now_ms
        self.state.advance(last_offset, epoch, self._quorum.wall.at(now_ms))

    def committed(self, high_watermark: int) -> list[Publication]:
        """Returns the images that are committed now."""
        return self.state.committed(high_watermark - 1)

    def published(self, high_watermark: int, now_ms: int) -> None:
        """Readers see everything below the offset, so the answers leave."""
        while self._waiting and self._waiting[0].last_offset < high_watermark:
            self._tell(partial(self._waiting.popleft().committed, now_ms))

    def renounce(self, now_ms: int) -> None:
        """The leadership is lost: undoes what is not committed. This controller is no longer active."""
        self.active = False
        self.state.revert()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            self._tell(partial(each.failed, ErrorCode.NOT_CONTROLLER, now_ms))

    def _tell(self, tell: Callable[[], None]) -> None:
        """Tells one waiter about its commit; an exception ends only that request."""
        try:
            tell()
        except Exception as error:
            self._observer.bug("metadata", "a change that was decided", error)

    # Appending

    @property
    def next_offset(self) -> int:
        """The offset of the record that is appended next."""
        return self._quorum.next_offset

    @property
    def metadata_version(self) -> MetadataVersion:
        """The row of the finalized metadata.version, by which record and request versions are chosen."""
        level = self.state.image.metadata_version
        return METADATA_VERSIONS[level or max(METADATA_VERSIONS)]

    def append(
        self, records: Sequence[MetadataMessage], committed: Done, failed: Failed, now_ms: int, *, atomic: bool = True
    ) -> None:
        """Replays records now and appends them, as one batch unless `atomic` is false: then as many as they need.

        `committed(now_ms)` is called when they are committed and `image` contains them, `failed(code, now_ms)` when
        they are lost; exactly one of them, never before this method has returned. Raises RequestError NOT_CONTROLLER if
        this node is not active, THROTTLING_QUOTA_EXCEEDED if too many appends wait, KAFKA_STORAGE_ERROR while the log
        has no room, or the log's reason for refusing a batch; then nothing is replayed.
        """
        self._check_room()
        self._append(records, committed, failed, now_ms, atomic=atomic)

    def _append(
        self, records: Sequence[MetadataMessage], committed: Done, failed: Failed, now_ms: int, *, atomic: bool
    ) -> None:
        assert records, "an append has records"
        wall_ms = self._quorum.wall.at(now_ms)
        batches = self._batches(records, wall_ms, atomic=atomic)
        for batch in batches:
            self._quorum.check_append(batch.size_bytes)
        first = 0
        for batch in batches:
            last = first + batch.record_count
            last_offset = batch.base_offset + batch.record_count - 1
            try:
                self.state.replay(records[first:last], last_offset, self._quorum.epoch, wall_ms)
            except Exception:
                self._quorum.resign(now_ms)  # a bug left the state half changed: back to what is committed, as Kafka
                raise
            self._quorum.append(batch, now_ms)
            first = last
        self._appended_ms = now_ms
        self._waiting.append(_Waiting(last_offset, committed, failed))
        self.duties.heartbeats.follow(self.state, now_ms)

    def when_committed(self, committed: Done, failed: Failed, now_ms: int) -> None:
        """Calls `committed` when everything appended so far is, at once if it is already; otherwise like `append`.

        For answers that change nothing but depend on uncommitted state, which might still be undone. Raises
        RequestError as `append` does.
        """
        if not self.state.uncommitted:
            committed(now_ms)
            return
        self._check_room()
        self._waiting.append(_Waiting(self.state.last_offset, committed, failed))

    def _check_room(self) -> None:
        if not self.active:
            raise RequestError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        if len(self._waiting) >= METADATA_APPENDS_MAX:
            raise RequestError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{METADATA_APPENDS_MAX} changes wait for the metadata log."
            )
        if self._quorum.waits_for_room:
            raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, "There is no room for the metadata log.")

    def _batches(self, records: Sequence[MetadataMessage], wall_ms: int, *, atomic: bool) -> list[BatchBuilder]:
        """The records in one batch, or, if they need not be atomic, in several that are small enough."""
        largest = self.settings.internal_metadata_max_batch_size_in_bytes
        next_offset = self._quorum.next_offset
        epoch = self._quorum.epoch
        batches = [BatchBuilder(base_offset=next_offset, leader_epoch=epoch)]
        for value in encode_records(records, self.metadata_version):
            builder = batches[-1]
            full = builder.record_count >= CONTROLLER_RECORDS_PER_BATCH_MAX or builder.size_bytes + len(value) > largest
            if full and builder.record_count and not atomic:
                builder = BatchBuilder(base_offset=builder.base_offset + builder.record_count, leader_epoch=epoch)
                batches.append(builder)
            builder.append(wall_ms, None, value)
        if max(each.size_bytes for each in batches) > largest:
            raise RequestError(
                ErrorCode.POLICY_VIOLATION,
                f"The change needs {batches[-1].size_bytes} bytes of records, more than {largest}.",
            )
        return batches

    # What the controller does by itself

    def heard_from(self, connection: int, broker_id: int, broker_epoch: int) -> None:
        """A broker heartbeats over this connection."""
        self._heartbeat_connections[connection] = (broker_id, broker_epoch)

    def _suspect_predecessor(self, now_ms: int) -> None:
        """Gives the broker of the previous leader's process a short time to be heard of: most leaders end by dying."""
        leader_id = self._quorum.last_other_leader
        predecessor = None if leader_id is None else self.state.image.brokers.get(leader_id)
        if predecessor is not None:
            self._suspect(predecessor.id, predecessor.epoch, now_ms)

    def connection_lost(self, connection: int, now_ms: int) -> None:
        """A connection is gone. A broker that heartbeat over it has a short time to come back on another one."""
        found = self._heartbeat_connections.pop(connection, None)
        if found is not None and self.active and found not in self._heartbeat_connections.values():
            self._suspect(*found, now_ms)

    def connection_closed(self, connection: int) -> None:
        """This node has closed a connection itself, so that says nothing about the broker."""
        self._heartbeat_connections.pop(connection, None)

    def _suspect(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        self.duties.heartbeats.connection_lost(broker_id, broker_epoch, now_ms)
        self._observer.broker_suspected(broker_id, broker_epoch, now_ms)

    def process_gone(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """The process of a suspected broker has ended."""
        if self.active:
            self.duties.heartbeats.process_gone(broker_id, broker_epoch, now_ms)

    def stands_still(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A broker's process stands still: see `node.frozen`."""
        logger.warning("broker %d accepts connections and answers nothing: it is fenced", broker_id)
        self.duties.heartbeats.stands_still(broker_id, broker_epoch, now_ms)

    def last_heard_ms(self, broker_id: int) -> int:
        """When a broker last sent a heartbeat, or fetched the metadata log."""
        return max(self.duties.heartbeats.last_heard_ms(broker_id), self._quorum.last_fetch_ms(broker_id))

    def tick(self, now_ms: int) -> None:
        """Called at `next_deadline_ms`: does one piece of what is due."""
        if not self.active:
            return
        self._due = False
        own = self.state.image.brokers.get(self.settings.node_id)
        if own is not None and self._own_broker_epoch() == own.epoch:
            offset = self._quorum.image.offset
            self.duties.heartbeats.contact(Heartbeat(own.id, own.epoch, offset), now_ms)
        if len(self._waiting) >= METADATA_APPENDS_MAX or self._quorum.waits_for_room:
            self._try_again_ms = now_ms + TRY_AGAIN_MS  # what is due is not asked for before there is room for it
            return
        self._try_again_ms = None
        records = self.duties.due(now_ms)
        if records:
            self._due = True
        elif (idle_until_ms := self._idle_until_ms()) is not None and now_ms >= idle_until_ms:
            records = [NoOpRecord()]
        if records:
            self._append_own(records, now_ms)

    def _append_own(self, records: Sequence[MetadataMessage], now_ms: int) -> None:
        try:
            self.append(records, lambda at_ms: None, lambda code, at_ms: None, now_ms, atomic=False)
        except (RequestError, StorageError) as error:  # a record that fits into no batch: nothing of it was replayed
            logger.error("the controller could not append %d records of its own: %s", len(records), error)
            self._due = False
            self._try_again_ms = now_ms + TRY_AGAIN_MS

    def _idle_until_ms(self) -> int | None:
        """When a NoOpRecord is due: some time after the last append, if everything is committed.

        None: not before the next commit, or never, since in a quorum of one nobody would look for it.
        """
        interval_ms = self.settings.metadata_max_idle_interval_ms
        if not interval_ms or self._quorum.is_only_voter or self.state.uncommitted:
            return None
        return self._appended_ms + interval_ms

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `tick` must be called."""
        if not self.active:
            return None
        if self._try_again_ms is not None:
            return self._try_again_ms
        if self._due:
            return now_ms
        soonest, idle_until_ms = self.duties.next_deadline_ms(), self._idle_until_ms()
        if soonest is None or idle_until_ms is None:
            return idle_until_ms if soonest is None else soonest
        return min(soonest, idle_until_ms)
