"""Sessions of brokers, and what becomes of a broker by its heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from unit.metadata.cluster import Cluster
from unit.metadata.controller_state import NOW_MS, directory_of

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import leadership
from penstock.metadata.brokers import Registration, register_broker
from penstock.metadata.duties import Duties
from penstock.metadata.heartbeats import Heartbeat, HeartbeatReply, process_heartbeat
from penstock.metadata.image import Endpoint
from penstock.metadata.limits import LOST_CONNECTION_GRACE_MS

SESSION_MS = 9_000


class Sessions:
    """A cluster, its heartbeats and a clock."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.now_ms = NOW_MS
        self.duties = Duties(cluster.controller, self.now_ms)
        self.heartbeats = self.duties.heartbeats

    def work(self) -> None:
        """The controller does all that is due by itself."""
        for _ in range(100):
            records = self.duties.due(self.now_ms)
            self.cluster.replay(records or ())
            deadline_ms = self.duties.next_deadline_ms()
            if not records and (deadline_ms is None or deadline_ms > self.now_ms):
                return
        pytest.fail("there is always something due")

    def beat(
        self,
        broker_id: int,
        *,
        offset: int | None = None,
        fence: bool = False,
        stop: bool = False,
        lost: Sequence[UUID] = (),
    ) -> HeartbeatReply:
        """A heartbeat of a broker, which by default has seen everything; its records are appended."""
        cluster = self.cluster
        seen = cluster.last_offset if offset is None else offset
        heartbeat = Heartbeat(
            broker_id,
            cluster.epoch_of(broker_id),
            seen,
            want_fence=fence,
            want_shut_down=stop,
            offline_log_dirs=lost,
        )
        result = process_heartbeat(cluster.controller, self.heartbeats, heartbeat, self.now_ms)
        cluster.replay(result.records)
        if result.response.in_controlled_shutdown:
            self.heartbeats.leaving_since(broker_id, cluster.last_offset)
        self.heartbeats.follow(cluster.controller, self.now_ms)
        return result.response


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(Cluster())


def test_a_broker_that_tells_of_a_lost_directory_is_unfenced_by_its_next_heartbeat() -> None:
    sessions = Sessions(Cluster(replicas=(1,), partitions=2))
    cluster = sessions.cluster
    well = directory_of(7)
    registration = Registration(1, UUID(int=99), [Endpoint("PLAINTEXT", "host", 1)], [directory_of(1), well])
    cluster.replay(register_broker(cluster.controller, registration, cluster.last_offset + 1).records)
    cluster.change(1, directories=[well])
    sessions.heartbeats.follow(cluster.controller, sessions.now_ms)
    assert sessions.beat(1, lost=[directory_of(1)]).fenced
    assert [each.leader for each in cluster.topic.partitions] == [-1, -1]
    assert not sessions.beat(1, lost=[directory_of(1)]).fenced
    assert [each.leader for each in cluster.topic.partitions] == [-1, 1], "nothing is led in a directory that is dead"


def test_a_broker_is_unfenced_when_it_has_seen_its_own_registration(sessions: Sessions) -> None:
    cluster = sessions.cluster
    epoch = cluster.register(3, incarnation=2)
    sessions.heartbeats.follow(cluster.controller, sessions.now_ms)
    registered = cluster.controller.registration_offsets[3]
    assert registered > epoch, "the changes of what its earlier incarnation had in sync come first"
    assert sessions.beat(3, offset=registered - 1) == HeartbeatReply(False, True, False, False)
    assert sessions.beat(3, offset=registered) == HeartbeatReply(True, False, False, False)
    assert not cluster.controller.image.brokers[3].fenced


def test_a_broker_that_amends_its_registration_has_to_see_that_too(sessions: Sessions) -> None:
    cluster = sessions.cluster
    cluster.fence(3)
    sessions.heartbeats.follow(cluster.controller, sessions.now_ms)
    epoch = cluster.epoch_of(3)
    assert cluster.register(3) == epoch
    assert sessions.beat(3, offset=epoch).fenced
    assert not sessions.beat(3).fenced


