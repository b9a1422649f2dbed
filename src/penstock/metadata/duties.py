"""What the active controller does by itself, in its time: fence silent brokers, balance leaders, elect where nobody
leads.

`Duties.due` gives one piece of work at a time; the node appends its records and asks again. Nothing is due while there
is nothing to do: a cluster in order costs no wake-up but the next session's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.values import SECOND_MS
from penstock.metadata import brokers, leadership
from penstock.metadata.heartbeats import Heartbeats
from penstock.metadata.result import MetadataMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.metadata.controller import Controller


class Duties:
    """Of a controller from when it becomes active until it is no more.

    Attributes:
        heartbeats: the brokers' sessions.
    """

    def __init__(self, controller: Controller, now_ms: int) -> None:
        self.heartbeats = Heartbeats.of(controller, now_ms)
        self._controller = controller
        self._balance_ms = now_ms
        self._unclean_ms = now_ms
        self._departures = dict.fromkeys(leadership.unfinished_departures(controller))

    def due(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        """Records to append now (not atomically), or None when nothing is due. Each call makes progress: append what
        it gives before the next."""
        self.heartbeats.follow(self._controller, now_ms)
        return self._departed() or self._expired(now_ms) or self._balanced(now_ms) or self._uncleanly_led(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `due` is to be asked next; None: only after the next append."""
        deadlines = [self.heartbeats.next_deadline_ms()]
        if len(self._controller.indexes.imbalanced) and self._controller.settings.auto_leader_rebalance_enable:
            deadlines.append(self._balance_ms)
        if len(self._controller.indexes.leaderless):
            deadlines.append(self._unclean_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _departed(self) -> Sequence[MetadataMessage] | None:
        """The rest of what a controller before this one began."""
        while self._departures:
            broker_id = next(iter(self._departures))
            for records in leadership.departure_steps(self._controller, broker_id):
                return records
            del self._departures[broker_id]
        return None

    def _expired(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        silent = self.heartbeats.expired(now_ms)
        return None if silent is None else brokers.fence_broker(self._controller, *silent).records

    def _balanced(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        settings = self._controller.settings
        if not settings.auto_leader_rebalance_enable or now_ms < self._balance_ms:
            return None
        result = leadership.balance(self._controller)
        if not result.response:
            self._balance_ms = now_ms + settings.leader_imbalance_check_interval_seconds * SECOND_MS
        return result.records or None

    def _uncleanly_led(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        if now_ms < self._unclean_ms:
            return None
        result = leadership.elect_unclean(self._controller)
        if not result.response:
            self._unclean_ms = now_ms + self._controller.settings.unclean_leader_election_interval_ms
        return result.records or None
