"""Which logs of a directory are recovered first after an unclean stop, and how far that is said to be."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.config.server import Settings
from penstock.log import open_logs
from penstock.log.directory_operations import RecoverLog
from penstock.log.events import RecoveryFinished, RecoveryGoesOn
from penstock.log.manager import ReplicaRequest
from penstock.log.recovery_task import ASKED_FOR, COORDINATORS, OTHERS
from simulator.log.node import LogNode
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation


class World:
    """A node with one log directory, in which one log at a time is recovered."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        disk = SimulatedDisk(0, clock=self.simulation.clock)
        self.node = LogNode(self.simulation, [disk], Settings.for_node(1, num_recovery_threads_per_data_dir=1))
        self.node.start()

    def settle(self) -> None:
        self.simulation.run(self.simulation.now_ms + 10_000)

    def create(self, topic: str, partitions: int, number: int = 1) -> None:
        requests = [ReplicaRequest(topic, index, UUID(int=(1 << 100) + number)) for index in range(partitions)]
        self.node.manager.create(requests, self.simulation.now_ms)
        self.node.drain()
        self.settle()


def test_the_logs_of_coordinators_are_recovered_before_all_others_and_those_asked_for_next() -> None:
    world = World()
    for number, topic in enumerate(("clicks", "__consumer_offsets", "views")):
        world.create(topic, 3, number)
    world.node.kill(power_failed=False)
    begun: list[tuple[str, int]] = []
    recovered = RecoverLog.run

    def noting(operation: RecoverLog, disk: object) -> object:
        begun.append((operation.arguments.name, operation.precedence))
        return recovered(operation, disk)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecoverLog, "run", noting)
        patch.setattr(world.node, "restarted", lambda: world.node.use("views", 2, lambda _: None))
        world.settle()
    others = [name for name, _ in begun if not name.startswith("__") and name != "views-2"]
    assert {name for name, rank in begun if rank == COORDINATORS} == {f"__consumer_offsets-{each}" for each in range(3)}
    assert {name for name, rank in begun if rank == ASKED_FOR} == {"views-2"}
    assert max(begun.index((f"__consumer_offsets-{each}", COORDINATORS)) for each in range(3)) < min(
        begun.index((name, OTHERS)) for name in others
    )


def test_the_progress_of_a_recovery_is_told_and_ends_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_logs, "RECOVERY_SAID_EVERY_MS", 0)
    world = World()
    world.create("clicks", 4)
    world.node.kill(power_failed=False)
    left: list[int] = []
    recovered = RecoverLog.run

    def noting(operation: RecoverLog, disk: object) -> object:
        progress = world.node.manager.table.directories[0].recovery
        assert list(progress.under_way) == [operation]
        operation.segments_left = 7
        assert progress.segments_left == 7
        left.append(progress.logs_left)
        return recovered(operation, disk)  # type: ignore[arg-type]

    monkeypatch.setattr(RecoverLog, "run", noting)
    world.settle()
    assert left == [4, 3, 2, 1]
    said = [event for event in world.node.events if isinstance(event, RecoveryGoesOn)]
    assert [(event.recovered, event.logs) for event in said] == [(1, 4), (2, 4), (3, 4)]
    progress = world.node.manager.table.directories[0].recovery
    assert (progress.logs_left, progress.segments_left) == (0, 0)
    assert [event.logs for event in world.node.events if isinstance(event, RecoveryFinished)] == [4]
