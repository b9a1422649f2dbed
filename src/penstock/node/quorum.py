"""The metadata quorum as this node takes part in it: raft, the metadata log, and the images of what is committed.

`start` reads `quorum-state`, the newest checkpoint and the log. What is in the log counts once it is committed: then it
is replayed, in the log's order, and the observer gets the new image. The only voter of a quorum has committed all
that it finds in its log, and reads it at once; nothing is published before its new epoch's first record is committed.

While this node leads, the controller (`Leadership`) has replayed every record when it appended it; then the images to
publish come from there and the log is not read. When the leadership is lost, replaying goes on from the log where the
last published image ends.

Checkpoints are written here too, each node its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol
from uuid import UUID

from penstock.config.server import Settings
from penstock.errors import StorageError
from penstock.log.disk import Disk, Operation
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.features import METADATA_VERSIONS
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.loader import MetadataLoader, Publication
from penstock.metadata.records import decode_records, encode_records, image_records
from penstock.protocol.message import Message
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage
from penstock.protocol.messages.leader_change_message import Voter as LeaderChangeVoter
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.raft.checkpoint import BOOTSTRAP, CheckpointId, LogBatch, checkpoint_batches
from penstock.raft.election import ElectionState
from penstock.raft.raft import AppendLeaderChange, Effect, PersistElection, QuorumDescription, Raft
from penstock.raft.storage import NAME, Storage
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.builder import BatchBuilder
from penstock.records.control import control_batch


class QuorumObserver(Protocol):
    """The node around the quorum: hears what has happened. Called on the loop, from within an event."""

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """Committed metadata has moved on from `old` to `new`."""

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        """The metadata log directory has failed. Without it the node cannot go on."""


class Leadership(Protocol):
    """The controller, which acts while this node leads the quorum."""

    def claim(self, loader: MetadataLoader, now_ms: int) -> None:
        """This node leads, and `loader` has loaded and published everything in the log. It is the controller's now."""

    def committed(self, high_watermark: int) -> list[Publication]:
        """Everything below the offset is committed; the images to publish, oldest first."""

    def published(self, high_watermark: int, now_ms: int) -> None:
        """The observer has had those images: answers may leave."""

    def renounce(self, now_ms: int) -> None:
        """This node leads no more: what is not committed is undone."""


