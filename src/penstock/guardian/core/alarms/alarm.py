"""Alarms as the log has them: immutable values, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from penstock.guardian.core.limits import (
    GUARDIAN_ALARM_SENTENCE_MAX,
    GUARDIAN_ALARM_SENTENCES_MAX,
    GUARDIAN_ALARMS_MAX,
)
from penstock.protocol.messages.guardian.guardian_alarm_record import GuardianAlarmRecord
from penstock.protocol.messages.guardian.guardian_remove_alarm_record import GuardianRemoveAlarmRecord

SUSPECT, CONFIRMED, ACTING, RECOVERED, ESCALATED = STATES = ("suspect", "confirmed", "acting", "recovered", "escalated")

AlarmRecord = GuardianAlarmRecord | GuardianRemoveAlarmRecord
AlarmKey = tuple[UUID, str, int, str]
"""What an alarm is about: cluster, kind, broker, log directory."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm.

    Attributes:
        kind: one of `finding.KINDS`. broker, path: the subject; path is "" for the broker itself.
        state: all of STATES but SUSPECT. since_ms: when it came to that. began_ms: when it was first seen.
        evidence: what showed it, in sentences. reason: why it is in this state, "" where the state says it all.
        heals: how often it was healed. returns: how often it came back after it was gone.
        asked: a person has asked for it to be healed. acknowledged: by whom, "" for nobody.
    """

    id: UUID
    cluster_id: UUID
    kind: str
    broker: int
    path: str
    state: str
    since_ms: int
    began_ms: int
    evidence: tuple[str, ...] = ()
    reason: str = ""
    heals: int = 0
    returns: int = 0
    asked: bool = False
    acknowledged: str = ""

    @property
    def key(self) -> AlarmKey:
        return self.cluster_id, self.kind, self.broker, self.path

    @property
    def is_open(self) -> bool:
        """Whether what it is about has not gone."""
        return self.state != RECOVERED

    @property
    def about(self) -> str:
        """The subject, for people."""
        return f"broker {self.broker} {self.path}".rstrip()


@dataclass(frozen=True, slots=True)
class Alarms:
    """All alarms. Attributes: `by_id`, the last changed one is the last; `by_key`: the newest about each subject."""

    by_id: Mapping[UUID, Alarm] = field(default_factory=lambda: MappingProxyType({}))
    by_key: Mapping[AlarmKey, Alarm] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, cluster_id: UUID) -> Iterator[Alarm]:
        """The alarms of a cluster."""
        return (each for each in self.by_id.values() if each.cluster_id == cluster_id)

    @property
    def full(self) -> bool:
        """Whether there is no room for another one that is open."""
        return sum(each.is_open for each in self.by_id.values()) >= GUARDIAN_ALARMS_MAX

    def with_alarm(self, alarm: Alarm) -> Alarms:
        """With an alarm as it is now. Where there are too many the oldest that have recovered are forgotten."""
        kept = {each.id: each for each in self.by_id.values() if each.id != alarm.id}
        kept[alarm.id] = alarm
        over = len(kept) - GUARDIAN_ALARMS_MAX
        if over > 0:
            for each in [each for each in kept.values() if not each.is_open][:over]:
                del kept[each.id]
        return alarms_of(kept.values())

    def without(self, alarm_id: UUID) -> Alarms:
        """Without an alarm."""
        return alarms_of(each for each in self.by_id.values() if each.id != alarm_id)

    def without_cluster(self, cluster_id: UUID) -> Alarms:
        """Without those of a cluster that is not registered any more."""
        return alarms_of(each for each in self.by_id.values() if each.cluster_id != cluster_id)

    def of_clusters(self, clusters: Set[UUID]) -> Alarms:
        """The alarms of these clusters, and no others."""
        return alarms_of(each for each in self.by_id.values() if each.cluster_id in clusters)


NO_ALARMS = Alarms()


def alarms_of(alarms: Iterable[Alarm]) -> Alarms:
    """All of these alarms, in their order."""
    by_id: dict[UUID, Alarm] = {}
    by_key: dict[AlarmKey, Alarm] = {}
    for each in alarms:
        by_id[each.id] = by_key[each.key] = each
    return Alarms(MappingProxyType(by_id), MappingProxyType(by_key))


def replay_alarm(alarms: Alarms, record: AlarmRecord) -> Alarms:
    """The alarms after a record."""
    if isinstance(record, GuardianRemoveAlarmRecord):
        return alarms.without(record.alarm_id)
    return alarms.with_alarm(alarm_of(record))


def alarm_of(record: GuardianAlarmRecord) -> Alarm:
    """The alarm that a record has."""
    return Alarm(
        record.alarm_id,
        record.cluster_id,
        record.kind,
        record.broker,
        record.path,
        record.state,
        record.since_ms,
        record.began_ms,
        tuple(record.evidence),
        reason=record.reason,
        heals=record.heals,
        returns=record.returns,
        asked=record.asked,
        acknowledged=record.acknowledged,
    )


def alarm_record(alarm: Alarm) -> GuardianAlarmRecord:
    """The record of an alarm as it is now."""
    return GuardianAlarmRecord(
        alarm_id=alarm.id,
        cluster_id=alarm.cluster_id,
        kind=alarm.kind,
        broker=alarm.broker,
        path=alarm.path,
        state=alarm.state,
        since_ms=alarm.since_ms,
        began_ms=alarm.began_ms,
        evidence=[each[:GUARDIAN_ALARM_SENTENCE_MAX] for each in alarm.evidence[:GUARDIAN_ALARM_SENTENCES_MAX]],
        reason=alarm.reason[:GUARDIAN_ALARM_SENTENCE_MAX],
        heals=alarm.heals,
        returns=alarm.returns,
        asked=alarm.asked,
        acknowledged=alarm.acknowledged,
    )
