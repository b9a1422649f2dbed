"""Configs of groups, heartbeat intervals, descriptions, and who may commit offsets."""

from __future__ import annotations

from uuid import UUID

import pytest
from unit.coordinator.consumers import Consumer, ConsumerWorld, topic_id, with_topics

from penstock.coordinator.group.consumer.describe import describe_consumer_groups
from penstock.coordinator.group.consumer.pace import SettlingPace
from penstock.coordinator.limits import (
    GROUP_SETTLING_HEARTBEATS_PER_SECOND,
    GROUP_SETTLING_MS,
    GROUP_STABLE_HEARTBEAT_MIN_MS,
    SETTLING_BACKLOG_MAX_MS,
    SETTLING_HEARTBEATS_PER_SECOND,
    SETTLING_PRINCIPALS_MAX,
)
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.consumer_group_describe_response import DescribedGroup

# Heartbeat intervals


def interval_ms(member: Consumer) -> int:
    return member.beat().value.heartbeat_interval_ms


def test_a_stable_group_is_left_in_peace() -> None:
    world = ConsumerWorld()
    first, second = world.consumers(2)
    assert interval_ms(first) == interval_ms(second) == 5_000


def test_who_waits_for_others_comes_again_soon() -> None:
    world = ConsumerWorld()
    first, second, third = (Consumer(world, name) for name in "abc")
    assert first.join().value.heartbeat_interval_ms == 5_000, "it is alone and has everything"
    assert second.join().value.heartbeat_interval_ms == 300
    assert interval_ms(first) == 300, "it was told to give something up"
    first.beat()
    assert interval_ms(second) == 5_000
    third.join()
    assert interval_ms(second) == 300
    world.reconcile(first, second, third)
    assert [interval_ms(member) for member in (first, second, third)] == [5_000] * 3


def test_who_has_everything_comes_soon_for_a_while_if_others_have_not() -> None:
    world = ConsumerWorld(penstock_group_consumer_reconcile_heartbeat_interval_ms=400)
    first, second = world.consumers(2)
    first.lazy = True
    third = Consumer(world, "n")
    third.join()
    first.beat()
    second.beat()
    assert interval_ms(second) == 400
    world.advance(GROUP_SETTLING_MS)
    assert interval_ms(second) == 5_000, "nothing new has come for long"
    assert interval_ms(first) == interval_ms(third) == 400


def test_an_assignment_that_is_put_off_is_asked_for_soon() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1_000)
    world.consumers(1)
    assert Consumer(world, "n").join().value.heartbeat_interval_ms == 300


def test_a_large_group_does_not_come_all_at_once() -> None:
    world = ConsumerWorld(with_topics(t=1_000), group_consumer_assignment_interval_ms=100_000)
    members = [Consumer(world, f"m{index}") for index in range(400)]
    for member in members:
        member.join()
    assert members[-1].last.value.heartbeat_interval_ms == 399 * 1_000 // GROUP_SETTLING_HEARTBEATS_PER_SECOND


def test_many_groups_that_settle_do_not_come_all_at_once() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=100_000)
    groups = 1_500
    for number in range(groups):
        for name in "abcd":
            joined = Consumer(world, name, f"g{number}").join().value.heartbeat_interval_ms
        if number < 2:
            assert joined == 300, "few settle"
    waiting = 3 * groups
    assert joined == waiting * 1_000 // SETTLING_HEARTBEATS_PER_SECOND
    world.advance(1_000)
    fresh = Consumer(world, "a", "fresh")
    assert fresh.join().value.heartbeat_interval_ms == 5_000, "it has everything, and draws on nothing"
    again = Consumer(world, "b", "fresh").join().value.heartbeat_interval_ms
    turn_ms = 1_000 // SETTLING_HEARTBEATS_PER_SECOND
    assert again == joined - 1_000 + turn_ms, "turns pass with time, and this is one more"
    world.advance(joined)
    assert Consumer(world, "c", "fresh").join().value.heartbeat_interval_ms == 300, "and have all passed"


def test_turns_are_not_given_out_for_longer_than_kafkas_interval() -> None:
    pace = SettlingPace()
    for _ in range(100_000):
        last = pace.interval_ms(300, 7)
    assert last == SETTLING_BACKLOG_MAX_MS
    assert pace.interval_ms(300, 7 + SETTLING_BACKLOG_MAX_MS) == 300


def test_who_comes_without_end_waits_for_itself() -> None:
    world = ConsumerWorld(with_topics(t=6))
    world.principal = "mallory"
    Consumer(world, "a", "hers").join()
    waiting = Consumer(world, "b", "hers")
    waiting.join()
    intervals = [interval_ms(waiting) for _ in range(SETTLING_BACKLOG_MAX_MS + 1)]
    assert (intervals[0], intervals[-1]) == (300, 5_000)
    world.principal = "alice"
    Consumer(world, "a", "other").join()
    assert Consumer(world, "b", "other").join().value.heartbeat_interval_ms == 300


