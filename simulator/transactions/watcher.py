"""Somebody who asks again and again what the chains' groups have committed, also while something is pending."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ErrorCode
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from simulator.groups.history import NOTHING
from simulator.transactions.chain import FETCH_OFFSETS_VERSION, UNSTABLE, fetched_offset, offset_fetch_request
from simulator.transactions.client import FIND_VERSION, GROUP
from simulator.transactions.history import Place
from simulator.transactions.load import TransactionLoad
from simulator.transactions.process import Process, Steps
from simulator.world.checks import check

PAUSE_MS_MAX = 250
GOES_ON = "a committed offset goes on only"


class Watcher(Process):
    """See the module's head.

    Args:
        groups: ids, and the place that each reads.
    """

    def __init__(self, load: TransactionLoad, name: str, groups: Sequence[tuple[str, Place]]) -> None:
        super().__init__(load.clients, name, name)
        self.load = load
        self.groups = groups
        self.told = 0
        self._last: dict[tuple[str, Place], int] = {}

    def run(self) -> Steps[None]:
        while not self.load.over:
            group_id, place = self.random.choice(list(self.groups))
            wanted = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group_id])
            response = yield self.ask(self.client.any_broker(), wanted, FIND_VERSION)
            if response is not None and not response.coordinators[0].error_code:
                (found,) = response.coordinators
                yield from self.look((found.host, found.port), group_id, place)
            yield self.sleep(self.random.randrange(PAUSE_MS_MAX))

    def look(self, address: tuple[str, int], group_id: str, place: Place) -> Steps[None]:
        """Asks once."""
        stable = self.random.random() < 0.5
        term = self.load.group_term(address, group_id)
        response = yield self.ask(address, offset_fetch_request(group_id, place, stable=stable), FETCH_OFFSETS_VERSION)
        if response is None:
            return
        code, offset, metadata = fetched_offset(response)
        unstable = "nobody waits for a pending offset who does not ask for stable ones"
        check(stable or code is not UNSTABLE, unstable, f"{group_id}: {code.name}")
        if code is not ErrorCode.NONE or offset == NOTHING:
            return
        self.told += 1
        self.load.history.saw_offset(group_id, offset, metadata)
        if term is not None and term == self.load.group_term(address, group_id):
            before = self._last.get((group_id, place), offset)
            check(offset >= before, GOES_ON, f"{group_id} has {offset}, it had {before}")
            self._last[group_id, place] = offset
