"""The log's records: what a newer version has written, or damage, stops a node with a line that says so."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.errors import StorageError
from penstock.guardian.core.records import FEATURE_LEVEL, decode_records, encode_records
from penstock.guardian.core.state import EMPTY, replay, snapshot_records
from penstock.guardian.core.work import plans
from penstock.protocol.messages.guardian.guardian_decision_record import GuardianDecisionRecord
from penstock.protocol.messages.guardian.guardian_level_record import GuardianLevelRecord
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.guardian.guardian_move_record import GuardianMoveRecord
from penstock.protocol.messages.guardian.guardian_plan_moves_record import GuardianPlanMovesRecord, PlannedMove
from penstock.protocol.messages.guardian.guardian_plan_record import GuardianPlanRecord
from penstock.protocol.messages.guardian.guardian_plan_settings_record import GuardianPlanSettingsRecord
from penstock.protocol.messages.guardian.guardian_plan_state_record import GuardianPlanStateRecord
from penstock.protocol.messages.guardian.guardian_remove_cluster_record import GuardianRemoveClusterRecord


def test_a_higher_feature_level_is_not_followed() -> None:
    assert replay(EMPTY, [GuardianLevelRecord(feature_level=FEATURE_LEVEL)]).feature_level == FEATURE_LEVEL
    with pytest.raises(
        StorageError, match=f"feature level {FEATURE_LEVEL + 1}, this version knows {FEATURE_LEVEL}: upgrade this node"
    ):
        replay(EMPTY, [GuardianLevelRecord(feature_level=FEATURE_LEVEL + 1)])


def test_an_unknown_record_is_not_skipped() -> None:
    (value,) = encode_records([GuardianLevelRecord(feature_level=1)])
    unknown = value[:1] + b"\x63" + value[2:]
    with pytest.raises(StorageError, match="a newer Penstock has written it; upgrade this node"):
        decode_records([unknown])


def test_broken_bytes_are_named_with_their_file() -> None:
    (value,) = encode_records([GuardianLevelRecord(feature_level=1)])
    for broken in (value[:-1], value + b"\0", b""):
        with pytest.raises(StorageError, match=r"^the file: "):
            decode_records([broken], "the file")


@pytest.mark.parametrize("record", [GuardianRemoveClusterRecord, GuardianModeRecord])
def test_a_record_about_no_cluster_is_damage(record: type) -> None:
    with pytest.raises(StorageError, match="about no cluster"):
        replay(EMPTY, [record(cluster_id=UUID(int=7))])


@pytest.mark.parametrize("record", [GuardianPlanStateRecord, GuardianPlanSettingsRecord, GuardianPlanMovesRecord])
def test_a_record_about_no_plan_is_damage(record: type) -> None:
    with pytest.raises(StorageError, match="about no plan that is known"):
        replay(EMPTY, [record(plan_id=7)])


def test_a_record_about_no_move_is_damage() -> None:
    with pytest.raises(StorageError, match="about no move of plan 7"):
        replay(EMPTY, [GuardianPlanRecord(plan_id=7), GuardianMoveRecord(plan_id=7, move=1, state="waiting")])


def test_plans_that_have_ended_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "GUARDIAN_FINISHED_PLANS_MAX", 2)
    monkeypatch.setattr(plans, "GUARDIAN_DECISIONS_MAX", 3)
    state = EMPTY
    for number in range(1, 8):
        new = [GuardianPlanRecord(plan_id=number), GuardianPlanMovesRecord(plan_id=number, moves=[PlannedMove()] * 3)]
        state = replay(state, [*new, GuardianDecisionRecord(decision_id=number, plan_id=number)])
        if number != 3:
            state = replay(state, [GuardianPlanStateRecord(plan_id=number, state="done")])
    assert list(state.work.plans) == [3, 5, 6, 7], "the newest is kept, and so is what has not ended"
    assert list(state.work.decisions) == [5, 6, 7]
    assert (state.work.next_plan, state.work.next_decision) == (8, 8)
    assert replay(EMPTY, list(snapshot_records(state))).work == state.work
    monkeypatch.setattr(plans, "GUARDIAN_FINISHED_MOVES_MAX", 2)
    state = replay(state, [GuardianPlanStateRecord(plan_id=7, state="done")])
    assert list(state.work.plans) == [3, 7]
