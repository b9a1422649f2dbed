"""Faults that were once in the code, each planted again as a small patch, and the scenario that is to find it.

Beside them stand the faults that were planted from the beginning (`cluster_mutations`, `compacted_mutations`,
`group_mutations`), so that `ALL` is what the simulator is measured by: `tools/mutation_score.py` runs the seeds of each
one's scenario until one fails. A mutant of which nothing can be seen in any simulated world stands in UNSEEN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from penstock.coordinator.group import classic_requests
from penstock.coordinator.group.classic import join
from penstock.coordinator.group.consumer import classic as consumer_classic
from penstock.errors import ErrorCode
from penstock.log.checkpointing import Checkpointing
from penstock.log.log import Log
from penstock.log.recovery import Recovery
from penstock.log.replica import Replica
from penstock.metadata import (
    alter_partition,
    brokers,
    configs,
    directories,
    feature_updates,
    heartbeats,
    leadership,
)
from penstock.metadata.controller import Controller
from penstock.metadata.partition_change import _Change
from penstock.node.quorum import Quorum
from penstock.node.request import BoundHandler, Handler
from penstock.protocol.messages.metadata.clear_elr_record import ClearElrRecord
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.storage import Storage
from penstock.replication.fetch_session import Session
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.replication.waiting import AppendWaiter, Waiters, Waiting
from penstock.server.clock import Clock
from simulator.cluster.checkers import MINIMUM, WATERMARK
from simulator.cluster.decisions import HEARD, JOINS, REASSIGNED
from simulator.cluster.replica_rules import ANSWERED, REACHED
from simulator.cluster.world import LOST_DIRECTORY, STEADY
from simulator.groups.coordinators import LISTED, SILENT
from simulator.groups.history import STAYS
from simulator.world.machine import FAILS, STIRRED
from support import cluster_mutations, compacted_mutations, group_mutations, transaction_mutations
from support import replication_mutations as replication

Plant = Callable[[pytest.MonkeyPatch], None]
NOT_STARTED = "error: __cluster_metadata-0 ends at offset"
TWICE = "nothing is there twice"


@dataclass(frozen=True)
class Mutant:
    """A fault to plant, the scenario that is to find it, a seed of that which does, and the rules one of which it
    breaks. Without a seed the simulator has not found it so far."""

    plant: Plant
    scenario: str
    found_by: int | None = None
    rules: tuple[str, ...] = ()

    def breaks(self, violation: BaseException) -> bool:
        """Whether a seed failed by a rule that names this fault, and not by something that came of it later."""
        return str(violation).startswith(self.rules)


# The cluster


def session_goes_on(patch: pytest.MonkeyPatch) -> None:
    """A fetch session tells of nothing when its follower goes on under a new broker epoch."""
    patch.setattr(Session, "fetched_as", lambda session, broker_epoch: None)


def eligible_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Eligible replicas are forgotten by a new minimum, also where nobody is in sync."""

    def cleared(controller: Controller, topics: list[str]) -> list[ClearElrRecord]:
        return [ClearElrRecord(topic_name=name) for name in topics]

    patch.setattr(configs, "minimum_changed", cleared)
    patch.setattr(feature_updates, "switched_off", lambda controller: [])


def remade_is_in_sync(patch: pytest.MonkeyPatch) -> None:
    """A replica whose directory is gone, and that was made anew, passes for the one that had the records."""
    patch.setattr(directories, "is_made_anew", lambda broker, partition: False)


def unflushed_is_trusted(patch: pytest.MonkeyPatch) -> None:
    """After an fsync that failed, the next process believes what it reads from the page cache."""
    patch.setattr(Recovery, "_write_again", lambda *_: None)


FOLLOWED_EVERY_MS = 10_000
STEP_AFTER_NS = 10_000_000_000
SLEW_NS = 50_000_000


def timers_follow_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """Every ten seconds the time that timers go by follows the wall clock: at once if that is far ahead."""
    followed_ms: dict[int, int] = {}

    def now_ms(clock: Clock) -> int:
        now_ms = (clock._base_ns + clock._monotonic()) // 1_000_000
        if now_ms - followed_ms.setdefault(id(clock), now_ms) >= FOLLOWED_EVERY_MS:
            drift_ns = clock._wall() - (clock._base_ns + clock._monotonic())
            far = drift_ns > STEP_AFTER_NS
            clock._base_ns += drift_ns if far else max(-SLEW_NS, min(SLEW_NS, drift_ns))
            now_ms = followed_ms[id(clock)] = (clock._base_ns + clock._monotonic()) // 1_000_000
        clock._last_ms = max(clock._last_ms, now_ms)
        clock.wall.ahead_ms = clock._wall() // 1_000_000 - clock._last_ms
        return clock._last_ms

    patch.setattr(Clock, "now_ms", now_ms)