def test_principals_have_equal_shares_of_the_turns() -> None:
    pace = SettlingPace()
    for _ in range(1_000):
        alone = pace.interval_ms(0, 1_000, "mallory")
    turn_ms = 1_000 // SETTLING_HEARTBEATS_PER_SECOND
    assert alone == 1_000 * turn_ms
    assert [pace.interval_ms(0, 1_000, "alice") for _ in range(3)] == [2 * turn_ms, 4 * turn_ms, 6 * turn_ms]
    assert pace.interval_ms(0, 1_000, "mallory") == alone + 2 * turn_ms
    assert pace.interval_ms(0, 1_500, "mallory") == alone - 500 + 3 * turn_ms, "the other's turns have passed"


def test_principals_beyond_their_limit_share_one_share() -> None:
    pace = SettlingPace()
    for number in range(SETTLING_PRINCIPALS_MAX + 10):
        last = pace.interval_ms(0, 1, f"p{number}")
    assert last == SETTLING_BACKLOG_MAX_MS
    assert pace.interval_ms(0, 1 + SETTLING_BACKLOG_MAX_MS, "late") == 1_000 // SETTLING_HEARTBEATS_PER_SECOND


def test_stable_members_come_sooner_while_they_are_few_on_the_broker() -> None:
    world = ConsumerWorld(penstock_group_consumer_stable_heartbeats_per_second=10)
    (first,) = world.consumers(1)
    assert interval_ms(first) == GROUP_STABLE_HEARTBEAT_MIN_MS
    shard = world.state.timers
    for number in range(18):  # and the timer that every shard has
        shard.set(("consumer-session", "another group", str(number)), world.now_ms + 100_000)
    assert interval_ms(first) == 2_000, "20 timers, ten heartbeats a second"
    for number in range(18, 60):
        shard.set(("consumer-session", "another group", str(number)), world.now_ms + 100_000)
    assert interval_ms(first) == 5_000, "not beyond what is configured"


def test_the_short_interval_is_never_longer_than_the_other() -> None:
    world = ConsumerWorld(group_consumer_heartbeat_interval_ms=100, group_consumer_min_heartbeat_interval_ms=100)
    world.consumers(1)
    assert Consumer(world, "n").join().value.heartbeat_interval_ms == 100


# Configs of the group's resource


def test_a_group_has_times_of_its_own_within_the_brokers_bounds() -> None:
    world = ConsumerWorld(group_consumer_max_assignment_interval_ms=15_000)
    world.configure_group(
        consumer_session_timeout_ms="50000",
        consumer_heartbeat_interval_ms="1000",
        consumer_assignment_interval_ms="99999",
    )
    assert times(world, "g") == (50_000, 5_000, 15_000)
    assert times(world, "other") == (45_000, 5_000, 0)


def times(world: ConsumerWorld, group_id: str) -> tuple[int, int, int]:
    found = world.state.settings_of(group_id)
    return (
        found.consumer_session_timeout_ms,
        found.consumer_heartbeat_interval_ms,
        found.consumer_assignment_interval_ms,
    )


def test_what_a_group_has_and_nobody_understands_is_as_on_the_broker() -> None:
    world = ConsumerWorld()
    world.configure_group(
        consumer_session_timeout_ms="soon",
        consumer_heartbeat_interval_ms="-7",
        consumer_patience_ms="5",
    )
    assert times(world, "g") == (45_000, 5_000, 0)


def test_the_configs_of_a_group_are_read_once_until_they_or_the_settings_change() -> None:
    world = ConsumerWorld()
    world.configure_group(consumer_session_timeout_ms="50000")
    own, others = world.state.settings_of("g"), world.state.settings_of("h")
    assert world.state.settings_of("g") is own
    assert world.state.settings_of("i") is others
    world.configure(group_consumer_max_session_timeout_ms=48_000)
    assert times(world, "g") == (48_000, 5_000, 0)
    world.configure_group(consumer_session_timeout_ms="47000")
    assert times(world, "g") == (47_000, 5_000, 0)
    world.configure_group("h", consumer_session_timeout_ms="46000")
    assert times(world, "h") == (46_000, 5_000, 0)


def test_the_session_timeout_of_the_group_counts() -> None:
    world = ConsumerWorld()
    world.configure_group(consumer_session_timeout_ms="60000")
    world.consumers(1)
    world.advance(59_999)
    assert not world.group().is_empty
    world.advance(1)
    assert world.group().is_empty


def test_the_heartbeat_interval_of_the_group_is_told() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    world.configure_group(consumer_heartbeat_interval_ms="7000")
    assert interval_ms(member) == 7_000


# Description


def described(world: ConsumerWorld, group_id: str = "g") -> DescribedGroup:
    return describe_consumer_groups(world.state, world.shard.committed_offset, [group_id])[0]


