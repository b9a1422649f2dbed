"""A look at the disks of one broker: its log directories, and the replicas that lie in them.

Replicas in which nothing has changed stay the same objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.guardian.core.believing import Doubts, Unbelievable, believed_disk, error_name
from penstock.guardian.core.limits import (
    GUARDIAN_SEEN_DISKS_MAX,
    GUARDIAN_SEEN_PER_STEP,
    GUARDIAN_SEEN_REPLICAS_MAX,
    GUARDIAN_TEXT_MAX,
)
from penstock.guardian.core.looks import Look, Watched
from penstock.guardian.core.sight import DISKS, ClusterSight, Place, SeenDisk, SeenReplica, of_broker
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


class LookAtDisks(Look):
    """See the module's head."""

    def __init__(self, watched: Watched, broker: int, every_ms: int) -> None:
        super().__init__(watched, of_broker(DISKS, broker), every_ms)
        self._broker = broker

    def begin(self, now_ms: int) -> None:
        self.watched.ask(self._broker, DescribeLogDirsRequest(topics=None), self._came, now_ms)

    def _came(self, answer: Message | None, reason: str | None, now_ms: int) -> None:
        if self.gone or not isinstance(answer, DescribeLogDirsResponse):
            self.failed(str(reason))
            return
        problem = refusal(answer)
        if problem:
            self.failed(problem)
        else:
            self.watched.do(self.done(self._take(answer, now_ms)))

    def _take(self, answer: DescribeLogDirsResponse, now_ms: int) -> Iterator[None]:
        """Goes through the replicas, in steps, and then has them be what is seen."""
        rows, looked_through = Rows(self.watched.seen, self._broker), 0
        for row in answer.results:
            disk = rows.add_disk(row)
            for topic in row.topics if disk is not None else ():
                rows.add_topic(topic, row.log_dir)
                looked_through += 1 + len(topic.partitions)
                if looked_through >= GUARDIAN_SEEN_PER_STEP:
                    looked_through = 0
                    yield
        rows.finish(now_ms)
        self.watched.saw(self.part, now_ms, rows.doubts.text)
        self.watched.saw_all(DISKS)


class Rows:
    """What one answer tells of a broker. `finish` has it be what is seen. `doubts`: what is not believed."""

    def __init__(self, seen: ClusterSight, broker: int) -> None:
        self.doubts = Doubts()
        self._seen = seen
        self._broker = broker
        self._disks: dict[str, SeenDisk] = {}
        self._replicas: dict[Place, SeenReplica] = {}
        self._growing: dict[Place, tuple[str, int]] = {}

    def add_disk(self, row: DescribeLogDirsResult) -> SeenDisk | None:
        """A log directory; None if it is not believed."""
        try:
            if row.log_dir in self._disks:
                raise Unbelievable("it is there twice")
            disk = believed_disk(self._broker, row)
        except Unbelievable as why:
            self.doubts.add(f"directory {row.log_dir[:GUARDIAN_TEXT_MAX]}: {why}")
            return None
        known = self._seen.disks.get((self._broker, disk.path))
        self._disks[disk.path] = known if known is not None and known == disk else disk
        return disk

    def add_topic(self, topic: DescribeLogDirsTopic, path: str) -> None:
        """The replicas of a topic in a directory."""
        path = self._disks[path].path
        known = self._seen.topics.get(topic.name)
        name = topic.name if known is None else known.name
        for each in topic.partitions:
            place, size = (name, each.partition_index, self._broker), each.partition_size
            if size < 0 or each.partition_index < 0:
                self.doubts.add(f"{name[:GUARDIAN_TEXT_MAX]}-{each.partition_index}: it has {size} bytes")
            elif place in (self._growing if each.is_future_key else self._replicas):
                self.doubts.add(f"{name[:GUARDIAN_TEXT_MAX]}-{each.partition_index}: it is there twice")
            elif each.is_future_key:
                self._growing[place] = (path, size)
            else:
                self._add_replica(place, SeenReplica(path, size, each.offset_lag))

    def _add_replica(self, place: Place, found: SeenReplica) -> None:
        """A replica; the object that is known, if nothing of it has changed."""
        known = self._seen.replicas.get(place)
        self._replicas[place] = known if known is not None and known == found else found

    def finish(self, now_ms: int) -> None:
        """All has been told."""
        for place, (path, size) in self._growing.items():
            at = self._replicas.get(place)
            if at is not None:
                self._add_replica(place, replace(at, future_path=path, future_size_bytes=size))
        self._seen.take_broker(self._broker, self._disks, self._replicas)
        self._seen.saw_sizes(self._broker, now_ms)


def refusal(answer: DescribeLogDirsResponse) -> str:
    """Why nothing is taken from an answer; empty where something is."""
    if answer.error_code:
        return f"it answers {error_name(answer.error_code)}"
    if not answer.results:
        return "it names no log directory; may it be asked for them (DESCRIBE of the cluster)?"
    if len(answer.results) > GUARDIAN_SEEN_DISKS_MAX:
        return f"it names {len(answer.results)} log directories: at most {GUARDIAN_SEEN_DISKS_MAX} are kept in sight"
    replicas = sum(len(topic.partitions) for each in answer.results for topic in each.topics)
    if replicas > GUARDIAN_SEEN_REPLICAS_MAX:
        return f"it names {replicas} replicas: at most {GUARDIAN_SEEN_REPLICAS_MAX} are kept in sight"
    return ""
