"""What the resources about the insides of clusters say of themselves: what is seen, plans and moves, alarms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.guardian.core.alarms.alarm import STATES as ALARM_STATES
from penstock.guardian.core.alarms.finding import KINDS
from penstock.guardian.core.described import (
    Fields,
    Operation,
    Schema,
    by_name,
    choice,
    flag,
    listed,
    or_null,
    shape,
    text,
    whole,
)
from penstock.guardian.core.sight import DISKS as DISKS_PART
from penstock.guardian.core.sight import METADATA, OFFSETS, REASSIGNMENTS, SETTINGS
from penstock.guardian.core.state import ACTIONS, MODES
from penstock.guardian.core.work.plans import CAPS

AT_MS = 1_780_000_000_000
OF_CLUSTER = {"cluster": "The name of the cluster; needed."}
OF_ANY_CLUSTER = {"cluster": "Those of one cluster, by its name."}
NEXT = {"after": "`next` of the page before."}
BYTES, COUNT, BROKER = whole("Bytes."), whole("How many."), whole("The id of a broker.")
BROKERS_LIST = listed(BROKER)
WALL = whole("Wall time, in ms.")
CLUSTER_NAME = text("The name of the cluster.")
FREE: Schema = {"type": "object", "description": "Free in its form."}

# What is seen

HEAD: Fields = {
    "cluster": CLUSTER_NAME,
    "kind": text("What it runs."),
    "kafka_id": or_null(text("The cluster's own id.")),
    "age_ms": by_name(or_null(whole("How long ago.")), "When each part was seen; null: never."),
    "failures": by_name(text("A reason."), "Why a part could not be seen lately."),
}
HEAD_EXAMPLE: Mapping[str, Any] = {
    "cluster": "clicks", "kind": "kafka", "kafka_id": "5L6g3nShT-eMCtK--X86sw", "failures": {},
    "age_ms": dict.fromkeys((METADATA, REASSIGNMENTS, DISKS_PART, SETTINGS, OFFSETS), 3_000),
}  # fmt: skip
NEXT_PAGE = or_null(text("What `after` has to be for the next page; null on the last one."))
COUNTED = (
    "brokers", "brokers_gone", "disks", "disks_failed", "topics", "partitions", "replicas", "under_replicated",
    "below_min_insync", "without_leader", "bytes",
)  # fmt: skip
SEEN_BROKER = shape(
    "Broker",
    {
        "id": BROKER,
        "host": or_null(text("Where it is; null for one that is gone.")),
        "port": or_null(whole("Its port.")),
        "rack": or_null(text("Its rack.")),
        "alive": flag("Whether its cluster counts it among the living."),
        "controller": flag("Whether changes of the cluster are sent to it."),
        "replicas": COUNT,
        "leaders": COUNT,
        "bytes": BYTES,
        "disks_age_ms": or_null(whole("How long ago its disks were seen.")),
    },
)
BROKERS = (
    Operation(
        "GET", "The brokers of a cluster, as the leader sees them", query=OF_CLUSTER | NEXT,
        answer=shape("Brokers", {**HEAD, "summary": shape("Summary", dict.fromkeys(COUNTED, COUNT)),
                                 "brokers": listed(SEEN_BROKER)}),
        example={**HEAD_EXAMPLE, "summary": dict.fromkeys(COUNTED, 1), "brokers": [{
            "id": 1, "host": "10.0.0.7", "port": 9092, "rack": "r1", "alive": True, "controller": True,
            "replicas": 1, "leaders": 1, "bytes": 1, "disks_age_ms": 3_000,
        }]},
    ),
)  # fmt: skip
SEEN_DISK = shape(
    "Disk",
    {
        "broker": BROKER,
        "path": text("The log directory."),
        "capacity_bytes": or_null(BYTES),
        "usable_bytes": or_null(BYTES),
        "error": or_null(text("The error of the broker, for a directory that has failed.")),
        "replicas": COUNT,
        "bytes": BYTES,
        "age_ms": or_null(whole("How long ago it was seen.")),
    },
)
DISKS = (
    Operation(
        "GET", "The log directories of a cluster, as the leader sees them", query=OF_CLUSTER | NEXT,
        answer=shape("Disks", {**HEAD, "disks": listed(SEEN_DISK), "next": NEXT_PAGE}),
        example={**HEAD_EXAMPLE, "next": None, "disks": [{
            "broker": 1, "path": "/data/a", "capacity_bytes": 2_000, "usable_bytes": 1_000, "error": None,
            "replicas": 1, "bytes": 1_000, "age_ms": 3_000,
        }]},
    ),
)  # fmt: skip
WRITTEN = or_null(whole("Bytes a second that were written of late, as far as it is known."))
TOPIC_FIELDS: Fields = {
    "name": text("The topic."),
    "id": text("Its id."),
    "internal": flag("Whether it is one of the cluster's own."),
    "partitions": COUNT,
    "replicas": whole("Replicas of each partition, at most."),
    "min_insync_replicas": or_null(COUNT),
    "under_replicated": COUNT,
    "without_leader": COUNT,
    "moving": whole("Partitions that are being reassigned."),
    "bytes": BYTES,
    "bytes_in_per_second": WRITTEN,
}
PARTITION = shape(
    "Partition",
    {
        "partition": whole("Its number."),
        "leader": whole("The broker that leads it; -1 for none."),
        "leader_epoch": whole("How often it was given a leader."),
        **dict.fromkeys(("replicas", "in_sync", "adding", "removing"), BROKERS_LIST),
        "bytes": by_name(BYTES, "By broker, where it is known."),
        "bytes_in_per_second": WRITTEN,
    },
)
TOPIC_EXAMPLE: Mapping[str, Any] = {
    "name": "events", "id": "7kUq0a1sQ2mJ9m0m3m1xTg", "internal": False, "partitions": 1, "replicas": 2,
    "min_insync_replicas": 1, "under_replicated": 0, "without_leader": 0, "moving": 0, "bytes": 20,
    "bytes_in_per_second": 5,
}  # fmt: skip
TOPICS = (
    Operation(
        "GET", "The topics of a cluster, as the leader sees them", query=OF_CLUSTER | NEXT,
        answer=shape("Topics", {**HEAD, "topics": listed(shape("Topic", TOPIC_FIELDS)), "next": NEXT_PAGE}),
        example={**HEAD_EXAMPLE, "topics": [TOPIC_EXAMPLE], "next": None},
    ),
    Operation(
        "GET", "A topic and its partitions", named=True, query=OF_CLUSTER | NEXT,
        answer=shape("TopicRows", {**HEAD, **TOPIC_FIELDS, "rows": listed(PARTITION), "next": NEXT_PAGE}),
        example={**HEAD_EXAMPLE, **TOPIC_EXAMPLE, "next": None, "rows": [{
            "partition": 0, "leader": 1, "leader_epoch": 4, "replicas": [1, 2], "in_sync": [1, 2], "adding": [],
            "removing": [], "bytes": {"1": 10, "2": 10}, "bytes_in_per_second": 5,
        }]},
    ),
)  # fmt: skip
MODEL_ROW = {"type": "array", "items": {}}
MODEL = (
    Operation(
        "GET", "What a model of a cluster is made of, as the leader sees it", query=OF_CLUSTER | NEXT,
        answer=shape("Model", {
            **HEAD,
            "labels": by_name(text("Its value."), "The labels of the cluster."),
            "idc": text("The data centre of the cluster."),
            "brokers": listed(MODEL_ROW, "Id, host and rack of each; on the last page."),
            "disks": listed(MODEL_ROW, "Broker, directory, bytes (-1: not known) and error of each; on the last page."),
            "topics": by_name(listed(MODEL_ROW), "By topic, of each partition: its number, leader, replicas, their "
                              "directories, their bytes, median and 95th percentile of the bytes written a second, "
                              "and of how many windows."),
            "paths": listed(text("A directory."), "What the directories of partitions are indexes into."),
            "moving": whole("Partitions that are being reassigned."),
            "next": NEXT_PAGE,
        }),
        example={
            **HEAD_EXAMPLE, "labels": {"cpu.cores": "16"}, "idc": "north", "brokers": [[1, "10.0.0.7", "r1"]],
            "disks": [[1, "/data/a", 2_000, 0]], "topics": {"events": [[0, 1, [1], [0], [20], 5.0, 7.5, 12]]},
            "paths": ["/data/a"], "moving": 0, "next": None,
        },
    ),
)  # fmt: skip

# Plans

CAPS_SHAPE = by_name(COUNT, f"How many moves at once, by {', '.join(CAPS)}.")
RATE: Schema = {
    "type": ["integer", "string"],
    "description": 'Bytes a second that the copies of one broker may take; 0: no bound; "auto": what hurts nobody.',
}
PLAN = shape(
    "Plan",
    {
        "id": whole("Its number, never used again."),
        "cluster": CLUSTER_NAME,
        "action": choice("The kind of action, whose mode decides what becomes of it.", ACTIONS),
        "state": text("How far it is."),
        "reason": text("Why; empty where the state says it all."),
        "principal": text("Who brought it."),
        "wall_ms": WALL,
        "changed_ms": WALL,
        "digest": text("Of what it was made from."),
        "rate_bytes": RATE,
        "caps": CAPS_SHAPE,
        "thin": flag("Whether it also moves partitions without a replica to spare."),
        "bytes": BYTES,
        "moves": COUNT,
        "states": by_name(COUNT, "How many of its moves are in each state."),
    },
)
PLAN_EXAMPLE: Mapping[str, Any] = {
    "id": 3, "cluster": "clicks", "action": "balance", "state": "running", "reason": "", "principal": "User:ann",
    "wall_ms": AT_MS, "changed_ms": AT_MS, "digest": "sha256:9f86", "rate_bytes": 10_000_000, "caps": dict(CAPS),
    "thin": False, "bytes": 1_000, "moves": 2, "states": {"copying": 1, "waiting": 1},
}  # fmt: skip
NEW_PLAN = shape(
    "NewPlan",
    {"cluster": CLUSTER_NAME, "plan": {**FREE, "description": "A plan, as `penstock guardian plan --json` makes it."}},
    {"action": PLAN["properties"]["action"], "rate_bytes": RATE, "caps": CAPS_SHAPE, "thin": flag("See the answer.")},
)
PLAN_CHANGE = shape(
    "PlanChange",
    {},
    {
        "state": choice("What it is to be.", ("approved", "paused", "running", "cancelled")),
        "rate_bytes": RATE,
        "caps": CAPS_SHAPE,
    },
)
PLANS = (
    Operation("GET", "All plans, the newest first", shape("Plans", {"plans": listed(PLAN)}), query=OF_ANY_CLUSTER,
              example={"plans": [PLAN_EXAMPLE]}),
    Operation("GET", "One plan", PLAN, named=True, example=PLAN_EXAMPLE),
    Operation("POST", "Submit a plan", PLAN, example=PLAN_EXAMPLE, body=NEW_PLAN, body_example={
        "cluster": "clicks", "rate_bytes": 10_000_000, "plan": {"version": 1, "partitions": [
            {"topic": "events", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]},
        ]},
    }),
    Operation("PATCH", "Approve, pause, continue, cancel or bound a plan", PLAN, named=True, example=PLAN_EXAMPLE,
              body=PLAN_CHANGE, body_example={"state": "approved"}),
)  # fmt: skip
MOVE_FIELDS: Fields = {
    "id": text("PLAN-NUMBER"),
    "plan": whole("Its plan."),
    "cluster": CLUSTER_NAME,
    "topic": text("The topic."),
    "partition": whole("The partition."),
    "state": text("How far it is."),
    "reason": text("Why; empty where the state says it all."),
    "changed_ms": WALL,
    "before": BROKERS_LIST,
    "replicas": BROKERS_LIST,
    "log_dirs": listed(text("A log directory, or `any`.")),
    "leader": whole("Who is to lead; -1 for anybody."),
    "bytes": BYTES,
    "parts": listed(FREE, "What the plan says of it."),
}
MOVE_EXAMPLE: Mapping[str, Any] = {
    "id": "3-1", "plan": 3, "cluster": "clicks", "topic": "events", "partition": 0, "state": "copying", "reason": "",
    "changed_ms": AT_MS, "before": [1, 2], "replicas": [1, 3], "log_dirs": ["any", "any"], "leader": -1,
    "bytes": 1_000, "parts": [],
}  # fmt: skip
STAGE = shape("Stage", {"state": text("A state."), "wall_ms": WALL, "reason": text("Why.")})
MOVES = (
    Operation(
        "GET", "The moves of plans", shape("Moves", {"moves": listed(shape("Move", MOVE_FIELDS)),
                                                     "more": flag("Whether there are more, after the last one.")}),
        query={**OF_ANY_CLUSTER, "plan": "Those of one plan.", "state": "Those in a state.",
               "after": "The id of the last one of the page before."},
        example={"moves": [MOVE_EXAMPLE], "more": False},
    ),
    Operation(
        "GET", "One move, explained in sentences", named=True,
        answer=shape("ToldMove", {**MOVE_FIELDS, "stages": listed(STAGE), "sentences": listed(text("A sentence."))}),
        example={**MOVE_EXAMPLE, "stages": [{"state": "copying", "wall_ms": AT_MS, "reason": ""}],
                 "sentences": ["It copies 1,000 bytes to broker 3."]},
    ),
)  # fmt: skip
LIMIT = shape(
    "Limit",
    {
        "cluster": CLUSTER_NAME,
        "config": text("The config."),
        "value": text("What it is set to."),
        "before": or_null(text("What was there before; null for nothing.")),
        "state": text("Whether it is in place."),
        "wall_ms": WALL,
    },
    {"broker": text("The broker whose config it is."), "topic": text("The topic whose config it is.")},
)
LIMITS = (
    Operation(
        "GET", "The throttles that Guardian has set", shape("Limits", {"limits": listed(LIMIT)}), query=OF_ANY_CLUSTER,
        example={"limits": [{
            "cluster": "clicks", "broker": "1", "config": "leader.replication.throttled.rate", "value": "10000000",
            "before": None, "state": "in place", "wall_ms": AT_MS,
        }]},
    ),
)  # fmt: skip
DECISION = shape(
    "Decision",
    {
        "id": whole("Its number."),
        "plan": whole("The plan that it is about."),
        "kind": text("What was decided."),
        "principal": text("By whom."),
        "wall_ms": WALL,
        "text": text("In a sentence."),
        "detail": FREE,
    },
)
DECISION_EXAMPLE = {
    "id": 9, "plan": 3, "kind": "submit", "principal": "User:ann", "wall_ms": AT_MS,
    "text": "User:ann submits plan 3 for clicks: 2 partitions move.", "detail": {"bytes": 1_000},
}  # fmt: skip
DECISIONS = (
    Operation("GET", "What was decided, the newest first", shape("Decisions", {"decisions": listed(DECISION)}),
              query={"plan": "About one plan."}, example={"decisions": [DECISION_EXAMPLE]}),
    Operation("GET", "One decision", DECISION, named=True, example=DECISION_EXAMPLE),
)  # fmt: skip

# Alarms

ALARM_FIELDS: Fields = {
    "id": or_null(text("Its id; null for a suspicion.", format="uuid")),
    "cluster": CLUSTER_NAME,
    "kind": choice("What is wrong.", KINDS),
    "broker": BROKER,
    "dir": or_null(text("The log directory; null for the broker itself.")),
    "state": choice("How sure it is, and what is done.", ALARM_STATES),
    "since_ms": WALL,
    "began_ms": WALL,
    "evidence": listed(text("A sentence.")),
    "reason": or_null(text("Why it is in this state.")),
    "remedy": text("What is or would be done."),
    "mode": choice("What Guardian may do by itself.", MODES),
    "heals": COUNT,
    "returns": whole("How often it came back."),
    "asked": flag("Whether a person has asked for it to be healed."),
    "acknowledged": or_null(text("By whom.")),
}
ALARM = shape("Alarm", ALARM_FIELDS)
ALARM_EXAMPLE: Mapping[str, Any] = {
    "id": "0b5ee3a4-5f0c-4d0f-9a3e-2d3f5a1c7e11", "cluster": "clicks", "kind": KINDS[0], "broker": 3, "dir": None,
    "state": ALARM_STATES[1], "since_ms": AT_MS, "began_ms": AT_MS, "evidence": ["Broker 3 is gone."], "reason": None,
    "remedy": "give its replicas to living brokers, as the plan of the alarm says", "mode": MODES[0], "heals": 0,
    "returns": 0, "asked": False, "acknowledged": None,
}  # fmt: skip
ALARMS = (
    Operation(
        "GET", "What is or was wrong with clusters, and what looks wrong", shape("Alarms", {"alarms": listed(ALARM)}),
        query={**OF_ANY_CLUSTER, "state": f"Those in a state: {', '.join(ALARM_STATES)}.",
               "kind": f"Those of a kind: {', '.join(KINDS)}."},
        example={"alarms": [ALARM_EXAMPLE]},
    ),
    Operation("GET", "One alarm, with the plan that would heal it", named=True,
              answer=shape("ToldAlarm", {**ALARM_FIELDS, "plan": {**FREE, "type": ["object", "null"]}}),
              example={**ALARM_EXAMPLE, "plan": None}),
    Operation("PATCH", "Acknowledge an alarm, or have it healed", ALARM, named=True, example=ALARM_EXAMPLE,
              body=shape("AlarmChange", {}, {"acknowledged": flag("Whether somebody knows."),
                                             "heal": flag("Whether it is to be healed.")}),
              body_example={"acknowledged": True}),
)  # fmt: skip
