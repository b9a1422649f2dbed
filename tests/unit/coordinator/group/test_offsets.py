"""Offsets: who may commit them, what is kept and shown, and when they are gone."""

from __future__ import annotations

from uuid import UUID

import pytest
from unit.coordinator.world import REBALANCE_MS, SESSION_MS, World

from penstock.coordinator.group import maintenance, records
from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.limits import EXPIRY_OFFSETS_PER_STEP
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import ErrorCode
from penstock.protocol.messages.group.legacy_offset_commit_key import LegacyOffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue

MINUTE_MS = 60_000
WEEK_MS = 7 * 24 * 60 * MINUTE_MS
CHECK_MS = 10 * MINUTE_MS
T0 = ("t", 0)
A, B = UUID(int=1), UUID(int=2)

# Who may commit


def test_a_member_commits_in_its_generation() -> None:
    world = World()
    (only,) = world.stable()
    answer = world.commit_offsets({T0: 5, ("u", 3): 7}, member_id=only.member_id, generation_id=1)
    assert [topic.name for topic in answer.value.topics] == ["t", "u"]
    assert world.offsets() == {T0: 5, ("u", 3): 7}


def test_a_consumer_without_a_group_commits_to_one_that_does_not_exist() -> None:
    world = World()
    assert world.commit_offsets({T0: 5}).value.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert world.offsets() == {T0: 5}
    (listed,) = world.list_groups()
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")


def test_a_tool_commits_to_an_empty_group_only() -> None:
    world = World()
    (only,) = world.stable()
    assert world.commit_offsets({T0: 1}).code is ErrorCode.UNKNOWN_MEMBER_ID
    world.leave(only.member_id)
    assert world.commit_offsets({T0: 1}).code is ErrorCode.NONE
    assert world.offsets() == {T0: 1}


def test_nobody_commits_in_a_generation_of_a_group_that_does_not_exist() -> None:
    world = World()
    assert world.commit_offsets({T0: 1}, generation_id=3, version=8).code is ErrorCode.ILLEGAL_GENERATION
    assert world.commit_offsets({T0: 1}, generation_id=3, version=9).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.offsets() == {}


def test_unknown_members_and_wrong_generations_commit_nothing() -> None:
    world = World()
    (only,) = world.stable()
    commits = [
        world.commit_offsets({T0: 1}, member_id="nobody", generation_id=1),
        world.commit_offsets({T0: 1}, member_id=only.member_id, generation_id=2),
        world.commit_offsets({T0: 1}, member_id=only.member_id, generation_id=-1),
        world.commit_offsets({T0: 1}, member_id=only.member_id, generation_id=1, instance_id="i"),
    ]
    assert [each.code for each in commits] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert world.offsets() == {}


def test_a_member_may_commit_while_it_is_to_join_again_and_not_before_it_has_synced() -> None:
    world = World()
    first, second = world.stable(2)
    world.join(member_id=first.member_id)
    assert world.commit_offsets({T0: 1}, member_id=second.member_id, generation_id=1).code is ErrorCode.NONE
    world.join(member_id=second.member_id)
    early = world.commit_offsets({T0: 2}, member_id=second.member_id, generation_id=2)
    assert early.code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_counts_as_a_heartbeat() -> None:
    world = World()
    (only,) = world.stable()
    for _ in range(3):
        world.advance(SESSION_MS - 1)
        world.commit_offsets({T0: 1}, member_id=only.member_id, generation_id=1)
    assert world.heartbeat(only.member_id).code is ErrorCode.NONE


def test_a_group_that_committed_without_members_may_have_some_later() -> None:
    world = World()
    world.commit_offsets({T0: 5})
    (only,) = world.stable()
    assert only.generation_id == 1
    assert world.offsets() == {T0: 5}


# What is kept


def test_text_that_is_too_long_refuses_its_partition_alone() -> None:
    world = World(offset_metadata_max_bytes=10)
    assert world.commit_offsets({T0: 1}, metadata="x" * 10).value.topics[0].partitions[0].error_code == 0
    refused = world.commit_offsets({T0: 2}, metadata="x" * 11).value
    assert refused.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    (partition,) = world.fetch_offsets({"t": [0]}).value.topics[0].partitions
    assert (partition.committed_offset, partition.metadata) == (1, "x" * 10)