def test_a_broker_may_ask_to_stay_fenced(sessions: Sessions) -> None:
    assert sessions.beat(2, fence=True).fenced
    assert sessions.cluster.controller.image.brokers[2].fenced
    assert sessions.beat(2, fence=True).fenced
    assert not sessions.beat(2).fenced


def test_a_session_ends_after_its_time_without_a_heartbeat(sessions: Sessions) -> None:
    cluster, heartbeats = sessions.cluster, sessions.heartbeats
    sessions.now_ms += 5_000
    sessions.beat(1)
    sessions.beat(3)
    assert heartbeats.next_deadline_ms() == NOW_MS + SESSION_MS + 1
    assert heartbeats.expired(NOW_MS + SESSION_MS) is None
    assert heartbeats.expired(NOW_MS + SESSION_MS + 1) == (2, cluster.epoch_of(2))
    cluster.fence(2)
    heartbeats.follow(cluster.controller, sessions.now_ms)
    assert heartbeats.expired(NOW_MS + SESSION_MS + 1) is None
    assert heartbeats.next_deadline_ms() == NOW_MS + 5_000 + SESSION_MS + 1


def test_who_has_been_silent_longest_goes_first(sessions: Sessions) -> None:
    sessions.now_ms += 1
    sessions.beat(1)
    late = NOW_MS + 60_000
    first = sessions.heartbeats.expired(late)
    assert first is not None
    assert first[0] == 2


def test_a_lost_connection_cuts_the_session_short_until_the_next_heartbeat(sessions: Sessions) -> None:
    cluster, heartbeats = sessions.cluster, sessions.heartbeats
    heartbeats.connection_lost(2, cluster.epoch_of(2), NOW_MS)
    heartbeats.connection_lost(3, cluster.epoch_of(3), NOW_MS)
    sessions.now_ms = NOW_MS + 499
    sessions.beat(3)
    assert heartbeats.expired(NOW_MS + 500) is None
    assert heartbeats.expired(NOW_MS + 501) == (2, cluster.epoch_of(2))


def test_a_lost_connection_of_an_earlier_life_means_nothing(sessions: Sessions) -> None:
    cluster, heartbeats = sessions.cluster, sessions.heartbeats
    earlier = cluster.epoch_of(2)
    cluster.register(2, incarnation=2)
    cluster.unfence(2)
    heartbeats.follow(cluster.controller, NOW_MS)
    heartbeats.connection_lost(2, earlier, NOW_MS)
    assert heartbeats.expired(NOW_MS + 501) is None


def test_a_process_that_is_gone_has_no_grace_unless_it_was_heard_of_since(sessions: Sessions) -> None:
    cluster, heartbeats = sessions.cluster, sessions.heartbeats
    for broker_id in (2, 3):
        heartbeats.connection_lost(broker_id, cluster.epoch_of(broker_id), NOW_MS)
    sessions.beat(3)
    for broker_id in (1, 2, 3):
        heartbeats.process_gone(broker_id, cluster.epoch_of(broker_id), NOW_MS)
    assert heartbeats.expired(NOW_MS) == (2, cluster.epoch_of(2))
    assert heartbeats.next_deadline_ms() == NOW_MS
    cluster.fence(2)
    heartbeats.follow(cluster.controller, NOW_MS)
    assert heartbeats.expired(NOW_MS) is None, "the connection of 1 is there, 3 has come back on another one"


def test_another_process_may_take_an_id_only_when_the_session_is_over(sessions: Sessions) -> None:
    controller, heartbeats = sessions.cluster.controller, sessions.heartbeats
    another = UUID(int=77)
    sessions.beat(2)
    with pytest.raises(RequestError) as raised:
        heartbeats.check_registration(controller, 2, another, NOW_MS + SESSION_MS)
    assert raised.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    heartbeats.check_registration(controller, 2, controller.image.brokers[2].incarnation_id, NOW_MS)
    heartbeats.check_registration(controller, 9, another, NOW_MS)
    heartbeats.check_registration(controller, 2, another, NOW_MS + SESSION_MS + 1)


