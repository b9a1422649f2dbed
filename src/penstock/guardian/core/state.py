"""The state of Guardian: an immutable value, and a function from a state and a record to the next.

The leader replays what it appends, so that the next request sees it; readers see what is committed. Both are values of
this type, and to undo what was appended and lost is to take the older one. A snapshot is the records that make the
state from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import UUID

from penstock.errors import StorageError
from penstock.guardian.core.accounts import AccountRecord, Accounts
from penstock.guardian.core.alarms.alarm import NO_ALARMS, AlarmRecord, Alarms, alarm_record, replay_alarm
from penstock.guardian.core.limits import GUARDIAN_COMMANDS_REMEMBERED_MAX
from penstock.guardian.core.records import FEATURE_LEVEL, GuardianRecord
from penstock.guardian.core.work.plans import HEAL, NO_WORK, Work
from penstock.guardian.core.work.replaying import WorkRecord, records_of_work, replay_work
from penstock.protocol.messages.guardian.guardian_cluster_record import ClusterLabel, GuardianClusterRecord
from penstock.protocol.messages.guardian.guardian_command_record import GuardianCommandRecord
from penstock.protocol.messages.guardian.guardian_level_record import GuardianLevelRecord
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.guardian.guardian_remove_cluster_record import GuardianRemoveClusterRecord

KINDS = ("penstock", "kafka")
"""What a cluster runs."""
OBSERVE, ADVISE, ACT = MODES = ("observe", "advise", "act")
"""What Guardian may do by itself: nothing, say what it would do, or do it."""
ACTIONS = ("balance", "leaders", "topics", "throttle", HEAL)
"""Kinds of action, each with a mode in each cluster."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A registered cluster.

    Attributes:
        id: given by Guardian, never used again. name: for people, unique as long as the cluster is registered.
        kind: one of KINDS. bootstrap: where it is reached, each as HOST:PORT. idc: the data centre, "" if not told.
        credentials: the name under which a node finds how to log in; the log holds no secret. None: none are needed.
        labels: whatever else is to be known. modes: by kind of action; what is not there is OBSERVE.
    """

    id: UUID
    name: str
    kind: str
    bootstrap: tuple[str, ...]
    idc: str = ""
    credentials: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    modes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def mode(self, action: str) -> str:
        """What Guardian may do by itself in this cluster, of a kind of action."""
        return self.modes.get(action, OBSERVE)


@dataclass(frozen=True, slots=True)
class Command:
    """A change that was made: who asked for it, when (wall time, ms), what it was and what it was about."""

    request_id: UUID
    principal: str
    wall_ms: int
    command: str
    subject: str


@dataclass(frozen=True, slots=True)
class GuardianState:
    """Everything that the log says.

    Attributes: `feature_level`, 0 for a log without a record; `clusters` by id, in the order of registration;
    `commands` by request id, the newest last; `work`, the plans and all that is about them; `alarms`, what is or was
    wrong with clusters; `accounts`, users and their tokens.
    """

    feature_level: int = 0
    clusters: Mapping[UUID, Cluster] = field(default_factory=lambda: MappingProxyType({}))
    commands: Mapping[UUID, Command] = field(default_factory=lambda: MappingProxyType({}))
    alarms: Alarms = NO_ALARMS
    work: Work = NO_WORK
    accounts: Accounts = field(default_factory=Accounts)

    def named(self, name: str) -> Cluster | None:
        """The cluster of this name."""
        return next((each for each in self.clusters.values() if each.name == name), None)


EMPTY = GuardianState()


def replay(state: GuardianState, records: Iterable[GuardianRecord]) -> GuardianState:
    """The state after these records. Raises StorageError for what this version cannot follow."""
    for record in records:
        state = replay_one(state, record)
    return state


def replay_one(state: GuardianState, record: GuardianRecord) -> GuardianState:
    """The state after one record."""
    if isinstance(record, GuardianLevelRecord):
        if record.feature_level > FEATURE_LEVEL:
            raise StorageError(
                f"Guardian's log is at feature level {record.feature_level}, this version knows {FEATURE_LEVEL}: "
                "upgrade this node before it goes on"
            )
        return replace(state, feature_level=record.feature_level)
    if isinstance(record, GuardianCommandRecord):
        return replace(state, commands=remembered(state.commands, command_of(record)))
    if isinstance(record, AlarmRecord):
        return replace(state, alarms=replay_alarm(state.alarms, record))
    if isinstance(record, WorkRecord):
        return replace(state, work=replay_work(state.work, record))
    if isinstance(record, AccountRecord):
        return replace(state, accounts=state.accounts.after(record))
    clusters = dict(state.clusters)
    if isinstance(record, GuardianClusterRecord):
        clusters[record.cluster_id] = cluster_of(record)
    elif record.cluster_id not in clusters:
        raise StorageError(f"Guardian's log is damaged: {record.NAME} is about no cluster that is registered")
    elif isinstance(record, GuardianRemoveClusterRecord):
        del clusters[record.cluster_id]
        state = replace(state, alarms=state.alarms.without_cluster(record.cluster_id))
        state = replace(state, work=state.work.without_cluster(record.cluster_id))
        state = replace(state, accounts=state.accounts.without_cluster(record.cluster_id))
    else:
        cluster = clusters[record.cluster_id]
        modes = MappingProxyType({**cluster.modes, record.action: record.mode})
        clusters[record.cluster_id] = replace(cluster, modes=modes)
    return replace(state, clusters=MappingProxyType(clusters))


def remembered(commands: Mapping[UUID, Command], command: Command) -> Mapping[UUID, Command]:
    """The commands with one more, the oldest forgotten where there are too many."""
    kept = {**commands, command.request_id: command}
    while len(kept) > GUARDIAN_COMMANDS_REMEMBERED_MAX:
        del kept[next(iter(kept))]
    return MappingProxyType(kept)


def snapshot_records(state: GuardianState) -> Iterator[GuardianRecord]:
    """The records that make this state from nothing."""
    yield GuardianLevelRecord(feature_level=state.feature_level)
    for cluster in state.clusters.values():
        yield cluster_record(cluster)
        for action, mode in cluster.modes.items():
            yield GuardianModeRecord(cluster_id=cluster.id, action=action, mode=mode)
    yield from state.accounts.records()
    for command in state.commands.values():
        yield command_record(command)
    for alarm in state.alarms.by_id.values():
        yield alarm_record(alarm)
    yield from records_of_work(state.work)


def cluster_of(record: GuardianClusterRecord) -> Cluster:
    """The cluster that a record registers."""
    labels = MappingProxyType({label.name: label.value for label in record.labels})
    return Cluster(
        record.cluster_id,
        record.name,
        record.kind,
        tuple(record.bootstrap),
        idc=record.idc,
        credentials=record.credentials,
        labels=labels,
    )


def cluster_record(cluster: Cluster) -> GuardianClusterRecord:
    """The record that registers a cluster; its modes have records of their own."""
    return GuardianClusterRecord(
        cluster_id=cluster.id,
        name=cluster.name,
        kind=cluster.kind,
        bootstrap=list(cluster.bootstrap),
        idc=cluster.idc,
        credentials=cluster.credentials,
        labels=[ClusterLabel(name=name, value=value) for name, value in cluster.labels.items()],
    )


def command_of(record: GuardianCommandRecord) -> Command:
    """The change that a record tells of."""
    return Command(record.request_id, record.principal, record.wall_ms, record.command, record.subject)


def command_record(command: Command) -> GuardianCommandRecord:
    """The record of a change."""
    return GuardianCommandRecord(
        request_id=command.request_id,
        principal=command.principal,
        wall_ms=command.wall_ms,
        command=command.command,
        subject=command.subject,
    )
