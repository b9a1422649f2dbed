"""The records of plans, moves, limits and decisions: what each makes of the state, and the records of a state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType

from penstock.errors import StorageError
from penstock.guardian.core.limits import GUARDIAN_MOVES_IN_RECORD_MAX
from penstock.guardian.core.work.plans import DRAFT, WAITING, Decision, Limit, LimitKey, Move, Part, Plan, Stage, Work
from penstock.protocol.messages.guardian.guardian_decision_record import GuardianDecisionRecord
from penstock.protocol.messages.guardian.guardian_limit_record import GuardianLimitRecord
from penstock.protocol.messages.guardian.guardian_move_record import GuardianMoveRecord
from penstock.protocol.messages.guardian.guardian_plan_moves_record import (
    GuardianPlanMovesRecord,
    MovePart,
    PlannedMove,
)
from penstock.protocol.messages.guardian.guardian_plan_record import GuardianPlanRecord, PlanCap
from penstock.protocol.messages.guardian.guardian_plan_settings_record import (
    GuardianPlanSettingsRecord,
)
from penstock.protocol.messages.guardian.guardian_plan_settings_record import (
    PlanCap as SettingsCap,
)
from penstock.protocol.messages.guardian.guardian_plan_state_record import GuardianPlanStateRecord
from penstock.protocol.messages.guardian.guardian_remove_limit_record import GuardianRemoveLimitRecord

WorkRecord = (
    GuardianPlanRecord
    | GuardianPlanMovesRecord
    | GuardianPlanStateRecord
    | GuardianPlanSettingsRecord
    | GuardianMoveRecord
    | GuardianLimitRecord
    | GuardianRemoveLimitRecord
    | GuardianDecisionRecord
)


def replay_work(work: Work, record: WorkRecord) -> Work:
    """The state after a record. Raises StorageError for one that does not fit to it."""
    if isinstance(record, GuardianPlanRecord):
        return work.with_plan(plan_of(record))
    if isinstance(record, GuardianLimitRecord):
        return work.with_limit(limit_of(record))
    if isinstance(record, GuardianRemoveLimitRecord):
        return work.without_limit((record.cluster_id, record.kind, record.name, record.setting))
    if isinstance(record, GuardianDecisionRecord):
        return work.with_decision(decision_of(record))
    plan = work.plans.get(record.plan_id)
    if plan is None:
        raise StorageError(f"Guardian's log is damaged: {record.NAME} is about no plan that is known")
    if isinstance(record, GuardianPlanMovesRecord):
        first = len(plan.moves) + 1
        moves = (move_of(each, number, plan.wall_ms) for number, each in enumerate(record.moves, first))
        return work.with_plan(replace(plan, moves=(*plan.moves, *moves)))
    if isinstance(record, GuardianPlanStateRecord):
        return work.with_plan(replace(plan, state=record.state, reason=record.reason, changed_ms=record.wall_ms))
    if isinstance(record, GuardianPlanSettingsRecord):
        caps = MappingProxyType({each.name: each.value for each in record.caps})
        return work.with_plan(replace(plan, rate_bytes=record.rate_bytes, caps=caps))
    move = plan.move(record.move)
    if move is None:
        raise StorageError(f"Guardian's log is damaged: {record.NAME} is about no move of plan {plan.id}")
    return work.with_plan(plan.moved(move.at(Stage(record.state, record.wall_ms, record.reason))))


def records_of_work(work: Work) -> Iterator[WorkRecord]:
    """The records that make this state from nothing."""
    for plan in work.plans.values():
        yield plan_record(plan)
        yield from moves_records(plan)
        for move in plan.moves:
            begins = move.stages[0] == Stage(WAITING, plan.wall_ms)
            for stage in move.stages[begins:]:
                yield move_record(plan, move, stage)
        if plan.state != DRAFT:
            yield state_record(plan, plan.state, plan.reason, plan.changed_ms)
    for limit in work.limits.values():
        yield limit_record(limit)
    for decision in work.decisions.values():
        yield decision_record(decision)


def plan_of(record: GuardianPlanRecord) -> Plan:
    """The plan that a record begins; its moves follow."""
    return Plan(
        record.plan_id,
        record.cluster_id,
        record.action,
        record.principal,
        record.wall_ms,
        record.digest,
        rate_bytes=record.rate_bytes,
        caps=MappingProxyType({each.name: each.value for each in record.caps}),
        thin=record.thin,
        changed_ms=record.wall_ms,
    )


def plan_record(plan: Plan) -> GuardianPlanRecord:
    """The record that begins a plan."""
    return GuardianPlanRecord(
        plan_id=plan.id,
        cluster_id=plan.cluster,
        action=plan.action,
        principal=plan.principal,
        wall_ms=plan.wall_ms,
        digest=plan.digest,
        rate_bytes=plan.rate_bytes,
        caps=[PlanCap(name=name, value=value) for name, value in plan.caps.items()],
        thin=plan.thin,
    )


def move_of(planned: PlannedMove, number: int, wall_ms: int) -> Move:
    """A move that a record tells of, as it begins."""
    parts = tuple(
        Part(
            part.id,
            part.kind,
            part.from_broker,
            part.from_directory,
            part.to_broker,
            part.to_directory,
            part.size_bytes,
            part.why,
        )
        for part in planned.parts
    )
    return Move(
        number,
        planned.topic,
        planned.topic_id,
        planned.partition,
        planned.partitions,
        tuple(planned.before),
        tuple(planned.target),
        tuple(planned.directories),
        planned.leader,
        parts,
        (Stage(WAITING, wall_ms),),
    )


def planned(move: Move) -> PlannedMove:
    """A move as a record tells of it."""
    parts = [
        MovePart(
            id=part.id,
            kind=part.kind,
            from_broker=part.from_broker,
            from_directory=part.from_directory,
            to_broker=part.to_broker,
            to_directory=part.to_directory,
            size_bytes=part.size_bytes,
            why=part.why,
        )
        for part in move.parts
    ]
    return PlannedMove(
        topic=move.topic,
        topic_id=move.topic_id,
        partition=move.partition,
        partitions=move.partitions,
        before=list(move.before),
        target=list(move.target),
        directories=list(move.directories),
        leader=move.leader,
        parts=parts,
    )


def moves_records(plan: Plan) -> Iterator[GuardianPlanMovesRecord]:
    """The moves of a plan, some to a record."""
    for first in range(0, len(plan.moves), GUARDIAN_MOVES_IN_RECORD_MAX):
        some = plan.moves[first : first + GUARDIAN_MOVES_IN_RECORD_MAX]
        yield GuardianPlanMovesRecord(plan_id=plan.id, moves=[planned(each) for each in some])


def state_record(plan: Plan, state: str, reason: str, wall_ms: int) -> GuardianPlanStateRecord:
    """A plan's next state."""
    return GuardianPlanStateRecord(plan_id=plan.id, state=state, reason=reason, wall_ms=wall_ms)


