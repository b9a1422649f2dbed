"""What is answered about alarms: lists, one with its plan, wishes; and that the log keeps all of it."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from support.sights import CLUSTER, START_MS, partition, sight_of

from penstock.guardian.core import answering
from penstock.guardian.core.alarms.alarm import (
    ACTING,
    CONFIRMED,
    ESCALATED,
    NO_ALARMS,
    RECOVERED,
    Alarm,
    Alarms,
    alarm_record,
    replay_alarm,
)
from penstock.guardian.core.alarms.finding import DEAD_BROKER, FILLING_DISK, SKEWED_LEADERS
from penstock.guardian.core.alarms.metrics import alarm_samples
from penstock.guardian.core.calls import Call, Known, Reply
from penstock.guardian.core.limits import GUARDIAN_ALARMS_MAX
from penstock.guardian.core.records import decode_records, encode_records
from penstock.guardian.core.sight import Sight, Suspicion
from penstock.guardian.core.state import EMPTY, GuardianState, cluster_record, replay, snapshot_records
from penstock.protocol.messages.guardian.guardian_remove_alarm_record import GuardianRemoveAlarmRecord
from penstock.protocol.messages.guardian.guardian_remove_cluster_record import GuardianRemoveClusterRecord

ALARM = Alarm(UUID(int=1), CLUSTER.id, DEAD_BROKER, 3, "", CONFIRMED, START_MS, START_MS - 9, ("it is dead",))
SKEW = replace(ALARM, id=UUID(int=2), kind=SKEWED_LEADERS, broker=1, evidence=("skewed",))
DISK = replace(ALARM, id=UUID(int=3), kind=FILLING_DISK, broker=1, path="/d")


def state_of(*alarms: Alarm, mode: str = "advise") -> GuardianState:
    modes = MappingProxyType({"heal": mode})
    state = replay(EMPTY, [cluster_record(CLUSTER), *map(alarm_record, alarms)])
    return replace(state, clusters=MappingProxyType({CLUSTER.id: replace(CLUSTER, modes=modes)}))


def known(state: GuardianState, sight: Sight | None = None) -> Known:
    return Known(state, sight or Sight(), START_MS)


def sight() -> Sight:
    """Broker 3 is dead, and 4 is suspected of it; broker 2 has room."""
    seen = sight_of((1, 2), partition(0, 3, 1, leader=1, in_sync=(1,)))
    seen.suspected = {
        (DEAD_BROKER, 3, ""): Suspicion(START_MS - 9, ("it is still dead",)),
        (DEAD_BROKER, 4, ""): Suspicion(START_MS - 5, ("it may be dead",)),
    }
    return Sight({CLUSTER.id: seen})


def ask(of: Known, path: str) -> Any:
    reply = answering.read(of, Call("GET", path, b"", UUID(int=0), "User:ann"))
    return reply.body if reply.status == 200 else (reply.status, reply.body["error"])


def patch(of: Known, alarm: Alarm, body: Any, request: int = 77) -> tuple[Reply, GuardianState]:
    call = Call("PATCH", f"/v1/alarms/{alarm.id}", json.dumps(body).encode(), UUID(int=request), "User:ann")
    change = answering.decide(of, call, lambda: UUID(int=99))
    return change.reply, replay(of.state, change.records)


def test_the_list_has_alarms_and_suspicions() -> None:
    found = ask(known(state_of(ALARM, SKEW), sight()), "/v1/alarms")["alarms"]
    assert [(each["kind"], each["broker"], each["state"]) for each in found] == [
        ("dead-broker", 3, "confirmed"),
        ("skewed-leaders", 1, "confirmed"),
        ("dead-broker", 4, "suspect"),
    ]
    first = found[0]
    assert (first["evidence"], first["cluster"], first["since_ms"]) == (["it is still dead"], "clicks", START_MS)
    assert "give its replicas to living brokers" in first["remedy"]
    assert (found[2]["id"], found[2]["since_ms"], found[2]["evidence"]) == (None, START_MS - 5, ["it may be dead"])


def test_the_list_is_filtered_and_refuses_what_it_does_not_know() -> None:
    of = known(state_of(ALARM, SKEW), sight())
    assert len(ask(of, "/v1/alarms?cluster=clicks&state=suspect")["alarms"]) == 1
    assert [each["kind"] for each in ask(of, "/v1/alarms?kind=skewed-leaders")["alarms"]] == ["skewed-leaders"]
    assert ask(of, "/v1/alarms?cluster=click")[0] == 404
    assert "did you mean" in ask(of, "/v1/alarms?state=confirmd")[1]
    assert ask(of, "/v1/alarms?since=1")[0] == 400
    assert ask(of, "/v1/alarms/17") == (400, "17 is no id of an alarm")
    assert ask(of, f"/v1/alarms/{UUID(int=55)}")[0] == 404


def test_one_alarm_has_the_plan_that_would_heal_it() -> None:
    found = ask(known(state_of(ALARM, SKEW), sight()), f"/v1/alarms/{ALARM.id}")
    assert found["plan"]["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [2, 1], "log_dirs": ["any", "any"]}
    ]
    assert ask(known(state_of(ALARM, SKEW), sight()), f"/v1/alarms/{SKEW.id}")["plan"] is None
    assert ask(known(state_of(ALARM)), f"/v1/alarms/{ALARM.id}")["plan"] is None, "nothing has been seen"


def test_an_alarm_is_acknowledged_once_and_by_whom_is_kept() -> None:
    of = known(state_of(ALARM))
    reply, state = patch(of, ALARM, {"acknowledged": True})
    assert (reply.status, reply.body["acknowledged"]) == (200, "User:ann")
    again, same = patch(known(state), ALARM, {"acknowledged": True})
    assert again.body["acknowledged"] == "User:ann"
    assert same == state
    _, state = patch(known(state), ALARM, {"acknowledged": False}, request=78)
    assert state.alarms.by_id[ALARM.id].acknowledged == ""


@pytest.mark.parametrize(
    ("alarm", "mode", "body", "status", "said"),
    [
        (ALARM, "advise", {"heal": True}, 200, ""),
        (ALARM, "act", {"heal": True}, 200, ""),
        (ALARM, "observe", {"heal": True}, 409, "the mode of heal in clicks is observe"),
        (replace(ALARM, state=ESCALATED), "act", {"heal": True}, 200, ""),
        (replace(ALARM, state=RECOVERED), "act", {"heal": True}, 409, "the alarm is over"),
        (replace(ALARM, state=ACTING), "act", {"heal": True}, 409, "it is being healed already"),
        (DISK, "act", {"heal": True}, 409, "Guardian cannot heal filling-disk: nothing by itself: shorten"),
        (ALARM, "act", {"heal": 1}, 400, "heal must be true or false"),
        (ALARM, "act", {}, 400, "nothing would change"),
        (ALARM, "act", {"heel": True}, 400, "unknown field heel"),
    ],
)
def test_who_asks_for_a_heal_is_heard_where_it_can_be(
    alarm: Alarm, mode: str, body: Any, status: int, said: str
) -> None:
    reply, state = patch(known(state_of(alarm, mode=mode)), alarm, body)
    assert reply.status == status
    assert said in reply.body.get("error", "")
    assert state.alarms.by_id[alarm.id].asked is (status == 200)


def test_alarms_are_neither_made_nor_removed_by_calls() -> None:
    of = known(state_of(ALARM))
    for method, path in (("POST", "/v1/alarms"), ("DELETE", f"/v1/alarms/{ALARM.id}")):
        reply = answering.decide(of, Call(method, path, b"{}", UUID(int=5), "User:ann"), lambda: UUID(int=9)).reply
        assert reply.status == 405


def test_only_the_leader_can_tell_of_alarms() -> None:
    assert answering.is_live(Call("GET", "/v1/alarms?cluster=clicks", b"", UUID(int=0), "User:ann"))


def test_a_snapshot_keeps_all_of_an_alarm() -> None:
    full = replace(ALARM, reason="why", heals=2, returns=3, asked=True, acknowledged="User:ann", path="/d")
    state = state_of(full, SKEW, mode="act")
    records = decode_records(encode_records(snapshot_records(state)))
    assert replay(EMPTY, records) == state


def test_a_cluster_that_is_removed_takes_its_alarms_along() -> None:
    other = replace(SKEW, cluster_id=UUID(int=8))
    state = replay(state_of(ALARM, other), [GuardianRemoveClusterRecord(cluster_id=CLUSTER.id)])
    assert list(state.alarms.by_id) == [SKEW.id]


def test_of_too_many_alarms_the_oldest_that_are_over_are_forgotten() -> None:
    alarms: Alarms = NO_ALARMS
    for each in range(GUARDIAN_ALARMS_MAX + 10):
        state = RECOVERED if 5 <= each < 25 else CONFIRMED
        alarms = alarms.with_alarm(replace(ALARM, id=UUID(int=each), broker=each, state=state))
    assert len(alarms.by_id) == GUARDIAN_ALARMS_MAX
    assert [each for each in range(30) if UUID(int=each) not in alarms.by_id] == list(range(5, 15))
    assert replay_alarm(alarms, GuardianRemoveAlarmRecord(alarm_id=UUID(int=3))).by_key.get(ALARM.key) is None


def test_metrics_count_alarms_by_kind_and_state() -> None:
    samples = list(alarm_samples(state_of(ALARM, SKEW, replace(DISK, state=RECOVERED)), sight()))
    counted = {(each.labels["kind"], each.labels["state"]): each.value for each in samples if each.value}
    assert counted == {
        ("dead-broker", "confirmed"): 1,
        ("dead-broker", "suspect"): 1,
        ("skewed-leaders", "confirmed"): 1,
    }
    assert len(samples) == 20
    assert {each.name for each in samples} == {"penstock_guardian_alarms"}
