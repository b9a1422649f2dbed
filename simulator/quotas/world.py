"""A simulated cluster whose client quotas are changed all the time.

QuotaWorld(seed, QUOTA_SCENARIOS["quotas"]).run()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.node.client_quotas import ClientQuotas
from penstock.node.gate import Gate
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.quota.levels import CLIENT_ID, USER
from simulator.cluster.scenarios import Scenario
from simulator.cluster.world import AnyAdmin, ClusterWorld
from simulator.quotas.admins import QuotaAdmin
from simulator.quotas.slowed import LIMIT, SLOWED, WINDOWS, WatchedQuotas
from simulator.world.checks import check

QUOTA_MS_MAX = 30_000
EVERYWHERE = "every broker has the same quotas"
OTHER_PRODUCERS, OTHER_PLAIN, OTHER_READERS = 2, 1, 1


class QuotaWorld(ClusterWorld):
    """See the module's head."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        super().__init__(seed, scenario)
        del self.producers[OTHER_PRODUCERS:], self.plain[OTHER_PLAIN:], self.readers[OTHER_READERS:]
        self.quota_admin = QuotaAdmin(self.load)
        self.faults.cluster.clients.append(self.quota_admin.client.name)
        self.watches: list[WatchedQuotas] = []
        for machine in self.machines:
            machine.quotas = self._watched

    def _watched(self, state: NodeState, scheduler: Scheduler, gate: Gate) -> ClientQuotas:
        self.watches.append(WatchedQuotas(state, scheduler, gate))
        return self.watches[-1]

    def _settings(self, controller_ids: Sequence[int]) -> dict[str, Any]:
        return {**super()._settings(controller_ids), "quota_window_num": WINDOWS}

    def _boot(self) -> None:
        super()._boot()
        made: list[bool] = []
        self.quota_admin.set_limit(((CLIENT_ID, SLOWED), (USER, "ANONYMOUS")), LIMIT, lambda: made.append(True))
        self._wait_until(lambda: bool(made), QUOTA_MS_MAX, "a quota is set", str)

    def _all_admins(self) -> list[AnyAdmin]:
        return [*super()._all_admins(), self.quota_admin]

    def _compare_metadata(self) -> None:
        super()._compare_metadata()
        quotas = self.checker.image.client_quotas
        self.quota_admin.check_quotas(quotas)
        for machine in self.machines:
            own = machine.broker.state.image.client_quotas
            check(own == quotas, EVERYWHERE, f"{machine.host}: {list(own.items())}, not {list(quotas.items())}")
