"""The scenarios of a simulated cluster: how large it is, what it suffers, and what is promised then."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.testing.simulator.cluster import faults
from penstock.testing.simulator.cluster.faults import Fault

NETWORK = (faults.partition, faults.isolation, faults.broken_connections, faults.slow_link)
CRASHES = (faults.kill, faults.kill, faults.stop, faults.pause, faults.slow_machine)
DISKS = (faults.disk_full, faults.fsync_fails, faults.torn_write, faults.cold_disk)


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        nodes: how many brokers there may be; each is a controller too, unless there are `controllers` of their own.
        kinds: faults, each as likely as it is often there.
        at_once_max: how many faults last at the same time. duration_ms: bounds of how long one lasts.
        session_ms: broker.session.timeout.ms, one of these.
        durable: topics are flushed before a record counts, so that what is acknowledged survives a power failure of
            every machine; without it there is none in the scenario.
        steady: no leader may change.
        load_ms: how long there are load and faults.
    """

    name: str
    doc: str
    nodes: tuple[int, ...] = (3, 3, 4, 5)
    controllers: int = 0
    kinds: tuple[Fault, ...] = ()
    at_once_max: int = 2
    duration_ms: tuple[int, int] = faults.DOWN_MS
    session_ms: tuple[int, ...] = (3_000, 9_000)
    durable: bool = False
    steady: bool = False
    load_ms: int = 12_000


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "single",
            "one node that clients reach through a network which fails, and that fails itself",
            nodes=(1,),
            kinds=(*CRASHES, *DISKS, faults.isolation, faults.broken_connections, faults.power_loss),
            durable=True,
            load_ms=6_000,
        ),
        Scenario("calm", "nothing fails", steady=True, load_ms=4_000),
        Scenario(
            "connections",
            "connections of live nodes break: no leader changes",
            kinds=(faults.broken_connections,),
            steady=True,
        ),
        Scenario("network", "partitions, one-way and two-way, broken connections, slow links", kinds=NETWORK),
        Scenario(
            "splits",
            "nodes are cut off from each other for so long that others take over, and clients may reach both sides",
            kinds=(faults.isolation, faults.isolation, faults.partition),
            at_once_max=1,
            duration_ms=(2_000, 9_000),
            session_ms=(2_000,),
            load_ms=16_000,
        ),
        Scenario(
            "laggards",
            "replicas fall behind and come back, over slow links",
            kinds=(faults.pause, faults.slow_link, faults.slow_link),
            at_once_max=4,
        ),
        Scenario("crashes", "kill -9, clean stops, paused and slow processes", kinds=CRASHES),
        Scenario(
            "power",
            "power failures, torn writes, full and failing disks; every record is flushed",
            kinds=(faults.power_loss, faults.power_loss, faults.kill, *DISKS),
            durable=True,
        ),
        Scenario(
            "roles",
            "controllers and brokers are processes of their own; both crash, and lose each other",
            nodes=(3,),
            controllers=3,
            kinds=(*NETWORK, *CRASHES),
        ),
        Scenario(
            "storm",
            "everything at once, clocks that jump as well",
            kinds=(*NETWORK, *CRASHES, *DISKS, faults.power_loss, faults.clock_step),
            at_once_max=4,
            durable=True,
        ),
    )
}