def longer_log_is_kept(patch: pytest.MonkeyPatch) -> None:
    """A log that is longer than the newest snapshot is taken for one that leads to it, whatever its epochs."""

    def leads_to(storage: Storage, checkpoint: CheckpointId) -> bool:
        return checkpoint.end_offset <= storage.log.log_end_offset

    patch.setattr(Storage, "_leads_to", leads_to)


def unfenced_with_a_lost_directory(patch: pytest.MonkeyPatch) -> None:
    """The heartbeat that unfences a broker may tell of a lost directory besides: both are decided upon one state."""
    patch.setattr(heartbeats, "loses_more", lambda broker, heartbeat: False)


def replayed_before_it_is_refused(patch: pytest.MonkeyPatch) -> None:
    """The controller replays a batch that its log refuses then."""
    patch.setattr(Quorum, "check_append", lambda quorum, size_bytes: None)


def broker_epochs_ignored(patch: pytest.MonkeyPatch) -> None:
    """KIP-903 is not there: who has restarted since it was seen may join for what it had then."""
    real: Any = Partition.follower_fetched

    def follower_fetched(partition: Partition, *arguments: Any, **named: Any) -> ErrorCode:
        code: ErrorCode = real(partition, *arguments, **{**named, "broker_epoch": alter_partition.ANY_EPOCH})
        return code

    def may_join(replicas: Replicas, broker_id: int, broker_epoch: int | None) -> bool:
        broker = replicas.image.brokers.get(broker_id)
        return broker is not None and broker.active

    patch.setattr(alter_partition, "may_join", lambda controller, replica, epoch: controller.is_active(replica))
    patch.setattr(Replicas, "may_join", may_join)
    patch.setattr(Partition, "follower_fetched", follower_fetched)


def unclean_stop_counts_clean(patch: pytest.MonkeyPatch) -> None:
    """A broker that was killed is eligible as one that stopped cleanly (KIP-966)."""

    def records(controller: Controller, registration: Any, existing: Any) -> Any:
        return leadership.departure(controller, registration.broker_id, may_wait=False)

    patch.setattr(brokers, "records_of_new_incarnation", records)


def reassigned_early(patch: pytest.MonkeyPatch) -> None:
    """A reassignment is complete as soon as anybody of those who are to stay is in sync."""

    def complete(change: _Change) -> None:
        if not change.removing and not change.adding:
            return
        in_sync = tuple(each for each in change.isr if each not in change.removing)
        replicas = tuple(each for each in change.replicas if each not in change.removing)
        if in_sync and replicas:
            change.isr, change.replicas = in_sync, replicas
            change.removing = change.adding = ()

    patch.setattr(_Change, "_complete_reassignment", complete)


def unheard_take_over(patch: pytest.MonkeyPatch) -> None:
    """A new controller hands leaderships to brokers that it has not heard of (decision 16 is not there)."""
    real = heartbeats.Heartbeats.of

    def of(controller: Controller, now_ms: int) -> heartbeats.Heartbeats:
        made = real(controller, now_ms)
        made._unheard = controller.unheard = set()
        return made

    patch.setattr(heartbeats.Heartbeats, "of", staticmethod(of))


# Logs


def nobody_gives_up(patch: pytest.MonkeyPatch) -> None:
    """Who waited for the high watermark in vain, and was told so, waits on."""
    patch.setattr(Partition, "give_up", lambda partition, prepared, waiter, slot: None)


def first_in_first_out(patch: pytest.MonkeyPatch) -> None:
    """A repeated batch waits behind what was appended since, for the offset that its original lies at."""

    def add(waiters: Waiters, offset: int, waiter: AppendWaiter, slot: object) -> None:
        waiters._waiting.append((offset, waiter, slot))

    def reached(waiters: Waiters, offset: int) -> list[Waiting]:
        found: list[Waiting] = []
        while waiters._waiting and waiters._waiting[0][0] <= offset:
            found.append(waiters._waiting.pop(0))
        return found

    def remove(waiters: Waiters, offset: int, waiter: AppendWaiter, slot: object) -> bool:
        for index, each in enumerate(waiters._waiting):
            if each[1] is waiter and each[2] is slot:
                del waiters._waiting[index]
                return True
        return False

    patch.setattr(Waiters, "add", add)
    patch.setattr(Waiters, "remove", remove)
    patch.setattr(Waiters, "reached", reached)


def appended_before_the_point_is_lower(patch: pytest.MonkeyPatch) -> None:
    """A log that was cut is appended to at once; the lower recovery point is written when it is written."""

    def lower(checkpointing: Checkpointing, replica: Replica, log: Log, now_ms: int) -> None:
        directory = replica.directory
        checkpointing.note_recovery_point(replica, log)
        checkpointing.write(directory, directory.recovery_points)
        log.end_truncation(now_ms)

    patch.setattr(Checkpointing, "lower_recovery_point", lower)


# Groups