@pytest.mark.parametrize(("text", "fits"), [("\N{GRINNING FACE}" * 5, True), ("\N{GRINNING FACE}" * 5 + "x", False)])
def test_text_is_counted_as_java_does(text: str, fits: bool) -> None:
    world = World(offset_metadata_max_bytes=10)
    code = world.commit_offsets({T0: 1}, metadata=text).value.topics[0].partitions[0].error_code
    assert code == (ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE)


def test_no_text_is_an_empty_one() -> None:
    world = World()
    world.commit_offsets({T0: 1}, metadata=None)
    assert world.fetch_offsets({"t": [0]}).value.topics[0].partitions[0].metadata == ""


def test_offsets_are_shown_when_they_are_committed() -> None:
    world = World()
    world.commit_offsets({T0: 1})
    world.commits = False
    world.commit_offsets({T0: 2})
    assert world.offsets() == {T0: 1}
    stable = world.fetch_offsets({"t": [0]}, require_stable=True)
    assert not stable.done
    world.commit()
    assert stable.value.topics[0].partitions[0].committed_offset == 2
    assert world.offsets() == {T0: 2}


def test_offsets_that_are_refused_are_forgotten() -> None:
    world = World()
    world.commit_offsets({T0: 1})
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.commit_offsets({T0: 2, ("u", 0): 1}).code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.commit_offsets({T0: 2}, group="new").code is ErrorCode.NOT_ENOUGH_REPLICAS
    world.log.refuses = None
    assert world.offsets() == {T0: 1}
    assert [each.group_id for each in world.list_groups()] == ["g"]


def test_where_nothing_is_committed_the_offset_is_minus_one() -> None:
    world = World()
    world.commit_offsets({T0: 1})
    for group, wanted in (("g", {"t": [1], "u": [0]}), ("none", {"t": [0]})):
        for topic in world.fetch_offsets(wanted, group=group).value.topics:
            (partition,) = topic.partitions
            assert (partition.committed_offset, partition.error_code, partition.metadata) == (-1, 0, "")
    assert world.fetch_offsets(group="none").value.topics == []


def test_a_topic_that_was_made_again_has_no_offsets_yet() -> None:
    world = World()
    world.commit_offsets({T0: 5}, topic_id=A, version=10)

    def offset(topic_id: UUID) -> int:
        (topic,) = world.fetch_offsets({"t": [0]}, topic_id=topic_id).value.topics
        assert topic.topic_id == topic_id
        return topic.partitions[0].committed_offset

    assert (offset(A), offset(B), offset(UUID(int=0))) == (5, -1, 5)
    world.commit_offsets({T0: 6}, group="g", topic_id=UUID(int=0))
    assert offset(B) == 6


# Records


def test_records_have_the_versions_that_kafka_writes() -> None:
    world = World()
    (only,) = world.stable()
    world.commit_offsets({T0: 5}, member_id=only.member_id, generation_id=1, topic_id=A, metadata="m")
    world.commit_offsets({T0: 6}, member_id=only.member_id, generation_id=1, retention_ms=1_000, version=4)
    versions = [(type(key).__name__, version) for key, _, version in world.written()]
    assert versions == [
        ("GroupMetadataKey", 3),
        ("GroupMetadataKey", 3),
        ("OffsetCommitKey", 4),
        ("OffsetCommitKey", 1),
    ]
    values = [value for _, value, _ in world.written()]
    assert isinstance(values[2], OffsetCommitValue)
    assert isinstance(values[3], OffsetCommitValue)
    assert (values[2].topic_id, values[2].commit_timestamp, values[2].metadata) == (A, world.now_ms, "m")
    assert values[3].expire_timestamp == world.now_ms + 1_000


