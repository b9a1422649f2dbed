"""The scenarios of simulated transactions: a cluster with its faults, who writes transactions, what befalls them."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.cluster import faults as cluster_faults
from simulator.cluster.scenarios import CRASHES, DISKS, NETWORK, Scenario
from simulator.groups import faults as group_faults
from simulator.groups.scenarios import CLEANED
from simulator.transactions import faults
from simulator.transactions.load import BY_EPOCHS


@dataclass(frozen=True)
class TransactionScenario(Scenario):
    """One scenario.

    Attributes:
        producers, chains: how many transactional ids have which kind of processes. members: the chains share a group.
        versions: the cluster's transaction.version at first, one of these. changes_version: an admin changes it.
        old_probability: how likely a process is a client of before KIP-890.
        timeouts_ms: of transactions, one of these for each process.
        repeat_probability, repeated_after_ms: how likely a request is sent once more, and how late at most.
        hasty_probability: how likely a producer ends a transaction while its first write is on its way.
        held_probability: how likely a coordinator's answer to a broker that verifies a transaction is kept on the way.
        churn_interval_ms: bounds of the time until something happens to a process.
        calm: nothing fails but processes. cleaned: the topics are compacted all the time, the internal ones too.
    """

    admins: int = 1
    nodes: tuple[int, ...] = (3,)
    load_ms: int = 3_000
    producers: int = 3
    chains: int = 2
    members: bool = False
    versions: tuple[int, ...] = (BY_EPOCHS,)
    changes_version: bool = False
    old_probability: float = 0.4
    timeouts_ms: tuple[int, ...] = (1_500, 4_000)
    repeat_probability: float = 0.1
    repeated_after_ms: int = 3_000
    hasty_probability: float = 0.1
    held_probability: float = 0.1
    churn_interval_ms: tuple[int, int] = (150, 1_200)
    calm: bool = False
    cleaned: bool = False


COORDINATOR = (
    faults.end_interrupted,
    faults.end_interrupted,
    faults.transaction_coordinator_killed,
    faults.transaction_coordinator_stopped,
)
LEADER = (faults.written_leader_killed, faults.written_leader_paused)
STOPPED = (faults.transaction_coordinator_paused, faults.transaction_coordinator_cut_off)

TRANSACTION_SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        TransactionScenario(
            "transactions-calm",
            "processes die, stand still and are replaced; the cluster is well",
            versions=(0, 1, BY_EPOCHS),
            repeat_probability=0.0,
            held_probability=0.0,
            calm=True,
        ),
        TransactionScenario(
            "transactions",
            "brokers that coordinate transactions die and stop, and so do those that lead what they write",
            kinds=(*COORDINATOR, *LEADER),
            at_once_max=1,
        ),
        TransactionScenario(
            "transactions-old",
            "clients of before KIP-890 alone; what they ask for, and what confirms it, comes late; coordinators die",
            kinds=(*COORDINATOR, *STOPPED, cluster_faults.slow_link),
            versions=(0, 1, BY_EPOCHS),
            at_once_max=1,
            old_probability=1.0,
            repeat_probability=0.2,
            hasty_probability=0.25,
        ),
        TransactionScenario(
            "transactions-zombies",
            "coordinators and leaders stand still and are cut off, and connections break; requests come twice and late",
            kinds=(
                *(*STOPPED, faults.written_leader_paused, cluster_faults.partition),
                *(cluster_faults.broken_connections, cluster_faults.slow_link),
            ),
            session_ms=(3_000,),
            repeat_probability=0.2,
        ),
        TransactionScenario(
            "transactions-versions",
            "the cluster's transaction.version goes up and down, while coordinators die",
            kinds=(*COORDINATOR, *STOPPED),
            at_once_max=1,
            versions=(0, 1, BY_EPOCHS),
            changes_version=True,
        ),
        TransactionScenario(
            "transactions-members",
            "chains share a group, and lose their partitions to each other, while its coordinators die and stand still",
            kinds=(
                *(*COORDINATOR, *LEADER, group_faults.coordinator_killed, group_faults.coordinator_paused),
                cluster_faults.broken_connections,
            ),
            at_once_max=1,
            chains=3,
            members=True,
            churn_interval_ms=(100, 700),
        ),
        TransactionScenario(
            "transactions-moves",
            "partitions move between brokers and directories, while coordinators and leaders die",
            nodes=(4,),
            kinds=(*COORDINATOR, *LEADER, cluster_faults.isolation),
            at_once_max=1,
            moves=True,
            disks=(2,),
            directory_moves=True,
            durable=True,
        ),
        TransactionScenario(
            "transactions-cleaned",
            "topics with transactions and the coordinators' logs are compacted all the time, while machines lose power",
            kinds=(*COORDINATOR, cluster_faults.kill, cluster_faults.power_loss),
            durable=True,
            at_once_max=1,
            settings=CLEANED,
            cleaned=True,
        ),
        TransactionScenario(
            "transactions-power",
            "power failures, torn writes, full and failing disks; every record is flushed",
            kinds=(cluster_faults.power_loss, cluster_faults.power_loss, cluster_faults.kill, *DISKS),
            durable=True,
        ),
        TransactionScenario(
            "transactions-full",
            "disks run full, and have room again; every record is flushed",
            kinds=(cluster_faults.disk_full,),
            durable=True,
        ),
        TransactionScenario(
            "transactions-directories",
            "replicas move between the log directories of their brokers, while these and their disks fail",
            kinds=(
                *(*CRASHES, cluster_faults.power_loss, cluster_faults.cold_disk),
                *(cluster_faults.fsync_fails, cluster_faults.isolation),
            ),
            disks=(2, 3),
            directory_moves=True,
            durable=True,
        ),
        TransactionScenario(
            "transactions-storm",
            "everything at once",
            kinds=(
                *(*COORDINATOR, *STOPPED, *LEADER, *NETWORK, *CRASHES, *DISKS),
                *(cluster_faults.power_loss, cluster_faults.silent_connections, cluster_faults.write_fails),
            ),
            at_once_max=3,
            durable=True,
            versions=(0, 1, BY_EPOCHS),
            changes_version=True,
            moves=True,
        ),
    )
}
