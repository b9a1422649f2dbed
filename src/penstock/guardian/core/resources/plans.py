"""`/v1/plans`: plans for clusters, and how far they are.

| call | meaning |
|---|---|
| `GET /v1/plans` | all plans, the newest first; `?cluster=NAME` those of one |
| `GET /v1/plans/ID` | one of them |
| `POST /v1/plans` | submit one: `cluster`, `plan`, and perhaps `action`, `rate_bytes`, `caps`, `thin` |
| `PATCH /v1/plans/ID` | `state` (approved, paused, running, cancelled), `rate_bytes`, `caps` |

A plan is held against what the leader sees of its cluster, and refused with one fault. What becomes of it goes by the
cluster's mode for its kind of action: with `observe` it is kept, with `advise` it runs once approved, with `act` at
once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from types import MappingProxyType
from typing import Any
from uuid import UUID

from penstock.config.nearest import did_you_mean
from penstock.guardian.core.calls import (
    BAD_REQUEST,
    CONFLICT,
    CREATED,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    OK,
    UNAVAILABLE,
    Call,
    Decided,
    Known,
    Refused,
    Reply,
    Resource,
    body_of,
    text_of,
)
from penstock.guardian.core.limits import (
    GUARDIAN_LIVE_MOVES_MAX,
    GUARDIAN_PLAN_BODY_MAX_BYTES,
    GUARDIAN_PLANS_MAX,
    GUARDIAN_TEXT_MAX,
)
from penstock.guardian.core.resources import operations as described
from penstock.guardian.core.resources.clusters import cluster_named
from penstock.guardian.core.sight import IDENTITY, METADATA
from penstock.guardian.core.state import ACTIONS, OBSERVE, Cluster, Command, GuardianState
from penstock.guardian.core.work import checks
from penstock.guardian.core.work.plans import (
    APPROVED,
    CANCELLED,
    CANCELLING,
    CAPS,
    CHECKED,
    DRAFT,
    ENDED_MOVES,
    PAUSED,
    RUNNING,
    SUPERSEDED,
    Decision,
    Move,
    Plan,
    Stage,
    Work,
)
from penstock.guardian.core.work.replaying import (
    WorkRecord,
    decision_record,
    move_record,
    new_plan_records,
    settings_record,
    state_record,
)

FIELDS = ("cluster", "plan", "action", "rate_bytes", "caps", "thin")
CHANGES = ("state", "rate_bytes", "caps")
ASKED_STATES = (APPROVED, PAUSED, RUNNING, CANCELLED)
AUTO = "auto"
RATE_MAX = 2**40
CAP_MAX = 10_000


class Plans(Resource):
    """See the module's head."""

    path = "/v1/plans"
    operations = described.PLANS
    body_max_bytes = GUARDIAN_PLAN_BODY_MAX_BYTES

    def read(self, known: Known, call: Call, name: str) -> Reply:
        state = known.state
        if name:
            return Reply(OK, shown(state, plan_named(state.work, name)))
        query = call.query(("cluster",))
        cluster = cluster_named(state, query["cluster"]) if "cluster" in query else None
        found = [each for each in state.work.plans.values() if cluster is None or each.cluster == cluster.id]
        return Reply(OK, {"plans": [shown(state, each) for each in reversed(found)]})

    def decide(self, known: Known, call: Call, name: str, new_id: Callable[[], UUID]) -> Decided:
        if not name and call.method == "POST":
            return submitted(known, call)
        if not name or call.method != "PATCH":
            raise Refused(METHOD_NOT_ALLOWED, f"{call.place} takes no {call.method}")
        return changed(known, call, plan_named(known.state.work, name))

    def repeated(self, known: Known, call: Call, made: Command) -> Reply:
        plan = known.state.work.plans.get(int(made.subject))
        if plan is None:
            return Reply(OK, {"id": int(made.subject), "state": "forgotten"})
        return Reply(OK, shown(known.state, plan))


def plan_named(work: Work, name: str) -> Plan:
    """The plan with this id. Raises Refused."""
    plan = work.plans.get(int(name)) if name.isascii() and name.isdecimal() and len(name) < 19 else None
    if plan is None:
        raise Refused(NOT_FOUND, f"there is no plan {name[:GUARDIAN_TEXT_MAX]}; /v1/plans has those that there are")
    return plan


# Submitting


