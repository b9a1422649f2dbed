"""Who leads when brokers come and go, and when somebody asks for an election."""

from __future__ import annotations

import pytest
from unit.metadata.cluster import Cluster
from unit.metadata.controller_state import NOW_MS, directory_of

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import brokers, directories, leadership
from penstock.metadata.duties import Duties
from penstock.metadata.heartbeats import Heartbeat
from penstock.metadata.limits import LOST_CONNECTION_GRACE_MS
from penstock.metadata.result import MetadataMessage

UNCLEAN = {"unclean.leader.election.enable": "true"}


def test_the_first_replica_in_sync_takes_over_from_a_fenced_leader() -> None:
    cluster = Cluster()
    cluster.fence(1)
    after = cluster.partition()
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), 1)


def test_the_last_replica_in_sync_stays_so_and_leads_when_it_comes_back() -> None:
    cluster = Cluster(replicas=(1, 2))
    cluster.fence(2)
    cluster.fence(1)
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1,))
    cluster.unfence(2)
    assert cluster.partition().leader == -1, "it may lack records"
    cluster.unfence(1)
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1,))
    assert cluster.partition().leader_recovery_state == 0


def test_a_topic_that_allows_it_is_led_by_any_live_replica() -> None:
    cluster = Cluster(replicas=(1, 2), configs=UNCLEAN)
    cluster.fence(2)
    cluster.fence(1)
    cluster.unfence(2)
    after = cluster.partition()
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), 1)


def test_a_new_incarnation_gives_up_what_the_one_before_led() -> None:
    cluster = Cluster(replicas=(1, 2))
    cluster.register(1, incarnation=2)
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_a_broker_that_crashed_alone_leads_again_under_a_new_epoch() -> None:
    cluster = Cluster(replicas=(1,))
    cluster.register(1, incarnation=2)
    assert cluster.partition().leader == -1
    cluster.unfence(1)
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (1, 2)


def test_an_unregistered_broker_is_in_sync_nowhere() -> None:
    cluster = Cluster()
    cluster.replay(brokers.unregister_broker(cluster.controller, 2).records)
    assert 2 not in cluster.controller.image.brokers
    assert (cluster.partition().isr, cluster.partition().replicas) == ((1, 3), (1, 2, 3))
    with pytest.raises(RequestError) as raised:
        brokers.unregister_broker(cluster.controller, 2)
    assert raised.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_lost_directory_takes_only_what_lies_in_it() -> None:
    cluster = Cluster(partitions=2)
    elsewhere = directory_of(7)
    cluster.change(1, directories=[elsewhere, directory_of(2), directory_of(3)])
    broker = cluster.controller.image.brokers[1]
    cluster.replay(directories.report_directories(cluster.controller, broker, [directory_of(1)], None))
    assert cluster.controller.image.brokers[1].log_dirs == (directory_of(1),)
    assert [each.leader for each in cluster.topic.partitions] == [2, 1]
    assert [each.isr for each in cluster.topic.partitions] == [(2, 3), (1, 2, 3)]


def test_cordoned_directories_are_recorded_once() -> None:
    cluster = Cluster()
    broker = cluster.controller.image.brokers[1]
    cluster.replay(directories.report_directories(cluster.controller, broker, [], [directory_of(1)]))
    broker = cluster.controller.image.brokers[1]
    assert broker.cordoned_log_dirs == (directory_of(1),)
    assert not directories.report_directories(cluster.controller, broker, [], [directory_of(1)])
    assert not directories.report_directories(cluster.controller, broker, [], None)
    assert directories.report_directories(cluster.controller, broker, [], [])


def test_cordons_need_a_level_that_can_record_them() -> None:
    cluster = Cluster(level=29)
    broker = cluster.controller.image.brokers[1]
    assert not directories.report_directories(cluster.controller, broker, [], [directory_of(1)])


def test_the_preferred_leader_is_elected_when_it_is_in_sync() -> None:
    cluster = Cluster()
    assert cluster.elect(leadership.PREFERRED) is leadership.NOT_NEEDED
    cluster.change(leader=2)
    assert not cluster.elect(leadership.PREFERRED).failed
    assert cluster.partition().leader == 1
    cluster.change(leader=2, isr=[2, 3])
    assert cluster.elect(leadership.PREFERRED) is leadership.NO_PREFERRED
    assert cluster.partition().leader == 2