def test_keys_of_very_old_brokers_are_read() -> None:
    world = World()
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    world.machine.replay(CoordinatorRecord(key, OffsetCommitValue(offset=3), 0), 0, (-1, -1))
    assert world.state.offsets.committed.get("g", "t", 0) == CommittedOffset(3, commit_timestamp_ms=0, record_offset=0)


# Transactions


def pending(world: World, offset: int, record_offset: int, producer_id: int = 7) -> None:
    """An offset that is committed in a transaction."""
    record = records.offset_commit("g", "t", 0, CommittedOffset(offset))
    world.machine.replay(record, record_offset, (producer_id, 0))


def test_offsets_of_a_transaction_count_when_it_has_committed() -> None:
    world = World()
    pending(world, 5, 10)
    assert world.offsets() == {}
    world.machine.replay_end_marker((7, 0), True, 11)
    assert world.state.offsets.committed.get("g", "t", 0) is not None
    assert not world.state.offsets.pending.has_group("g")


def test_offsets_of_a_transaction_that_is_aborted_never_counted() -> None:
    world = World()
    world.commit_offsets({T0: 1})
    pending(world, 5, 10)
    world.machine.replay_end_marker((7, 0), False, 11)
    world.machine.replay_end_marker((8, 0), True, 12)
    assert world.offsets() == {T0: 1}


def test_what_a_transaction_may_change_is_unstable() -> None:
    world = World()
    world.commit_offsets({T0: 1, ("t", 1): 2})
    pending(world, 5, 10)
    found = world.fetch_offsets({"t": [0, 1]}, require_stable=True).value.topics[0].partitions
    assert [each.error_code for each in found] == [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NONE]
    assert [each.committed_offset for each in found] == [-1, 2]
    all_found = world.fetch_offsets(require_stable=True).value.topics[0].partitions
    assert [each.error_code for each in all_found] == [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NONE]
    assert world.offsets() == {T0: 1, ("t", 1): 2}


def test_of_a_transaction_and_a_plain_commit_the_later_record_wins() -> None:
    world = World()
    pending(world, 5, 0)
    world.commit_offsets({T0: 9})
    world.commit_offsets({T0: 9})
    world.machine.replay_end_marker((7, 0), True, 20)
    assert world.state.offsets.committed.get("g", "t", 0).offset == 9  # type: ignore[union-attr]


def test_a_deleted_offset_is_deleted_in_transactions_too() -> None:
    world = World()
    pending(world, 5, 10)
    assert world.delete_offsets({"t": [0]}).code is ErrorCode.NONE
    world.machine.replay_end_marker((7, 0), True, 20)
    assert world.offsets() == {}


# Deletion


def test_offsets_are_deleted_one_by_one() -> None:
    world = World()
    world.commit_offsets({T0: 1, ("t", 1): 2, ("u", 0): 3})
    answer = world.delete_offsets({"t": [1, 7], "none": [0]}).value
    assert all(not each.error_code for topic in answer.topics for each in topic.partitions)
    assert world.offsets() == {T0: 1, ("u", 0): 3}
    world.fail_over()
    assert world.offsets() == {T0: 1, ("u", 0): 3}


def test_offsets_of_topics_that_the_members_subscribe_to_are_not_deleted() -> None:
    world = World()
    (only,) = world.stable(topics=("t",))
    world.commit_offsets({T0: 1, ("u", 0): 3}, member_id=only.member_id, generation_id=1)
    answer = world.delete_offsets({"t": [0], "u": [0]}).value
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "u": ErrorCode.NONE}
    assert world.offsets() == {T0: 1}


def test_offsets_of_members_whose_topics_nobody_knows_are_not_deleted() -> None:
    world = World()
    world.stable(protocol_type="connect")
    assert world.delete_offsets({"t": [0]}).code is ErrorCode.NON_EMPTY_GROUP
    assert world.delete_offsets({"t": [0]}, group="none").code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_with_its_offsets() -> None:
    world = World()
    world.commit_offsets({T0: 1, ("u", 0): 3}, group="a")
    world.stable(group="b")
    codes = {each.group_id: each.error_code for each in world.delete_groups("a", "b", "none", "a").value}
    assert codes == {"a": ErrorCode.NONE, "b": ErrorCode.NON_EMPTY_GROUP, "none": ErrorCode.GROUP_ID_NOT_FOUND}
    for _ in range(2):
        assert [each.group_id for each in world.list_groups()] == ["b"]
        assert world.offsets(group="a") == {}
        world.fail_over()