def submitted(known: Known, call: Call) -> Decided:
    """A plan is brought. Raises Refused."""
    body = body_of(call, FIELDS, GUARDIAN_PLAN_BODY_MAX_BYTES)
    state = known.state
    cluster = cluster_named(state, text_of(body, "cluster"))
    action = text_of(body, "action", "balance")
    if action not in ACTIONS:
        raise Refused(
            BAD_REQUEST, f"action: {action} must be one of {', '.join(ACTIONS)}{did_you_mean(action, ACTIONS)}"
        )
    thin = body.get("thin", False)
    if not isinstance(thin, bool):
        raise Refused(BAD_REQUEST, "thin must be true or false")
    document = body.get("plan")
    moves = checked_moves(known, cluster, document)
    check_seen_since(known, cluster, moves)
    check_room(state.work, cluster, moves)
    plan = Plan(
        state.work.next_plan,
        cluster.id,
        action,
        call.principal,
        known.wall_ms,
        digest_of(document),
        rate_of(body.get("rate_bytes", 0)),
        caps_of(body.get("caps", {}), CAPS),
        thin,
        CHECKED,
        "",
        known.wall_ms,
        moves,
    )
    text = f"{call.principal} submits plan {plan.id} for {cluster.name}: {len(moves)} partitions move."
    decision = Decision(
        state.work.next_decision, plan.id, "submit", call.principal, known.wall_ms, text, detail_of(document, plan)
    )
    superseded = [
        state_record(each, SUPERSEDED, f"plan {plan.id} has taken its place", known.wall_ms)
        for each in state.work.plans.values()
        if each.cluster == cluster.id and each.state in (DRAFT, CHECKED)
    ]
    records: list[WorkRecord] = [*superseded, *new_plan_records(plan, decision)]
    return Decided(records, str(plan.id), Reply(CREATED, shown(state, plan)))


def checked_moves(known: Known, cluster: Cluster, document: Any) -> tuple[Move, ...]:
    """The moves of a plan that fits its cluster. Raises Refused."""
    seen = known.sight.clusters.get(cluster.id)
    if seen is None or not seen.topics:
        why = next(iter(seen.failures.values()), "") if seen is not None else ""
        said = f"cluster {cluster.name} has not been looked at yet: ask again soon"
        raise Refused(UNAVAILABLE, f"{said} ({why})" if why else said)
    if seen.twice:
        raise Refused(CONFLICT, f"nothing is planned for {cluster.name}: {seen.failures[IDENTITY]}")
    try:
        return checks.moves_of(document, seen, known.wall_ms)
    except checks.Unfit as unfit:
        raise Refused(BAD_REQUEST if unfit.malformed else CONFLICT, str(unfit)) from None


def check_seen_since(known: Known, cluster: Cluster, moves: tuple[Move, ...]) -> None:
    """Whether partitions that other plans have moved have been seen since: the plan would wait for ever for them to be
    where they were. Raises Refused.
    """
    seen_ms = known.sight.clusters[cluster.id].seen_ms.get(METADATA, known.wall_ms)
    moved = {
        move.key
        for plan in known.state.work.plans.values()
        if plan.cluster == cluster.id and (not plan.ended or plan.changed_ms > seen_ms)
        for move in plan.moves
        if move.ended and seen_ms < move.stages[-1].wall_ms <= known.wall_ms
    }
    for move in moves:
        if move.key in moved:
            raise Refused(UNAVAILABLE, f"{move.name} has been moved, and has not been seen since: ask again soon")


def check_room(work: Work, cluster: Cluster, moves: tuple[Move, ...]) -> None:
    """Whether there is room for a plan, and none that moves the same. Raises Refused."""
    live = [each for each in work.plans.values() if not each.ended]
    if len(live) >= GUARDIAN_PLANS_MAX:
        raise Refused(CONFLICT, f"{GUARDIAN_PLANS_MAX} plans have not ended: cancel one first")
    if sum(len(each.moves) for each in live) + len(moves) > GUARDIAN_LIVE_MOVES_MAX:
        raise Refused(CONFLICT, f"plans would have more than {GUARDIAN_LIVE_MOVES_MAX} moves that have not ended")
    moving = {
        move.key: plan.id
        for plan in live
        if plan.cluster == cluster.id and plan.worked
        for move in plan.moves
        if not move.ended
    }
    for move in moves:
        if move.key in moving:
            raise Refused(CONFLICT, f"{move.name} is in plan {moving[move.key]}, which has not ended: cancel it first")


def digest_of(document: Any) -> str:
    found = document.get("digest", "") if isinstance(document, dict) else ""
    return found[:GUARDIAN_TEXT_MAX] if isinstance(found, str) and found.isascii() else ""


def detail_of(document: Any, plan: Plan) -> str:
    """What of a plan's figures is kept with the decision: the effect that it predicts, and what it was made from."""
    found: dict[str, Any] = {"digest": plan.digest, "bytes": sum(each.size_bytes for each in plan.moves)}
    if isinstance(document.get("seed"), int):
        found["seed"] = document["seed"]
    for when in ("before", "after"):
        figures = document.get(when)
        if isinstance(figures, dict) and is_figure(figures.get("score")):
            found[f"score_{when}"] = figures["score"]
    return json.dumps(found)


def is_figure(value: Any) -> bool:
    """Whether it is a number that JSON can say: 1e999 is read as one that it cannot."""
    return isinstance(value, int) or (isinstance(value, float) and isfinite(value))


def rate_of(value: Any) -> int:
    """A rate of a body: bytes a second, 0 for none, "auto" for what does not hurt others. Raises Refused."""
    if value == AUTO:
        return -1
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= RATE_MAX:
        raise Refused(BAD_REQUEST, f'rate_bytes must be bytes a second, 0 for no bound, or "{AUTO}"')
    return value