def test_a_new_controller_takes_nobody_for_alive_whom_it_has_not_heard(sessions: Sessions) -> None:
    controller, another = sessions.cluster.controller, UUID(int=77)
    with pytest.raises(RequestError):
        sessions.heartbeats.check_registration(controller, 2, another, NOW_MS + 500)
    sessions.heartbeats.check_registration(controller, 2, another, NOW_MS + 501)


def test_who_was_stopped_cleanly_has_its_id_back_at_once(sessions: Sessions) -> None:
    """A cluster that starts anew as a whole: the controller is new, and each broker knows how its last life ended."""
    cluster, another = sessions.cluster, UUID(int=77)
    sessions.beat(2)
    last, earlier = cluster.epoch_of(2), cluster.epoch_of(2) - 1
    check = sessions.heartbeats.check_registration
    check(cluster.controller, 2, another, NOW_MS, previous_broker_epoch=last)
    with pytest.raises(RequestError):
        check(cluster.controller, 2, another, NOW_MS, previous_broker_epoch=earlier)


def test_a_broker_stops_in_steps(sessions: Sessions) -> None:
    """Its leaderships go first; then all others must have heard of it; then it may stop."""
    cluster = sessions.cluster
    before = cluster.last_offset
    for broker_id in (2, 3):
        sessions.beat(broker_id, offset=before)
    assert sessions.beat(1, stop=True) == HeartbeatReply(True, False, True, False)
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))
    assert cluster.controller.image.brokers[1].in_controlled_shutdown
    assert not sessions.beat(1, stop=True).should_shut_down, "nobody else knows yet"
    sessions.beat(2)
    assert not sessions.beat(1, stop=True).should_shut_down, "broker 3 may still follow it"
    sessions.beat(3)
    assert sessions.beat(1, stop=True) == HeartbeatReply(True, True, False, True)
    assert cluster.controller.image.brokers[1].fenced
    assert sessions.beat(1, stop=True).should_shut_down, "the answer was lost: it is told again"


def test_the_last_broker_may_stop_at_once(sessions: Sessions) -> None:
    cluster = sessions.cluster
    cluster.fence(2)
    cluster.fence(3)
    sessions.heartbeats.follow(cluster.controller, NOW_MS)
    assert sessions.beat(1, stop=True).in_controlled_shutdown
    assert cluster.partition().leader == -1
    assert sessions.beat(1, stop=True).should_shut_down


def test_a_broker_that_leads_nothing_stops_at_once(sessions: Sessions) -> None:
    sessions.beat(1)
    assert sessions.beat(3, stop=True) == HeartbeatReply(True, True, False, True)
    assert sessions.cluster.partition().isr == (1, 2)


def test_a_controller_that_takes_over_goes_on_with_a_shutdown() -> None:
    cluster = Cluster()
    cluster.begin_shutdown(1)
    sessions = Sessions(cluster)
    assert not sessions.beat(1, stop=True).should_shut_down
    sessions.beat(2)
    sessions.beat(3)
    assert sessions.beat(1, stop=True).should_shut_down


def test_a_new_controller_leaves_leaderships_to_nobody_whom_it_has_not_heard(sessions: Sessions) -> None:
    """Broker 2 may have died before the controller took over, and come back with less than it had."""
    cluster = sessions.cluster
    cluster.change(isr=[1, 2])
    assert sessions.beat(1, stop=True).in_controlled_shutdown
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1, 2))
    assert not sessions.beat(1, stop=True).should_shut_down
    sessions.beat(2)
    sessions.work()
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_who_comes_back_empty_before_it_was_heard_of_is_not_led_by(sessions: Sessions) -> None:
    cluster = sessions.cluster
    cluster.change(isr=[1, 2])
    sessions.beat(1, stop=True)
    cluster.register(2, incarnation=2)
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1,))
    sessions.work()
    sessions.beat(2)
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1,)), "only 1 has everything"