def test_a_group_with_more_offsets_than_fit_into_a_batch_is_deleted() -> None:
    world = World()
    for first in range(0, 1_000, 100):
        world.commit_offsets({("t", partition): 1 for partition in range(first, first + 100)})
    world.log.max_batch_bytes = 10_000
    assert world.delete_groups("g").value[0].error_code == ErrorCode.NONE
    world.fail_over()
    assert world.list_groups() == []
    assert world.offsets() == {}


def test_a_group_with_a_transaction_is_deleted_with_what_waits_in_it() -> None:
    world = World()
    pending(world, 5, 10)
    assert world.delete_groups("g").value[0].error_code == ErrorCode.NONE
    world.machine.replay_end_marker((7, 0), True, 20)
    assert world.offsets() == {}


# Expiry


def test_offsets_of_an_empty_group_expire_some_time_after_it_has_become_so() -> None:
    world = World()
    (only,) = world.stable(session_ms=1_800_000)
    world.commit_offsets({T0: 1}, member_id=only.member_id, generation_id=1)
    for _ in range(9 * 24 * 3):
        world.advance(20 * MINUTE_MS)
        world.heartbeat(only.member_id)
    world.leave(only.member_id)
    world.advance(WEEK_MS - 1)
    assert world.offsets() == {T0: 1}
    world.advance(CHECK_MS)
    assert world.offsets() == {}
    assert world.list_groups() == []


