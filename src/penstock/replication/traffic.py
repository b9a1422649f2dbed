"""Counters of partitions: what producers, consumers and replicas have sent and got, since the start of the process.

A replica has counters from its first use on. They end with the replica, when it was deleted or has moved away, and
go into the sum of `others`, as does what a replica has beyond COUNTED_PARTITIONS_MAX. Who leads or follows a replica
keeps its counters at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.replication.limits import COUNTED_PARTITIONS_MAX


class PartitionCounters:
    """The traffic of one replica here. `records_out` are offsets: of a compacted log, those that are gone count too."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "disk_read_bytes",
        "records_in",
        "records_out",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0
        self.records_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.disk_read_bytes = 0

    def add(self, other: PartitionCounters) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class PartitionTraffic:
    """The counters by topic and partition. `others`: the sum of those that have none of their own, or not any more."""

    __slots__ = ("_counters", "others")

    def __init__(self) -> None:
        self._counters: dict[tuple[str, int], PartitionCounters] = {}
        self.others = PartitionCounters()

    def __len__(self) -> int:
        return len(self._counters)

    def of(self, topic: str, index: int) -> PartitionCounters:
        """The counters of a replica, to count with."""
        found = self._counters.get((topic, index))
        if found is None:
            if len(self._counters) >= COUNTED_PARTITIONS_MAX:
                return self.others
            found = self._counters[topic, index] = PartitionCounters()
        return found

    @property
    def counters(self) -> Mapping[tuple[str, int], PartitionCounters]:
        """The counters that there are, by topic and partition."""
        return self._counters

    def forget(self, topic: str, index: int) -> None:
        """The replica is gone."""
        gone = self._counters.pop((topic, index), None)
        if gone is not None:
            self.others.add(gone)

    def forget_gone(self, here: Callable[[str, int], bool]) -> None:
        """Of all replicas that are not here any more."""
        for topic, index in list(self._counters):
            if not here(topic, index):
                self.forget(topic, index)
