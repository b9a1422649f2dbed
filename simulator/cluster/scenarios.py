"""The scenarios of a simulated cluster: how large it is, what it suffers, and what is promised then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.cluster import aimed, faults
from simulator.cluster.chaos_admins import EVERYTHING, Disruption, change_minimum
from simulator.cluster.fault_injection import DOWN_MS, Fault

NETWORK = (faults.partition, faults.isolation, faults.broken_connections, faults.slow_link)
CRASHES = (faults.kill, faults.kill, faults.stop, faults.pause, faults.slow_machine)
DISKS = (faults.disk_full, faults.fsync_fails, faults.torn_write, faults.cold_disk)
CONTROLLER = (
    faults.controller_killed,
    faults.controller_stopped,
    faults.controller_paused,
    faults.controller_cut_off,
)

BALANCED = {"leader_imbalance_check_interval_seconds": 1}
STORM = (*NETWORK, *CRASHES, *DISKS, faults.power_loss, faults.silent_connections, faults.write_fails)


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        nodes: how many brokers there may be; each is a controller too, unless there are `controllers` of their own.
        kinds: faults, each as likely as it is often there.
        at_once_max: how many faults last at the same time. duration_ms: bounds of how long one lasts.
        aimed: other kinds, which happen instead in every fourth seed, one at a time.
        session_ms: broker.session.timeout.ms, one of these.
        durable: topics are flushed before a record counts, so that what is acknowledged survives a power failure of
            every machine; without it there is none in the scenario.
        steady: no leader may change.
        load_ms: how long there are load and faults.
        eligible: eligible.leader.replicas.version, one of these.
        admins: how many create and delete topics. moves: others reassign the partitions of the load.
        disks: of a machine, one of these. directory_moves: replicas of the load move between them.
        chaos_admins: others change what the load depends on, by one of the `disruptions`.
        settings: of all nodes, beyond what a world gives them.
        topic_configs: of the topics of the load; with retention, what it may delete is not missed.
        limits: names of a room's limits.py, with other values. stall_probability, reboots: of the machines.
        drawn: all but the name is drawn from the seed, see `swarm`.
        voters: of the `controllers`, that many are voters at first; more are added and removed. None: the voters stand
            in the settings.
    """

    name: str
    doc: str
    nodes: tuple[int, ...] = (3, 3, 4, 5)
    controllers: int = 0
    kinds: tuple[Fault, ...] = ()
    aimed: tuple[Fault, ...] = ()
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
    chaos_admins: int = 0
    disruptions: tuple[Disruption, ...] = EVERYTHING
    settings: Mapping[str, Any] = field(default_factory=dict)
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    stall_probability: float = 0.0
    reboots: bool = True
    drawn: bool = False
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
            "group-fsync",
            "all machines lose their power at the same moment, with torn writes and failing disks;"
            " records count once a round of fsyncs has them on disk",
            kinds=(*3 * (faults.power_loss_of_all,), faults.power_loss, faults.kill, faults.fsync_fails, faults.pause),
            at_once_max=1,
            duration_ms=(200, 1_500),
            load_ms=16_000,
            topic_configs={"penstock.log.fsync": "group"},
        ),
        Scenario(
            "roles",
            "controllers and brokers are processes of their own; both crash, and lose each other. Every fourth seed"
            " aims at one moment: the only broker left starts, and a directory fails before it is unfenced",
            nodes=(3,),
            controllers=3,
            kinds=(*NETWORK, *CRASHES),
            aimed=(aimed.directory_fails_while_fenced,),
            disks=(2,),
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
            "writes and reads fail, disks are full or have little more room than their reserve, caches cold",
            kinds=(
                *(faults.write_fails, faults.reads_fail, faults.cold_disk, faults.kill),
                *(faults.disk_full, faults.reserve_is_left, faults.reserve_is_left),
            ),
            settings={
                "penstock_log_dir_reserve_bytes": 40_000,
                "replica_fetch_max_bytes": 2_000,
                "replica_fetch_response_max_bytes": 3_000,
            },
            limits={"SPACE_LOOK_MS": 100},
        ),
        Scenario(
            "clocks",
            "processes stand still for longer than any session, and start again by clocks that are wrong",
            kinds=(faults.long_pause, faults.long_pause, faults.kill, faults.stop, faults.pause),
            at_once_max=2,
            load_ms=16_000,
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
            "minimums",
            "eligible leader replicas, and admins who raise and lower `min.insync.replicas`; nodes stop, stand still"
            " and are cut off. Every fourth seed aims at one moment: a leader goes on without a follower while the"
            " metadata comes to it late",
            nodes=(3,),
            eligible=(1,),
            kinds=(*2 * (faults.stop, faults.pause), faults.isolation, faults.partition),
            at_once_max=3,
            session_ms=(2_000, 3_000),
            load_ms=16_000,
            chaos_admins=3,
            disruptions=(change_minimum,),
            aimed=(aimed.metadata_is_late,),
            settings={"replica_lag_time_max_ms": 1_500},
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
            "takeouts",
            "machines stop, and come back without one of their disks, while others stop and are cut off; never two"
            " before all are in sync, and no topic asks for less than two in sync: the last of those would alone be"
            " eligible, and may have lost what it had",
            nodes=(3,),
            eligible=(1,),
            kinds=(faults.disk_taken_out, faults.disk_taken_out, faults.stop, faults.pause),
            at_once_max=2,
            duration_ms=(2_000, 6_000),
            session_ms=(2_000,),
            disks=(3, 4),
            load_ms=16_000,
            settings={"min_insync_replicas": 2},
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
            kinds=STORM,
            at_once_max=4,
            durable=True,
            eligible=(0, 1),
            moves=True,
            directory_moves=True,
        ),
        Scenario(
            "chaos",
            "admins unregister live brokers, change settings and features, add partitions, delete records, have leaders"
            " elected uncleanly; leaders are balanced every second; nodes stop, stand still and are cut off",
            kinds=(faults.stop, faults.kill, faults.pause, faults.isolation, faults.partition, faults.power_loss),
            durable=True,
            eligible=(0, 1),
            chaos_admins=2,
            settings=BALANCED,
        ),
        Scenario(
            "tempest",
            "a storm, while admins do all that they do in chaos",
            kinds=STORM,
            at_once_max=4,
            durable=True,
            eligible=(0, 1),
            moves=True,
            directory_moves=True,
            chaos_admins=1,
            settings=BALANCED,
        ),
        Scenario(
            "swarm",
            "what may happen, how often, for how long, and with which settings is drawn from the seed: often small"
            " metadata snapshots, segments and steps, stalling disks, failed fsyncs without a reboot, retention."
            " In every fifth seed the metadata log refuses what an admin asks for",
            drawn=True,
        ),
    )
}
