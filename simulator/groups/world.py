"""A simulated cluster with consumer groups.

    GroupWorld(seed, GROUP_SCENARIOS["groups"]).run()

While faults happen and producers write, the members of groups read and commit; they die, leave, pause and come back.
When everything is well again, each partition must come to have one owner, who reads and commits all of it. Then the
members stop, the coordinators are asked what is committed, and the log of the groups is read from its beginning and
compared with what the members know.

`history` is what they know, `member` and its kinds who they are, `churn` what happens to them, `oddities` what is rare
among them, `coordinators` and `offsets_log` the rules for these and for their log, `faults` and `scenarios` what
happens to the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.metadata.image import PartitionRegistration
from penstock.node.coordinator_topic import partition_for
from penstock.node.groups import OFFSETS_TOPIC
from penstock.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from simulator.cluster.history import PartitionHistory
from simulator.cluster.replica_rules import replica_bytes
from simulator.cluster.world import END_MS_MAX, LOOK_MS, SETTLE_MS, TOPICS, ClusterWorld
from simulator.groups.churn import Churn, Group
from simulator.groups.coordinators import ListedGroups, SilentMembers
from simulator.groups.history import NOTHING, Place
from simulator.groups.load import GroupLoad
from simulator.groups.oddities import Oddities, Oddity, Visitors
from simulator.groups.offsets_log import GroupLog, check_log, last_values, replay_last
from simulator.groups.scenarios import GroupScenario
from simulator.world.checks import check

SESSION_MS, REBALANCE_MS = (1_500, 3_000), (1_000, 2_500)
OFFSETS_PARTITIONS = (1, 2, 3)
READERS = 1
PRODUCERS = 4
FETCH_OFFSETS_VERSION = 8
SPARE_MS = 1_000
"""So much later than they should a coordinator may do things, and a look may see it."""
KNOWS = "a coordinator knows what its log says"
SETTLES = "a group that is well comes to rest, with everything read and committed"


class GroupWorld(ClusterWorld):
    """See the module's head.

    Attributes:
        groups, churn: the groups and what happens to them. passes: of the log cleaner, since the nodes' last starts.
    """

    def __init__(self, seed: int, scenario: GroupScenario) -> None:
        self.oddities = Oddities(seed, mixed=any(len(set(each)) > 1 for each in scenario.protocols))
        super().__init__(seed, scenario)
        self.readers = self.readers[:READERS]
        self.producers = self.producers[:PRODUCERS]
        random = self.random
        self.group_load = GroupLoad(self.load, self.checker, self._session_ms, random.choice(REBALANCE_MS))
        self.groups = [
            Group(
                self.group_load,
                f"group-{number}",
                TOPICS,
                protocols,
                self.oddities.size(random.choice(scenario.sizes)),
                cooperative=random.random() < 0.5,
            )
            for number, protocols in enumerate(scenario.protocols)
        ]
        if self.oddities.kind not in (None, Oddity.VISITORS):
            self.oddities.random.choice(self.groups).be_odd(self.oddities)
        self.churn = Churn(self.group_load, self.groups, scenario.churn_interval_ms)
        self.listed = ListedGroups(self.checker)
        self.silent = SilentMembers(self.checker, self._living, self._session_ms + SPARE_MS)
        self._answers: dict[str, Any] = {}
        self.passes = 0

    def _settings(self, controller_ids: Sequence[int]) -> dict[str, Any]:
        self._session_ms = self.random.choice(SESSION_MS)
        replicas = min(3, *self.scenario.nodes)
        assert isinstance(self.scenario, GroupScenario)
        step = self.scenario.assignment_step
        return {
            **super()._settings(controller_ids),
            "offsets_topic_num_partitions": self.random.choice(OFFSETS_PARTITIONS),
            "offsets_topic_replication_factor": replicas,
            "min_insync_replicas": min(2, replicas),
            "log_flush_interval_messages": 1 if self.scenario.durable else 2**63 - 1,
            "group_min_session_timeout_ms": 1_000,
            "group_initial_rebalance_delay_ms": self.random.choice((0, 300)),
            "group_consumer_min_session_timeout_ms": 1_000,
            "group_consumer_session_timeout_ms": self._session_ms,
            "group_consumer_min_heartbeat_interval_ms": 100,
            "group_consumer_heartbeat_interval_ms": 400,
            "group_consumer_assignment_interval_ms": self.random.choice((0, 200)),
            "group_coordinator_append_linger_ms": self.random.choice((-1, 0, 5)),
            **({} if step is None else {"penstock_group_consumer_assignment_step": step}),
            **self.oddities.settings(),
        }

    # The run

    def _suffer(self) -> None:
        self.churn.begin()
        if self.oddities.kind is Oddity.VISITORS:
            Visitors(self.group_load, self.oddities.random).begin()
        super()._suffer()
        self.churn.end()

    def _recover(self) -> None:
        super()._recover()
        self.churn.fill()
        self._wait_until(lambda: not self._unsettled(), END_MS_MAX, SETTLES, lambda: "; ".join(self._unsettled()))
        self.group_load.over = True
        for group in self.groups:
            for member in group.members:
                member.die()
        self.simulation.run(self.simulation.now_ms + SETTLE_MS)
        rule = "replicas come back into sync"
        self._wait_until(lambda: not self._unsynced(), END_MS_MAX, rule, lambda: ", ".join(self._unsynced()))
        self._check_log()
        self._ask_committed()

    def _look(self) -> None:
        super()._look()
        self.listed.look()
        self.silent.look(LOOK_MS)

    def _living(self) -> set[str]:
        return {member.member_id for group in self.groups for member in group.members}

    def _replicated(self) -> Sequence[PartitionHistory]:
        offsets = [PartitionHistory(OFFSETS_TOPIC, index) for index in self._offsets_partitions]
        return [*super()._replicated(), *offsets]

    def _unsettled(self) -> list[str]:
        self.churn.fill()
        return [each for group in self.groups for each in group.unsettled(self._end_of)]

    def _end_of(self, topic: str, index: int) -> int | None:
        """Where the leader's log ends."""
        registration = self.checker.image.partition(topic, index)
        history = self.group_load.history(topic, index)
        assert registration is not None
        assert history is not None
        return None if registration.leader < 0 else self._end_offset(registration.leader, history)

    def _offsets_partition(self, index: int) -> PartitionRegistration:
        registration = self.checker.image.partition(OFFSETS_TOPIC, index)
        assert registration is not None
        return registration

    @property
    def _offsets_partitions(self) -> range:
        topic = self.checker.image.topics_by_name.get(OFFSETS_TOPIC)
        return range(0 if topic is None else len(topic.partitions))

    def _alike(self) -> Sequence[PartitionHistory]:
        assert isinstance(self.scenario, GroupScenario)
        return super()._replicated() if self.scenario.cleaned else self._replicated()

    def _check_log(self) -> None:
        """The log of the groups is what the members know, in every replica."""
        assert isinstance(self.scenario, GroupScenario)
        if self.scenario.cleaned:
            self._check_cleaned_log()
            return
        logs = {group.history.group_id: GroupLog(group.history) for group in self.groups}
        for index in self._offsets_partitions:
            replicas = self._offsets_partition(index).replicas
            contents = [replica_bytes(self.checker.machines[each], OFFSETS_TOPIC, index) for each in replicas]
            same = all(content == contents[0] for content in contents)
            check(same, "replicas are equal", f"{OFFSETS_TOPIC}-{index} of {replicas}")
            count = check_log(contents[0], logs)
            self.simulation.trace(f"{OFFSETS_TOPIC}-{index} has {count} records")
        for log in logs.values():
            log.check_whole()
        self._logs = logs

    def _check_cleaned_log(self) -> None:
        """A reader from the start sees the same last value of each key, in whichever replica; and that is, of a commit,
        what the members know.
        """
        logs = {group.history.group_id: GroupLog(group.history) for group in self.groups}
        for index in self._offsets_partitions:
            replicas = self._offsets_partition(index).replicas
            found = [last_values(replica_bytes(self.checker.machines[each], OFFSETS_TOPIC, index)) for each in replicas]
            for each, values in zip(replicas, found, strict=True):
                different = sorted(key for key in {*values, *found[0]} if values.get(key) != found[0].get(key))
                where = f"{OFFSETS_TOPIC}-{index} of {replicas[0]} and {each}: {different[:3]}"
                check(not different, "replicas have the same last values", where)
            replay_last(found[0], logs)
        passes = [machine.broker.logs.cleaner.cleaned_logs for machine in self.checker.machines.values()]
        self.simulation.trace(f"{sum(passes)} passes of the cleaner since the last starts")
        self.passes = sum(passes)
        self._logs = logs

    def _ask_committed(self) -> None:
        """The coordinators say what the log says."""
        client = self.load.client("last-admin")
        for group in self.groups:
            group_id = group.history.group_id
            leader = self._offsets_partition(partition_for(group_id, len(self._offsets_partitions))).leader
            wanted = OffsetFetchRequestGroup(group_id=group_id, topics=None)
            request = OffsetFetchRequest(groups=[wanted], require_stable=True)
            answers: list[Any] = []
            client.ask(self.checker.machines[leader].address(), request, FETCH_OFFSETS_VERSION, answers.append)
            self._wait_until(lambda: bool(answers), END_MS_MAX, "a coordinator answers", str)  # noqa: B023
            (answer,) = answers[0].groups
            check(not answer.error_code, "a coordinator answers", str(answer.error_code))
            told = {
                (topic.name, each.partition_index): each.committed_offset
                for topic in answer.topics
                for each in topic.partitions
                if each.committed_offset != NOTHING
            }
            self._compare(group, told)

    def _compare(self, group: Group, told: dict[Place, int]) -> None:
        written = {place: offset for place, (offset, _) in self._logs[group.history.group_id].committed.items()}
        check(told == written, KNOWS, f"{group.history.group_id}: {told}, the log has {written}")
        for place, offset in told.items():
            group.history.check_committed(place, offset)
        self.simulation.trace(f"{group.history.group_id}: {group.history.commits} commits, {written}")
