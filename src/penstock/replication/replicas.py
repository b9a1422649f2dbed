"""The partitions that this node leads, made at first use, and what the metadata and the log directories say of them.

A partition that nobody uses is an entry in the image and in the log manager, nothing here. The first request for it
makes a `Partition`, when its log is open; `NotOpen` goes up to the dispatcher, which runs the request again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from penstock.errors import ErrorCode, StorageError
from penstock.log.log import Log
from penstock.log.manager import LogManager, NotOpen, ReplicaRequest
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration
from penstock.replication.partition import Partition

OPENED_AT_ONCE_MAX = 500
"""Logs that one request has opened side by side."""


class Replicas:
    """All partitions led by this node that are in use. Also the `LogListener` of the log manager.

    `directory_lost(index, error, now_ms)` is called when a log directory has failed.
    """

    def __init__(
        self, node_id: int, logs: Callable[[], LogManager], directory_lost: Callable[[int, OSError, int], None]
    ) -> None:
        self.node_id = node_id
        self.image: MetadataImage = EMPTY_IMAGE
        self._logs = logs
        self._directory_lost = directory_lost
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._by_log: dict[str, Partition] = {}
        self._names: dict[UUID, str] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id, or None."""
        name = self._names.get(topic_id)
        if name is None:
            topic = self.image.topics_by_id.get(topic_id)
            if topic is None:
                return None
            name = self._names[topic_id] = topic.name
        return name

    def leader(self, topic: str, index: int, now_ms: int) -> Partition | ErrorCode:
        """The partition, if this node leads it; else what the client is to be told.

        Raises NotOpen while its log is being opened or recovered.
        """
        partition = self._partitions.get((topic, index))
        registration = None
        if partition is None:
            registration = self.image.partition(topic, index)
            if registration is None:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if registration.leader != self.node_id:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            if not self._logs().exists(topic, index):
                self._create(topic, index, registration, now_ms)
        try:
            log = self._logs().log(topic, index, now_ms)
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is not None:
            if partition.log is not log:
                partition.log = log
            return partition
        assert registration is not None
        return self._lead(topic, index, registration, log, now_ms)

    def leaders(self, wanted: Iterable[tuple[str, int]], now_ms: int) -> list[Partition | ErrorCode]:
        """`leader` of each. Logs that are not open are begun to be opened side by side, before NotOpen is raised."""
        found: list[Partition | ErrorCode] = []
        not_open: NotOpen | None = None
        begun = 0
        for topic, index in wanted:
            try:
                found.append(self.leader(topic, index, now_ms))
            except NotOpen as error:
                not_open = error
                begun += 1
                if begun == OPENED_AT_ONCE_MAX:
                    break
        if not_open is not None:
            raise not_open  # the last of them: by then the others are open too
        return found

    def _create(self, topic: str, index: int, registration: PartitionRegistration, now_ms: int) -> None:
        """Makes a replica whose turn has not come yet."""
        found = self.image.topics_by_name.get(topic)
        assert found is not None
        request = ReplicaRequest(topic, index, found.id, registration.directory(self.node_id))
        self._logs().create([request], now_ms)

    def in_use(self, topic: str, index: int) -> Partition | None:
        """The partition if something has used it; never opens it."""
        return self._partitions.get((topic, index))

    def _lead(self, topic: str, index: int, registration: PartitionRegistration, log: Log, now_ms: int) -> Partition:
        found = self.image.topics_by_name.get(topic)
        assert found is not None
        checkpointed = self._logs().high_watermark(topic, index)
        partition = Partition(
            topic,
            index,
            found.id,
            log,
            node_id=self.node_id,
            leader_epoch=registration.leader_epoch,
            replicas=registration.replicas,
            in_sync_replicas=registration.isr,
            high_watermark=min(max(checkpointed, log.log_start_offset), log.log_end_offset),
        )
        latest = log.leader_epochs.latest
        if latest < registration.leader_epoch:
            log.start_epoch(registration.leader_epoch)
        partition.advance_high_watermark(now_ms)
        self._partitions[(topic, index)] = partition
        self._by_log[log.name] = partition
        return partition

    # Metadata

    def set_image(self, image: MetadataImage) -> None:
        """The image that look-ups use from now on."""
        self.image = image

    def topic_deleted(self, name: str, topic_id: UUID, partition_count: int, now_ms: int) -> None:
        """Stops the partitions of a topic that is gone."""
        self._names.pop(topic_id, None)
        for index in range(partition_count):
            self._forget(name, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_ms)

    def partition_changed(self, topic: str, index: int, registration: PartitionRegistration, now_ms: int) -> None:
        """Leader, epoch or ISR of a partition changed."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            return
        if registration.leader != self.node_id:
            self._forget(topic, index, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
            return
        partition.become_leader(registration.leader_epoch, registration.replicas, registration.isr)
        partition.advance_high_watermark(now_ms)

    def _forget(self, topic: str, index: int, code: ErrorCode, now_ms: int) -> None:
        partition = self._partitions.pop((topic, index), None)
        if partition is not None:
            self._by_log.pop(partition.log.name, None)
            partition.stop(code, now_ms)

    # LogListener

    def log_advanced(self, log: Log, now_ms: int) -> None:
        partition = self._by_log.get(log.name)
        if partition is not None:
            before = partition.high_watermark
            partition.log_advanced(now_ms)
            if partition.high_watermark != before:
                self._logs().set_high_watermark(partition.topic, partition.index, partition.high_watermark)

    def log_start_moved(self, log: Log, now_ms: int) -> None:
        partition = self._by_log.get(log.name)
        if partition is not None:
            partition.wake(now_ms)

    def log_truncated(self, log: Log, now_ms: int) -> None:
        """A leader's log is not truncated; followers come with replication between brokers."""

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        partition = self._by_log.get(log.name)
        if partition is not None:
            self._forget(partition.topic, partition.index, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)

    def directory_failed(self, index: int, error: OSError, now_ms: int) -> None:
        for partition in list(self._partitions.values()):
            if self._logs().open_log(partition.topic, partition.index) is None:
                self._forget(partition.topic, partition.index, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)
        self._directory_lost(index, error, now_ms)
