"""`/v1/alarms`: what is or was wrong with clusters, how that was seen, and what is or would be done about it.

A suspicion that is no alarm yet is in the list too, without an id: only the leader knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from penstock.config.nearest import did_you_mean
from penstock.guardian.core.alarms.alarm import ACTING, RECOVERED, STATES, SUSPECT, Alarm, alarm_record
from penstock.guardian.core.alarms.evacuation import evacuation
from penstock.guardian.core.alarms.finding import (
    DEAD_BROKER,
    DEAD_DISK,
    FILLING_DISK,
    KINDS,
    SKEWED_LEADERS,
    UNDER_REPLICATED,
    Subject,
)
from penstock.guardian.core.calls import (
    BAD_REQUEST,
    CONFLICT,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    OK,
    Call,
    Decided,
    Known,
    Refused,
    Reply,
    Resource,
    body_of,
)
from penstock.guardian.core.limits import GUARDIAN_TEXT_MAX
from penstock.guardian.core.resources.clusters import cluster_named
from penstock.guardian.core.sight import ClusterSight
from penstock.guardian.core.state import OBSERVE, Command

HEALED_KINDS = (DEAD_BROKER, DEAD_DISK, SKEWED_LEADERS)
REMEDIES: Mapping[str, str] = {
    DEAD_BROKER: "give its replicas to living brokers, as the plan of the alarm says",
    DEAD_DISK: "give the replicas in it to living brokers, as the plan of the alarm says",
    SKEWED_LEADERS: "elect the preferred leaders of its partitions",
    UNDER_REPLICATED: "nothing by itself: look at the disks, the network and the log of the broker",
    FILLING_DISK: "nothing by itself: shorten retention, add a disk, or move replicas away",
}
"""What is or would be done, by kind."""


class AlarmList(Resource):
    """See the module's head."""

    path = "/v1/alarms"
    live = True

    def read(self, known: Known, call: Call, name: str) -> Reply:
        if name:
            return Reply(OK, detailed(known, alarm_named(known, name)))
        query = call.query(("cluster", "state", "kind"))
        for field, values in (("state", STATES), ("kind", KINDS)):
            if (value := query.get(field, values[0])) not in values:
                near = did_you_mean(value, values)
                raise Refused(BAD_REQUEST, f"{field}: {value[:GUARDIAN_TEXT_MAX]} is none of {', '.join(values)}{near}")
        cluster = cluster_named(known.state, query["cluster"]) if "cluster" in query else None
        found = [
            each
            for each in (*(shown(known, each) for each in known.state.alarms.by_id.values()), *suspicions(known))
            if (cluster is None or each["cluster"] == cluster.name)
            and query.get("state", each["state"]) == each["state"]
            and query.get("kind", each["kind"]) == each["kind"]
        ]
        return Reply(OK, {"alarms": found})

    def decide(self, known: Known, call: Call, name: str, new_id: Callable[[], UUID]) -> Decided:
        if not name or call.method != "PATCH":
            raise Refused(METHOD_NOT_ALLOWED, f"{call.place} takes no {call.method}")
        alarm = alarm_named(known, name)
        body = body_of(call, ("acknowledged", "heal"))
        if not body:
            raise Refused(BAD_REQUEST, "neither acknowledged nor heal is given: nothing would change")
        after = alarm
        if "acknowledged" in body:
            after = replace(after, acknowledged=call.principal if truth(body, "acknowledged") else "")
        if "heal" in body:
            after = asked_for(known, after, truth(body, "heal"))
        return Decided((alarm_record(after),), name, Reply(OK, shown(known, after)))

    def repeated(self, known: Known, call: Call, made: Command) -> Reply:
        return Reply(OK, shown(known, alarm_named(known, made.subject)))


def truth(body: Mapping[str, Any], name: str) -> bool:
    """A field that is true or false. Raises Refused."""
    value = body[name]
    if not isinstance(value, bool):
        raise Refused(BAD_REQUEST, f"{name} must be true or false")
    return value


def asked_for(known: Known, alarm: Alarm, heal: bool) -> Alarm:
    """The alarm with the wish that it is healed, or without. Raises Refused."""
    cluster = known.state.clusters[alarm.cluster_id]
    if not heal:
        return replace(alarm, asked=False)
    if alarm.kind not in HEALED_KINDS:
        raise Refused(CONFLICT, f"Guardian cannot heal {alarm.kind}: {REMEDIES[alarm.kind]}")
    if alarm.state == RECOVERED:
        raise Refused(CONFLICT, "the alarm is over: there is nothing to heal")
    if alarm.state == ACTING:
        raise Refused(CONFLICT, "it is being healed already")
    if cluster.mode("heal") == OBSERVE:
        raise Refused(CONFLICT, f"the mode of heal in {cluster.name} is observe: set it to advise or act first")
    return replace(alarm, asked=True)


def alarm_named(known: Known, name: str) -> Alarm:
    """The alarm with this id. Raises Refused."""
    try:
        alarm_id = UUID(name)
    except ValueError:
        raise Refused(BAD_REQUEST, f"{name[:GUARDIAN_TEXT_MAX]} is no id of an alarm") from None
    found = known.state.alarms.by_id.get(alarm_id)
    if found is None or found.cluster_id not in known.state.clusters:
        raise Refused(NOT_FOUND, f"there is no alarm {name}")
    return found


def shown(known: Known, alarm: Alarm) -> dict[str, Any]:
    """An alarm as answers have it; its evidence is that of the last look, where it is still seen."""
    cluster = known.state.clusters.get(alarm.cluster_id)
    seen = known.sight.clusters.get(alarm.cluster_id, ClusterSight())
    now = seen.suspected.get((alarm.kind, alarm.broker, alarm.path))
    return {
        "id": str(alarm.id),
        "cluster": cluster.name if cluster is not None else "",
        "kind": alarm.kind,
        "broker": alarm.broker,
        "dir": alarm.path or None,
        "state": alarm.state,
        "since_ms": alarm.since_ms,
        "began_ms": alarm.began_ms,
        "evidence": list(now.evidence if now is not None else alarm.evidence),
        "reason": alarm.reason or None,
        "remedy": REMEDIES.get(alarm.kind, ""),
        "mode": cluster.mode("heal") if cluster is not None else OBSERVE,
        "heals": alarm.heals,
        "returns": alarm.returns,
        "asked": alarm.asked,
        "acknowledged": alarm.acknowledged or None,
    }


def suspicions(known: Known) -> Iterator[dict[str, Any]]:
    """What looks wrong and is no alarm, as answers have it."""
    for cluster_id, seen in known.sight.clusters.items():
        if cluster_id not in known.state.clusters:
            continue
        for (kind, broker, path), each in seen.suspected.items():
            alarm = known.state.alarms.by_key.get((cluster_id, kind, broker, path))
            if alarm is None or not alarm.is_open:
                new = Alarm(UUID(int=0), cluster_id, kind, broker, path, SUSPECT, each.since_ms, each.since_ms)
                yield {**shown(known, new), "id": None}


def detailed(known: Known, alarm: Alarm) -> dict[str, Any]:
    """An alarm with the plan that would heal it, made of what is seen now; None where there is nothing to plan."""
    seen = known.sight.clusters.get(alarm.cluster_id)
    plan = None
    if seen is not None and alarm.kind in (DEAD_BROKER, DEAD_DISK) and alarm.is_open:
        plan = evacuation(seen, Subject(alarm.broker, alarm.path))
    return {**shown(known, alarm), "plan": plan}
