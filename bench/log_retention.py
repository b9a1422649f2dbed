"""The part `retention` of `log_life.py`: many partitions of a node that fall due for retention in the same minute.

The log manager of a node on a simulated disk, in virtual time: what the disk does costs nothing, so that the longest
calls are what retention costs the loop. A *call* is what runs without a pause there: a tick, the handling of an
operation's end, the taking of the operations that follow. Its CPU time counts, so that other work on the machine does
not. Then how many of the removed files go in a second.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from pathlib import Path
from time import thread_time
from typing import Any
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.log.log import Log
from penstock.log.manager import LogManager, ReplicaRequest
from penstock.log.outbox import Outbox
from penstock.records.builder import BatchBuilder
from simulator.log.node import LogNode
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation

HOUR_MS = 3_600_000
CALLS = ((LogManager, "tick"), (LogManager, "take_operations"), (Outbox, "operation_completed"))
CALLS_OF_LOGS = (Log, "operation_completed")


class Timed:
    """Notes how long calls take."""

    def __init__(self) -> None:
        self.took_s: list[float] = []
        self.on = False
        for kind, name in (*CALLS, CALLS_OF_LOGS):
            self._wrap(kind, name)

    def _wrap(self, kind: Any, name: str) -> None:
        real = getattr(kind, name)

        def timed(*arguments: Any) -> Any:
            began_s = thread_time()
            try:
                return real(*arguments)
            finally:
                if self.on:
                    self.took_s.append(thread_time() - began_s)

        setattr(kind, name, timed)


def filled(partitions: int, *, closed: bool) -> tuple[Simulation, LogNode, SimulatedDisk]:
    """A node whose partitions have two old segments each, and a new one; restarted cleanly if `closed`."""
    simulation = Simulation(1)
    disk = SimulatedDisk(clock=simulation.clock)
    settings = Settings.for_node(1)
    config = TopicConfig.resolve(settings, {"internal.segment.bytes": "300", "retention.ms": str(HOUR_MS)})
    node = LogNode(simulation, [disk], settings, {"clicks": config})
    node.start()
    node.manager.create([ReplicaRequest("clicks", index, UUID(int=1 << 100)) for index in range(partitions)], 0)
    node.drain()
    for wait_ms in (HOUR_MS // 2, 1000):
        for partition in range(partitions):
            for _ in range(2):
                builder = BatchBuilder()
                builder.append(simulation.now_ms, None, b"v" * 150)
                records, now_ms = bytearray(builder.build()), simulation.now_ms
                node.use("clicks", partition, lambda log, r=records, n=now_ms: (log.append_as_leader(r, 0, n), None)[1])
        simulation.run(simulation.now_ms + wait_ms)
    if closed:
        node.stop()
        simulation.run(simulation.now_ms + 1000)
        assert not node.running
        node.start()
    return simulation, node, disk


def measure(partitions: int) -> None:
    """Prints the longest calls, for open and for closed logs."""
    timed = Timed()
    for closed in (False, True):
        simulation, _, disk = filled(partitions, closed=closed)
        removed: Counter[int] = Counter()
        unlink = disk.unlink

        def noting(path: str, unlink: Any = unlink, simulation: Any = simulation, removed: Any = removed) -> None:
            removed[simulation.now_ms // 1000] += path.endswith(".deleted")
            unlink(path)

        disk.unlink = noting  # type: ignore[method-assign]
        gc.collect()
        gc.disable()  # a server has its own way with garbage, and none of the simulator's
        timed.took_s.clear()
        timed.on = True
        simulation.run(simulation.now_ms + HOUR_MS)
        timed.on = False
        gc.enable()
        took = sorted(timed.took_s)
        over, state = sum(each > 0.005 for each in took), "closed" if closed else "open"
        print(
            f"retention of {partitions:,} {state} logs: longest call {1000 * took[-1]:.1f} ms of CPU, "
            f"p99.9 {1000 * took[int(0.999 * len(took))]:.2f} ms, {over} of {len(took):,} over 5 ms; "
            f"{sum(removed.values()):,} files removed, at most {max(removed.values(), default=0)} a second",
            flush=True,
        )
