"""A machine with one compacted topic, in virtual time: the real log manager with its cleaner on a simulated disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.log.disk import read_slice
from penstock.log.log import Log
from penstock.log.manager import ReplicaRequest
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.records.reader import Record, records
from simulator.log.node import LogNode
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
SETTINGS = Settings.for_node(1)
KEYS = 3
"""Records are written with these keys in turn."""


class Compacted:
    """A machine with a compacted topic, whose segments hold two records of about 1 KB, each a batch.

    Attributes: `latest`, the number of the last record of each key; `written`, how many there are; `keys`, how many are
    used in turn.
    """

    def __init__(
        self, seed: int = 7, *, settings: Settings = SETTINGS, power_fails: bool = True, **overrides: str
    ) -> None:
        self.simulation = Simulation(seed)
        self.disk = SimulatedDisk(clock=self.simulation.clock)
        self.settings = settings
        self.latest: dict[bytes, int] = {}
        self.written = 0
        self.keys = KEYS
        self.node = LogNode(self.simulation, [self.disk], self.settings, {})
        self.node._power_lost = lambda: self.node.kill(power_failed=power_fails)  # type: ignore[method-assign]
        self.configure(**overrides)
        self.node.start()
        self.node.manager.create([ReplicaRequest("users", 0, UUID(int=1 << 100))], self.simulation.now_ms)
        self.node.drain()

    def configure(self, **overrides: str) -> None:
        named = {name.replace("_", "."): value for name, value in overrides.items()}
        config = {"internal.segment.bytes": "2500", "cleanup.policy": "compact", **named}
        self.node.topic_configs["users"] = TopicConfig.resolve(self.settings, config)

    def wait(self, milliseconds: int) -> None:
        self.simulation.run(self.simulation.now_ms + milliseconds)

    def append(self, count: int) -> None:
        for _ in range(count):
            key, number = b"key %d" % (self.written % self.keys), self.written
            builder = BatchBuilder()
            builder.append(self.simulation.now_ms, key, b"%d " % number + b"v" * 1000)
            records = bytearray(builder.build())
            self.use(lambda log, r=records: log.append_as_leader(r, 0, self.simulation.now_ms))
            self.latest[key] = number
            self.written += 1
            self.wait(100)

    def use(self, action: Callable[[Log], object]) -> None:
        self.node.use("users", 0, lambda log: (action(log), None)[1])

    def log(self) -> Log:
        found: list[Log] = []
        self.use(found.append)
        self.wait(SECOND_MS)
        return found[0]

    def records(self) -> Iterator[Record]:
        """Every record, as a reader from the start gets them."""
        log = self.log()
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = log.read(offset, 1 << 20)
            for piece in read.slices:
                data = read_slice(self.disk, piece)
                for position, header in headers(data):
                    yield from records(data[position : position + header.size_bytes], header)
            assert read.next_offset > offset
            offset = read.next_offset

    def read(self) -> dict[int, bytes]:
        """Every record by its offset: the number in front of its value."""
        found: dict[int, bytes] = {}
        for record in self.records():
            assert record.value is not None
            found[record.offset] = record.value.split()[0]
        return found

    def reads_the_latest(self) -> None:
        """What is read has its value still, and the last of each key is there."""
        found = self.read()
        assert all(value == b"%d" % offset for offset, value in found.items())
        assert set(self.latest.values()) <= set(found)

    def files(self, suffix: str) -> list[str]:
        return [entry.name for entry in self.disk.list("users-0") if entry.name.endswith(suffix)]

    def segments(self) -> list[int]:
        return [int(name.removesuffix(".log")) for name in self.files(".log")]

    def leave(self, free_bytes: int) -> None:
        """The disk has so much room besides what is on it."""
        self.disk.capacity_bytes = sum(len(self.disk.content(path)) for path in self.disk.paths()) + free_bytes

    def events(self, kind: type) -> list[object]:
        return [event for event in self.node.events if isinstance(event, kind)]
