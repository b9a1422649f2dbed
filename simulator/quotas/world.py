"""A simulated cluster whose client quotas are changed all the time.

QuotaWorld(seed, QUOTA_SCENARIOS["quotas"]).run()
"""

from __future__ import annotations

from simulator.cluster.scenarios import Scenario
from simulator.cluster.world import AnyAdmin, ClusterWorld
from simulator.quotas.admins import QuotaAdmin
from simulator.world.checks import check

EVERYWHERE = "every broker has the same quotas"
OTHER_PRODUCERS, OTHER_PLAIN, OTHER_READERS = 2, 1, 1


class QuotaWorld(ClusterWorld):
    """See the module's head."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        super().__init__(seed, scenario)
        del self.producers[OTHER_PRODUCERS:], self.plain[OTHER_PLAIN:], self.readers[OTHER_READERS:]
        self.quota_admin = QuotaAdmin(self.load)
        self.faults.cluster.clients.append(self.quota_admin.client.name)

    def _all_admins(self) -> list[AnyAdmin]:
        return [*super()._all_admins(), self.quota_admin]

    def _compare_metadata(self) -> None:
        super()._compare_metadata()
        quotas = self.checker.image.client_quotas
        self.quota_admin.check_quotas(quotas)
        for machine in self.machines:
            own = machine.broker.state.image.client_quotas
            check(own == quotas, EVERYWHERE, f"{machine.host}: {list(own.items())}, not {list(quotas.items())}")
