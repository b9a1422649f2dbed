"""Offsets in transactions: who may commit them, when they count, and what becomes of those that are pending."""

from __future__ import annotations

import pytest
from unit.coordinator.consumers import ConsumerWorld
from unit.coordinator.world import Answer, World

from penstock.errors import ErrorCode
from penstock.metadata.timeline import TimelineMap
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue
from penstock.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from penstock.records.batch import read_header

MINUTE_MS = 60_000
WEEK_MS = 7 * 24 * 60 * MINUTE_MS
CHECK_MS = 10 * MINUTE_MS
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


def codes(answer: Answer[TxnOffsetCommitResponse]) -> dict[tuple[str, int], int]:
    """The code of each partition."""
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.value.topics
        for each in topic.partitions
    }


def stable_codes(world: World, partitions: list[int], group: str = "g") -> list[int]:
    """What a fetch that requires stable offsets is told of partitions of `t`."""
    (topic,) = world.fetch_offsets({"t": partitions}, group=group, require_stable=True).value.topics
    return [each.error_code for each in topic.partitions]


# When they count


def test_offsets_count_when_the_transaction_commits() -> None:
    world = World()
    world.commit_offsets({T0: 1})
    assert codes(world.commit_in_transaction({T0: 5, U0: 7})) == {T0: 0, U0: 0}
    assert world.offsets() == {T0: 1}
    assert world.end_transaction().code is ErrorCode.NONE
    assert world.offsets() == {T0: 5, U0: 7}


def test_offsets_of_an_aborted_transaction_never_count() -> None:
    world = World()
    world.commit_offsets({T0: 1})
    world.commit_in_transaction({T0: 5, U0: 7})
    world.end_transaction(commit=False)
    assert world.offsets() == {T0: 1}
    world.end_transaction()
    assert world.offsets() == {T0: 1}


def test_the_last_offset_of_a_transaction_counts() -> None:
    world = World()
    world.commit_in_transaction({T0: 5, T1: 1})
    world.commit_in_transaction({T0: 6})
    world.end_transaction()
    assert world.offsets() == {T0: 6, T1: 1}


def test_of_two_transactions_that_overlap_the_later_record_wins_in_whatever_order_they_end() -> None:
    for order in ([7, 8], [8, 7]):
        world = World()
        world.commit_in_transaction({T0: 5}, producer_id=7)
        world.commit_in_transaction({T0: 9}, producer_id=8)
        for producer_id in order:
            world.end_transaction(producer_id=producer_id)
        assert world.offsets() == {T0: 9}


def test_a_plain_commit_after_that_of_a_transaction_wins() -> None:
    world = World()
    world.commit_in_transaction({T0: 5, T1: 6})
    world.commit_offsets({T0: 9})
    world.end_transaction()
    assert world.offsets() == {T0: 9, T1: 6}


def test_a_marker_ends_the_transaction_of_its_producer_alone() -> None:
    world = World()
    world.commit_in_transaction({T0: 5}, producer_id=7)
    world.commit_in_transaction({T1: 6}, producer_id=8)
    world.commit_in_transaction({T0: 7}, producer_id=7, group="h")
    world.end_transaction(producer_id=7)
    assert (world.offsets(), world.offsets("h")) == ({T0: 5}, {T0: 7})
    assert stable_codes(world, [0, 1]) == [0, ErrorCode.UNSTABLE_OFFSET_COMMIT]


def test_the_marker_of_transaction_version_2_has_a_newer_epoch() -> None:
    world = World()
    world.commit_in_transaction({T0: 5}, epoch=3)
    assert world.end_transaction(epoch=3, version=2).code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.offsets() == {}
    assert world.end_transaction(epoch=4, version=2).code is ErrorCode.NONE
    assert world.offsets() == {T0: 5}


def test_a_producer_that_was_fenced_commits_nothing_more() -> None:
    world = World()
    world.commit_in_transaction({T0: 5}, epoch=3)
    world.end_transaction(commit=False, epoch=4, version=2)
    assert world.commit_in_transaction({T0: 6}, epoch=3).code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.end_transaction(epoch=3).code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert stable_codes(world, [0]) == [0]
    assert world.offsets() == {}


# What waits


def test_what_a_transaction_may_change_is_unstable_until_its_marker_is_replicated() -> None:
    world = World()
    world.commit_in_transaction({T0: 5})
    assert stable_codes(world, [0, 1]) == [ErrorCode.UNSTABLE_OFFSET_COMMIT, 0]
    world.commits = False
    world.end_transaction()
    waiting = world.fetch_offsets({"t": [0]}, require_stable=True)
    assert not waiting.done
    assert world.offsets() == {}
    world.commit()
    assert waiting.value.topics[0].partitions[0].committed_offset == 5
    assert world.offsets() == {T0: 5}