def caps_of(value: Any, present: Mapping[str, int]) -> Mapping[str, int]:
    """The caps of a body, and those that it leaves as they are. Raises Refused."""
    if not isinstance(value, dict):
        raise Refused(BAD_REQUEST, f"caps must be an object: numbers of moves for {', '.join(CAPS)}")
    for name, number in value.items():
        if name not in CAPS:
            raise Refused(BAD_REQUEST, f"caps: there is no {name[:GUARDIAN_TEXT_MAX]}{did_you_mean(name, list(CAPS))}")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= CAP_MAX:
            raise Refused(BAD_REQUEST, f"caps: {name} must be a number from 1 to {CAP_MAX}")
    return MappingProxyType({**present, **value})


# Changing


def changed(known: Known, call: Call, plan: Plan) -> Decided:
    """A plan is approved, paused, goes on, is cancelled, or gets other bounds. Raises Refused."""
    body = body_of(call, CHANGES)
    if not body:
        raise Refused(BAD_REQUEST, f"nothing would change: give one of {', '.join(CHANGES)}")
    if plan.ended:
        raise Refused(CONFLICT, f"plan {plan.id} has ended: it is {plan.state}")
    records: list[WorkRecord] = []
    after, number = plan, known.state.work.next_decision
    if "rate_bytes" in body or "caps" in body:
        rate = rate_of(body["rate_bytes"]) if "rate_bytes" in body else plan.rate_bytes
        after = replace(plan, rate_bytes=rate, caps=caps_of(body.get("caps", {}), plan.caps))
        records.append(settings_record(after))
        text = f"{call.principal} bounds plan {plan.id}: rate {rate_text(rate)}, caps {json.dumps(dict(after.caps))}."
        records.append(decision_record(Decision(number, plan.id, "bound", call.principal, known.wall_ms, text)))
        number += 1
    if "state" in body:
        state = next_state(known.state, plan, text_of(body, "state"))
        reason = f"by {call.principal}"
        if state != plan.state:
            if state == CANCELLED:
                ended = Stage(CANCELLED, known.wall_ms, "the plan was cancelled")
                records += [move_record(plan, each, ended) for each in plan.moves if each.state not in ENDED_MOVES]
                after = replace(after, moves=tuple(each.at(ended) for each in plan.moves))
            records.append(state_record(plan, state, reason, known.wall_ms))
            after = replace(after, state=state, reason=reason, changed_ms=known.wall_ms)
            text = f"{call.principal} has plan {plan.id} {state}."
            records.append(decision_record(Decision(number, plan.id, state, call.principal, known.wall_ms, text)))
    return Decided(records, str(plan.id), Reply(OK, shown(known.state, after)))


def next_state(state: GuardianState, plan: Plan, asked: str) -> str:
    """The state that a plan comes to when one is asked for. Raises Refused."""
    if asked not in ASKED_STATES:
        raise Refused(
            BAD_REQUEST, f"state: {asked} must be one of {', '.join(ASKED_STATES)}{did_you_mean(asked, ASKED_STATES)}"
        )
    if asked == CANCELLED:
        return CANCELLED if plan.state in (DRAFT, CHECKED) else CANCELLING
    if plan.state == CANCELLING:
        raise Refused(CONFLICT, f"plan {plan.id} is being cancelled")
    if asked == APPROVED:
        if plan.state != CHECKED:
            return plan.state
        cluster = state.clusters[plan.cluster]
        if cluster.mode(plan.action) == OBSERVE:
            way = f"`penstock guardian clusters set-mode {cluster.name} {plan.action}=advise`"
            raise Refused(CONFLICT, f"the mode of {plan.action} in {cluster.name} is {OBSERVE}, so nothing runs: {way}")
        return APPROVED
    if plan.state not in (APPROVED, RUNNING, PAUSED):
        raise Refused(CONFLICT, f"plan {plan.id} is {plan.state}: it must be approved first")
    return asked


# Telling


def rate_text(rate_bytes: int) -> str:
    return AUTO if rate_bytes < 0 else "unbounded" if not rate_bytes else f"{rate_bytes:,} bytes/s"


def shown(state: GuardianState, plan: Plan) -> dict[str, Any]:
    """A plan as answers have it, without its moves."""
    cluster = state.clusters.get(plan.cluster)
    counts = Counter(each.state for each in plan.moves)
    return {
        "id": plan.id,
        "cluster": cluster.name if cluster is not None else "",
        "action": plan.action,
        "state": plan.state,
        "reason": plan.reason,
        "principal": plan.principal,
        "wall_ms": plan.wall_ms,
        "changed_ms": plan.changed_ms,
        "digest": plan.digest,
        "rate_bytes": AUTO if plan.rate_bytes < 0 else plan.rate_bytes,
        "caps": dict(plan.caps),
        "thin": plan.thin,
        "bytes": sum(each.size_bytes for each in plan.moves),
        "moves": len(plan.moves),
        "states": dict(sorted(counts.items())),
    }