def settings_record(plan: Plan) -> GuardianPlanSettingsRecord:
    """The rate and the caps of a plan."""
    caps = [SettingsCap(name=name, value=value) for name, value in plan.caps.items()]
    return GuardianPlanSettingsRecord(plan_id=plan.id, rate_bytes=plan.rate_bytes, caps=caps)


def move_record(plan: Plan, move: Move, stage: Stage) -> GuardianMoveRecord:
    """A move's next stage."""
    return GuardianMoveRecord(
        plan_id=plan.id, move=move.number, state=stage.state, reason=stage.reason, wall_ms=stage.wall_ms
    )


def limit_of(record: GuardianLimitRecord) -> Limit:
    """The limit that a record tells of."""
    return Limit(
        record.cluster_id,
        record.kind,
        record.name,
        record.setting,
        record.before,
        record.wanted,
        record.value,
        record.state,
        record.wall_ms,
    )


def limit_record(limit: Limit) -> GuardianLimitRecord:
    """A limit as a record tells of it."""
    return GuardianLimitRecord(
        cluster_id=limit.cluster,
        kind=limit.kind,
        name=limit.name,
        setting=limit.setting,
        before=limit.before,
        wanted=limit.wanted,
        value=limit.value,
        state=limit.state,
        wall_ms=limit.wall_ms,
    )


def removal_record(key: LimitKey) -> GuardianRemoveLimitRecord:
    """A limit is gone."""
    cluster, kind, name, setting = key
    return GuardianRemoveLimitRecord(cluster_id=cluster, kind=kind, name=name, setting=setting)


def decision_of(record: GuardianDecisionRecord) -> Decision:
    """The decision that a record tells of."""
    return Decision(
        record.decision_id,
        record.plan_id,
        record.kind,
        record.principal,
        record.wall_ms,
        record.text,
        record.detail,
    )


def decision_record(decision: Decision) -> GuardianDecisionRecord:
    """A decision as a record tells of it."""
    return GuardianDecisionRecord(
        decision_id=decision.id,
        plan_id=decision.plan,
        kind=decision.kind,
        principal=decision.principal,
        wall_ms=decision.wall_ms,
        text=decision.text,
        detail=decision.detail,
    )


def new_plan_records(plan: Plan, decision: Decision) -> Iterable[WorkRecord]:
    """All records of a plan that is new: its state is that of its checks."""
    yield plan_record(plan)
    yield from moves_records(plan)
    yield state_record(plan, plan.state, plan.reason, plan.changed_ms)
    yield decision_record(decision)