def test_two_transactions_of_a_partition_both_have_to_end() -> None:
    world = World()
    world.commit_in_transaction({T0: 5}, producer_id=7)
    world.commit_in_transaction({T0: 6}, producer_id=8)
    world.end_transaction(producer_id=8)
    assert stable_codes(world, [0]) == [ErrorCode.UNSTABLE_OFFSET_COMMIT]
    world.end_transaction(producer_id=7)
    assert stable_codes(world, [0]) == [0]
    assert world.offsets() == {T0: 6}


def test_pending_offsets_of_another_group_wait_for_nobody() -> None:
    world = World()
    world.commit_in_transaction({T0: 5}, group="h")
    assert stable_codes(world, [0]) == [0]


# Failures


def test_a_commit_that_is_refused_leaves_nothing_pending() -> None:
    world = World()
    world.commit_in_transaction({T0: 1})
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.commit_in_transaction({T1: 2}).code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.commit_in_transaction({T0: 2}, group="new", producer_id=8).code is ErrorCode.NOT_ENOUGH_REPLICAS
    world.log.refuses = None
    assert stable_codes(world, [0, 1]) == [ErrorCode.UNSTABLE_OFFSET_COMMIT, 0]
    assert [each.group_id for each in world.list_groups()] == ["g"]
    assert len(world.state.offsets.pending) == 1
    world.end_transaction()
    assert world.offsets() == {T0: 1}


def test_a_marker_that_is_refused_leaves_all_pending() -> None:
    world = World()
    world.commit_in_transaction({T0: 1})
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.end_transaction().code is ErrorCode.NOT_ENOUGH_REPLICAS
    world.log.refuses = None
    assert stable_codes(world, [0]) == [ErrorCode.UNSTABLE_OFFSET_COMMIT]
    world.end_transaction()
    assert world.offsets() == {T0: 1}


@pytest.mark.parametrize("commit", [True, False])
def test_a_new_coordinator_has_open_transactions_and_those_that_have_ended(commit: bool) -> None:
    world = World()
    world.commit_in_transaction({T0: 1}, producer_id=7)
    world.commit_in_transaction({T1: 2}, producer_id=8)
    world.commit_offsets({U0: 3})
    world.end_transaction(producer_id=7)
    world.fail_over()
    assert world.offsets() == {T0: 1, U0: 3}
    assert stable_codes(world, [0, 1]) == [0, ErrorCode.UNSTABLE_OFFSET_COMMIT]
    world.end_transaction(producer_id=8, commit=commit)
    world.fail_over()
    assert world.offsets() == ({T0: 1, T1: 2, U0: 3} if commit else {T0: 1, U0: 3})
    assert stable_codes(world, [0, 1]) == [0, 0]


def test_what_was_not_replicated_goes_with_its_leader() -> None:
    world = World()
    world.commit_in_transaction({T0: 1})
    world.commits = False
    late = world.commit_in_transaction({T1: 2})
    marker = world.end_transaction()
    world.fail_over()
    assert (late.code, marker.code) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    world.commits = True
    assert stable_codes(world, [0, 1]) == [ErrorCode.UNSTABLE_OFFSET_COMMIT, 0]
    world.end_transaction(commit=False)
    assert world.offsets() == {}


def test_what_is_replicated_late_is_not_shown_by_the_new_leader_before() -> None:
    world = World()
    world.commit_in_transaction({T0: 1})
    world.commits = False
    world.end_transaction()
    world.fail_over(keep_uncommitted=True)
    assert world.offsets() == {}
    world.commit()
    assert world.offsets() == {T0: 1}


def test_a_compacted_log_gives_the_same_offsets() -> None:
    """The cleaner has removed what was aborted and what later records have replaced, all of it or the first only."""
    world = World()
    world.commit_offsets({T0: 1})
    world.commit_in_transaction({T0: 5, T1: 6})
    world.commit_offsets({T0: 9})
    world.end_transaction()
    world.commit_offsets({T1: 8})
    world.commit_in_transaction({T1: 3}, producer_id=8)
    world.end_transaction(producer_id=8, commit=False)
    expected = world.offsets()
    assert expected == {T0: 9, T1: 8}
    first, in_transaction, plain, marker, last, _, abort = world.log.batches
    assert read_header(first).base_offset == 0
    world.log.batches = [plain, marker, last, abort]
    world.fail_over()
    assert world.offsets() == expected
    world.log.batches = [in_transaction, plain, marker, last, abort]
    world.fail_over()
    assert world.offsets() == expected


# Who may commit


