"""A simulated cluster with topics that are compacted.

    CompactedWorld(seed, COMPACTED_SCENARIOS["compacted"]).run()

Beside the topics of every cluster, whose segments are small here, there is one that is compacted and one that is
compacted and deleted. Producers write the same few keys again and again, and delete markers; readers read it all from
the beginning, again and again; every replica is cleaned for itself. In the end replicas may differ in what is left, and
not in the last value of any key.

`history` is what the clients know, `rules` what holds of the replicas, `producers` and `readers` who they are,
`records` what is written, `scenarios` what happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.log.events import LogCleaned
from simulator.cluster.chaos_admins import ChaosAdmin
from simulator.cluster.clocks import Clocks
from simulator.cluster.history import EVERYTHING_MAY_GO, PartitionHistory
from simulator.cluster.readers import Reader
from simulator.cluster.scenarios import Scenario
from simulator.cluster.world import ClusterWorld
from simulator.compacted.history import Cleanup, KeyedHistory
from simulator.compacted.producers import KeyedProducer
from simulator.compacted.readers import KeyedReader
from simulator.compacted.records import Contents
from simulator.compacted.rules import CompactedRules
from simulator.world.machine import Machine

COMPACTED, ALSO_DELETED = "profiles", "sessions"
PARTITIONS = {COMPACTED: 2, ALSO_DELETED: 1}
PRODUCERS_EACH = 2
OTHER_PRODUCERS, OTHER_PLAIN, OTHER_READERS = 2, 1, 1
SEGMENT_BYTES = (1_200, 1_200, 2_500)
OTHER_SEGMENT_BYTES = 1_500
MIN_COMPACTION_LAG_MS = (0, 0, 2_500)
LONG_MS, SHORT_MS = 600_000, 2_000
RETENTION_MS = (LONG_MS, 5_000)
APART_MS = (0, 1_000)
TASK_US_MAX = (0, 50_000, 500_000)
MAX_COMPACTION_LAG_MS = 1_500
FSYNCS = ("none", "group")
COLD_PROBABILITY = 0.3
CLEANER_THREADS = (1, 2)
DEDUPE_BUFFER_BYTES = (300, 1 << 16)
"""The smaller one has room for less than all keys, so that passes end early."""
POLICIES = {
    COMPACTED: ("compact", "compact", "delete"),
    ALSO_DELETED: ("compact,delete", "compact,delete", "compact"),
}


class CompactedWorld(ClusterWorld):
    """See the module's head.

    Attributes:
        keyed: the partitions of the topics that are compacted; they are among the `partitions`, too.
        gone: records that were acknowledged and are not there in the end, since others have their keys.
    """

    def __init__(self, seed: int, scenario: Scenario) -> None:
        super().__init__(seed, scenario)
        del self.producers[OTHER_PRODUCERS:], self.plain[OTHER_PLAIN:], self.readers[OTHER_READERS:]
        random = self.random
        apart_ms = random.choice(APART_MS)
        delete_retention_ms = LONG_MS if apart_ms else random.choice((LONG_MS, SHORT_MS))
        lag_ms, retention_ms = random.choice(MIN_COMPACTION_LAG_MS), random.choice(RETENTION_MS)
        self.cleanups = {
            COMPACTED: Cleanup(lag_ms, delete_retention_ms, None, apart_ms),
            ALSO_DELETED: Cleanup(lag_ms, delete_retention_ms, retention_ms, apart_ms),
        }
        self.configs = {
            "internal.segment.bytes": str(random.choice(SEGMENT_BYTES)),
            "penstock.log.fsync": random.choice(FSYNCS),
        }
        if not lag_ms and random.random() < 0.5:
            self.configs["max.compaction.lag.ms"] = str(MAX_COMPACTION_LAG_MS)
        self.cold = random.random() < COLD_PROBABILITY
        for machine in self.machines:
            machine.task_us_max = random.choice(TASK_US_MAX)
        self.clocks = Clocks(self.simulation, self.machines, ahead_ms_max=apart_ms // 2)
        self.gone = 0
        self.contents = Contents()
        self.compacted_rules = CompactedRules(self.checker.machines, self.contents)
        self.keyed = [
            KeyedHistory(topic, index, self.cleanups[topic])
            for topic, count in PARTITIONS.items()
            for index in range(count)
        ]
        self.partitions += self.keyed
        known = len(self.load.clients)
        self.keyed_producers = [
            KeyedProducer(self.load, history, f"keyed-{number}-of-{history.name}")
            for history in self.keyed
            for number in range(PRODUCERS_EACH)
        ]
        self.keyed_readers = [self._keyed_reader(history, f"reader-of-{history.name}") for history in self.keyed]
        self.producers += self.keyed_producers
        self.readers += self.keyed_readers
        if random.random() < 0.5:
            broker_ids = [machine.settings.node_id for machine in self.machines]
            self.chaos_admins.append(ChaosAdmin(self.load, 0, broker_ids, self.replication_factor, (change_policy,)))
        self.faults.cluster.clients += [client.name for client in self.load.clients[known:]]

    def _settings(self, controller_ids: Sequence[int]) -> dict[str, Any]:
        return {
            **super()._settings(controller_ids),
            "log_cleaner_threads": self.random.choice(CLEANER_THREADS),
            "log_cleaner_dedupe_buffer_size": self.random.choice(DEDUPE_BUFFER_BYTES),
        }

    def _topic_configs(self) -> dict[str, str]:
        return {**super()._topic_configs(), "internal.segment.bytes": str(OTHER_SEGMENT_BYTES)}

    def _keyed_reader(self, history: KeyedHistory, name: str) -> KeyedReader:
        return KeyedReader(self.load, history, name, self.contents, self._highest)

    def _highest(self, history: KeyedHistory) -> int:
        return self.checker.highest_watermark(history.topic, history.index)

    def _mend(self, machine: Machine) -> None:
        super()._mend(machine)
        for disk in machine.disks:
            disk.cold = self.cold

    # The run

    def _boot(self) -> None:
        super()._boot()
        for topic, count in PARTITIONS.items():
            configs = {**self._topic_configs(), **self.configs, **self.cleanups[topic].configs}
            self._make_topics([topic], count, configs)

    def _look(self) -> None:
        for history in self.keyed:
            self.compacted_rules.look(self.checker.image, history, self.simulation.now_ms)
        super()._look()

    def _alike(self) -> Sequence[PartitionHistory]:
        return [partition for partition in super()._alike() if not isinstance(partition, KeyedHistory)]

    def _alike_in_the_end(self) -> Sequence[PartitionHistory]:
        return [partition for partition in super()._alike_in_the_end() if not isinstance(partition, KeyedHistory)]

    def _last_reader(self, partition: PartitionHistory, name: str) -> Reader:
        if isinstance(partition, KeyedHistory):
            return self._keyed_reader(partition, name)
        return super()._last_reader(partition, name)

    def _compare_replicas(self) -> None:
        """Also of what is compacted: after all of it was found, none lacks the last record of a key."""
        super()._compare_replicas()
        now_ms = self.simulation.now_ms
        for history in self.keyed:
            registration = self._registration(history)
            assert registration is not None
            for broker_id in (*registration.replicas, *registration.replicas):
                left = self.compacted_rules.check(history, broker_id, EVERYTHING_MAY_GO, now_ms)
            self.gone += len(history.acknowledged) - left
            self.simulation.trace(f"{history.name} has {left} records left of {len(history.acknowledged)}")
        self.simulation.trace(f"{self.passes} passes of the cleaner")

    @property
    def passes(self) -> int:
        """How many passes of the cleaner were taken into use."""
        return sum(isinstance(event, LogCleaned) for machine in self.machines for event in machine.events)


def change_policy(admin: ChaosAdmin) -> None:
    """Changes the cleanup policy of a topic, perhaps in the middle of a pass."""
    topic = admin.random.choice(sorted(POLICIES))
    admin.set(topic, "cleanup.policy", admin.random.choice(POLICIES[topic]))
