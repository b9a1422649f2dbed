"""The scenarios of a simulated cluster: how large it is, what it suffers, and what is promised then."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.testing.simulator.cluster import faults
from penstock.testing.simulator.cluster.suffering import DOWN_MS, Fault

NETWORK = (faults.partition, faults.isolation, faults.broken_connections, faults.slow_link)
CRASHES = (faults.kill, faults.kill, faults.stop, faults.pause, faults.slow_machine)
DISKS = (faults.disk_full, faults.fsync_fails, faults.torn_write, faults.cold_disk)
CLOCKS = (faults.clock_step, faults.clock_back)
CONTROLLER = (
    faults.controller_killed,
    faults.controller_stopped,
    faults.controller_paused,
    faults.controller_cut_off,
)


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
        eligible: eligible.leader.replicas.version, one of these.
        admins: how many create and delete topics. moves: others reassign the partitions of the load.
        disks: of a machine, one of these. directory_moves: replicas of the load move between them.
        voters: of the `controllers`, that many are voters at first; more are added and removed. None: the voters stand
            in the settings.
    """

    name: str
    doc: str
    nodes: tuple[int, ...] = (3, 3, 4, 5)
    controllers: int = 0
    kinds: tuple[Fault, ...] = ()
    at_once_max: int = 2
    duration_ms: tuple[int, int] = DOWN_MS
    session_ms: tuple[int, ...] = (3_000, 9_000)
    durable: bool = False
    steady: bool = False
    load_ms: int = 12_000
    eligible: tuple[int, ...] = (0,)
    admins: int = 2
    moves: bool = False
    disks: tuple[int, ...] = (1, 1, 2)
    directory_moves: bool = False
    voters: int | None = None


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
            "controllers",
            "whoever is the active controller dies, stands still or is cut off, while much is asked of it",
            kinds=CONTROLLER,
            at_once_max=1,
            admins=6,
            eligible=(0, 1),
        ),
        Scenario(
            "silence",
            "connections that both ends take for open carry nothing any more",
            kinds=(faults.silent_connections, faults.silent_connections, faults.partition, faults.kill),
            load_ms=16_000,
        ),
        Scenario(
            "disks",
            "writes and reads fail, disks are full, caches cold",
            kinds=(faults.write_fails, faults.reads_fail, faults.disk_full, faults.cold_disk, faults.kill),
        ),
        Scenario(
            "clocks",
            "clocks are set ahead and back, processes start again by them",
            kinds=(*CLOCKS, *CLOCKS, faults.kill, faults.stop, faults.pause),
            at_once_max=3,
        ),
        Scenario(
            "unflushed",
            "one machine after the other loses its power, and what it had not flushed, once all are in sync",
            kinds=(faults.power_loss_of_one,),
            at_once_max=1,
        ),
        Scenario(
            "eligible",
            "eligible leader replicas: the same, while others stop, stand still and are cut off; none is killed, since"
            " two unclean stops at a time are more than KIP-966 promises to survive",
            eligible=(1,),
            kinds=(*2 * (faults.power_loss_of_one, faults.stop), faults.pause, faults.isolation, faults.partition),
            at_once_max=3,
        ),
        Scenario(
            "moves",
            "partitions are reassigned to other brokers and back, and leaders elected, under faults",
            nodes=(4, 5),
            kinds=(
                faults.kill,
                faults.stop,
                faults.pause,
                faults.partition,
                faults.isolation,
                faults.broken_connections,
            ),
            moves=True,
            eligible=(0, 1),
        ),
        Scenario(
            "directories",
            "replicas move between the log directories of their brokers, while these and their disks fail",
            kinds=(
                *CRASHES,
                faults.power_loss,
                faults.power_loss,
                faults.cold_disk,
                faults.fsync_fails,
                faults.isolation,
            ),
            disks=(2, 3),
            directory_moves=True,
            durable=True,
        ),
        Scenario(
            "voters",
            "a dynamic quorum: voters are added and removed, under faults",
            nodes=(3,),
            controllers=4,
            voters=2,
            kinds=(*CONTROLLER, faults.kill, faults.power_loss, faults.isolation, faults.broken_connections),
            durable=True,
        ),
        Scenario(
            "storm",
            "everything at once: all faults, while partitions and replicas move",
            kinds=(
                *NETWORK,
                *CRASHES,
                *DISKS,
                *CLOCKS,
                faults.power_loss,
                faults.silent_connections,
                faults.write_fails,
            ),
            at_once_max=4,
            durable=True,
            eligible=(0, 1),
            moves=True,
            directory_moves=True,
        ),
    )
}
