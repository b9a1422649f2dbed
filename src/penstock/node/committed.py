"""The committed part of the metadata log as this node follows it: replayed into images, published, checkpointed.

`commit` says up to which offset the log is committed. While this node leads, the controller (`Leadership`) has replayed
every record when it appended it, and supplies the images to publish; otherwise batches are read from the log. Either
way one step handles METADATA_RECORDS_PER_STEP, so that a node which has much to catch up with, or leads when thousands
of partitions change, still serves others. When the leadership is lost, replaying continues in the log where the last
published image ends.

Each node writes its own checkpoints.

Controllers log in to each other before they can agree on what is committed, perhaps with SCRAM. So the users that a
node knows after a start are those of its whole log, until what is committed reaches the end that it had then; with no
metadata in it, those that the node was formatted with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.difference import difference
from penstock.metadata.features import METADATA_VERSIONS
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.loader import MetadataLoader, Publication
from penstock.metadata.records import decode_records, encode_records, image_records
from penstock.metadata.scram import Credentials, changed_by, is_of_credential
from penstock.node.limits import CHECKPOINT_RETRY_MS, METADATA_RECORDS_PER_STEP
from penstock.raft.checkpoint import Checkpoint, CheckpointId, LogBatch, checkpoint_batches
from penstock.raft.topic import METADATA
from penstock.records.wall import WallTime

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.raft.history import QuorumHistory
    from penstock.raft.storage import Storage


class ImageObserver(Protocol):
    """An observer of the published images."""

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """Committed metadata has moved on from `old` to `new`."""


class Leadership(Protocol):
    """The controller, which acts while this node leads the quorum."""

    def claim(self, loader: MetadataLoader, now_ms: int) -> None:
        """This node leads, and `loader` has loaded and published everything committed; the controller takes it over."""

    def advance(self, last_offset: int, epoch: int, now_ms: int) -> None:
        """A control batch was appended. It contains no metadata."""

    def committed(self, high_watermark: int) -> list[Publication]:
        """Everything below the offset is committed; returns the images to publish, oldest first."""

    def published(self, high_watermark: int, now_ms: int) -> None:
        """The observer has been given those images, so answers may leave."""

    def renounce(self, now_ms: int) -> None:
        """This node no longer leads: undoes what is not committed."""


class CommittedMetadata:
    """See the module's head.

    Attributes:
        image: the one published last.
        leadership: the controller, from `open` on.
        leads: the controller acts: this node leads, and everything in the log is committed, loaded and published.
        high_watermark: how far the log is committed, as far as this node knows.
    """

    def __init__(self, settings: Settings, observer: ImageObserver, wall: WallTime | None = None) -> None:
        self.settings = settings
        self.image = EMPTY_IMAGE
        self.leadership: Leadership
        self.leads = False
        self.high_watermark = 0
        self._observer = observer
        self._wall = wall or WallTime()
        self._loader = MetadataLoader()
        self._claiming = False
        self._unpublished: deque[Publication] = deque()
        self._bytes_since_checkpoint = 0
        self._checkpoint_due_ms: int | None = None
        self._checkpoint_running = False
        self._found_credentials: Credentials | None = None
        self._found_until = 0
        self._storage: Storage
        self._history: QuorumHistory

    def open(self, storage: Storage, history: QuorumHistory, leadership: Leadership) -> None:
        """Takes the storage that the log is read from, the history of the voters, and the controller."""
        self.leadership = leadership
        self._storage = storage
        self._history = history

    # Loading

    def find_credentials(
        self, first: Credentials, found: tuple[CheckpointId, Checkpoint] | None, batches: Sequence[LogBatch]
    ) -> None:
        """Takes the users from a checkpoint and the log after it, committed or not; `first` if there is nothing."""
        values = [] if found is None else list(found[1].values)
        for batch in batches:
            values += batch.values
        if values:
            changes = decode_records(filter(is_of_credential, values), METADATA.directory)
            first = changed_by(EMPTY_IMAGE.scram_credentials, changes)
        self._found_credentials = first
        self._found_until = self._storage.end_offset

    @property
    def scram_credentials(self) -> Credentials:
        """The users of SCRAM, see the module's head."""
        found = self._found_credentials
        return self.image.scram_credentials if found is None else found

    def _forget_found_credentials(self) -> None:
        """Lets the users of the image count once that has all that was found at the start and was not cut off since."""
        image = self.image
        if image.features and image.offset + 1 >= min(self._found_until, self._storage.end_offset):
            self._found_credentials = None

    def load_checkpoint(self, checkpoint_id: CheckpointId, checkpoint: Checkpoint) -> None:
        """Loads a checkpoint at start; everything in it is committed."""
        records = decode_records(checkpoint.values, checkpoint_id.file)
        last_offset = checkpoint_id.end_offset - 1
        self._loader.load(records, last_offset, checkpoint_id.epoch, checkpoint.last_contained_timestamp_ms)

    def replace(self, snapshot: CheckpointId, now_ms: int) -> None:
        """Replaces everything before the end of a fetched snapshot by that snapshot."""
        found = self._storage.newest_checkpoint()
        assert found is not None, "the snapshot was just installed"
        assert found[0] == snapshot, "it is the newest"
        old, self._loader = self.image, MetadataLoader()
        self.load_checkpoint(*found)
        self._loader.publish()
        self.high_watermark = max(self.high_watermark, snapshot.end_offset)
        self._publish([(old, self._loader.image, difference(old, self._loader.image))], now_ms)

    def load(self, batch: LogBatch) -> int:
        """Replays a committed batch; returns the number of its records.

        Records that the image already contains are skipped: a metadata transaction may begin within a batch.
        """
        header = batch.header
        records = decode_records(batch.values, METADATA.directory)
        known = self._loader.last_offset + 1 - header.base_offset
        self._loader.load(
            records[known:] if known > 0 else records, header.last_offset, header.leader_epoch, header.max_timestamp_ms
        )
        self._bytes_since_checkpoint += header.size_bytes
        return len(records)

    @property
    def behind(self) -> bool:
        """Whether committed records are still to be loaded or published by `step`."""
        if self.leads:
            return bool(self._unpublished)
        return self._loader.last_offset + 1 < self.high_watermark

    def commit(self, high_watermark: int, now_ms: int, *, claim: bool) -> None:
        """Everything below the offset is committed. `claim`: this node leads, and the controller may act."""
        assert high_watermark >= self.high_watermark, "the high watermark never goes back"
        self.high_watermark = high_watermark
        self._claiming = self._claiming or claim
        if self.leads:
            self._unpublished.extend(self.leadership.committed(high_watermark))
        self.step(now_ms)

    def step(self, now_ms: int) -> None:
        """Loads and publishes some of what is committed, as much as one step allows."""
        if self.leads:
            self._publish_some(METADATA_RECORDS_PER_STEP, now_ms)
            self.consider_checkpoint(now_ms)
            return
        loaded = 0
        for batch in self._committed_batches():
            loaded += self.load(batch)
            if loaded >= METADATA_RECORDS_PER_STEP:
                break
        self._publish(self._loader.publish(), now_ms)
        if self._claiming and not self.behind:
            self._claiming = False
            self.leads = True
            self.leadership.claim(self._loader, now_ms)
        self.consider_checkpoint(now_ms)

    def _committed_batches(self) -> Iterator[LogBatch]:
        if self.behind:
            for batch in self._storage.batches(self._loader.last_offset + 1):
                if batch.header.last_offset >= self.high_watermark:
                    return
                yield batch

    def _publish_some(self, partitions_max: int, now_ms: int) -> None:
        """Publishes images of the controller until that many partitions have changed, and lets answers leave."""
        changed = 0
        while self._unpublished and changed < partitions_max:
            publication = self._unpublished.popleft()
            self._publish([publication], now_ms)
            _, new, delta = publication
            changed += sum(len(topic.partitions) for topic in delta.topics.values())
            if self._unpublished:
                self.leadership.published(new.offset + 1, now_ms)
        if not self._unpublished:
            self.leadership.published(self.high_watermark, now_ms)

    def _publish(self, publications: list[Publication], now_ms: int) -> None:
        for old, new, delta in publications:
            self.image = new
            self._forget_found_credentials()
            self._observer.image_published(old, new, delta, now_ms)

    def appended(self, size_bytes: int) -> None:
        """The controller has appended and replayed a batch."""
        self._bytes_since_checkpoint += size_bytes

    def renounce(self, now_ms: int) -> None:
        """Ends the leadership. Records after the published image are read from the log once they are committed."""
        self._claiming = False
        if self.leads:
            while self._unpublished:
                self._publish_some(METADATA_RECORDS_PER_STEP, now_ms)
            self.leads = False
            self._loader = MetadataLoader(self.image)
            self.leadership.renounce(now_ms)

    # Checkpoints

    def consider_checkpoint(self, now_ms: int) -> None:
        """Writes a checkpoint if enough records or enough time have passed since the last one."""
        if self._checkpoint_running or self._loader.transaction_start_offset >= 0 or self.behind:
            return
        interval_ms = self.settings.metadata_log_max_snapshot_interval_ms
        if self._checkpoint_due_ms is None and interval_ms > 0 and self._bytes_since_checkpoint:
            self._checkpoint_due_ms = now_ms + interval_ms
        full = self._bytes_since_checkpoint >= self.settings.metadata_log_max_record_bytes_between_snapshots
        due = self._checkpoint_due_ms is not None and now_ms >= self._checkpoint_due_ms
        if (full or due) and self.image.offset >= 0 and self.image.metadata_version:
            self._write_checkpoint(now_ms)

    def _write_checkpoint(self, now_ms: int) -> None:
        image, history = self.image, self._history
        checkpoint = CheckpointId(image.offset + 1, image.epoch)
        self._checkpoint_running = True
        self._checkpoint_due_ms = None
        self._bytes_since_checkpoint = 0
        wall_ms = self._wall.at(now_ms)
        version = METADATA_VERSIONS[image.metadata_version]
        kraft_version = history.kraft_version_at(checkpoint.end_offset)
        voters = history.voters_at(checkpoint.end_offset)
        self._storage.write_checkpoint(
            checkpoint,
            lambda: checkpoint_batches(
                encode_records(image_records(image), version),
                epoch=checkpoint.epoch,
                last_contained_timestamp_ms=image.timestamp_ms,
                wall_ms=wall_ms,
                kraft_version=kraft_version,
                voters=voters,
            ),
        )

    def checkpoint_written(self, now_ms: int) -> None:
        """The checkpoint is durable: older checkpoints and log segments may be deleted."""
        self._checkpoint_running = False
        self._storage.retire(self.high_watermark, now_ms)
        self._history.forget_before(self._storage.log.log_start_offset)

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        """A checkpoint is written later, since it found no room; the log is kept as it is until then."""
        self._checkpoint_running = False
        self._checkpoint_due_ms = now_ms + CHECKPOINT_RETRY_MS

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `step` or `consider_checkpoint` must be called."""
        if self.behind:
            return now_ms
        return None if self._checkpoint_running else self._checkpoint_due_ms
