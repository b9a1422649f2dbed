"""Heartbeats: the controller's own knowledge of brokers, and its decisions on each heartbeat.

None of this is in the log: when a broker was last heard from, how far it has replayed the log, when its controlled
shutdown began. A controller that becomes active begins anew (`Heartbeats.of`), with a whole session for each broker;
those that it has not heard from yet are `Controller.unheard`.

A session lasts `broker.session.timeout.ms` after the last contact. When a broker's connection is lost, its session is
shortened (`connection_lost`), until any later heartbeat: a process that died is fenced early, a live one that merely
reconnects is not. If its address refuses connections as well, it is fenced at once (`process_gone`); so is one whose
process stands still (`stands_still`).

A broker goes through fenced -> unfenced -> controlled shutdown -> gone. It is unfenced when it has replayed its own
registration, by a heartbeat that reports no directory lost since. It may stop when it leads nothing and every active
broker has replayed the records that took its leaderships away, so that nobody follows it any more. It continues to lead
what only unheard brokers could lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import brokers
from penstock.metadata.directories import report_directories
from penstock.metadata.image import BrokerRegistration
from penstock.metadata.limits import LOST_CONNECTION_GRACE_MS
from penstock.metadata.result import MetadataMessage, Result

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

NEVER = -1


class BrokerState(Enum):
    """Where a broker is in its life."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The contents of a broker's heartbeat. `metadata_offset` is the offset of the last metadata record that it has
    replayed and published; `cordoned_log_dirs` is None when it does not tell."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Sequence[UUID] = ()
    cordoned_log_dirs: Sequence[UUID] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The contents of the answer to a heartbeat. `in_controlled_shutdown`: the caller tells `Heartbeats.leaving_since`
    the offset of the last record that it appends for this heartbeat."""

    caught_up: bool
    fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool


@dataclass(slots=True)
class _Broker:
    epoch: int
    fenced: bool
    expires_ms: int
    metadata_offset: int = NEVER
    heard: bool = False
    suspected: bool = False
    claimed_ms: int = 0
    heard_ms: int = 0
    leaving_since: int = NEVER


class Heartbeats:
    """The brokers that are registered, and what is known of them. Follows the controller's state by `follow`."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, _Broker] = {}
        self._unheard: set[int] = set()

    @staticmethod
    def of(controller: Controller, now_ms: int) -> Heartbeats:
        """Of a controller that has just become active: a session begins now for every registered broker."""
        heartbeats = Heartbeats(controller.settings.broker_session_timeout_ms)
        heartbeats.follow(controller, now_ms)
        heartbeats._unheard = {broker.id for broker in controller.image.brokers.values() if not broker.fenced}
        controller.unheard = heartbeats._unheard
        return heartbeats

    def follow(self, controller: Controller, now_ms: int) -> None:
        """Takes over registrations, fencings and departures from the state. Cheap; call it after every append that
        may have changed a broker, and after a revert."""
        registered = controller.image.brokers
        for broker_id in [each for each in self._brokers if each not in registered]:
            del self._brokers[broker_id]
            self._unheard.discard(broker_id)
        for broker in registered.values():
            known = self._brokers.get(broker.id)
            if known is None or known.epoch != broker.epoch:
                expires_ms = now_ms + self._session_timeout_ms
                self._brokers[broker.id] = _Broker(broker.epoch, broker.fenced, expires_ms, claimed_ms=now_ms)
                self._unheard.discard(broker.id)
                if broker.in_controlled_shutdown and not broker.fenced:
                    self._brokers[broker.id].leaving_since = controller.last_offset
            else:
                known.fenced = broker.fenced
                if broker.fenced:
                    known.leaving_since = NEVER
                    self._unheard.discard(broker.id)

    def has_session(self, broker_id: int, broker_epoch: int, now_ms: int) -> bool:
        """Whether a broker has been heard from within its session.

        A new controller has heard from nobody, but live brokers contact it at once.
        """
        known = self._brokers.get(broker_id)
        if known is None or known.epoch != broker_epoch:
            return False
        return now_ms <= (known.expires_ms if known.heard else known.claimed_ms + LOST_CONNECTION_GRACE_MS)

    def check_registration(
        self,
        controller: Controller,
        broker_id: int,
        incarnation_id: UUID,
        now_ms: int,
        *,
        previous_broker_epoch: int = NEVER,
    ) -> None:
        """Raises RequestError DUPLICATE_BROKER_REGISTRATION when another process with this id is alive.

        A broker whose directories show that the registration with this epoch was stopped cleanly need not wait.
        """
        existing = controller.image.brokers.get(broker_id)
        if existing is None or existing.incarnation_id == incarnation_id or existing.epoch == previous_broker_epoch:
            return
        if self.has_session(broker_id, existing.epoch, now_ms):
            raise RequestError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id. If the broker was recently restarted this should "
                "self-resolve once the heartbeat manager expires the broker's session.",
            )

    def contact(self, heartbeat: Heartbeat, now_ms: int) -> None:
        """A heartbeat has arrived; also one that is not acted upon, since the controller has too much to do."""
        known = self._brokers.get(heartbeat.broker_id)
        if known is not None and known.epoch == heartbeat.broker_epoch:
            known.expires_ms = now_ms + self._session_timeout_ms
            known.heard = True
            known.heard_ms = now_ms
            known.suspected = False
            self._unheard.discard(heartbeat.broker_id)
            known.metadata_offset = heartbeat.metadata_offset

    def connection_lost(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """Notes that a broker's heartbeat connection is gone: it has a short grace period to come back."""
        known = self._brokers.get(broker_id)
        if known is not None and known.epoch == broker_epoch:
            known.expires_ms = min(known.expires_ms, now_ms + LOST_CONNECTION_GRACE_MS)
            known.suspected = True

    def process_gone(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A suspected broker's address refuses connections: ends its session, unless it was heard from since."""
        known = self._brokers.get(broker_id)
        if known is not None and known.epoch == broker_epoch and known.suspected:
            known.expires_ms = min(known.expires_ms, now_ms - 1)

    def stands_still(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A broker's process answers nobody though the network does: ends its session."""
        known = self._brokers.get(broker_id)
        if known is not None and known.epoch == broker_epoch:
            known.expires_ms = min(known.expires_ms, now_ms - 1)

    def last_heard_ms(self, broker_id: int) -> int:
        """When a broker's last heartbeat arrived, or its registration."""
        known = self._brokers.get(broker_id)
        return 0 if known is None else max(known.claimed_ms, known.heard_ms)

    def leaving_since(self, broker_id: int, offset: int) -> None:
        """The records of the broker's controlled shutdown end at `offset`. The first call counts."""
        known = self._brokers.get(broker_id)
        if known is not None and not known.fenced and known.leaving_since == NEVER:
            known.leaving_since = offset

    def left_more(self, broker_id: int, offset: int) -> None:
        """More leaderships are taken from a broker whose controlled shutdown has begun, by records through `offset`."""
        known = self._brokers.get(broker_id)
        if known is not None and known.leaving_since != NEVER:
            known.leaving_since = max(known.leaving_since, offset)

    def expired(self, now_ms: int) -> tuple[int, int] | None:
        """The next broker (id and epoch) to fence because its session has ended; None if there is none.

        One at a time, so that the effect of each is seen before the next: fence it, `follow`, ask again.
        """
        longest: tuple[int, int, int] | None = None
        for broker_id, known in self._brokers.items():
            if not known.fenced and now_ms > known.expires_ms:
                candidate = (known.expires_ms, broker_id, known.epoch)
                longest = candidate if longest is None else min(longest, candidate)
        return None if longest is None else longest[1:]

    def next_deadline_ms(self) -> int | None:
        """When to call `expired` next."""
        deadlines = [known.expires_ms + 1 for known in self._brokers.values() if not known.fenced]
        return min(deadlines, default=None)

    def state_of(self, broker_id: int) -> BrokerState:
        known = self._brokers[broker_id]
        if known.leaving_since != NEVER:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if known.fenced else BrokerState.UNFENCED

    def next_state(self, controller: Controller, heartbeat: Heartbeat) -> BrokerState:
        """The broker's next state after this heartbeat."""
        broker_id = heartbeat.broker_id
        state = self.state_of(broker_id)
        leads = len(controller.indexes.led_by(broker_id)) > 0
        if state is BrokerState.FENCED:
            if heartbeat.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            ready = not heartbeat.want_fence and caught_up(controller, heartbeat)
            return BrokerState.UNFENCED if ready else BrokerState.FENCED
        if state is BrokerState.UNFENCED:
            if heartbeat.want_fence:
                return BrokerState.SHUTDOWN_NOW if heartbeat.want_shut_down else BrokerState.FENCED
            if heartbeat.want_shut_down:
                return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
            return BrokerState.UNFENCED
        if leads or self._brokers[broker_id].leaving_since > self._lowest_active_offset():
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.SHUTDOWN_NOW

    def _lowest_active_offset(self) -> float:
        """How far the slowest active broker has replayed the log."""
        active = (known for known in self._brokers.values() if not known.fenced and known.leaving_since == NEVER)
        return min((known.metadata_offset for known in active), default=float("inf"))


def caught_up(controller: Controller, heartbeat: Heartbeat) -> bool:
    """Whether a broker has replayed its own registration."""
    offset = controller.registration_offsets.get(heartbeat.broker_id)
    return offset is not None and heartbeat.metadata_offset >= offset


def loses_more(broker: BrokerRegistration, heartbeat: Heartbeat) -> bool:
    """Whether a broker reports failed directories that its registration still has."""
    return any(directory in broker.log_dirs for directory in heartbeat.offline_log_dirs)


def process_heartbeat(
    controller: Controller, heartbeats: Heartbeats, heartbeat: Heartbeat, now_ms: int
) -> Result[HeartbeatReply]:
    """Decides upon a heartbeat, and counts it as a contact. `follow` when the records are appended.

    Raises RequestError STALE_BROKER_EPOCH.
    """
    broker = brokers.checked(controller, heartbeat.broker_id, heartbeat.broker_epoch)
    heartbeats.contact(heartbeat, now_ms)
    current = heartbeats.state_of(broker.id)
    following = heartbeats.next_state(controller, heartbeat)
    if following is BrokerState.UNFENCED and current is BrokerState.FENCED and loses_more(broker, heartbeat):
        following = BrokerState.FENCED  # the next heartbeat unfences it, when nothing is led in what it has lost
    records: list[MetadataMessage] = []
    if following is BrokerState.UNFENCED and current is BrokerState.FENCED:
        records += brokers.unfence_broker(controller, broker.id, broker.epoch).records
    elif following is BrokerState.CONTROLLED_SHUTDOWN and current is BrokerState.UNFENCED:
        records += brokers.begin_controlled_shutdown(controller, broker.id, broker.epoch, in_steps=True).records
    elif following in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW):
        records += brokers.fence_broker(controller, broker.id, broker.epoch, in_steps=True).records
    records += report_directories(controller, broker, heartbeat.offline_log_dirs, heartbeat.cordoned_log_dirs)
    reply = HeartbeatReply(
        caught_up=caught_up(controller, heartbeat),
        fenced=following in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        in_controlled_shutdown=following is BrokerState.CONTROLLED_SHUTDOWN,
        should_shut_down=following is BrokerState.SHUTDOWN_NOW,
    )
    return Result(reply, records, atomic=False)