def test_a_group_that_does_not_exist_is_created_by_who_names_no_generation() -> None:
    world = World()
    assert world.commit_in_transaction({T0: 5}, generation_id=3).code is ErrorCode.ILLEGAL_GENERATION
    assert world.list_groups() == []
    assert codes(world.commit_in_transaction({T0: 5})) == {T0: 0}
    (listed,) = world.list_groups()
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")


def test_a_commit_without_a_group_id_is_refused() -> None:
    assert World().commit_in_transaction({T0: 5}, group="").code is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", [0, 3, 5])
def test_who_names_no_member_is_believed_whatever_the_state_of_the_group(version: int) -> None:
    """As before KIP-447, and as a producer that is given offsets without the consumer's metadata."""
    world = World()
    (only,) = world.stable()
    assert codes(world.commit_in_transaction({T0: 5}, version=version)) == {T0: 0}
    world.join(member_id=only.member_id)
    assert codes(world.commit_in_transaction({T0: 5}, version=version)) == {T0: 0}


def test_a_member_commits_in_its_generation_even_before_it_has_synced() -> None:
    world = World()
    first, second = world.stable(2)
    assert codes(world.commit_in_transaction({T0: 1}, member_id=first.member_id, generation_id=1)) == {T0: 0}
    for each in (first, second):
        world.join(member_id=each.member_id)
    assert codes(world.commit_in_transaction({T0: 2}, member_id=second.member_id, generation_id=2)) == {T0: 0}
    late = world.commit_in_transaction({T0: 3}, member_id=second.member_id, generation_id=1)
    assert late.code is ErrorCode.ILLEGAL_GENERATION


def test_unknown_members_and_wrong_generations_commit_nothing() -> None:
    world = World()
    (only,) = world.stable()
    commits = [
        world.commit_in_transaction({T0: 1}, member_id="nobody", generation_id=1),
        world.commit_in_transaction({T0: 1}, member_id=only.member_id, generation_id=2),
        world.commit_in_transaction({T0: 1}, member_id=only.member_id),
        world.commit_in_transaction({T0: 1}, generation_id=1),
        world.commit_in_transaction({T0: 1}, member_id=only.member_id, generation_id=1, instance_id="i"),
    ]
    assert [each.code for each in commits] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert len(world.state.offsets.pending) == 0


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    world = World()
    joining = world.join(instance_id="i")
    world.advance(world.settings.group_initial_rebalance_delay_ms)
    old = joining.value.member_id
    world.join(instance_id="i")
    late = world.commit_in_transaction({T0: 1}, member_id=old, generation_id=1, instance_id="i")
    assert late.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_commit_in_a_transaction_is_no_heartbeat() -> None:
    world = World()
    (only,) = world.stable()
    world.advance(9_999)
    world.commit_in_transaction({T0: 1}, member_id=only.member_id, generation_id=1)
    world.advance(1)
    assert world.heartbeat(only.member_id).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_of_a_consumer_group_commits_at_its_epoch() -> None:
    world = ConsumerWorld()
    (only,) = world.consumers(1)
    good = world.commit_in_transaction({T0: 1}, member_id=only.member_id, generation_id=only.epoch)
    assert codes(good) == {T0: 0}
    commits = [
        world.commit_in_transaction({T0: 1}, member_id=only.member_id, generation_id=only.epoch + 1),
        world.commit_in_transaction({T0: 1}, member_id=only.member_id, generation_id=only.epoch - 1),
        world.commit_in_transaction({("none", 0): 1}, member_id=only.member_id, generation_id=only.epoch - 1),
        world.commit_in_transaction({T0: 1}, member_id="nobody", generation_id=only.epoch),
    ]
    assert [each.code for each in commits] == [ErrorCode.ILLEGAL_GENERATION] * 3 + [ErrorCode.UNKNOWN_MEMBER_ID]
    assert codes(world.commit_in_transaction({T0: 2})) == {T0: 0}
    world.end_transaction()
    assert world.offsets() == {T0: 2}


