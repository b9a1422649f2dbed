"""The controller of this node: raft, the metadata log and the controller's state machines, put together.

Requests read `state` (the metadata with everything appended) and get a `Result`; `append` replays its records at
once, writes them, and answers when they are committed. Brokers' images follow committed records only: `image` and the
observer's `image_published`. A failed append undoes everything that is not committed.

The order of a start: `start` reads `quorum-state`, the newest checkpoint and the log after it; the single voter elects
itself (quorum-state is durable before it acts) and appends its LeaderChange. When that is committed, all that was in
the log is, and is published; the controller becomes active. Then the node registers its broker (`register_broker`)
and, when the broker has caught up with its own registration, has it unfenced (`unfence_broker`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol
from uuid import UUID

from penstock.config.limits import METADATA_APPENDS_MAX
from penstock.config.server import Settings
from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.log.disk import Disk, Operation
from penstock.metadata import brokers
from penstock.metadata.activation import activation_records
from penstock.metadata.bootstrap import read_bootstrap
from penstock.metadata.brokers import Registration
from penstock.metadata.controller import Controller
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.features import METADATA_VERSIONS, MetadataVersion
from penstock.metadata.image import EMPTY_IMAGE, Endpoint, MetadataImage
from penstock.metadata.loader import MetadataLoader, Publication
from penstock.metadata.records import decode_records, encode_records, image_records
from penstock.metadata.result import MetadataMessage
from penstock.protocol.message import Message
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage
from penstock.protocol.messages.leader_change_message import Voter as LeaderChangeVoter
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.raft.checkpoint import BOOTSTRAP, CheckpointId, checkpoint_batches
from penstock.raft.election import ElectionState
from penstock.raft.raft import AppendLeaderChange, Committed, Effect, PersistElection, QuorumDescription, Raft
from penstock.raft.storage import NAME, Storage
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.builder import BatchBuilder
from penstock.records.control import control_batch

__all__ = ["ControllerNode", "ControllerObserver", "Registration"]


class ControllerObserver(Protocol):
    """The broker around the controller: hears what has happened. Called on the loop, from within an event."""

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """Committed metadata has moved on from `old` to `new`."""

    def controller_active(self, now_ms: int) -> None:
        """This node is the active controller from now on: its state is complete, and `append` is allowed."""

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        """The metadata log directory has failed. Without it the node cannot go on."""


Done = Callable[[int], None]
Failed = Callable[[ErrorCode, int], None]


@dataclass(slots=True)
class _Waiting:
    """Whom to tell when everything through `last_offset` is committed, or lost."""

    last_offset: int
    committed: Done
    failed: Failed


class ControllerNode:
    """See the module's head.

    Attributes:
        state: the state machines, for handlers; they decide on everything appended so far. None before `start`.
        image: the committed metadata.
        active: whether this node is the active controller.
        kraft_version: the finalized kraft.version, which is not among `image.features`.
    """

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        observer: ControllerObserver,
        *,
        directory_id: UUID,
        random: Random,
    ) -> None:
        """`disk` is the blocking disk of the metadata log directory (`metadata.log.dir`), `directory_id` its id."""
        self.settings = settings
        self.image = EMPTY_IMAGE
        self.active = False
        self.kraft_version = 0
        self._disk = disk
        self._observer = observer
        self._local = ReplicaKey(settings.node_id, directory_id)
        self._random = random
        self._waiting: deque[_Waiting] = deque()
        self._bootstrap: Sequence[MetadataMessage] = ()
        self._voters_in_log = False
        self._bytes_since_checkpoint = 0
        self._checkpoint_due_ms: int | None = None
        self._checkpoint_running = False
        self._loader = MetadataLoader()
        self._loaded: list[Publication] = []

    # Start

    def start(self, now_ms: int) -> None:
        """Reads the directory and begins to become active. Blocks on the disk; called once, before anything is served.

        Raises StorageError or ConfigError, in one line, for a directory that cannot be used: damaged before its
        committed end, a record or feature level that is not supported, a quorum that is not this node alone.
        """
        self._bootstrap = read_bootstrap(self._disk)
        self._storage = Storage(self._disk, self.settings, self, self._random, now_ms)
        voters = self._load()
        self._raft = Raft(self._local, voters, self._storage.election, self._storage.end_offset)
        self._loaded = self._loader.publish()
        self.state: Controller = Controller(self.settings, self._random, self._loader)
        self._perform(self._raft.start(), now_ms)

    def _load(self) -> VoterSet:
        """Replays the newest checkpoint and the log after it, all of which this quorum's only voter has committed.

        Nothing of it is published before the new epoch's first record is.
        """
        loader = self._loader
        voters: VoterSet | None = None
        start_offset = 0
        found = self._storage.newest_checkpoint()
        if found is not None:
            checkpoint_id, checkpoint = found
            voters, self.kraft_version = checkpoint.voters, checkpoint.kraft_version or 0
            self._voters_in_log = voters is not None and checkpoint_id != BOOTSTRAP
            start_offset = checkpoint_id.end_offset
            records = decode_records(checkpoint.values, checkpoint_id.file)
            loader.load(records, start_offset - 1, checkpoint_id.epoch, checkpoint.last_contained_timestamp_ms)
        for batch in self._storage.batches(start_offset):
            for message in batch.control:
                if isinstance(message, VotersRecord):
                    voters, self._voters_in_log = VoterSet.from_record(message), True
                elif isinstance(message, KRaftVersionRecord):
                    self.kraft_version = message.kraft_version
            header = batch.header
            loader.load(
                decode_records(batch.values, NAME), header.last_offset, header.leader_epoch, header.max_timestamp_ms
            )
            self._bytes_since_checkpoint += header.size_bytes
        return voters or self._static_voters()

    def _static_voters(self) -> VoterSet:
        """The voters of `controller.quorum.voters`. Raises StorageError when there is no such setting either."""
        voters = [
            Voter(ReplicaKey(voter.id), (VoterEndpoint(self._controller_listener, voter.host, voter.port),))
            for voter in self.settings.voters
        ]
        if not voters:
            raise StorageError(
                f"the metadata log directory names no quorum voters: format it with --standalone, or set "
                f"controller.quorum.voters={self._local.id}@HOST:PORT"
            )
        return VoterSet(voters)

    @property
    def _controller_listener(self) -> str:
        return self.settings.controller_listener_names[0]

    # Raft's effects

    def _perform(self, effects: Sequence[Effect], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, PersistElection):
                voter_ids = self._raft.voters.voters
                self._storage.persist_election(effect.state, self.kraft_version, voter_ids)
            elif isinstance(effect, AppendLeaderChange):
                self._append_leader_change(effect, now_ms)
            else:
                self._committed(effect, now_ms)

    def _append_leader_change(self, change: AppendLeaderChange, now_ms: int) -> None:
        """The control batch of a new epoch. The first leader of a dynamic quorum puts the voters into the log too."""
        messages: list[Message] = [
            LeaderChangeMessage(
                leader_id=change.leader_id,
                voters=[LeaderChangeVoter(voter_id=voter_id) for voter_id in change.voters],
                granting_voters=[LeaderChangeVoter(voter_id=voter_id) for voter_id in change.granted],
            )
        ]
        if self.kraft_version > 0 and not self._voters_in_log:
            messages += [KRaftVersionRecord(kraft_version=self.kraft_version), self._raft.voters.to_record()]
            self._voters_in_log = True
        base_offset = self._storage.end_offset
        batch = control_batch(messages, base_offset=base_offset, leader_epoch=change.epoch, now_ms=now_ms)
        self._write(batch, (), base_offset + len(messages) - 1, now_ms)

    def _write(self, batch: bytearray, records: Sequence[MetadataMessage], last_offset: int, now_ms: int) -> None:
        """Replays a batch's records and appends it, one with the other."""
        self.state.replay(records, last_offset, self._raft.epoch, now_ms)
        self._storage.append(batch, self._raft.epoch, now_ms)
        self._raft.appended(last_offset + 1)
        assert self._storage.end_offset == last_offset + 1, "the log and the state agree on offsets"
        self._bytes_since_checkpoint += len(batch)

    def _committed(self, committed: Committed, now_ms: int) -> None:
        publications = [*self._loaded, *self.state.committed(committed.high_watermark - 1)]
        self._loaded = []
        for old, new, delta in publications:
            self.image = new
            self._observer.image_published(old, new, delta, now_ms)
        if committed.first:
            self._activate(now_ms)
        while self._waiting and self._waiting[0].last_offset < committed.high_watermark:
            self._waiting.popleft().committed(now_ms)
        self._consider_checkpoint(now_ms)

    def _activate(self, now_ms: int) -> None:
        self.active = True
        records = activation_records(self.state, self._bootstrap).records
        if records:
            self.append(records, self._observer.controller_active, lambda code, at_ms: None, now_ms)
        else:
            self._observer.controller_active(now_ms)

    # Appending

    @property
    def next_offset(self) -> int:
        """The offset of the record that is appended next."""
        return self._storage.end_offset

    @property
    def metadata_version(self) -> MetadataVersion:
        """The row of the finalized metadata.version, by which record and request versions are chosen."""
        level = self.state.image.metadata_version
        return METADATA_VERSIONS[level or max(METADATA_VERSIONS)]

    def append(self, records: Sequence[MetadataMessage], committed: Done, failed: Failed, now_ms: int) -> None:
        """Replays records now and appends them as one atomic batch.

        `committed(now_ms)` is called when they are committed and `image` contains them, `failed(code, now_ms)` when
        they are lost; exactly one of them, never before this method has returned. Raises RequestError NOT_CONTROLLER
        when this node is not active, THROTTLING_QUOTA_EXCEEDED when too many appends wait.
        """
        assert records, "an append has records"
        if not self.active:
            raise RequestError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        if len(self._waiting) >= METADATA_APPENDS_MAX:
            raise RequestError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{METADATA_APPENDS_MAX} changes wait for the metadata log."
            )
        base_offset = self._storage.end_offset
        builder = BatchBuilder(base_offset=base_offset, leader_epoch=self._raft.epoch)
        for value in encode_records(records, self.metadata_version):
            builder.append(now_ms, None, value)
        largest = self.settings.internal_metadata_max_batch_size_in_bytes
        if builder.size_bytes > largest:
            raise RequestError(
                ErrorCode.POLICY_VIOLATION,
                f"The change needs {builder.size_bytes} bytes of records, more than {largest}.",
            )
        last_offset = base_offset + len(records) - 1
        self._write(builder.build(), records, last_offset, now_ms)
        self._waiting.append(_Waiting(last_offset, committed, failed))

    # This node's broker

    def register_broker(self, registration: Registration, registered: Callable[[int, int], None], now_ms: int) -> None:
        """Registers this node's broker, and this controller. `registered(broker_epoch, now_ms)` when that is committed.

        Raises RequestError when the registration is refused.
        """
        assert registration.broker_id == self._local.id, "a node registers its own broker"
        result = brokers.register_broker(self.state, registration, self.next_offset)
        own = brokers.register_controller(
            self.state, self._local.id, registration.incarnation_id, self._controller_endpoints()
        )
        epoch = result.response
        self.append(
            [*result.records, *own.records], lambda at_ms: registered(epoch, at_ms), lambda code, at_ms: None, now_ms
        )

    def _controller_endpoints(self) -> list[Endpoint]:
        return [Endpoint(each.listener, each.host, each.port) for each in self.settings.controller_endpoints]

    def unfence_broker(self, done: Done, now_ms: int) -> None:
        """The broker has caught up: it may lead, and partitions without a leader get one. `done` when committed."""
        broker = self.state.image.brokers[self._local.id]
        self._append_or_done(brokers.unfence_broker(self.state, broker.id, broker.epoch).records, done, now_ms)

    def controlled_shutdown(self, done: Done, now_ms: int) -> None:
        """Takes this node's broker out of leadership, as Kafka does on a clean stop; `done` when it may stop.

        It is marked as shutting down, its leaderships go, and then it is fenced.
        """
        broker = self.state.image.brokers.get(self._local.id)
        if not self.active or broker is None or broker.fenced:
            done(now_ms)
            return
        leaving = brokers.begin_controlled_shutdown(self.state, broker.id, broker.epoch).records

        def fence(at_ms: int) -> None:
            fenced = brokers.fence_broker(self.state, broker.id, broker.epoch).records
            self._append_or_done(fenced, done, at_ms)

        self._append_or_done(leaving, fence, now_ms)

    def _append_or_done(self, records: Sequence[MetadataMessage], done: Done, now_ms: int) -> None:
        if records:
            self.append(records, done, lambda code, at_ms: done(at_ms), now_ms)
        else:
            done(now_ms)

    def describe_quorum(self) -> QuorumDescription:
        """The quorum's state, for DescribeQuorum."""
        return self._raft.describe()

    # Checkpoints

    def _consider_checkpoint(self, now_ms: int) -> None:
        """Writes a checkpoint when enough has been committed since the last, or long enough ago."""
        if self._checkpoint_running or self.state.transaction_start_offset >= 0:
            return
        interval_ms = self.settings.metadata_log_max_snapshot_interval_ms
        if self._checkpoint_due_ms is None and interval_ms > 0 and self._bytes_since_checkpoint:
            self._checkpoint_due_ms = now_ms + interval_ms
        full = self._bytes_since_checkpoint >= self.settings.metadata_log_max_record_bytes_between_snapshots
        due = self._checkpoint_due_ms is not None and now_ms >= self._checkpoint_due_ms
        if (full or due) and self.image.offset >= 0:
            self._write_checkpoint(now_ms)

    def _write_checkpoint(self, now_ms: int) -> None:
        image, kraft_version, voters = self.image, self.kraft_version, self._raft.voters
        checkpoint = CheckpointId(image.offset + 1, image.epoch)
        self._checkpoint_running = True
        self._checkpoint_due_ms = None
        self._bytes_since_checkpoint = 0
        version = METADATA_VERSIONS[image.metadata_version]
        self._storage.write_checkpoint(
            checkpoint,
            lambda: checkpoint_batches(
                encode_records(image_records(image), version),
                epoch=checkpoint.epoch,
                last_contained_timestamp_ms=image.timestamp_ms,
                now_ms=now_ms,
                kraft_version=kraft_version,
                voters=voters,
            ),
        )

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self._checkpoint_running = False
        self._storage.retire(self._raft.high_watermark or 0, now_ms)

    # Events

    def take_operations(self, now_ms: int) -> list[Operation]:
        """What to run on the metadata disk, in order: once at the end of every turn of the loop.

        All appends of the turn go out as one write and one fsync.
        """
        return self._storage.take_operations(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has come to `next_deadline_ms`: a checkpoint may be due."""
        if self.active:
            self._consider_checkpoint(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` and `take_operations` are wanted."""
        deadlines = [self._storage.next_deadline_ms(), None if self._checkpoint_running else self._checkpoint_due_ms]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def shutdown(self, stopped: Done, now_ms: int) -> None:
        """Flushes and closes the metadata log; `stopped(now_ms)` when that is done. No append after this."""
        self.active = False
        self._raft.resign()
        self._fail_waiting(now_ms)
        self._storage.close(stopped, now_ms)

    def election_persisted(self, state: ElectionState, now_ms: int) -> None:
        self._perform(self._raft.election_persisted(state), now_ms)

    def log_flushed(self, offset: int, now_ms: int) -> None:
        self._perform(self._raft.flushed(offset), now_ms)

    def storage_failed(self, error: Exception, now_ms: int) -> None:
        """The disk has failed: what is not committed is undone, and this controller is no more."""
        self.active = False
        self._raft.resign()
        self.state.revert()
        self._fail_waiting(now_ms)
        self._observer.metadata_log_failed(error, now_ms)

    def _fail_waiting(self, now_ms: int) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.failed(ErrorCode.NOT_CONTROLLER, now_ms)
