"""Keys that are written and deleted in a compacted topic of a simulated machine, and what a reader from the start makes
of it.
"""

from __future__ import annotations

from uuid import UUID

from penstock.log.disk import read_slice
from penstock.log.log import Log
from penstock.log.manager import ReplicaRequest
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.records.reader import records
from support.compacted import Compacted

PADDING_BYTES = 1000


class Keyed:
    """Partition 0 of a topic of the machine, which is made if it is another than that of `Compacted`.

    Attributes: `latest`, what each key that was not deleted has.
    """

    def __init__(self, machine: Compacted, topic: str = "users") -> None:
        self.machine = machine
        self.topic = topic
        self.latest: dict[bytes, bytes] = {}
        self._written = 0
        manager = machine.node.manager
        if manager.table.find(topic, 0) is None:
            machine.node.topic_configs[topic] = machine.node.topic_configs["users"]
            id_ = UUID(int=len(topic) << 110)
            manager.create([ReplicaRequest(topic, 0, id_)], machine.simulation.now_ms)
            machine.node.drain()

    def put(self, key: bytes) -> None:
        """A batch with one record of about 1 KB, two of which fill a segment."""
        self._written += 1
        value = b"%d" % self._written
        self._append(key, value + b" " * PADDING_BYTES)
        self.latest[key] = value

    def delete(self, key: bytes) -> None:
        self._append(key, None)
        self.latest.pop(key, None)

    def _append(self, key: bytes, value: bytes | None) -> None:
        builder = BatchBuilder()
        builder.append(self.machine.simulation.now_ms, key, value)
        batch = bytes(builder.build())
        node, now_ms = self.machine.node, self.machine.simulation.now_ms
        node.use(self.topic, 0, lambda log: (log.append_as_leader(bytearray(batch), 0, now_ms), None)[1])
        self.machine.wait(100)

    def found(self) -> tuple[dict[bytes, bytes], int]:
        """What a reader has for each key at the end, and how many delete markers it has met."""
        found: dict[bytes, bytes] = {}
        markers = 0
        for key, value in self.read():
            if value is None:
                markers += 1
                found.pop(key, None)
            else:
                found[key] = value
        return found, markers

    def read(self) -> list[tuple[bytes, bytes | None]]:
        """Every record, from the start."""
        logs: list[Log] = []
        self.machine.node.use(self.topic, 0, lambda log: (logs.clear(), logs.append(log), None)[2])
        self.machine.wait(1000)
        (log,) = logs
        found: list[tuple[bytes, bytes | None]] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20)
            for piece in read.slices:
                data = read_slice(self.machine.disk, piece)
                for position, header in headers(data):
                    for record in records(data[position : position + header.size_bytes], header):
                        assert record.key is not None
                        found.append((record.key, None if record.value is None else record.value.strip()))
            assert read.next_offset > offset
            offset = read.next_offset
        return found