def test_nor_are_the_in_sync_replicas_left_to_it(sessions: Sessions) -> None:
    cluster = sessions.cluster
    cluster.change(isr=[1, 2], leader=2)
    assert sessions.beat(1, stop=True).should_shut_down
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (1, 2))
    sessions.beat(2)
    sessions.work()
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))


def test_another_is_preferred_to_it_when_it_has_had_its_time(sessions: Sessions) -> None:
    cluster = sessions.cluster
    sessions.beat(3)
    sessions.work()
    sessions.beat(1, stop=True)
    sessions.now_ms += LOST_CONNECTION_GRACE_MS - 1
    sessions.work()
    assert cluster.partition().leader == 1, "2 comes first, and may be heard of any moment"
    assert sessions.duties.next_deadline_ms() == NOW_MS + LOST_CONNECTION_GRACE_MS
    sessions.now_ms += 1
    sessions.work()
    assert (cluster.partition().leader, cluster.partition().isr) == (3, (2, 3))


def test_a_dead_leader_is_followed_by_nobody_who_may_be_dead_too(sessions: Sessions) -> None:
    cluster = sessions.cluster
    cluster.change(isr=[1, 2])
    sessions.beat(3)
    cluster.fence(1)
    sessions.now_ms += 60_000
    assert cluster.partition().isr == (1, 2)
    sessions.work()
    assert cluster.controller.image.brokers[2].fenced, "its session is over"
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, (1,))


def test_a_preferred_leader_has_to_be_heard_of(sessions: Sessions) -> None:
    cluster = sessions.cluster
    cluster.change(leader=3)
    sessions.beat(3)
    assert cluster.elect(leadership.PREFERRED).code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    sessions.beat(1)
    assert cluster.elect(leadership.PREFERRED).code is ErrorCode.NONE
    assert cluster.partition().leader == 1


def test_a_reassignment_ends_when_one_that_stays_has_been_heard_of() -> None:
    cluster = Cluster(replicas=(1, 2))
    sessions = Sessions(cluster)
    sessions.beat(1)
    assert cluster.reassign((2,)).code is ErrorCode.NONE
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1, 2))
    sessions.work()
    sessions.beat(2)
    sessions.work()
    assert (cluster.partition().leader, cluster.partition().replicas) == (2, (2,))
    assert not cluster.partition().removing_replicas


def test_who_stops_waits_until_the_others_know_of_the_last_of_its_leaderships(sessions: Sessions) -> None:
    cluster = sessions.cluster
    cluster.change(isr=[1, 2])
    sessions.beat(3)
    sessions.work()
    sessions.beat(1, stop=True)
    known = cluster.last_offset
    sessions.beat(2)
    sessions.work()
    assert cluster.last_offset > known
    assert not sessions.beat(1, stop=True).should_shut_down
    sessions.beat(3)
    assert not sessions.beat(1, stop=True).should_shut_down
    sessions.beat(2)
    assert sessions.beat(1, stop=True).should_shut_down


def test_a_heartbeat_that_nobody_had_time_for_still_counts(sessions: Sessions) -> None:
    cluster = sessions.cluster
    sessions.heartbeats.contact(Heartbeat(2, cluster.epoch_of(2), 0), NOW_MS + 8_000)
    sessions.heartbeats.contact(Heartbeat(2, 12345, 0), NOW_MS + 99_000)
    assert sessions.heartbeats.has_session(2, cluster.epoch_of(2), NOW_MS + 8_000 + SESSION_MS)
    assert not sessions.heartbeats.has_session(2, cluster.epoch_of(2), NOW_MS + 8_000 + SESSION_MS + 1)


@pytest.mark.parametrize("broker_id", [1, 9])
def test_a_stale_heartbeat_is_refused(sessions: Sessions, broker_id: int) -> None:
    with pytest.raises(RequestError) as raised:
        process_heartbeat(sessions.cluster.controller, sessions.heartbeats, Heartbeat(broker_id, 0, 5), NOW_MS)
    assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