def test_offsets_of_a_group_without_members_expire_some_time_after_their_commit() -> None:
    world = World()
    world.commit_offsets({T0: 1})
    world.advance(WEEK_MS // 2)
    world.commit_offsets({("u", 0): 2})
    world.advance(WEEK_MS // 2 + CHECK_MS)
    assert world.offsets() == {("u", 0): 2}
    world.advance(WEEK_MS // 2)
    assert world.list_groups() == []


def test_a_stable_group_keeps_the_offsets_of_the_topics_that_it_subscribes_to() -> None:
    world = World(offsets_retention_minutes=1)
    (only,) = world.stable(session_ms=1_800_000)
    world.commit_offsets({T0: 1, ("old", 0): 2}, member_id=only.member_id, generation_id=1)
    world.advance(CHECK_MS)
    assert world.offsets() == {T0: 1}


def test_a_group_that_rebalances_or_does_not_consume_keeps_all() -> None:
    world = World(offsets_retention_minutes=1)
    (connect,) = world.stable(group="c", protocol_type="connect", session_ms=1_800_000)
    world.commit_offsets({T0: 1}, group="c", member_id=connect.member_id, generation_id=1)
    first, second = world.stable(2, session_ms=1_800_000, rebalance_ms=1_800_000)
    world.commit_offsets({("old", 0): 2}, member_id=second.member_id, generation_id=1)
    world.join(member_id=first.member_id, session_ms=1_800_000, rebalance_ms=1_800_000)
    world.advance(CHECK_MS)
    assert world.offsets(group="c") == {T0: 1}
    assert world.offsets() == {("old", 0): 2}


def test_a_client_may_say_when_its_offsets_expire() -> None:
    world = World()
    world.commit_offsets({T0: 1}, retention_ms=CHECK_MS, version=2)
    world.commit_offsets({("u", 0): 1}, retention_ms=2 * WEEK_MS, version=2)
    world.advance(CHECK_MS)
    assert world.offsets() == {("u", 0): 1}
    world.advance(WEEK_MS)
    assert world.offsets() == {("u", 0): 1}


def test_what_has_expired_is_looked_at_in_steps() -> None:
    world = World(offsets_retention_minutes=1)
    groups = [f"g{index}" for index in range(20)]
    for group in groups:
        world.commit_offsets({("t", partition): 1 for partition in range(100)}, group=group)
    world.advance(CHECK_MS)
    left = [group for group in groups if world.offsets(group=group)]
    assert 0 < len(left) < len(groups)
    world.commit_offsets({T0: 1}, group=left[0])
    world.advance(10)
    assert [group.group_id for group in world.list_groups()] == [left[0]]


def test_an_offset_that_a_transaction_changes_does_not_expire() -> None:
    world = World(offsets_retention_minutes=1)
    world.commit_offsets({T0: 1})
    pending(world, 5, 10)
    world.advance(CHECK_MS)
    assert world.offsets() == {T0: 1}


def test_the_look_at_what_has_expired_goes_on_after_a_failover_and_a_refusal() -> None:
    world = World(offsets_retention_minutes=1)
    world.commit_offsets({T0: 1})
    world.fail_over()
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(CHECK_MS)
    assert world.offsets() == {T0: 1}
    world.log.refuses = None
    world.advance(CHECK_MS)
    assert world.offsets() == {}


def test_an_empty_group_without_offsets_is_removed() -> None:
    world = World()
    (only,) = world.stable()
    world.leave(only.member_id)
    world.advance(CHECK_MS)
    assert world.list_groups() == []
    world.fail_over()
    assert world.list_groups() == []


def test_offsets_of_a_deleted_topic_are_removed_and_those_of_its_namesake_stay() -> None:
    world = World()
    world.commit_offsets({T0: 1, ("u", 0): 2}, topic_id=A)
    world.commit_offsets({T0: 3}, group="later", topic_id=B)
    world.commit_offsets({T0: 4}, group="old")
    world.write(lambda state: maintenance.delete_topics(state, [("t", A)], world.now_ms), None)
    assert world.offsets() == {("u", 0): 2}
    assert world.offsets(group="later") == {T0: 3}
    assert world.offsets(group="old") == {}


def test_offsets_of_a_deleted_topic_are_removed_some_at_a_time() -> None:
    world = World()
    world.commit_offsets({("t", partition): 1 for partition in range(2 * EXPIRY_OFFSETS_PER_STEP + 1)}, topic_id=A)
    left = []
    for _ in range(3):
        answer = world.write(lambda state: maintenance.delete_topics(state, [("t", A)], world.now_ms), None)
        left.append((answer.value, len(world.offsets())))
    assert left == [(True, EXPIRY_OFFSETS_PER_STEP + 1), (True, 1), (False, 0)]


# Listing


def test_groups_are_listed_by_state_and_type_whatever_the_case() -> None:
    world = World()
    world.commit_offsets({T0: 1}, group="empty")
    world.stable(group="stable")
    world.stable(group="joining")
    world.join_new("joining")

    def listed(**filters: list[str]) -> list[str]:
        return [each.group_id for each in world.list_groups(**filters)]

    assert listed() == ["empty", "stable", "joining"]
    assert listed(states=["sTaBlE"]) == ["stable"]
    assert listed(states=["Empty", "PreparingRebalance"]) == ["empty", "joining"]
    assert listed(states=["unknown"]) == []
    assert listed(types=["Classic"]) == ["empty", "stable", "joining"]
    assert listed(types=["consumer"]) == []
    assert {each.group_type for each in world.list_groups()} == {"classic"}


def test_a_group_that_does_not_exist_is_dead_and_from_version_6_an_error() -> None:
    world = World()
    assert world.describe("none", version=5).group_state == "Dead"
    assert world.describe("none", version=5).error_code == ErrorCode.NONE
    described = world.describe("none", version=6)
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == "Group none not found."


def test_the_metadata_of_members_is_shown_of_a_stable_group_only() -> None:
    world = World()
    (only,) = world.stable(rebalance_ms=REBALANCE_MS)
    stable = world.describe()
    assert stable.protocol_data == "range"
    assert stable.members[0].member_metadata != b""
    assert stable.members[0].member_assignment == only.member_id.encode()
    world.join_new()
    preparing = world.describe()
    assert preparing.protocol_data == ""
    assert preparing.members[0].member_metadata == b""
