"""What becomes of alarms, look by look: when they are confirmed, healed, over, and when a person must look."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.sights import EVERY_MS, Looker, hold, live, partition, sight_of

from penstock.guardian.core.alarms.alarm import ACTING, CONFIRMED, ESCALATED, RECOVERED
from penstock.guardian.core.alarms.finding import DEAD_BROKER, DEAD_DISK, FILLING_DISK, SKEWED_LEADERS
from penstock.guardian.core.alarms.lifecycle import AGAIN, FLAPS, MANY, NO_HELP
from penstock.guardian.core.limits import GUARDIAN_ALARMS_MAX
from penstock.guardian.core.sight import METADATA, ClusterSight

CONFIRM_MS = 40_000
"""Looks until something is confirmed: the first begins the streak."""
DELAY_MS = 60_000


def cluster(brokers: int, *dead: int) -> ClusterSight:
    """A cluster whose partition N has replicas on brokers N and the next one, leaders and ISR without the dead."""
    partitions = []
    for each in range(1, brokers + 1):
        replicas = (each, each % brokers + 1)
        in_sync = tuple(one for one in replicas if one not in dead)
        leader = in_sync[0] if in_sync else -1
        partitions.append(partition(each - 1, *replicas, leader=leader, in_sync=in_sync))
    return sight_of([each for each in range(1, brokers + 1) if each not in dead], *partitions)


def test_a_dead_broker_is_suspect_then_confirmed_then_healed_once() -> None:
    looker = Looker()
    seen = cluster(4, 3)
    looker.run(seen, CONFIRM_MS - EVERY_MS)
    assert not looker.alarms.by_id
    assert list(seen.suspected) == [(DEAD_BROKER, 3, "")]
    looker.run(seen, EVERY_MS)
    alarm = looker.only()
    assert (alarm.kind, alarm.broker, alarm.state) == (DEAD_BROKER, 3, CONFIRMED)
    looker.run(seen, DELAY_MS - EVERY_MS)
    assert not looker.acts
    looker.run(seen, EVERY_MS)
    assert [each.id for each in looker.acts] == [alarm.id]
    looker.run(seen, 600_000)
    assert len(looker.acts) == 1
    looker.run(cluster(4), CONFIRM_MS)
    assert looker.said == [CONFIRMED, ACTING, RECOVERED]


def test_missing_samples_confirm_nothing() -> None:
    """A sight that is not renewed, however long that lasts; planted: with `fresh` always true this fails."""
    looker = Looker()
    seen = cluster(4, 3)
    looker.run(seen, CONFIRM_MS - EVERY_MS)
    looker.run(seen, 600_000, fresh=False)
    assert not looker.alarms.by_id
    looker.run(seen, 2 * EVERY_MS)
    assert not looker.alarms.by_id, "after the gap it begins anew"
    looker.run(seen, 2 * EVERY_MS)
    assert looker.only().state == CONFIRMED


def test_nothing_is_done_on_what_was_seen_long_ago() -> None:
    looker = Looker()
    seen = cluster(4, 3)
    looker.run(seen, CONFIRM_MS)
    looker.run(seen, 600_000, fresh=False)
    assert looker.said == [CONFIRMED]
    seen.failures[METADATA] = "no answer"
    looker.run(seen, 600_000)
    assert looker.said == [CONFIRMED]


def test_without_a_second_vantage_point_it_stays_a_suspicion() -> None:
    for contact in (None, True):
        looker = Looker()
        seen = cluster(4, 3)
        looker.run(seen, 600_000, contact=contact)
        assert not looker.alarms.by_id
        assert list(seen.suspected) == [(DEAD_BROKER, 3, "")]


def test_a_broker_that_answers_again_is_not_healed() -> None:
    looker = Looker()
    seen = cluster(4, 3)
    looker.run(seen, CONFIRM_MS)
    looker.run(seen, 600_000, contact=True)
    assert looker.said == [CONFIRMED]


@pytest.mark.parametrize(("brokers", "dead", "heals"), [(3, 1, 1), (3, 2, 0), (19, 2, 0), (20, 2, 2), (20, 3, 0)])
def test_more_than_a_tenth_of_the_brokers_is_an_alarm_and_no_heal(brokers: int, dead: int, heals: int) -> None:
    """Brokers 2, 6, 10, ... die. One is healed after the other."""
    looker = Looker()
    gone = [2, 3] if brokers == 3 else [2, 6, 10]
    seen = cluster(brokers, *gone[:dead])
    looker.run(seen, CONFIRM_MS + DELAY_MS)
    for number in range(heals):
        assert len(looker.acts) == number + 1
        looker.run(cluster(brokers, *gone[number + 1 : dead]), CONFIRM_MS + 2 * EVERY_MS)
    assert len(looker.acts) == heals
    if not heals:
        assert {(each.state, each.reason) for each in looker.alarms.by_id.values()} == {(ESCALATED, MANY)}


def test_what_was_escalated_because_many_were_dead_goes_on_when_fewer_are() -> None:
    looker = Looker()
    looker.run(cluster(4, 2, 3), 200_000)
    assert not looker.acts
    looker.run(cluster(4, 3), 200_000)
    assert [each.broker for each in looker.acts] == [3]
    states = {each.broker: each.state for each in looker.alarms.by_id.values()}
    assert states == {2: RECOVERED, 3: ACTING}


def test_a_broker_that_comes_and_goes_is_one_alarm_that_is_healed_once() -> None:
    looker = Looker()
    for _ in range(5):
        looker.run(cluster(4, 3), 200_000)
        looker.run(cluster(4), CONFIRM_MS)
    alarm = looker.only()
    assert len(looker.acts) == 1
    assert (alarm.returns, alarm.heals) == (4, 1)
    assert looker.said[:5] == [CONFIRMED, ACTING, RECOVERED, ESCALATED, RECOVERED]
    assert alarm.reason == AGAIN


def test_a_broker_that_flaps_without_being_healed_is_for_a_person() -> None:
    """It comes back before the delay is over, again and again."""
    looker = Looker()
    for _ in range(6):
        looker.run(cluster(4, 3), CONFIRM_MS)
        looker.run(cluster(4), CONFIRM_MS)
    looker.run(cluster(4, 3), 400_000)
    assert not looker.acts
    assert (looker.only().state, looker.only().reason) == (ESCALATED, FLAPS)


def test_a_broker_that_flaps_fast_is_never_confirmed() -> None:
    looker = Looker()
    for _ in range(20):
        looker.run(cluster(4, 3), 2 * EVERY_MS)
        looker.run(cluster(4), EVERY_MS)
    assert not looker.alarms.by_id


def test_an_absence_begins_the_delay_anew() -> None:
    looker = Looker()
    looker.run(cluster(4, 3), CONFIRM_MS + DELAY_MS - EVERY_MS)
    looker.run(cluster(4), EVERY_MS)
    looker.run(cluster(4, 3), DELAY_MS - EVERY_MS)
    assert not looker.acts
    looker.run(cluster(4, 3), EVERY_MS)
    assert looker.acts


def test_after_the_calm_it_is_another_alarm() -> None:
    looker = Looker()
    looker.run(cluster(4, 3), 200_000)
    looker.run(cluster(4), 700_000)
    looker.run(cluster(4, 3), 200_000)
    assert len(looker.alarms.by_id) == 2
    assert len(looker.acts) == 2


def test_what_came_while_healing_was_off_is_taken_up_when_it_is_on() -> None:
    looker = Looker("observe")
    seen = cluster(4, 3)
    looker.run(seen, 600_000)
    assert looker.said == [CONFIRMED]
    looker.mode("advise")
    looker.run(seen, 600_000)
    assert looker.said == [CONFIRMED]
    looker.mode("act")
    looker.run(seen, EVERY_MS)
    assert looker.said == [CONFIRMED, ACTING]


@pytest.mark.parametrize(("mode", "acts"), [("observe", 0), ("advise", 1)])
def test_a_person_has_it_healed_where_guardian_only_advises(mode: str, acts: int) -> None:
    looker = Looker(mode)
    seen = cluster(4, 3)
    looker.run(seen, CONFIRM_MS)
    looker.alarms = looker.alarms.with_alarm(replace(looker.only(), asked=True))
    looker.run(seen, 600_000)
    assert len(looker.acts) == acts
    assert looker.only().asked is (acts == 0)


def test_a_wish_does_not_make_a_heal_of_many() -> None:
    looker = Looker("advise")
    seen = cluster(4, 2, 3)
    looker.run(seen, CONFIRM_MS)
    for each in list(looker.alarms.by_id.values()):
        looker.alarms = looker.alarms.with_alarm(replace(each, asked=True))
    looker.run(seen, 600_000)
    assert not looker.acts


def test_a_new_leader_does_not_begin_anew() -> None:
    """It finds the alarm confirmed, and heals as soon as it has seen it for the confirming time itself."""
    looker = Looker()
    seen = cluster(4, 3)
    looker.run(seen, CONFIRM_MS + DELAY_MS - EVERY_MS)
    looker.lookout = looker.new_lookout()
    looker.run(seen, CONFIRM_MS - EVERY_MS)
    assert not looker.acts
    looker.run(seen, EVERY_MS)
    assert len(looker.acts) == 1
    looker.lookout = looker.new_lookout()
    looker.run(seen, 600_000)
    assert len(looker.acts) == 1, "the intent of the one before is known"


def test_one_heal_at_a_time_in_a_cluster() -> None:
    looker = Looker()
    seen = cluster(20, 3, 9)
    looker.run(seen, 900_000)
    assert [each.broker for each in looker.acts] == [3]


def test_an_election_that_does_not_help_is_escalated() -> None:
    looker = Looker()
    seen = sight_of((1, 2), partition(0, 1, 2, leader=2))
    looker.run(seen, CONFIRM_MS + DELAY_MS)
    assert [each.kind for each in looker.acts] == [SKEWED_LEADERS]
    looker.run(seen, 600_000)
    assert (looker.only().state, looker.only().reason) == (ESCALATED, NO_HELP)
    assert len(looker.acts) == 1


def test_what_cannot_be_healed_stays_confirmed() -> None:
    looker = Looker(can_heal=(SKEWED_LEADERS,))
    looker.run(cluster(4, 3), 900_000)
    assert looker.said == [CONFIRMED]


def test_stuck_replicas_must_be_so_for_the_delay() -> None:
    looker = Looker()
    seen = sight_of((1, 2), partition(0, 1, 2, in_sync=(1,)))
    looker.run(seen, DELAY_MS)
    assert not looker.alarms.by_id
    looker.run(seen, 2 * EVERY_MS)
    assert looker.only().state == CONFIRMED


def test_a_dead_directory_is_healed_like_a_broker() -> None:
    looker = Looker()
    seen = sight_of((1, 2, 3), partition(0, 2, 1, leader=1, in_sync=(1,)))
    hold(seen, 2, error=56)
    looker.run(seen, CONFIRM_MS + DELAY_MS)
    assert [(each.kind, each.broker, each.path) for each in looker.acts] == [(DEAD_DISK, 2, "/d")]


def test_where_there_is_no_room_no_further_alarm_is_raised() -> None:
    looker = Looker("observe")
    seen = cluster(4, 3)
    looker.run(seen, CONFIRM_MS)
    one = looker.only()
    for each in range(1, GUARDIAN_ALARMS_MAX):
        looker.alarms = looker.alarms.with_alarm(
            replace(one, id=looker.new_id(), kind=FILLING_DISK, broker=1_000 + each)
        )
    assert looker.alarms.full
    live(seen, (1, 2))
    looker.run(seen, CONFIRM_MS)
    assert len(looker.alarms.by_id) == GUARDIAN_ALARMS_MAX
    looker.wall_ms += 1
    assert looker.look(seen).left_out == 1
