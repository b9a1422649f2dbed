"""Any sequence of looks: nothing is done on what was not seen lately, nothing twice, nothing where many are dead.

The checks here go by what the test itself has done to the cluster, not by what the lookout remembers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from support.sights import START_MS, Looker, live, partition, sight_of

from penstock.guardian.core.alarms.alarm import ACTING, CONFIRMED, Alarm
from penstock.guardian.core.alarms.census import census_of
from penstock.guardian.core.alarms.finding import DEAD_BROKER
from penstock.guardian.core.alarms.lifecycle import Circumstances, Times, may_heal
from penstock.guardian.core.alarms.streaks import Streak
from penstock.guardian.core.limits import GUARDIAN_FRESH_MS
from penstock.guardian.core.sight import METADATA, ClusterSight, Contact

SEEDS = 150
STEPS = 250
ALARMS = "penstock.guardian.core.alarms"
MAY_HEAL = may_heal


@dataclass
class Storm:
    """A cluster whose brokers die and come back while looks fail, lie still, or come late.

    Attributes: `dead`, those that are dead now; `silent_until_ms`: no look succeeds before; `seen_ms`: when the last
    one did, and `seen_dead`: what it showed. `acts`: heals by alarm.
    """

    random: Random
    brokers: int
    looker: Looker
    seen: ClusterSight
    dead: list[int] = field(default_factory=list)
    silent_until_ms: int = 0
    seen_ms: int = 0
    seen_dead: tuple[int, ...] = ()
    acts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, seed: int) -> Storm:
        random = Random(seed)
        brokers = random.choice((3, 4, 10, 25))
        seen = sight_of(range(1, brokers + 1))
        storm = cls(random, brokers, Looker(), seen)
        storm.see()
        return storm

    def see(self) -> None:
        """The cluster is seen as it is now."""
        partitions = []
        for each in range(1, self.brokers + 1):
            replicas = (each, each % self.brokers + 1)
            in_sync = tuple(one for one in replicas if one not in self.dead)
            partitions.append(partition(each, *replicas, leader=in_sync[0] if in_sync else -1, in_sync=in_sync))
        self.seen.topics = sight_of((), *partitions).topics
        live(self.seen, [each for each in range(1, self.brokers + 1) if each not in self.dead])
        self.seen.seen_ms[METADATA] = self.seen_ms = self.looker.wall_ms
        self.seen_dead = tuple(self.dead)
        self.seen.contacts = {each: Contact(self.looker.wall_ms, False, "no answer") for each in self.dead}

    def step(self) -> None:
        """Something happens, or nothing; then the lookout looks."""
        random, looker = self.random, self.looker
        looker.wall_ms += random.choice((1_000, 5_000, 10_000, 10_000, 10_000))
        chance = random.random()
        if chance < 0.03 and len(self.dead) < self.brokers - 1:
            count = random.choice((1, 1, 1, 2, 3))
            alive = [each for each in range(1, self.brokers + 1) if each not in self.dead]
            self.dead += random.sample(alive, min(count, len(alive) - 1))
        elif chance < 0.06 and self.dead:
            self.dead.remove(random.choice(self.dead))
        elif chance < 0.09:
            self.silent_until_ms = looker.wall_ms + random.choice((20_000, 60_000, 200_000))
        elif chance < 0.11:
            looker.lookout = looker.new_lookout()
        elif chance < 0.13:
            looker.mode(random.choice(("observe", "advise", "act", "act")))
        if looker.wall_ms >= self.silent_until_ms:
            self.see()
        before = len(looker.acts)
        looker.look(self.seen)
        for alarm in looker.acts[before:]:
            self.check(alarm.broker, str(alarm.id))

    def check(self, broker: int, alarm: str) -> None:
        """What must hold of a heal that has just been meant."""
        assert self.looker.cluster.mode("heal") == "act"
        assert self.looker.wall_ms - self.seen_ms < GUARDIAN_FRESH_MS, "stale"
        assert len(self.seen_dead) <= max(1, self.brokers / 10), "many"
        if self.looker.acts[-1].kind == DEAD_BROKER:
            assert broker in self.seen_dead
        self.acts[alarm] += 1
        assert self.acts[alarm] == 1, "twice"
        acting = [each for each in self.looker.alarms.by_id.values() if each.state == ACTING]
        assert len(acting) == 1, "one at a time"


@pytest.mark.parametrize("begin", range(0, SEEDS, 30))
def test_no_sequence_of_looks_leads_to_an_act_that_must_not_be(begin: int) -> None:
    acts = 0
    for seed in range(begin, begin + 30):
        storm = Storm.of(seed)
        for _ in range(STEPS):
            storm.step()
        acts += sum(storm.acts.values())
        assert len(storm.seen.suspected) <= 5 * storm.brokers
    assert acts > 5, "the storm never lets anything be healed: it shows nothing"


def heals_again(alarm: Alarm, streak: Streak, times: Times, circumstances: Circumstances) -> bool:
    """As `may_heal`, but however often it was healed before, and while others are."""
    return MAY_HEAL(replace(alarm, heals=0, state=CONFIRMED), streak, times, replace(circumstances, busy=False))


@pytest.mark.parametrize(
    ("places", "planted", "found"),
    [
        (("finding.fresh", "dead_brokers.fresh"), lambda stamp_ms, wall_ms: True, "stale"),
        (("lifecycle.Circumstances.many",), property(lambda self: False), "many"),
        (("lifecycle.may_heal",), heals_again, "twice|one at a time"),
    ],
)
def test_planted_faults_are_found(
    monkeypatch: pytest.MonkeyPatch, places: tuple[str, ...], planted: object, found: str
) -> None:
    """Stale looks that are trusted, a crowd that does not count, an alarm that is healed again."""
    for place in places:
        monkeypatch.setattr(f"{ALARMS}.{place}", planted)
    with pytest.raises(AssertionError, match=found):
        test_no_sequence_of_looks_leads_to_an_act_that_must_not_be(0)


def test_the_census_counts_what_is_there() -> None:
    """Against a count by other means."""
    random = Random(3)
    for _ in range(50):
        alive = random.sample(range(1, 9), 5)
        partitions = []
        for each in range(20):
            replicas = tuple(random.sample(range(1, 9), 3))
            in_sync = tuple(one for one in replicas if random.random() < 0.7)
            partitions.append(partition(each, *replicas, leader=random.choice((*replicas, -1)), in_sync=in_sync))
        census = census_of(sight_of(alive, *partitions, wall_ms=START_MS))
        for broker in range(1, 9):
            held = [each for each in partitions if broker in each.replicas]
            missing = 0 if broker in alive else len(held)
            behind = [each for each in held if broker in alive and broker not in each.in_sync]
            first = [each for each in held if each.replicas[0] == broker and broker in alive]
            away = [each for each in first if each.leader not in (broker, -1) and broker in each.in_sync]
            assert (census.missing[broker].count if broker in census.missing else 0) == missing
            assert (census.behind[broker].count if broker in census.behind else 0) == len(behind)
            assert census.preferred.get(broker, 0) == len(first)
            assert (census.away[broker].count if broker in census.away else 0) == len(away)