def test_a_member_commits_at_an_older_epoch_what_it_has_had_since_then() -> None:
    """KIP-1251."""
    world = ConsumerWorld()
    first, second = world.consumers(2)
    old, kept = first.epoch, set(first.owned[next(iter(first.owned))])
    world.beat(
        member_id="m9", member_epoch=0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    world.reconcile(first, second)
    assert first.epoch > old
    still = min(set(first.owned[next(iter(first.owned))]) & kept)
    gone = next(each for each in range(6) if each not in kept)
    assert codes(world.commit_in_transaction({("t", still): 1}, member_id=first.member_id, generation_id=old)) == {
        ("t", still): 0
    }
    late = world.commit_in_transaction({("t", gone): 1}, member_id=first.member_id, generation_id=old)
    assert late.code is ErrorCode.ILLEGAL_GENERATION


def test_text_that_is_too_long_refuses_its_partition_alone() -> None:
    world = World(offset_metadata_max_bytes=10)
    answer = world.commit_in_transaction({T0: 1}, metadata="x" * 11)
    assert codes(answer) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert world.log.batches == []
    world.commit_in_transaction({T0: 2}, metadata="x" * 10)
    world.end_transaction()
    assert world.offsets() == {T0: 2}


# Records


def test_records_are_those_that_kafka_writes() -> None:
    world = ConsumerWorld()
    world.commit_in_transaction({T0: 5}, metadata="m", epoch=4)
    ((key, value, version),) = world.written()
    assert key == OffsetCommitKey(group="g", topic="t", partition=0)
    assert value == OffsetCommitValue(offset=5, metadata="m", commit_timestamp=world.now_ms, topic_id=ZERO_UUID)
    assert version == 4
    header = read_header(world.log.batches[0])
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 4, -1)
    assert (header.is_transactional, header.is_control) == (True, False)


# Deletion and expiry


def test_a_deleted_offset_is_deleted_in_transactions_too() -> None:
    world = World()
    world.commit_in_transaction({T0: 5, T1: 6}, producer_id=7)
    world.commit_in_transaction({T0: 7}, producer_id=8)
    assert world.delete_offsets({"t": [0]}).code is ErrorCode.NONE
    assert stable_codes(world, [0, 1]) == [0, ErrorCode.UNSTABLE_OFFSET_COMMIT]
    for producer_id in (7, 8):
        world.end_transaction(producer_id=producer_id)
    assert world.offsets() == {T1: 6}


def test_what_a_transaction_commits_after_a_deletion_counts() -> None:
    world = World()
    world.commit_in_transaction({T0: 5})
    world.delete_offsets({"t": [0]})
    world.commit_in_transaction({T0: 6})
    world.end_transaction()
    assert world.offsets() == {T0: 6}


def test_a_group_is_deleted_with_its_pending_offsets() -> None:
    world = World()
    world.commit_offsets({T0: 1})
    world.commit_in_transaction({T0: 5, U0: 6})
    world.commit_in_transaction({U0: 7}, producer_id=8)
    (deleted,) = world.delete_groups("g").value
    assert deleted.error_code == ErrorCode.NONE
    tombstones = [key for key, value, _ in world.written() if value is None and isinstance(key, OffsetCommitKey)]
    assert sorted((key.topic, key.partition) for key in tombstones) == [T0, U0]
    assert len(world.state.offsets.pending) == 0
    for producer_id in (7, 8):
        world.end_transaction(producer_id=producer_id)
    assert world.list_groups() == []
    world.fail_over()
    assert (world.list_groups(), world.offsets()) == ([], {})


def test_a_transaction_goes_on_after_its_group_was_deleted() -> None:
    world = World()
    world.commit_in_transaction({T0: 5})
    world.delete_groups("g")
    world.commit_in_transaction({T1: 6})
    world.end_transaction()
    assert world.offsets() == {T1: 6}
    world.fail_over()
    assert world.offsets() == {T1: 6}


def test_neither_offsets_nor_groups_expire_while_a_transaction_may_change_them() -> None:
    world = World()
    world.commit_offsets({T0: 1, T1: 2})
    world.commit_in_transaction({T0: 5})
    world.commit_in_transaction({T0: 5}, group="new", producer_id=8)
    world.advance(WEEK_MS + CHECK_MS)
    assert world.offsets() == {T0: 1}
    assert [each.group_id for each in world.list_groups()] == ["g", "new"]
    for producer_id in (7, 8):
        world.end_transaction(producer_id=producer_id, commit=False)
    world.advance(CHECK_MS)
    assert world.offsets() == {}
    assert world.list_groups() == []


def test_a_group_whose_pending_offsets_were_deleted_expires() -> None:
    world = World()
    world.commit_in_transaction({T0: 5})
    world.delete_offsets({"t": [0]})
    world.advance(CHECK_MS)
    assert world.list_groups() == []


# Cost


def test_a_marker_costs_what_it_touches_however_many_groups_have_pending_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    for index in range(300):
        world.commit_in_transaction({T0: 5}, group=f"g{index}", producer_id=1_000 + index)
    seen = 0
    iterate = TimelineMap.items

    def counting(self: TimelineMap, *, at: int | None = None):  # type: ignore[no-untyped-def, type-arg]
        nonlocal seen
        for each in iterate(self, at=at):
            seen += 1
            yield each

    monkeypatch.setattr(TimelineMap, "items", counting)
    world.end_transaction(producer_id=1_000)
    assert world.state.offsets.committed.get("g0", "t", 0) is not None
    assert seen <= 5
