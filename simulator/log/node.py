"""A machine that has log directories and nothing else: the real LogManager and Logs on simulated disks.

`use(topic, partition, action)` does to a log what a handler of the node does: the action may raise `NotOpen` or
`NotResident` and is run again when the log is open or the range was read. Everything else happens in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.errors import NotResident, StorageError
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import ReadRange
from penstock.log.disk import Operation
from penstock.log.events import LogEvent
from penstock.log.log import Log
from penstock.log.manager import LogManager, NotOpen
from penstock.log.meta_properties import FILE, MetaProperties, write_meta_properties
from penstock.records.wall import WallTime
from simulator.world.disk import PowerLoss, SimulatedDisk
from simulator.world.driver import Lanes, Simulation

CLUSTER_ID = "simulated-cluster-idAA"
NODE_ID = 1
RESTART_DELAY_MS = 1_000

Action = Callable[[Log], None]
Refused = Callable[[StorageError], None]


class Again:
    """Runs a function when a read has ended: the owner of a lane read."""

    def __init__(self, node: LogNode, function: Callable[[], None]) -> None:
        self._node = node
        self._function = function

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self._function()

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        self._node.manager.fail_directory(operation.directory, error, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        raise error


class LogNode:
    """One incarnation after the other of a log manager on the same disks.

    Attributes:
        manager: the present one; `running` while it is.
        events: what it reported, of all incarnations.
        topic_configs: by topic; a topic that is not there has the defaults.
        cut: called when a log has given back what found no room on its disk.
        restarted, crashed: called on those occasions.
        replicated: gives the high watermark of a log that has advanced; its end unless replaced.
        wall: what stamps and retention go by; tests set it.
        task_us_max: of its lanes, from the next start on.
    """

    def __init__(
        self,
        simulation: Simulation,
        disks: Sequence[SimulatedDisk],
        settings: Settings,
        topic_configs: Mapping[str, TopicConfig] | None = None,
    ) -> None:
        self.simulation = simulation
        self.disks = disks
        self.settings = settings
        self.topic_configs = dict(topic_configs or {})
        self.events: list[LogEvent] = []
        self.advanced: Callable[[Log], None] = lambda _: None
        self.replicated: Callable[[Log], int] = lambda log: log.log_end_offset
        self.cut: Callable[[Log], None] = lambda _: None
        self.restarted: Callable[[], None] = lambda: None
        self.crashed: Callable[[], None] = lambda: None
        self.wall = WallTime()
        self.task_us_max = 0
        self.running = False
        self.incarnation = 0
        self.manager: LogManager
        self._lanes: Lanes
        self._tick_ms: int | None = None

    # Start, stop, crash

    def format(self) -> None:
        """Writes meta.properties where it is missing."""
        for disk in self.disks:
            if not disk.exists(FILE):
                write_meta_properties(disk, MetaProperties(CLUSTER_ID, NODE_ID, None))

    def start(self) -> None:
        """Boots; if the power or a disk fails on the way, once more."""
        self.incarnation += 1
        directories = [LogDirectory(disk.directory, f"/data/{disk.directory}", disk.loop, disk) for disk in self.disks]
        self.manager = LogManager(
            self.settings,
            directories,
            topic_config=lambda topic: self.topic_configs.get(topic, self.settings.topic_defaults),
            random=Random(self.simulation.random.getrandbits(64)),
            report=self._report,
            listener=self,
            wall=self.wall,
        )
        self._lanes = Lanes(self.simulation, self.disks, on_event=self.drain, on_crash=self._power_lost)
        self._lanes.task_us_max = self.task_us_max
        self._tick_ms = None
        self.simulation.trace(f"start {self.incarnation}")
        try:
            self.format()
            self.manager.start(self.simulation.now_ms)
            self.manager.unmark(self.simulation.now_ms)
        except PowerLoss:
            self.kill()
            return
        except StorageError:
            if self.manager.table.online:
                raise
            self.kill()
            return
        self.running = True
        self.restarted()
        self.manager.begin(self.simulation.now_ms)
        self.drain()

    def stop(self, broker_epoch: int = 1) -> None:
        """Begins a clean stop; `running` falls when it is done."""
        self.manager.stop(broker_epoch, self.simulation.now_ms)
        self.drain()

    def kill(self, *, power_failed: bool = True) -> None:
        """The machine, or the process alone, goes down now and comes back a little later."""
        self._lanes.stop()
        self.running = False
        for disk in self.disks:
            disk.restart(power_failed=power_failed)
        self.simulation.trace("power failure" if power_failed else "kill -9")
        self.crashed()
        self.simulation.after_ms(RESTART_DELAY_MS, self.start)

    def _power_lost(self) -> None:
        self.kill()

    # Work

    def use(self, topic: str, partition: int, action: Action, refused: Refused | None = None) -> None:
        """Does something to a log, when it is open and what it reads is there."""
        incarnation = self.incarnation

        def again(_: int = 0) -> None:
            if self.running and incarnation == self.incarnation:
                self.use(topic, partition, action, refused)

        try:
            action(self.manager.log(topic, partition, self.simulation.now_ms))
        except NotOpen as missing:
            missing.opening.when_done.append(again)
        except NotResident as missing:
            read = ReadRange(missing.directory, Again(self, again), missing.path, missing.position, missing.length)
            self._lanes.run([read])
        except StorageError as error:
            if refused is not None:
                refused(error)
        self.drain()

    def drain(self) -> None:
        """Runs what the manager emitted and sets its next deadline, as the shell does after every event."""
        self._lanes.run(self.manager.take_operations())
        deadline_ms = self.manager.next_deadline_ms()
        if deadline_ms is not None and (self._tick_ms is None or deadline_ms < self._tick_ms):
            self._tick_ms = deadline_ms
            incarnation = self.incarnation
            self.simulation.at_ms(deadline_ms, lambda: self._tick(incarnation, deadline_ms))
        if self.running and self.manager.stopped:
            self.running = False
            self.simulation.trace("stopped")

    def _tick(self, incarnation: int, set_for_ms: int) -> None:
        if self.running and incarnation == self.incarnation and self._tick_ms == set_for_ms:
            self._tick_ms = None
            self.manager.tick(self.simulation.now_ms)
            self.drain()

    def _report(self, event: LogEvent) -> None:
        self.events.append(event)
        self.simulation.trace(str(event))

    # LogListener

    def log_advanced(self, log: Log, now_ms: int) -> None:
        topic, _, partition = log.name.rpartition("-")
        self.manager.set_high_watermark(topic, int(partition), self.replicated(log))
        self.advanced(log)

    def log_start_moved(self, log: Log, now_ms: int) -> None:
        self.simulation.trace(f"{log.name} starts at {log.log_start_offset}")

    def log_truncated(self, log: Log, now_ms: int) -> None:
        self.simulation.trace(f"{log.name} cut to {log.log_end_offset}")
        self.cut(log)

    def log_undone(self, log: Log, now_ms: int) -> None:
        self.simulation.trace(f"{log.name} found no room, and ends at {log.log_end_offset}")

    def space_changed(self, index: int, now_ms: int) -> None:
        self.simulation.trace(f"directory {index} is full, or has room again")

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        self.simulation.trace(f"{log.name} failed: {error}")

    def directory_failed(self, index: int, error: OSError, now_ms: int) -> None:
        self.simulation.trace(f"directory {index} failed: {error}")
