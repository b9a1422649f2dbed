"""What the active controller does without a request: fence silent brokers, move leaderships, balance, elect, and remove
delegation tokens that are past their time.

`Duties.due` returns one bounded step at a time; the node appends its records and calls again at `next_deadline_ms`. In
a healthy cluster the only wake-up is for the next session's end.

A broker that is fenced, or shutting down, loses leaderships and in-sync replicas in steps (`departure_steps`), even if
an earlier controller began it: every broker that is not active when this one begins is handled once, and again whenever
a broker is first heard from, as some partitions may have waited for it (`Controller.unheard`). Nothing is balanced or
elected uncleanly before brokers have had time to be heard from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.values import SECOND_MS
from penstock.metadata import brokers, leadership
from penstock.metadata.delegation_tokens import removals
from penstock.metadata.heartbeats import Heartbeats
from penstock.metadata.limits import LEADERSHIP_CHANGES_PER_STEP, LOST_CONNECTION_GRACE_MS
from penstock.metadata.result import MetadataMessage, Result
from penstock.records.wall import WallTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.metadata.controller import Controller
    from penstock.metadata.image import BrokerRegistration

AT_ONCE_MS = 0
"""A deadline that has passed."""


class Duties:
    """The duties of a controller while it is active. `wall`: the wall time, by which delegation tokens end.

    Attributes:
        heartbeats: the brokers' sessions.
    """

    def __init__(self, controller: Controller, now_ms: int, wall: WallTime | None = None) -> None:
        self.heartbeats = Heartbeats.of(controller, now_ms)
        self._controller = controller
        self._patient_until_ms = now_ms + LOST_CONNECTION_GRACE_MS
        self._balance_ms = self._unclean_ms = self._patient_until_ms if controller.unheard else now_ms
        self._unheard = len(controller.unheard)
        controller.patient = self._unheard > 0
        self._to_balance: list[int] = []
        self._to_reconsider: list[int] = []
        self._leaderless: list[int] = []
        self._gone: dict[int, int] = {}
        self._departing: dict[int, Iterator[Sequence[MetadataMessage]]] = {}
        self._brokers: Mapping[int, BrokerRegistration] = {}
        self._wall = wall or WallTime()
        self._sweep_from: str | None = None
        self._sweep_ms = now_ms + controller.settings.delegation_token_expiry_check_interval_ms
        self._follow(now_ms)

    def due(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        """Records to append now (not atomically), before anything else; None when this step needs none."""
        self._follow(now_ms)
        return (
            self._expired(now_ms)
            or self._departed()
            or self._stepped(self._to_reconsider, leadership.reconsider)
            or self._balanced(now_ms)
            or self._uncleanly_led(now_ms)
            or self._swept(now_ms)
        )

    def next_deadline_ms(self) -> int | None:
        """When to call `due` next; None: only after the next append."""
        news = self._controller.image.brokers is not self._brokers or len(self._controller.unheard) != self._unheard
        if news or self._to_balance or self._leaderless or self._departing or self._to_reconsider:
            return AT_ONCE_MS
        expires_ms = self.heartbeats.next_deadline_ms()
        deadlines = [] if expires_ms is None else [expires_ms]
        if self._controller.patient:
            deadlines.append(self._patient_until_ms)
        if len(self._controller.indexes.imbalanced) and self._controller.settings.auto_leader_rebalance_enable:
            deadlines.append(self._balance_ms)
        if len(self._controller.indexes.leaderless):
            deadlines.append(self._unclean_ms)
        if self._has_tokens:
            deadlines.append(self._sweep_ms)
        return min(deadlines, default=None)

    def _follow(self, now_ms: int) -> None:
        """Notices changes of brokers, and handles the partitions of each that has become inactive, once."""
        self._hear(now_ms)
        registered = self._controller.image.brokers
        if registered is self._brokers:
            return
        self._brokers = registered
        self.heartbeats.follow(self._controller, now_ms)
        for broker_id in [each for each in self._gone if each not in registered or registered[each].active]:
            del self._gone[broker_id]
            self._departing.pop(broker_id, None)
        for broker in registered.values():
            if not broker.active and self._gone.get(broker.id) != broker.epoch:
                self._gone[broker.id] = broker.epoch
                self._departing[broker.id] = leadership.departure_steps(self._controller, broker.id)

    def _hear(self, now_ms: int) -> None:
        """Notices brokers that are first heard from, and the end of the time for that."""
        controller = self._controller
        if not self._unheard:
            return
        heard = len(controller.unheard) != self._unheard
        self._unheard = len(controller.unheard)
        patient = now_ms < self._patient_until_ms and self._unheard > 0
        if heard or patient is not controller.patient:
            controller.patient = patient
            self._departing = {each: leadership.departure_steps(controller, each) for each in self._gone}
            self._to_reconsider = list(controller.indexes.reassigning)

    def _departed(self) -> Sequence[MetadataMessage] | None:
        """The next step of the broker that has been leaving longest."""
        for broker_id, steps in self._departing.items():
            records = next(steps, None)
            if records is None:
                del self._departing[broker_id]
            elif records:
                self.heartbeats.left_more(broker_id, self._controller.last_offset + len(records))
            return records or None
        return None

    def _expired(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        silent = self.heartbeats.expired(now_ms)
        return None if silent is None else brokers.fence_broker(self._controller, *silent, in_steps=True).records

    def _balanced(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        settings = self._controller.settings
        if not self._to_balance and now_ms >= self._balance_ms and settings.auto_leader_rebalance_enable:
            self._balance_ms = now_ms + settings.leader_imbalance_check_interval_seconds * SECOND_MS
            self._to_balance = list(self._controller.indexes.imbalanced)
        return self._stepped(self._to_balance, leadership.balance)

    def _uncleanly_led(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        if not self._leaderless and now_ms >= self._unclean_ms:
            self._unclean_ms = now_ms + self._controller.settings.unclean_leader_election_interval_ms
            self._leaderless = list(self._controller.indexes.leaderless)
        return self._stepped(self._leaderless, leadership.elect_unclean)

    @property
    def _has_tokens(self) -> bool:
        """Whether there are delegation tokens to look at. A controller without the key removes none, as in Kafka."""
        controller = self._controller
        return bool(controller.settings.delegation_token_secret_key and len(controller.image.delegation_tokens))

    def _swept(self, now_ms: int) -> Sequence[MetadataMessage] | None:
        """The removal of tokens that are past their time, some of them in each step."""
        if now_ms < self._sweep_ms or not self._has_tokens:
            return None
        tokens = self._controller.image.delegation_tokens
        records, self._sweep_from = removals(tokens, self._sweep_from, self._wall.at(now_ms))
        if self._sweep_from is None:
            self._sweep_ms = now_ms + self._controller.settings.delegation_token_expiry_check_interval_ms
        return records or None

    def _stepped(
        self, keys: list[int], decide: Callable[[Controller, Sequence[int]], Result[None]]
    ) -> Sequence[MetadataMessage] | None:
        """The decision on the next keys, which are removed from the list."""
        if not keys:
            return None
        step = keys[-LEADERSHIP_CHANGES_PER_STEP:]
        del keys[-LEADERSHIP_CHANGES_PER_STEP:]
        return decide(self._controller, step).records or None
