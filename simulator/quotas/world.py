"""A simulated cluster whose client quotas are changed all the time, while clients exceed those that hold for them.

QuotaWorld(seed, QUOTA_SCENARIOS["quotas"]).run()

`simulator.quotas` has the parts: `tenants` the clients, `admins` who changes quotas, `rules` what holds, `overheard`
and `slowed` where that is looked at, `plain` what it is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from penstock.node.client_quotas import ClientQuotas
from penstock.node.gate import Gate
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.quota.levels import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from simulator.cluster.scenarios import Scenario
from simulator.cluster.world import AnyAdmin, ClusterWorld
from simulator.quotas.admins import Limit, QuotaAdmin
from simulator.quotas.overheard import Overheard
from simulator.quotas.rules import (
    BUSY,
    BUSY_PERCENT,
    CONNECTIONS,
    CONSUMER,
    ENDS,
    FETCH_LIMIT,
    FLOOD,
    KNOCKER,
    MUTATION_RATE,
    MUTATION_WINDOWS,
    PERMISSIVE,
    PRODUCE_LIMIT,
    SLOWED,
    STRICT,
    WINDOWS,
    Spread,
)
from simulator.quotas.slowed import Ears, ScriptedWork, WatchedQuotas
from simulator.quotas.tenants import Busy, Flood, Knocker, Mutator
from simulator.world.checks import check
from simulator.world.machine import Machine

QUOTA_MS_MAX = 30_000
EVERYWHERE = "every broker has the same quotas"
OTHER_PRODUCERS, OTHER_PLAIN, OTHER_READERS = 2, 1, 1


def limit(client_id: str, key: str) -> Limit:
    """A limit of a client that has not logged in."""
    return ((CLIENT_ID, client_id), (USER, "ANONYMOUS")), key


LIMITS: Mapping[Limit, float] = {
    limit(SLOWED, PRODUCER_BYTE_RATE): PRODUCE_LIMIT,
    limit(FLOOD, PRODUCER_BYTE_RATE): PRODUCE_LIMIT,
    limit(CONSUMER, CONSUMER_BYTE_RATE): FETCH_LIMIT,
    limit(BUSY, REQUEST_PERCENTAGE): BUSY_PERCENT,
    limit(STRICT, CONTROLLER_MUTATION_RATE): MUTATION_RATE,
    limit(PERMISSIVE, CONTROLLER_MUTATION_RATE): MUTATION_RATE,
    (((IP, KNOCKER),), CONNECTION_CREATION_RATE): CONNECTIONS,
}
"""They stay as they are."""


class QuotaWorld(ClusterWorld):
    """See the module's head. `watches`: of all processes that were started; `overheard`: of all machines."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        super().__init__(seed, scenario)
        del self.producers[OTHER_PRODUCERS:], self.plain[OTHER_PLAIN:], self.readers[OTHER_READERS:]
        known = len(self.load.clients)
        self.quota_admin = QuotaAdmin(self.load)
        self.mutators = [Mutator(self.load, STRICT, older=False), Mutator(self.load, PERMISSIVE, older=True)]
        self.flood = Flood(self.load, self._partition(0))
        self.busy = Busy(self.load)
        self.knocker = Knocker(self.load)
        self.faults.cluster.clients += [client.name for client in self.load.clients[known:]]
        self.watches: list[WatchedQuotas] = []
        self.overheard: list[Overheard] = []
        for machine in self.machines:
            self._watch(machine)

    def _watch(self, machine: Machine) -> None:
        ears = Ears(Overheard(Spread("bytes that are fetched", FETCH_LIMIT)), ScriptedWork())
        self.overheard.append(ears.overheard)
        machine.tap = ears.overheard
        machine.work_ms = ears.work
        machine.quotas = partial(self._watched, ears)

    def _watched(self, ears: Ears, state: NodeState, scheduler: Scheduler, gate: Gate) -> ClientQuotas:
        ears.overheard.restarted()
        self.watches.append(WatchedQuotas(state, scheduler, gate, ears=ears))
        return self.watches[-1]

    def _settings(self, controller_ids: Sequence[int]) -> dict[str, Any]:
        windows = {"quota_window_num": WINDOWS, "controller_quota_window_num": MUTATION_WINDOWS}
        return {**super()._settings(controller_ids), **windows}

    def _boot(self) -> None:
        super()._boot()
        made: list[bool] = []
        self.quota_admin.set_limits(LIMITS, lambda: made.append(True))
        self._wait_until(lambda: bool(made), QUOTA_MS_MAX, "quotas are set", str)

    def _suffer(self) -> None:
        for each in (self.flood, self.busy, self.knocker):
            each.go_on()
        super()._suffer()

    def _all_admins(self) -> list[AnyAdmin]:
        return [*super()._all_admins(), self.quota_admin, *self.mutators]

    def _recover(self) -> None:
        super()._recover()
        self._wait_until(lambda: not self._unanswered(), QUOTA_MS_MAX, ENDS, lambda: ", ".join(self._unanswered()))

    def _unanswered(self) -> list[str]:
        return [each for overheard in self.overheard for each in overheard.unanswered()]

    def _compare_metadata(self) -> None:
        super()._compare_metadata()
        quotas = self.checker.image.client_quotas
        self.quota_admin.check_quotas(quotas)
        for machine in self.machines:
            own = machine.broker.state.image.client_quotas
            check(own == quotas, EVERYWHERE, f"{machine.host}: {list(own.items())}, not {list(quotas.items())}")