def test_a_group_is_described_with_its_members() -> None:
    world = ConsumerWorld()
    member = Consumer(world, "m", instance_id="i", rack_id="r", assignor="range")
    member.join()
    group = described(world)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.assignor_name == "range"
    (one,) = group.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch) == ("m", "i", "r", 2)
    assert (one.client_id, one.client_host, one.member_type) == ("c", "/127.0.0.1", 1)
    assert (one.subscribed_topic_names, one.subscribed_topic_regex) == (["t"], "")
    for assignment in (one.assignment, one.target_assignment):
        (partitions,) = assignment.topic_partitions
        assert (partitions.topic_name, partitions.partitions) == ("t", [0, 1, 2, 3, 4, 5])


def test_what_a_member_has_to_give_up_is_still_described_as_its_own() -> None:
    world = ConsumerWorld()
    (first,) = world.consumers(1)
    first.lazy = True
    Consumer(world, "n").join()
    first.beat()
    members = {member.member_id: member for member in described(world).members}
    assert members["m0"].assignment.topic_partitions[0].partitions == list(range(6))
    assert members["m0"].target_assignment.topic_partitions[0].partitions == [0, 1, 2]
    assert members["n"].assignment.topic_partitions == []


def test_only_what_is_committed_is_described() -> None:
    world = ConsumerWorld()
    world.consumers(1)
    world.commits = False
    Consumer(world, "n").join()
    assert [member.member_id for member in described(world).members] == ["m0"]
    assert described(world).group_state == "Stable"
    world.commit()
    assert [member.member_id for member in described(world).members] == ["m0", "n"]
    assert described(world).group_state == "Reconciling"


def test_a_group_that_is_not_there_or_not_of_this_kind_is_not_found() -> None:
    world = ConsumerWorld()
    world.stable(group="classic")
    for group_id, message in (("no", "Group no not found."), ("classic", "Group classic is not a consumer group.")):
        group = described(world, group_id)
        assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)


# Commits


def check(world: ConsumerWorld, member_id: str, epoch: int, partition: int, *, version: int = 9) -> None:
    """Checks a commit as OffsetCommit does."""
    further = world.group().check_commit(member_id, None, epoch, version, transactional=False)
    if further is not None:
        further("t", topic_id("t"), partition)


def test_a_member_commits_at_its_epoch() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    check(world, "m0", member.epoch, 0)


def refused(world: ConsumerWorld, member_id: str, epoch: int, partition: int = 0, *, version: int = 9) -> RequestError:
    with pytest.raises(RequestError) as raised:
        check(world, member_id, epoch, partition, version=version)
    return raised.value


def test_a_newer_epoch_than_the_members_is_stale() -> None:
    world = ConsumerWorld()
    world.consumers(1)
    error = refused(world, "m0", 3)
    assert error.code is ErrorCode.STALE_MEMBER_EPOCH
    assert error.message == "Received member epoch 3 is newer than current member epoch 2."


def test_an_older_epoch_may_commit_for_what_the_member_has_had_since() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    other = Consumer(world, "n")
    other.join()
    world.reconcile(member, other)
    check(world, "m0", 2, 0)
    error = refused(world, "m0", 2, 5)
    assert error.code is ErrorCode.STALE_MEMBER_EPOCH
    assert error.message == "Partition t-5 is not assigned or pending revocation for member."


def test_a_zombie_that_has_a_partition_again_may_not_commit_at_the_epoch_before() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    other = Consumer(world, "n")
    other.join()
    world.reconcile(member, other)
    other.leave()
    world.reconcile(member)
    check(world, "m0", 3, 0)
    error = refused(world, "m0", 3, 5)
    assert error.code is ErrorCode.STALE_MEMBER_EPOCH
    assert error.message == "Received member epoch 3 is older than assignment epoch 4 for partition t-5."


def test_what_has_to_be_given_up_may_still_be_committed() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    member.lazy = True
    Consumer(world, "n").join()
    member.beat()
    check(world, "m0", 2, 5)


def test_a_commit_of_an_unknown_member_or_an_old_version_is_refused() -> None:
    world = ConsumerWorld()
    world.consumers(1)
    assert refused(world, "who", 2).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(world, "", -1).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(world, "m0", 2, version=8).code is ErrorCode.UNSUPPORTED_VERSION


def test_anybody_commits_to_an_empty_group() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    member.leave()
    check(world, "", -1, 0)


def test_offsets_are_fetched_by_members_of_the_present_epoch_and_by_tools() -> None:
    world = ConsumerWorld()
    world.consumers(1)
    at = world.shard.committed_offset
    world.group().check_fetch(None, -1, at)
    world.group().check_fetch("m0", 2, at)
    for member_id, epoch, code in (
        ("who", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m0", 1, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        with pytest.raises(RequestError) as raised:
            world.group().check_fetch(member_id, epoch, at)
        assert raised.value.code is code


def test_an_empty_group_may_be_deleted() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    with pytest.raises(RequestError) as raised:
        world.group().check_delete()
    assert raised.value.code is ErrorCode.NON_EMPTY_GROUP
    member.leave()
    world.group().check_delete()
    tombstones = world.group().tombstones()
    assert all(record.value is None for record in tombstones)


def test_the_topic_id_of_these_tests_is_the_name() -> None:
    assert topic_id("t") == UUID(int=ord("t"))
