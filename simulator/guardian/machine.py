"""A machine that runs a Guardian node: the real one, on a simulated disk, in the same shell as a broker."""

from __future__ import annotations

from random import Random
from typing import Any, cast

from penstock.config.guardian import LISTENER, GuardianSettings
from penstock.guardian.core.identity import format_directory
from penstock.guardian.core.node import GuardianNode
from penstock.guardian.core.records import FEATURE_LEVEL
from penstock.log.directory import LogDirectory
from penstock.metadata.format import FormatRequest
from penstock.node.broker import Broker
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation
from simulator.world.machine import Machine
from simulator.world.network import Address, Network

GUARDIAN_ID = "5L6g3nShT-eMCtK--X86sw"
PORT = 9500
SMALL = {
    "penstock.guardian.election.timeout.ms": "600",
    "penstock.guardian.fetch.timeout.ms": "1200",
    "penstock.guardian.request.timeout.ms": "800",
    "penstock.guardian.snapshot.bytes": "3000",
    "internal.metadata.log.segment.bytes": "2000",
    "metadata.max.retention.bytes": "6000",
}
"""Small times and sizes, so that a run of seconds has elections, snapshots, and logs that begin after one."""


def host_of(node_id: int) -> str:
    return f"guardian-{node_id}"


def settings_of(node_id: int, nodes: int, **more: str) -> GuardianSettings:
    """The settings of one node of several."""
    return GuardianSettings.from_properties({
        "penstock.guardian.node.id": str(node_id),
        "penstock.guardian.listener": f"{host_of(node_id)}:{PORT}",
        "penstock.guardian.voters": ",".join(f"{each}@{host_of(each)}:{PORT}" for each in range(1, nodes + 1)),
        "penstock.guardian.data.dir": "/data/0",
        **SMALL,
        **more,
    })  # fmt: skip


class GuardianMachine(Machine):
    """One Guardian node and its disk. Attributes: `knows`, the highest feature level of the version it runs next."""

    def __init__(self, simulation: Simulation, guardian: GuardianSettings, network: Network) -> None:
        self.guardian = guardian
        self.knows = FEATURE_LEVEL
        disk = SimulatedDisk(random=Random(simulation.random.getrandbits(64)), clock=simulation.clock)
        super().__init__(simulation, [disk], network=network, host=host_of(guardian.penstock_guardian_node_id))
        self.settings = guardian.node

    def _format(self, request: FormatRequest | None) -> None:
        format_directory(self.disks[0], "/data/0", self.guardian, GUARDIAN_ID, self.simulation.random)

    def _new_node(self) -> Broker:
        disk = self.disks[0]
        node = GuardianNode(
            self.guardian,
            LogDirectory(0, "/data/0", disk.loop, disk),
            random=Random(self.simulation.random.getrandbits(64)),
            bug=self._bug,
            wall=self._clock.wall,
            knows=self.knows,
        )
        return cast("Broker", node)  # of which a machine uses what the shell does, and `ready`, `stopped`, `failure`

    def _boot(self) -> None:
        self.node.start(self.now_ms)

    @property
    def node(self) -> GuardianNode:
        """The present incarnation."""
        return cast("GuardianNode", self.broker)

    def address(self, listener: str = LISTENER) -> Address:
        return super().address(listener)

    @property
    def log_directories(self) -> Any:
        return [self.node.state.metadata_directory]