def test_an_unclean_election_on_request_needs_no_permission_of_the_topic() -> None:
    cluster = Cluster(replicas=(1, 2))
    assert cluster.elect(leadership.UNCLEAN) is leadership.NOT_NEEDED
    cluster.fence(2)
    cluster.fence(1)
    assert cluster.elect(leadership.UNCLEAN) is leadership.NO_ELIGIBLE
    cluster.unfence(2)
    assert not cluster.elect(leadership.UNCLEAN).failed
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def at_work(cluster: Cluster) -> Duties:
    """Of a controller that has just become active, and has heard of every broker that is not fenced."""
    duties = Duties(cluster.controller, NOW_MS)
    for broker in cluster.controller.image.brokers.values():
        if not broker.fenced:
            duties.heartbeats.contact(Heartbeat(broker.id, broker.epoch, cluster.last_offset), NOW_MS)
    return duties


def take(cluster: Cluster, duties: Duties, now_ms: int) -> int:
    """Does everything that is due; how many steps had records."""
    steps = 0
    while (deadline := duties.next_deadline_ms()) is not None and deadline <= now_ms:
        records: object = duties.due(now_ms)
        if isinstance(records, list) and records:
            cluster.replay(records)
            steps += 1
    return steps


def test_leaders_are_balanced_from_time_to_time_unless_that_is_switched_off() -> None:
    cluster = Cluster(partitions=3)
    cluster.change(1, leader=2)
    duties = at_work(cluster)
    take(cluster, duties, NOW_MS + LOST_CONNECTION_GRACE_MS - 1)
    assert cluster.partition(1).leader == 2, "not before all have had their time to be heard of"
    take(cluster, duties, NOW_MS + LOST_CONNECTION_GRACE_MS)
    assert [each.leader for each in cluster.topic.partitions] == [1, 1, 1]
    cluster.change(1, leader=2)
    take(cluster, duties, NOW_MS + 8_000)
    assert cluster.partition(1).leader == 2, "not before the interval is over"
    quiet = Cluster(partitions=2, auto_leader_rebalance_enable=False)
    quiet.change(1, leader=2)
    take(quiet, at_work(quiet), NOW_MS + LOST_CONNECTION_GRACE_MS)
    assert quiet.partition(1).leader == 2


def test_a_topic_that_allows_it_later_gets_its_leader_later() -> None:
    cluster = Cluster(replicas=(1, 2), configs=UNCLEAN)
    cluster.fence(2)
    cluster.change(isr=[1], leader=-1)
    cluster.fence(1)
    cluster.unfence(2)
    cluster.change(isr=[1], leader=-1)
    take(cluster, at_work(cluster), NOW_MS)
    assert cluster.partition().leader == 2


def test_a_silent_broker_is_fenced_when_its_session_is_over_and_its_partitions_move_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brokers, "LEADERSHIP_CHANGES_PER_STEP", 2)
    monkeypatch.setattr(leadership.departure_steps, "__defaults__", (2,))
    cluster = Cluster(partitions=5, auto_leader_rebalance_enable=False)
    duties = at_work(cluster)
    for broker_id in (2, 3):
        duties.heartbeats._brokers[broker_id].expires_ms += 60_000
    assert take(cluster, duties, NOW_MS + 9_000) == 0
    assert take(cluster, duties, NOW_MS + 9_001) == 1 + 3, "the fence, and five partitions, two at a time"
    assert {each.leader for each in cluster.topic.partitions} == {2}
    assert {each.isr for each in cluster.topic.partitions} == {(2, 3)}
    assert cluster.controller.image.brokers[1].fenced


def test_a_controller_that_takes_over_ends_what_was_begun() -> None:
    cluster = Cluster(partitions=3, auto_leader_rebalance_enable=False)
    fence: list[MetadataMessage] = [brokers.change(cluster.controller.image.brokers[1], fenced=brokers.FENCE)]
    cluster.replay(fence)
    assert {each.leader for each in cluster.topic.partitions} == {1}
    take(cluster, at_work(cluster), NOW_MS)
    assert {each.leader for each in cluster.topic.partitions} == {2}


def test_a_broker_that_comes_back_in_the_midst_keeps_what_it_still_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "LEADERSHIP_CHANGES_PER_STEP", 0)
    monkeypatch.setattr(leadership.departure_steps, "__defaults__", (1,))
    cluster = Cluster(partitions=3, auto_leader_rebalance_enable=False)
    duties = at_work(cluster)
    epoch = cluster.epoch_of(1)
    cluster.replay(brokers.fence_broker(cluster.controller, 1, epoch, in_steps=True).records)
    first = duties.due(NOW_MS)
    assert first is not None
    cluster.replay(first)
    cluster.unfence(1)
    take(cluster, duties, NOW_MS)
    assert [each.leader for each in cluster.topic.partitions] == [2, 1, 1]
