"""Each detector by itself: what it finds in a sight, what it does not, and that what was not seen says nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.sights import HORIZON_MS, START_MS, hold, live, partition, sight_of

from penstock.guardian.core.alarms.census import census_of
from penstock.guardian.core.alarms.dead_brokers import DeadBrokers
from penstock.guardian.core.alarms.dead_disks import DeadDisks
from penstock.guardian.core.alarms.filling_disks import FillingDisks, Trend, slope
from penstock.guardian.core.alarms.finding import Detector, Subject, Verdicts
from penstock.guardian.core.alarms.skewed_leaders import SkewedLeaders
from penstock.guardian.core.alarms.under_replication import UnderReplication
from penstock.guardian.core.limits import GUARDIAN_FRESH_MS, GUARDIAN_TREND_POINTS_MAX
from penstock.guardian.core.sight import DISKS, METADATA, ClusterSight, Contact, SeenDisk, SeenReplica, of_broker

STORAGE_ERROR = 56
GIB = 2**30


def look(detector: Detector, seen: ClusterSight, wall_ms: int = START_MS) -> Verdicts:
    return detector.look(seen, census_of(seen), wall_ms)


def dead_broker() -> ClusterSight:
    """Broker 3 is missing, and does not answer."""
    seen = sight_of((1, 2), partition(0, 3, 1, leader=1, in_sync=(1,)), partition(1, 1, 2))
    seen.contacts[3] = Contact(START_MS, False, "broker 3 does not answer Guardian: connection refused")
    return seen


def dead_disk() -> ClusterSight:
    seen = sight_of((1, 2), partition(0, 2, 1, leader=1, in_sync=(1,)), partition(1, 1, 2, in_sync=(1,)))
    hold(seen, 1)
    hold(seen, 2, error=STORAGE_ERROR)
    return seen


def test_a_broker_that_its_cluster_misses_and_that_does_not_answer_is_dead() -> None:
    found = look(DeadBrokers(), dead_broker())
    (finding,) = found.findings.values()
    assert list(found.findings) == [Subject(3)]
    assert finding.agreed
    assert finding.stamp_ms == START_MS
    assert "does not name broker 3 among 2 living brokers" in finding.evidence[0]
    assert finding.evidence[1:] == (
        "it is to have 1 replica",
        "broker 3 does not answer Guardian: connection refused",
    )
    assert found.well_ms(Subject(1)) == START_MS


@pytest.mark.parametrize(
    ("contact", "said"),
    [
        (None, "no other vantage point has told yet"),
        (Contact(START_MS, True, "broker 3 answers Guardian"), "broker 3 answers Guardian"),
        (Contact(START_MS, None, "its login fails"), "no other vantage point can tell: its login fails"),
        (Contact(START_MS - GUARDIAN_FRESH_MS, False, "long ago"), "no other vantage point has told yet"),
        (Contact(START_MS + 1, False, "in the future"), "no other vantage point has told yet"),
    ],
)
def test_the_word_of_the_controller_alone_is_not_believed(contact: Contact | None, said: str) -> None:
    seen = dead_broker()
    del seen.contacts[3]
    if contact is not None:
        seen.contacts[3] = contact
    (finding,) = look(DeadBrokers(), seen).findings.values()
    assert not finding.agreed
    assert finding.evidence[-1] == said


def test_a_broker_without_replicas_that_leaves_is_not_missed() -> None:
    seen = sight_of((1, 2), partition(0, 1, 2))
    live(seen, (1,))
    live(seen, (1, 2))
    assert not look(DeadBrokers(), seen).findings


def test_a_dead_directory_is_found_where_broker_and_controller_agree() -> None:
    found = look(DeadDisks(), dead_disk())
    (finding,) = found.findings.values()
    assert list(found.findings) == [Subject(2, "/d")]
    assert finding.agreed
    assert finding.evidence == (
        "broker 2 says that it cannot use /d (error 56)",
        "the cluster's metadata has 2 replicas of the broker out of sync",
    )
    assert found.well_ms(Subject(1, "/d")) == START_MS


def test_a_directory_with_replicas_in_sync_is_not_believed_dead() -> None:
    seen = dead_disk()
    seen.on_broker[2] = {("t", 0, 2): SeenReplica("/d", 5)}
    seen.topics["t"].partitions = (partition(0, 2, 1), partition(1, 1, 2, in_sync=(1,)))
    (finding,) = look(DeadDisks(), seen).findings.values()
    assert not finding.agreed
    assert finding.evidence[-1] == "the cluster's metadata has 1 replica in that directory in sync"


def test_a_directory_of_a_broker_that_has_not_told_lately_is_neither_dead_nor_well() -> None:
    seen = dead_disk()
    seen.seen_ms[of_broker(DISKS, 2)] = START_MS - GUARDIAN_FRESH_MS
    found = look(DeadDisks(), seen)
    assert not found.findings
    assert found.well_ms(Subject(2, "/d")) is None
    seen.seen_ms[of_broker(DISKS, 2)] = START_MS
    seen.failures[of_broker(DISKS, 2)] = "no answer"
    assert look(DeadDisks(), seen).well_ms(Subject(2, "/d")) is None


def test_a_directory_of_a_broker_that_is_gone_for_good_is_no_alarm_any_more() -> None:
    seen = dead_disk()
    live(seen, (1,))
    assert look(DeadDisks(), seen).well_ms(Subject(2, "/d")) is None, "it still has replicas"
    seen.topics["t"].partitions = (partition(0, 1), partition(1, 1))
    assert look(DeadDisks(), seen).well_ms(Subject(2, "/d")) == START_MS


def behind(lag: int, *, told: bool = True, stamp_ms: int = START_MS, **more: object) -> ClusterSight:
    seen = sight_of((1, 2), partition(0, 1, 2, in_sync=(1,), **more), wall_ms=stamp_ms)
    if told:
        seen.replicas["t", 0, 2] = SeenReplica("/d", 10, lag=lag)
    return seen


@pytest.mark.parametrize(("before", "after", "stuck"), [(50, 50, True), (50, 60, True), (50, 40, False)])
def test_a_replica_that_comes_no_nearer_is_stuck(before: int, after: int, stuck: bool) -> None:
    detector = UnderReplication()
    assert not look(detector, behind(before)).findings, "one look alone shows no movement"
    found = look(detector, behind(after, stamp_ms=START_MS + 10_000), START_MS + 10_000)
    assert bool(found.findings) is stuck
    if stuck:
        assert found.findings[Subject(2)].evidence == (
            "broker 2 lives, and has 1 replica out of sync",
            "no nearer than at the look before: t-0",
        )


def test_where_the_distance_is_not_told_only_time_speaks() -> None:
    detector = UnderReplication()
    look(detector, behind(0, told=False))
    assert look(detector, behind(0, told=False, stamp_ms=START_MS + 9), START_MS + 9).findings


def test_the_same_look_twice_is_no_second_look() -> None:
    detector = UnderReplication()
    look(detector, behind(50))
    assert not look(detector, behind(50), START_MS + 5_000).findings


def test_what_a_reassignment_is_to_fill_and_what_is_dead_are_not_stuck() -> None:
    detector = UnderReplication()
    for stamp_ms in (START_MS, START_MS + 10_000):
        assert not look(detector, behind(50, adding=(2,), stamp_ms=stamp_ms), stamp_ms).findings
    detector = UnderReplication()
    for stamp_ms in (START_MS, START_MS + 10_000):
        seen = behind(50, stamp_ms=stamp_ms)
        live(seen, (1,))
        assert not look(detector, seen, stamp_ms).findings


def test_what_was_in_a_dead_directory_is_not_stuck_but_what_is_beside_it_may_be() -> None:
    for told in (False, True):
        detector = UnderReplication()
        for stamp_ms in (START_MS, START_MS + 10_000):
            seen = behind(50, told=told, stamp_ms=stamp_ms)
            seen.disks[2, "/bad"] = SeenDisk(2, "/bad", error=STORAGE_ERROR)
            found = look(detector, seen, stamp_ms).findings
        assert bool(found) is told


@pytest.mark.parametrize(("away", "found"), [(0, False), (1, False), (2, True)])
def test_leaders_are_skewed_when_more_than_a_tenth_is_led_by_others(away: int, found: bool) -> None:
    partitions = [partition(each, 1, 2, leader=2 if each < away else 1) for each in range(10)]
    findings = look(SkewedLeaders(), sight_of((1, 2), *partitions)).findings
    assert list(findings) == ([Subject(1)] if found else [])


def test_a_broker_that_could_not_lead_is_not_skewed() -> None:
    seen = sight_of((1, 2), partition(0, 1, 2, leader=2, in_sync=(2,)), partition(1, 2, 1))
    assert not look(SkewedLeaders(), seen).findings
    seen = sight_of((2,), partition(0, 1, 2, leader=2, in_sync=(2,)))
    assert not look(SkewedLeaders(), seen).findings


def filling(per_minute: int, *, minutes: int = 20, usable: int = 100 * GIB, capacity: int = 1000 * GIB) -> Verdicts:
    detector, found = FillingDisks(HORIZON_MS), Verdicts({}, lambda subject: None)
    for minute in range(minutes):
        seen = sight_of((1,), partition(0, 1), wall_ms=START_MS + minute * 60_000)
        hold(seen, 1, usable_bytes=usable - per_minute * minute, capacity_bytes=capacity)
        found = look(detector, seen, START_MS + minute * 60_000)
    return found


@pytest.mark.parametrize(
    ("per_minute", "found"), [(0, False), (-GIB, False), (GIB // 100, False), (GIB // 10, True), (GIB, True)]
)
def test_a_disk_that_will_be_full_within_a_day_is_found(per_minute: int, found: bool) -> None:
    """100 GiB last for 1,000 minutes at a tenth of a GiB a minute."""
    findings = filling(per_minute).findings
    assert list(findings) == ([Subject(1, "/d")] if found else [])


def test_how_soon_it_will_be_full_is_said() -> None:
    (finding,) = filling(GIB // 10).findings.values()
    assert finding.evidence[1] == "they have become fewer by 1,789,570 bytes a second over 19 minutes"
    assert finding.evidence[2] == "at that pace nothing is left in 16.4 hours"


def test_a_few_looks_make_no_trend() -> None:
    assert not filling(GIB, minutes=4).findings


def test_a_disk_that_is_nearly_full_needs_no_trend() -> None:
    (finding,) = filling(0, minutes=1, usable=10 * GIB, capacity=1000 * GIB).findings.values()
    assert finding.evidence == ("10,737,418,240 of 1,073,741,824,000 bytes are usable (1.0%)",)


def test_a_disk_of_which_the_broker_tells_no_room_is_left_out() -> None:
    seen = sight_of((1,), partition(0, 1))
    hold(seen, 1)
    assert not look(FillingDisks(HORIZON_MS), seen).findings


def test_a_trend_is_bounded_and_spans_all_of_it() -> None:
    trend = Trend()
    for each in range(5_000):
        trend.add((START_MS + each * 10_000, 10**9 - each * 1_000))
        assert len(trend.points) <= GUARDIAN_TREND_POINTS_MAX
    assert trend.points[0][0] == START_MS
    assert trend.points[-1][0] == START_MS + 4_999 * 10_000
    assert slope(trend.points) == pytest.approx(-0.1)


def test_a_clock_that_was_set_back_makes_no_trend() -> None:
    trend = Trend()
    for each in range(10):
        trend.add((START_MS + each * 60_000, 10**9))
    trend.add((START_MS - 60_000, 10))
    assert trend.points == [(START_MS - 60_000, 10)]


SIGHTS: list[tuple[Callable[[], Detector], Callable[[], ClusterSight]]] = [
    (DeadBrokers, dead_broker),
    (DeadDisks, dead_disk),
    (SkewedLeaders, lambda: sight_of((1, 2), partition(0, 1, 2, leader=2))),
]


@pytest.mark.parametrize(("detector", "sight"), SIGHTS)
@pytest.mark.parametrize("late_ms", [GUARDIAN_FRESH_MS, 10 * GUARDIAN_FRESH_MS, -1])
def test_metadata_that_is_old_or_of_the_future_says_nothing(
    detector: Callable[[], Detector], sight: Callable[[], ClusterSight], late_ms: int
) -> None:
    assert look(detector(), sight()).findings
    found = look(detector(), sight(), START_MS + late_ms)
    assert not found.findings
    assert found.well_ms(Subject(1)) is None


@pytest.mark.parametrize(("detector", "sight"), SIGHTS)
def test_metadata_that_could_not_be_had_says_nothing(
    detector: Callable[[], Detector], sight: Callable[[], ClusterSight]
) -> None:
    seen = sight()
    seen.failures[METADATA] = "no answer"
    found = look(detector(), seen)
    assert not found.findings
    assert found.well_ms(Subject(1)) is None