def ids_too_long(patch: pytest.MonkeyPatch) -> None:
    """A client id or instance id of any length becomes the beginning of a member id."""
    patch.setattr(classic_requests, "MEMBER_ID_PREFIX_MAX_BYTES", 1 << 20)


def nobody_leaves(patch: pytest.MonkeyPatch) -> None:
    """A member whose group would become classic without it stays, if that cannot be."""
    real: Any = consumer_classic.downgrade.convert

    def convert(*arguments: Any, **named: Any) -> Any:
        result = real(*arguments, **named)
        if result is None:
            raise consumer_classic.RequestError(ErrorCode.GROUP_ID_NOT_FOUND, "a subscription cannot be read")
        return result

    patch.setattr(consumer_classic.downgrade, "convert", convert)


def refused_group_stays(patch: pytest.MonkeyPatch) -> None:
    """A new group is in the state before its batch is there, and stays if that is refused."""
    real: Any = join.write

    def write(*records: Any, appended: Any = None, replay: Any = False) -> Any:
        if callable(replay):
            replay()
        return real(*records, appended=appended)

    patch.setattr(join, "write", write)


def no_request_stirs(patch: pytest.MonkeyPatch) -> None:
    """The controller is not asked when it must wake, whatever a request has changed."""
    real = Handler.of

    def of(self: Handler[Any], node: Any, kind: str) -> BoundHandler:
        return replace(real(self, node, kind), stirs=False)

    patch.setattr(Handler, "of", of)


LOST = (*cluster_mutations.LOST, TWICE)
UNFINISHED = "every client finishes what it has begun"
UNENCODED = (
    "no assertion fails: error in the group coordinator: ProtocolError",
    "no assertion fails: error in a frame",
)
UNSYNCED = "replicas come back into sync"

MUTANTS = {
    "a departure counts before its metadata": Mutant(
        replication.departures_count_at_once, "minimums", 3, (WATERMARK, MINIMUM)
    ),
    "a session goes on under another epoch": Mutant(session_goes_on, "chaos", 1, (UNSYNCED,)),
    "eligible replicas are forgotten": Mutant(eligible_forgotten, "minimums", 4, (UNSYNCED, UNFINISHED)),
    "a replica made anew is in sync": Mutant(remade_is_in_sync, "takeouts", 1, LOST),
    "what was not flushed is trusted, metadata": Mutant(unflushed_is_trusted, "raft", 73, (NOT_STARTED,)),
    "what was not flushed is trusted, records": Mutant(unflushed_is_trusted, "log", 37, ("what was fsynced",)),
    "timers follow the wall clock": Mutant(timers_follow_the_wall_clock, "connections", 3, (STEADY,)),
    "a longer log than the snapshot is kept": Mutant(longer_log_is_kept, "raft"),
    "unfenced with a lost directory": Mutant(unfenced_with_a_lost_directory, "roles", 3, (LOST_DIRECTORY,)),
    "replayed before the log refuses it": Mutant(replayed_before_it_is_refused, "swarm", 10, (FAILS,)),
    "broker epochs are ignored": Mutant(broker_epochs_ignored, "unflushed", 14, LOST),
    "an unclean stop counts as clean": Mutant(unclean_stop_counts_clean, "eligible", 18, LOST),
    "joined below the epoch's start": Mutant(replication.joined_below_the_epoch, "chaos", 3, (JOINS,)),
    "a reassignment is complete early": Mutant(reassigned_early, "moves", 6, (REASSIGNED, HEARD)),
    "the unheard take over": Mutant(unheard_take_over, "storm", 11, (HEARD,)),
    "appended before the recovery point is lower": Mutant(appended_before_the_point_is_lower, "tempest"),
    "sessions follow the wall clock": Mutant(timers_follow_the_wall_clock, "groups-calm", 3, (STAYS,)),
    "no request stirs the controller": Mutant(no_request_stirs, "network", 7, (STIRRED,)),
    "nobody gives up waiting": Mutant(nobody_gives_up, "network", 1, (ANSWERED,)),
    "a repeated batch waits its turn": Mutant(first_in_first_out, "network", 17, (REACHED,)),
    "a refused group stays": Mutant(refused_group_stays, "groups-storm", 13, (LISTED,)),
    "nobody leaves what cannot be classic": Mutant(nobody_leaves, "groups-migration", 20, (SILENT, STAYS)),
    "ids too long for a member id": Mutant(ids_too_long, "groups-calm", 20, UNENCODED),
}
UNSEEN: dict[str, Plant] = {}
"""Those of which no world shows anything: unit tests alone find them."""

ALL = {
    **MUTANTS,
    **{
        name: Mutant(each.plant, each.scenario, each.found_by, each.rules)
        for mutations in (
            cluster_mutations.MUTATIONS,
            compacted_mutations.MUTATIONS,
            group_mutations.MUTATIONS,
            transaction_mutations.MUTATIONS,
        )
        for name, each in mutations.items()
    },
}
