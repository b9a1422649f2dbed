"""The replicas of a node, as the log manager and its parts share them: which exist and where, without rules."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.log.directory import LogDirectory
from penstock.log.limits import OPEN_LOGS_MAX
from penstock.log.names import COORDINATOR_TOPICS, parse_future_name, parse_name
from penstock.log.replica import Replica

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.config.topic import TopicConfig
    from penstock.log.log import Log


class ReplicaTable:
    """All replicas of a node, and what holds for all of them.

    Attributes:
        directories: in the order of `log.dirs`.
        settings: the broker's, as they are now.
        topic_config: gives the present configuration of a topic.
        futures: replicas on their way into use (`penstock.log.moving`), by (topic, partition).
        open: those with a log in memory, by its name, the one least recently used first; at most `open_logs_max`, but
            for those that are busy.
        unrecovered: by directory, replicas that are recovered when nobody asks for them before.
        begun: whether the topics' configurations are known.
        stopping: whether a clean stop has begun.
    """

    def __init__(
        self, directories: Sequence[LogDirectory], settings: Settings, topic_config: Callable[[str], TopicConfig]
    ) -> None:
        assert [directory.index for directory in directories] == list(range(len(directories)))
        self.directories = directories
        self.settings = settings
        self.topic_config = topic_config
        self.futures: dict[tuple[str, int], Replica] = {}
        self.open: OrderedDict[str, Replica] = OrderedDict()
        self.open_logs_max = OPEN_LOGS_MAX
        self.unrecovered: list[deque[Replica]] = [deque() for _ in directories]
        self.begun = False
        self.stopping = False
        self._replicas: dict[str, dict[int, Replica]] = {}

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that have not failed."""
        return [directory for directory in self.directories if directory.error is None]

    def find(self, topic: str, partition: int) -> Replica | None:
        """The replica in use, in whatever state."""
        partitions = self._replicas.get(topic)
        return None if partitions is None else partitions.get(partition)

    def find_name(self, name: str) -> Replica | None:
        """The replica whose directory has this name."""
        partition = parse_name(name)
        if partition is not None:
            return self.find(*partition)
        future = parse_future_name(name)
        return self.futures.get(future) if future is not None else None

    def will_recover(self, replica: Replica) -> None:
        """Queues a replica to be recovered: those of the coordinators' topics before all others."""
        replica.directory.recovery.logs += 1
        queue = self.unrecovered[replica.directory.index]
        if replica.topic in COORDINATOR_TOPICS:
            queue.appendleft(replica)
        else:
            queue.append(replica)

    def holder(self, log: Log) -> Replica | None:
        """The replica whose log this is; None if it was deleted or its directory failed meanwhile."""
        replica = self.open.get(log.name)
        return replica if replica is not None and replica.log is log else None

    def replicas(self) -> Iterator[Replica]:
        """All replicas in use: only for start, stop, strays, failures and descriptions."""
        for partitions in self._replicas.values():
            yield from partitions.values()

    def of_topic(self, topic: str) -> list[Replica]:
        """A topic's replicas, those on their way into use last."""
        futures = [replica for replica in self.futures.values() if replica.topic == topic]
        return [*self._replicas.get(topic, {}).values(), *futures]

    def of_directory(self, directory: LogDirectory) -> list[Replica]:
        """A directory's replicas, those on their way into use last."""
        return [each for each in (*self.replicas(), *self.futures.values()) if each.directory is directory]

    def add(self, replica: Replica) -> None:
        """Takes a replica in, under its partition."""
        replica.directory.replicas += 1
        if replica.is_future:
            assert replica.key not in self.futures, f"{replica.name} is being moved"
            self.futures[replica.key] = replica
            return
        partitions = self._replicas.setdefault(replica.topic, {})
        assert replica.partition not in partitions, f"{replica.name} is there already"
        partitions[replica.partition] = replica

    def remove(self, replica: Replica) -> None:
        """Takes a replica out."""
        replica.directory.replicas -= 1
        if replica.is_future:
            del self.futures[replica.key]
            return
        partitions = self._replicas[replica.topic]
        del partitions[replica.partition]
        if not partitions:
            del self._replicas[replica.topic]
