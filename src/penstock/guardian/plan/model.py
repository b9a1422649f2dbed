"""A cluster as arrays: brokers, disks, partitions, replicas, and what each replica costs as a leader and as a follower.

Everything is an index: brokers in the order of their ids, disks in the order of (broker, dir), partitions in the order
of (topic, number), replicas in the order of (partition, position). So the replicas of a partition and the disks of a
broker are slices. No object a replica: a million of them are a dozen arrays.

A load is a row of twelve numbers: the medians of the six `RESOURCES`, then their 95th percentiles in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

RESOURCES = ("cpu", "bytes", "disk_write", "disk_read", "net_in", "net_out")
"""What a replica uses: cores, bytes on its disk, and rates in bytes a second."""
CPU, BYTES, DISK_WRITE, DISK_READ, NET_IN, NET_OUT = range(6)
DISK_RESOURCES = (BYTES, DISK_WRITE, DISK_READ)
"""What is used of a disk; the others are used of a broker."""
PEAK = len(RESOURCES)
"""Where the 95th percentiles begin in a load."""
LOAD_COLUMNS = 2 * len(RESOURCES)


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers, by index.

    Attributes:
        ids: Kafka's ids, ascending.
        rack, host: numbers of racks and hosts; brokers without a rack share one, those without a host have their own.
        alive, new: whether it lives, and whether it has come to be filled.
        cpu_capacity: cores. net_in_capacity, net_out_capacity: bytes a second.
    """

    ids: Array
    rack: Array
    host: Array
    alive: Array
    new: Array
    cpu_capacity: Array
    net_in_capacity: Array
    net_out_capacity: Array
    rack_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Disks:
    """The log directories, by index; `first[b]:first[b + 1]` are those of broker b. Capacities in bytes and bytes/s."""

    broker: Array
    first: Array
    dirs: tuple[str, ...]
    bytes_capacity: Array
    rate_capacity: Array
    alive: Array


@dataclass(frozen=True, slots=True)
class Model:
    """A cluster; see the module's head.

    Attributes:
        topics: names, ascending. topic, number: the topic and the number of each partition.
        first: where the replicas of each partition begin, and at last where all end.
        partition, broker, disk: of each replica. leader: the replica that leads each partition.
        leading, following: the load of each replica in either role, a row each.
        estimates: what was not in the data, and what stands in for it, a sentence each.
    """

    brokers: Brokers
    disks: Disks
    topics: tuple[str, ...]
    topic: Array
    number: Array
    first: Array
    partition: Array
    broker: Array
    disk: Array
    leader: Array
    leading: Array
    following: Array
    estimates: tuple[str, ...] = ()

    @property
    def replicas(self) -> int:
        return len(self.partition)

    def leads(self) -> Array:
        """Whether each replica leads."""
        leads = np.zeros(self.replicas, np.bool_)
        leads[self.leader] = True
        return leads

    def load(self) -> Array:
        """The load of each replica in its present role."""
        return np.where(self.leads()[:, None], self.leading, self.following)

    def digest(self) -> str:
        """A hash of all that a plan depends on here."""
        found = sha256("\n".join((*self.topics, "", *self.disks.dirs)).encode())
        brokers, disks = self.brokers, self.disks
        for array in (
            *(brokers.ids, brokers.rack, brokers.host, brokers.alive, brokers.new),
            *(brokers.cpu_capacity, brokers.net_in_capacity, brokers.net_out_capacity),
            *(disks.broker, disks.bytes_capacity, disks.rate_capacity, disks.alive),
            *(self.topic, self.number, self.first, self.broker, self.disk, self.leader),
            *(self.leading, self.following),
        ):
            found.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        return found.hexdigest()


def place_text(model: Model, disk: int) -> str:
    """A log directory as people say it: `broker 3, /data/a`."""
    return f"broker {model.brokers.ids[model.disks.broker[disk]]}, {model.disks.dirs[disk]}"
