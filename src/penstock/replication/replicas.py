"""The replicas that this node leads and follows, according to the metadata and the log directories.

A led partition that nobody uses is an entry in the image and in the log manager, nothing here. The first request for it
makes a `Partition`, once its log is open; `NotOpen` goes up to the dispatcher, which runs the request again. A followed
one has a `Follower` as soon as the metadata says so; the `FollowerDriver` has its log opened.

A replica is one of the two at any time. What survives the change from leader to follower and back is the log, and the
high watermark, which the log manager keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol
from uuid import UUID

from penstock.errors import ErrorCode, StorageError
from penstock.log.log import Log
from penstock.log.manager import LogManager, NotOpen, ReplicaRequest
from penstock.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionRegistration
from penstock.replication.follower import Follower, FollowerOwner
from penstock.replication.limits import EXPECTED_FOLLOWERS_MS
from penstock.replication.partition import IsrDriver, Partition
from penstock.replication.traffic import PartitionTraffic

OPENED_AT_ONCE_MAX = 500
"""Logs that one request has opened side by side."""


class FollowerDriver(FollowerOwner, Protocol):
    """The driver that makes followers fetch."""

    def follow(self, follower: Follower, now_ms: int) -> None:
        """Called for a new follower, or one with another leader."""

    def unfollow(self, follower: Follower, now_ms: int) -> None:
        """Called when a replica stops being a follower."""


class Replicas:
    """All replicas of this node that are in use. Also the `LogListener` of the log manager, and what partitions ask of
    the broker (`PartitionOwner`).

    `directory_lost(index, error, now_ms)` is called when a log directory has failed, `low_watermark_moved` when a
    follower of a led partition has told of another log start, or nobody follows us any more. `followers` gives who
    drives the followers, `broker_epoch` that of this broker's registration. `transaction_open` is called when a led
    partition has advanced, or was opened, and has an open transaction.

    Attributes:
        lag_time_max_ms: replica.lag.time.max.ms.
        caught_up: the image is of the present; before, nothing is led: what was ours once is perhaps another's by now.
        expected: brokers that will ask for more partitions than before, since we lead some anew; and until when.
        traffic: counters by topic and partition.
        copied: who wants to know that a log has advanced or was cut, by its name: it is being copied elsewhere.
    """

    def __init__(
        self,
        node_id: int,
        logs: Callable[[], LogManager],
        directory_lost: Callable[[int, OSError, int], None],
        low_watermark_moved: Callable[[Partition, int], None],
        isr_driver: IsrDriver,
        *,
        followers: Callable[[], FollowerDriver],
        broker_epoch: Callable[[], int],
        lag_time_max_ms: int = 30_000,
        transaction_open: Callable[[Partition, int], None] = lambda partition, now_ms: None,
    ) -> None:
        self.node_id = node_id
        self.image: MetadataImage = EMPTY_IMAGE
        self.lag_time_max_ms = lag_time_max_ms
        self._follower_driver = followers
        self._own_broker_epoch = broker_epoch
        self.caught_up = False
        self.expected: dict[int, int] = {}
        self._logs = logs
        self._directory_lost = directory_lost
        self._low_watermark_moved = low_watermark_moved
        self._isr_driver = isr_driver
        self._transaction_open = transaction_open
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._followers: dict[tuple[str, int], Follower] = {}
        self._by_log: dict[str, Partition | Follower] = {}
        self._names: dict[UUID, str] = {}
        self.traffic = PartitionTraffic()
        self.copied: dict[str, Callable[[int], None]] = {}

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

    def leader(self, topic: str, index: int, now_ms: int, *, patient: bool = False) -> Partition | ErrorCode:
        """The partition, if this node leads it; otherwise the error for the client.

        Raises NotOpen while its log is being opened or recovered; if that waits for room, only to who is `patient`.
        """
        partition = self._partitions.get((topic, index))
        registration = None
        if partition is None:
            registration = self.image.partition(topic, index)
            if not self.caught_up or registration is None or registration.leader != self.node_id:
                return self._not_led(topic, index)
            if not self._logs().exists(topic, index):
                self.create(topic, index, now_ms)
        try:
            log = self._logs().log(topic, index, now_ms)
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        except NotOpen as missing:
            if missing.no_room and not patient:
                return ErrorCode.KAFKA_STORAGE_ERROR
            raise
        if partition is not None:
            if partition.log is not log:
                partition.reopened(log)
            return partition
        assert registration is not None
        return self._lead(topic, index, registration, log, now_ms)

    def _not_led(self, topic: str, index: int) -> ErrorCode:
        """The error for a partition not led here: KAFKA_STORAGE_ERROR if its replica here is lost, as in Kafka."""
        if not self.caught_up:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.image.partition(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        logs = self._logs()
        lost = logs.exists(topic, index) and logs.directory_of(topic, index).error is not None
        return ErrorCode.KAFKA_STORAGE_ERROR if lost else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def reader(self, topic: str, index: int, now_ms: int) -> Follower | None:
        """The partition as a follower that consumers may read (KIP-392), if this node follows it and it is in order.

        Raises NotOpen while its log is being opened, unless that waits for room: the leader has it open.
        """
        follower = self._followers.get((topic, index))
        if follower is None or follower.log is None or follower.leader_id == NO_LEADER:
            return None
        try:
            log = self._logs().log(topic, index, now_ms)
        except StorageError:
            return None
        except NotOpen as missing:
            if missing.no_room:
                return None
            raise
        if follower.log is not log:
            follower.opened(log, self._logs().high_watermark(topic, index), now_ms)
        return None if log.truncating else follower

    def open_led(self, topic: str, indexes: Iterable[int], broken: dict[int, Exception], now_ms: int) -> None:
        """Has the logs of the partitions that this node leads opened concurrently.

        Raises NotOpen until they are. Any other error of one partition is put into `broken`.
        """
        not_open: NotOpen | None = None
        begun = 0
        for index in indexes:
            if index in broken:
                continue
            try:
                self.leader(topic, index, now_ms)
            except NotOpen as error:
                not_open = error
                begun += 1
                if begun == OPENED_AT_ONCE_MAX:
                    break
            except Exception as error:
                broken[index] = error
        if not_open is not None:
            raise not_open  # the last of them: by then the others are open too

    def create(self, topic: str, index: int, now_ms: int) -> None:
        """Creates a replica before its turn."""
        found = self.image.topics_by_name.get(topic)
        assert found is not None
        directory_id = found.partitions[index].directory(self.node_id)
        self._logs().create([ReplicaRequest(topic, index, found.id, directory_id, is_new=False)], now_ms)

    @property
    def led(self) -> Mapping[tuple[str, int], Partition]:
        """The led partitions that something has used, by topic and index."""
        return self._partitions

    def leading(self) -> Iterable[Partition]:
        """The led partitions that something has used."""
        return self._partitions.values()

    def following(self) -> Iterable[Follower]:
        """All partitions that this node follows."""
        return self._followers.values()

    def follower(self, topic: str, index: int) -> Follower | None:
        """The partition, if this node follows it."""
        return self._followers.get((topic, index))

    def in_use(self, topic: str, index: int) -> Partition | None:
        """The partition if something has used it; never opens it."""
        return self._partitions.get((topic, index))

    def _lead(
        self, topic: str, index: int, registration: PartitionRegistration, log: Log, now_ms: int
    ) -> Partition | ErrorCode:
        if log.truncating:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # from its time as a follower; it leads in a moment
        found = self.image.topics_by_name.get(topic)
        assert found is not None
        checkpointed = self._logs().high_watermark(topic, index)
        partition = Partition(
            topic,
            index,
            found.id,
            log,
            owner=self,
            isr_driver=self._isr_driver,
            node_id=self.node_id,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            replicas=registration.replicas,
            in_sync_replicas=registration.isr,
            high_watermark=min(max(checkpointed, log.log_start_offset), log.log_end_offset),
            now_ms=now_ms,
            traffic=self.traffic.of(topic, index),
        )
        partition.reopened(log)
        partition.advance_high_watermark(now_ms)
        self._partitions[(topic, index)] = partition
        self._by_log[log.name] = partition
        if log.producers.ongoing:
            self._transaction_open(partition, now_ms)
        return partition

    # Metadata

    def set_image(self, image: MetadataImage) -> None:
        """Sets the image for look-ups."""
        self.image = image

    def brokers_changed(self, now_ms: int) -> None:
        """A broker has come back or gone: it joins the ISRs of partitions in which it has everything, or is no longer
        waited for.
        """
        self._isr_driver.look(now_ms)

    def topic_deleted(self, name: str, topic_id: UUID, partition_count: int, now_ms: int) -> None:
        """Stops the partitions of a deleted topic."""
        self._names.pop(topic_id, None)
        for index in range(partition_count):
            self._forget(name, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_ms)
            self.traffic.forget(name, index)

    def partition_changed(self, topic: str, index: int, registration: PartitionRegistration, now_ms: int) -> None:
        """Leader, epoch, replicas or ISR of a partition changed."""
        if self.node_id not in registration.replicas:
            self._forget(topic, index, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
        elif registration.leader == self.node_id:
            self._unfollow(topic, index, now_ms)
            for broker_id in registration.replicas:
                if broker_id != self.node_id:
                    self.expected[broker_id] = now_ms + EXPECTED_FOLLOWERS_MS
            partition = self._partitions.get((topic, index))
            if partition is not None:
                partition.become_leader(
                    registration.leader_epoch,
                    registration.replicas,
                    registration.isr,
                    now_ms,
                    partition_epoch=registration.partition_epoch,
                )
        else:
            self._stop_leading(topic, index, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
            self._follow(topic, index, registration, now_ms)

    def _follow(self, topic: str, index: int, registration: PartitionRegistration, now_ms: int) -> None:
        """Begins to follow, or continues under another leader or epoch. Without a leader there is nothing to fetch
        from.
        """
        follower = self._followers.get((topic, index))
        if follower is None:
            found = self.image.topics_by_name.get(topic)
            assert found is not None
            follower = self._followers[(topic, index)] = Follower(
                topic,
                index,
                found.id,
                leader_id=registration.leader,
                leader_epoch=registration.leader_epoch,
                owner=self._follower_driver(),
                traffic=self.traffic.of(topic, index),
            )
        elif (follower.leader_id, follower.leader_epoch) == (registration.leader, registration.leader_epoch):
            return
        else:
            follower.follow(registration.leader, registration.leader_epoch, now_ms)
        if registration.leader == NO_LEADER:
            self._follower_driver().unfollow(follower, now_ms)
        else:
            self._follower_driver().follow(follower, now_ms)

    def follower_log(self, follower: Follower, now_ms: int) -> None:
        """Gives a follower its log. Raises NotOpen while that is being opened, StorageError if there is none."""
        if not self._logs().exists(follower.topic, follower.index):
            self.create(follower.topic, follower.index, now_ms)
        log = self._logs().log(follower.topic, follower.index, now_ms)
        self._by_log[log.name] = follower
        follower.opened(log, self._logs().high_watermark(follower.topic, follower.index), now_ms)

    def _forget(self, topic: str, index: int, code: ErrorCode, now_ms: int) -> None:
        self._stop_leading(topic, index, code, now_ms)
        self._unfollow(topic, index, now_ms)

    def _stop_leading(self, topic: str, index: int, code: ErrorCode, now_ms: int) -> None:
        partition = self._partitions.pop((topic, index), None)
        if partition is not None:
            self._isr_driver.forget(partition)
            self._by_log.pop(partition.log.name, None)
            partition.stop(code, now_ms)
            self._low_watermark_moved(partition, now_ms)

    def _unfollow(self, topic: str, index: int, now_ms: int) -> None:
        follower = self._followers.pop((topic, index), None)
        if follower is not None:
            if follower.log is not None:
                self._by_log.pop(follower.log.name, None)
            self._follower_driver().unfollow(follower, now_ms)
            follower.send_readers_away(now_ms)

    def expects(self, broker_id: int, now_ms: int) -> bool:
        """Whether a broker will soon ask for partitions that it did not ask us for before."""
        return self.expected.get(broker_id, 0) > now_ms

    # PartitionOwner

    @property
    def broker_epoch(self) -> int:
        return self._own_broker_epoch()

    def broker_epoch_of(self, broker_id: int) -> int | None:
        broker = self.image.brokers.get(broker_id)
        return None if broker is None or broker.fenced else broker.epoch

    def may_join(self, broker_id: int, broker_epoch: int | None) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.active and broker_epoch in (broker.epoch, -1)

    def high_watermark_moved(self, partition: Partition | Follower) -> None:
        self._logs().set_high_watermark(partition.topic, partition.index, partition.high_watermark)

    def low_watermark_moved(self, partition: Partition, now_ms: int) -> None:
        self._low_watermark_moved(partition, now_ms)

    # LogListener

    def log_advanced(self, log: Log, now_ms: int) -> None:
        if log.name in self.copied:
            self.copied[log.name](now_ms)
        replica = self._by_log.get(log.name)
        if type(replica) is Partition:
            replica.log_advanced(now_ms)
            if log.producers.ongoing:
                self._transaction_open(replica, now_ms)
        elif type(replica) is Follower:
            replica.log_changed(now_ms)

    def log_start_moved(self, log: Log, now_ms: int) -> None:
        replica = self._by_log.get(log.name)
        if type(replica) is Partition:
            replica.wake(now_ms)
        elif type(replica) is Follower:
            replica.log_start_moved(now_ms)

    def log_truncated(self, log: Log, now_ms: int) -> None:
        replica = self._by_log.get(log.name)
        if type(replica) is Follower:
            replica.log_changed(now_ms)
        elif type(replica) is Partition and replica.log is log:
            replica.note_epoch()
        if log.name in self.copied:
            self.copied[log.name](now_ms)

    def log_undone(self, log: Log, now_ms: int) -> None:
        replica = self._by_log.get(log.name)
        if type(replica) is Partition:
            replica.appends_undone(now_ms)

    def space_changed(self, index: int, now_ms: int) -> None:
        for follower in list(self._followers.values()):
            if follower.log is not None and follower.log.disk.directory == index:
                self._follower_driver().follower_moved(follower, now_ms)

    def copy(self, log: Log, follower: Follower) -> None:
        """`log` is a future one: changes of it concern `follower`."""
        self._by_log[log.name] = follower

    def copy_ended(self, log: Log) -> None:
        """A future log is no longer one."""
        self._by_log.pop(log.name, None)

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        replica = self._by_log.get(log.name)
        if replica is not None:
            self._lost(replica, now_ms)

    def directory_failed(self, index: int, error: OSError, now_ms: int) -> None:
        replicas: list[Partition | Follower] = [*self._partitions.values(), *self._followers.values()]
        logs = self._logs()
        for replica in replicas:
            name = replica.topic, replica.index
            if logs.exists(*name) and logs.directory_of(*name).index == index:
                self._lost(replica, now_ms)
        self._directory_lost(index, error, now_ms)

    def _lost(self, replica: Partition | Follower, now_ms: int) -> None:
        if type(replica) is Partition:
            self._stop_leading(replica.topic, replica.index, ErrorCode.KAFKA_STORAGE_ERROR, now_ms)
        elif type(replica) is Follower:
            replica.broken(now_ms)