class Quorum:
    """See the module's head.

    Attributes:
        image: the committed metadata, as published.
        leadership: the controller; set before `start`.
        leads: this node leads and the controller acts.
        kraft_version: the finalized kraft.version, which is not among `image.features`.
    """

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        observer: QuorumObserver,
        *,
        directory_id: UUID,
        random: Random,
    ) -> None:
        """`disk` is the blocking disk of the metadata log directory (`metadata.log.dir`), `directory_id` its id."""
        self.settings = settings
        self.image = EMPTY_IMAGE
        self.leadership: Leadership
        self.leads = False
        self.kraft_version = 0
        self.local = ReplicaKey(settings.node_id, directory_id)
        self._disk = disk
        self._observer = observer
        self._random = random
        self._loader = MetadataLoader()
        self._voters_in_log = False
        self._bytes_since_checkpoint = 0
        self._checkpoint_due_ms: int | None = None
        self._checkpoint_running = False

    # Start

    def start(self, now_ms: int) -> None:
        """Reads the directory and begins to take part. Blocks on the disk; called once, before anything is served.

        Raises StorageError or ConfigError, in one line, for a directory that cannot be used: damaged before its
        committed end, a record or feature level that is not supported, a quorum that is not this node alone.
        """
        self._storage = Storage(self._disk, self.settings, self, self._random, now_ms)
        voters = self._read()
        self._raft = Raft(self.local, voters, self._storage.election, self._storage.end_offset)
        self._perform(self._raft.start(), now_ms)

    def _read(self) -> VoterSet:
        """Loads the newest checkpoint, and the log after it when this node alone has committed it; finds the voters."""
        voters: VoterSet | None = None
        start_offset = 0
        found = self._storage.newest_checkpoint()
        if found is not None:
            checkpoint_id, checkpoint = found
            voters, self.kraft_version = checkpoint.voters, checkpoint.kraft_version or 0
            self._voters_in_log = voters is not None and checkpoint_id != BOOTSTRAP
            start_offset = checkpoint_id.end_offset
            records = decode_records(checkpoint.values, checkpoint_id.file)
            self._loader.load(records, start_offset - 1, checkpoint_id.epoch, checkpoint.last_contained_timestamp_ms)
        batches = list(self._storage.batches(start_offset))
        for batch in batches:
            for message in batch.control:
                if isinstance(message, VotersRecord):
                    voters, self._voters_in_log = VoterSet.from_record(message), True
                elif isinstance(message, KRaftVersionRecord):
                    self.kraft_version = message.kraft_version
        voters = voters or self._static_voters()
        if len(voters.voters) == 1:
            for batch in batches:
                self._load(batch)
        return voters

    def _load(self, batch: LogBatch) -> None:
        header = batch.header
        records = decode_records(batch.values, NAME)
        known = self._loader.last_offset + 1 - header.base_offset
        if known > 0:
            records = records[known:]
        self._loader.load(records, header.last_offset, header.leader_epoch, header.max_timestamp_ms)
        self._bytes_since_checkpoint += header.size_bytes

    def _static_voters(self) -> VoterSet:
        """The voters of `controller.quorum.voters`. Raises StorageError when there is no such setting either."""
        listener = self.settings.controller_listener_names[0]
        voters = [
            Voter(ReplicaKey(voter.id), (VoterEndpoint(listener, voter.host, voter.port),))
            for voter in self.settings.voters
        ]
        if not voters:
            raise StorageError(
                f"the metadata log directory names no quorum voters: format it with --standalone, or set "
                f"controller.quorum.voters={self.local.id}@HOST:PORT"
            )
        return VoterSet(voters)

    # Raft's effects

    def _perform(self, effects: Sequence[Effect], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, PersistElection):
                voter_ids = self._raft.voters.voters
                self._storage.persist_election(effect.state, self.kraft_version, voter_ids)
            elif isinstance(effect, AppendLeaderChange):
                self._append_leader_change(effect, now_ms)
            else:
                self._committed(effect.high_watermark, effect.first, now_ms)

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
        batch = control_batch(messages, base_offset=self.next_offset, leader_epoch=change.epoch, now_ms=now_ms)
        self._append(batch, len(messages), now_ms)

    def _append(self, batch: bytearray, record_count: int, now_ms: int) -> None:
        end_offset = self.next_offset + record_count
        self._storage.append(batch, self._raft.epoch, now_ms)
        self._raft.appended(end_offset)
        assert self.next_offset == end_offset, "the batch and the log agree on offsets"

    def _committed(self, high_watermark: int, first: bool, now_ms: int) -> None:
        if self.leads:
            publications = self.leadership.committed(high_watermark)
        else:
            for batch in self._storage.batches(self._loader.last_offset + 1):
                if batch.header.last_offset >= high_watermark:
                    break
                self._load(batch)
            publications = self._loader.publish()
        for old, new, delta in publications:
            self.image = new
            self._observer.image_published(old, new, delta, now_ms)
        if first:
            self.leads = True
            self.leadership.claim(self._loader, now_ms)
        elif self.leads:
            self.leadership.published(high_watermark, now_ms)
        self._consider_checkpoint(now_ms)

    def _renounce(self, now_ms: int) -> None:
        """What the controller has replayed beyond the published image is read from the log again once committed."""
        if self.leads:
            self.leads = False
            self._loader = MetadataLoader(self.image)
            self.leadership.renounce(now_ms)

    # For the controller

    @property
    def epoch(self) -> int:
        """The newest leader epoch that this node knows."""
        return self._raft.epoch

    @property
    def next_offset(self) -> int:
        """The offset of the record that is appended next."""
        return self._storage.end_offset

    def append(self, batch: BatchBuilder, now_ms: int) -> None:
        """Appends a batch that begins at `next_offset`, as the leader."""
        assert self.leads, "only the leader appends"
        built = batch.build()
        self._bytes_since_checkpoint += len(built)
        self._append(built, batch.record_count, now_ms)

    def describe(self) -> QuorumDescription:
        """The quorum's state, for DescribeQuorum."""
        return self._raft.describe()

    # Checkpoints

    def _consider_checkpoint(self, now_ms: int) -> None:
        """Writes a checkpoint when enough has been committed since the last, or long enough ago."""
        if self._checkpoint_running or self._loader.transaction_start_offset >= 0:
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
        if self.leads:
            self._consider_checkpoint(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` and `take_operations` are wanted."""
        deadlines = [self._storage.next_deadline_ms(), None if self._checkpoint_running else self._checkpoint_due_ms]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def shutdown(self, stopped: Callable[[int], None], now_ms: int) -> None:
        """Flushes and closes the metadata log; `stopped(now_ms)` when that is done. No append after this."""
        self._raft.resign()
        self._renounce(now_ms)
        self._storage.close(stopped, now_ms)

    def election_persisted(self, state: ElectionState, now_ms: int) -> None:
        self._perform(self._raft.election_persisted(state), now_ms)

    def log_flushed(self, offset: int, now_ms: int) -> None:
        self._perform(self._raft.flushed(offset), now_ms)

    def storage_failed(self, error: Exception, now_ms: int) -> None:
        """The disk has failed: what is not committed is undone, and this node takes no further part."""
        self._raft.resign()
        self._renounce(now_ms)
        self._observer.metadata_log_failed(error, now_ms)
