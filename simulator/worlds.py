"""What can be simulated, by name; each runs one seed and gives the simulation that it was, whose trace has a hash.

`log` is log directories alone, `raft` a metadata quorum alone (`raft-full` one whose disks run full), `node` a whole
node with clients, `guardian` three nodes of Guardian; the others are the scenarios of a cluster
(`simulator.cluster.scenarios`), of one with compacted topics (`simulator.compacted.scenarios`), of one with consumer
groups (`simulator.groups.scenarios`), of one with transactions (`simulator.transactions.scenarios`), of one with users
and ACLs (`simulator.secured.scenarios`), of one with client quotas (`simulator.quotas.scenarios`), or of one that
tenants share (`simulator.quotas.sharing`).
A broken rule is raised: its message has the rule, the command that shows it again, and the end of the trace.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simulator.cluster.scenarios import SCENARIOS, Scenario
from simulator.cluster.world import ClusterWorld
from simulator.compacted.scenarios import COMPACTED_SCENARIOS
from simulator.compacted.world import CompactedWorld
from simulator.groups.scenarios import GROUP_SCENARIOS, GroupScenario
from simulator.groups.world import GroupWorld
from simulator.guardian.governed import GovernedWorld
from simulator.guardian.world import GuardianWorld
from simulator.log.world import LogWorld
from simulator.node.world import NodeWorld
from simulator.quotas.scenarios import QUOTA_SCENARIOS
from simulator.quotas.sharing import TENANT_SCENARIOS, TenantWorld
from simulator.quotas.world import QuotaWorld
from simulator.raft.world import RaftWorld
from simulator.secured.scenarios import SECURED_SCENARIOS
from simulator.secured.world import SecuredWorld
from simulator.transactions.scenarios import TRANSACTION_SCENARIOS, TransactionScenario
from simulator.transactions.world import TransactionWorld
from simulator.world.driver import Simulation


def cluster_world(scenario: Scenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario."""
    return lambda seed: ClusterWorld(seed, scenario).run()


def compacted_world(scenario: Scenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario with compacted topics."""
    return lambda seed: CompactedWorld(seed, scenario).run()


def group_world(scenario: GroupScenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario with consumer groups."""
    return lambda seed: GroupWorld(seed, scenario).run()


def transaction_world(scenario: TransactionScenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario with transactions."""
    return lambda seed: TransactionWorld(seed, scenario).run()


def secured_world(scenario: Scenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario with users and ACLs."""
    return lambda seed: SecuredWorld(seed, scenario).run()


def quota_world(scenario: Scenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario with client quotas."""
    return lambda seed: QuotaWorld(seed, scenario).run()


def tenant_world(scenario: Scenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario with tenants."""
    return lambda seed: TenantWorld(seed, scenario).run()


WORLDS: dict[str, Callable[[int], Simulation]] = {
    "log": lambda seed: LogWorld(seed).run(),
    "node": lambda seed: NodeWorld(seed).run(),
    "raft": lambda seed: RaftWorld(seed).run(),
    "raft-full": lambda seed: RaftWorld(seed, full_disks=True).run(),
    "guardian": lambda seed: GuardianWorld(seed).run(),
    "governed": lambda seed: GovernedWorld(seed).run(),
    **{name: cluster_world(scenario) for name, scenario in SCENARIOS.items()},
    **{name: compacted_world(scenario) for name, scenario in COMPACTED_SCENARIOS.items()},
    **{name: group_world(scenario) for name, scenario in GROUP_SCENARIOS.items()},
    **{name: secured_world(scenario) for name, scenario in SECURED_SCENARIOS.items()},
    **{name: quota_world(scenario) for name, scenario in QUOTA_SCENARIOS.items()},
    **{name: tenant_world(scenario) for name, scenario in TENANT_SCENARIOS.items()},
    **{name: transaction_world(scenario) for name, scenario in TRANSACTION_SCENARIOS.items()},
}
SEEDS_MAX = 10_000_000
NODES_LOGGER = logging.getLogger("penstock")


@contextmanager
def quiet_nodes() -> Iterator[None]:
    """Keeps what simulated nodes log, where nobody has said what is to become of it, off the terminal: the trace has
    what happened, and hundreds of nodes have lost their leaders by right."""
    nowhere = logging.NullHandler()
    NODES_LOGGER.addHandler(nowhere)
    try:
        yield
    finally:
        NODES_LOGGER.removeHandler(nowhere)


def seed_range(text: str) -> range:
    """`7` or `1..100`, both ends included.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    first, _, last = text.partition("..")
    if not first.isdecimal() or (last and not last.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed and no range of seeds such as 1..100")
    seeds = range(int(first), int(last or first) + 1)
    if not 0 < len(seeds) <= SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is empty or has more than {SEEDS_MAX} seeds")
    return seeds
