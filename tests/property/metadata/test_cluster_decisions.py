"""Whatever brokers do and whatever is asked, in any order, the controller's decisions keep what must hold.

A run is a random history of registrations, fencings, shutdowns, in-sync replica changes, reassignments, elections,
lost directories, other minimums, commits and lost appends. After each step every partition is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.metadata.controller_state import NOW_MS, State, directory_of

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import (
    alter_partition,
    brokers,
    configs,
    directories,
    eligible,
    features,
    heartbeats,
    leadership,
    reassignments,
    topics,
)
from penstock.metadata.brokers import Registration
from penstock.metadata.controller import Controller
from penstock.metadata.image import ConfigResource, Endpoint, PartitionRegistration
from penstock.metadata.indexes import PartitionIndexes, PartitionSet
from penstock.metadata.partition_change import RECOVERING, _Change
from penstock.metadata.reassignments import Reassignment
from penstock.metadata.result import Result
from penstock.metadata.timeline import Timeline
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from penstock.protocol.messages.metadata.feature_level_record import FeatureLevelRecord

BROKERS = range(1, 6)
Partitions = dict[tuple[UUID, int], PartitionRegistration]


class History:
    """A cluster and what happens to it."""

    def __init__(self, random: Random, *, elr: bool) -> None:
        self.random = random
        self.elr = elr
        self.state = State(broker_ids=())
        self.controller = self.state.controller
        if elr:
            self.state.replay([FeatureLevelRecord(name=features.ELR_VERSION, feature_level=1)])
        self.heartbeats = heartbeats.Heartbeats(9_000)
        self.incarnations = 0
        self.state.commit()
        self.clean_epochs: dict[int, int] = {}
        self.asked_by_leader = False
        for broker_id in BROKERS:
            self.register(broker_id)
            self.unfence(broker_id)

    # What may happen

    def step(self) -> None:
        self.asked_by_leader = False
        broker_id = self.random.choice(BROKERS)
        for_broker: list[Callable[[int], None]] = [
            self.register,
            self.unfence,
            self.unfence,
            self.unfence,
            self.fence,
            self.fence_in_steps,
            self.shut_down,
            self.unregister,
            self.lose_directory,
            self.assign_directory,
            self.assign_directory,
        ]
        others: list[Callable[[], None]] = [
            self.create,
            self.alter_isr,
            self.alter_isr,
            self.alter_isr,
            self.reassign,
            self.reassign,
            self.elect,
            self.balance,
            self.elect_unclean,
            self.delete,
            self.change_minimum,
            self.commit,
            self.lose_appends,
        ]
        chosen = self.random.randrange(len(for_broker) + len(others))
        try:
            if chosen < len(for_broker):
                for_broker[chosen](broker_id)
            else:
                others[chosen - len(for_broker)]()
        except RequestError:
            pass

    def apply(self, result: Result[Any]) -> None:
        self.state.replay(result.records)

    def register(self, broker_id: int) -> None:
        self.incarnations += 1
        known = [directory_of(broker_id), directory_of(broker_id + 100)]
        if self.random.random() < 0.7:
            known.pop(self.random.random() < 0.7)
        existing = self.controller.image.brokers.get(broker_id)
        registration = Registration(
            broker_id,
            UUID(int=self.incarnations),
            [Endpoint("PLAINTEXT", f"host-{broker_id % 3}", 9000 + broker_id)],
            known,
            self.random.choice(("a", "b")),
            self.random.choice((-1, self.clean_epochs.get(broker_id, -1))),
        )
        self.apply(brokers.register_broker(self.controller, registration, self.state.last_offset + 1))
        if self.elr and (existing is None or existing.epoch != registration.previous_broker_epoch):
            for partition in self.partitions().values():
                assert broker_id not in (*partition.isr, *partition.elr), f"{partition}: {broker_id} may lack records"

    def epoch_of(self, broker_id: int) -> int:
        broker = self.controller.image.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def unfence(self, broker_id: int) -> None:
        self.apply(brokers.unfence_broker(self.controller, broker_id, self.epoch_of(broker_id)))

    def fence(self, broker_id: int) -> None:
        self.apply(brokers.fence_broker(self.controller, broker_id, self.epoch_of(broker_id)))

    def fence_in_steps(self, broker_id: int) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(brokers, "LEADERSHIP_CHANGES_PER_STEP", 0)
            epoch = self.epoch_of(broker_id)
            self.apply(brokers.fence_broker(self.controller, broker_id, epoch, in_steps=True))
        for records in leadership.departure_steps(self.controller, broker_id, 2):
            self.state.replay(records)

    def shut_down(self, broker_id: int) -> None:
        self.heartbeats.follow(self.controller, NOW_MS)
        heartbeat = heartbeats.Heartbeat(
            broker_id, self.epoch_of(broker_id), self.state.last_offset, want_shut_down=True
        )
        result = heartbeats.process_heartbeat(self.controller, self.heartbeats, heartbeat, NOW_MS)
        self.apply(result)
        if result.response.in_controlled_shutdown:
            self.heartbeats.leaving_since(broker_id, self.state.last_offset)
        if result.response.should_shut_down:
            self.clean_epochs[broker_id] = self.epoch_of(broker_id)
            assert not len(self.controller.indexes.led_by(broker_id)), "a broker that stops leads nothing"

    def unregister(self, broker_id: int) -> None:
        self.apply(brokers.unregister_broker(self.controller, broker_id))

    def lose_directory(self, broker_id: int) -> None:
        broker = brokers.checked(self.controller, broker_id, self.epoch_of(broker_id))
        lost = [self.random.choice((directory_of(broker_id), directory_of(broker_id + 100)))]
        if set(broker.log_dirs) - set(lost):
            cordoned = self.random.choice((None, [], list(broker.log_dirs)))
            self.state.replay(directories.report_directories(self.controller, broker, lost, cordoned))

    def assign_directory(self, broker_id: int) -> None:
        broker = brokers.checked(self.controller, broker_id, self.epoch_of(broker_id))
        where = self.random.choice((*broker.log_dirs, directory_of(99)))
        wanted = {key: where for key in self.partitions() if self.random.random() < 0.6}
        self.apply(directories.assign_directories(self.controller, broker_id, broker.epoch, wanted))

    def create(self) -> None:
        name = f"t{self.random.randrange(6)}"
        unclean = self.random.random() < 0.3
        configs = [
            CreatableTopicConfig(name="unclean.leader.election.enable", value=str(unclean).lower()),
            CreatableTopicConfig(name="min.insync.replicas", value=str(self.random.randrange(1, 3))),
        ]
        topic = CreatableTopic(
            name=name,
            num_partitions=self.random.randrange(1, 4),
            replication_factor=self.random.randrange(1, 4),
            configs=configs,
        )
        self.apply(topics.create_topics(self.controller, [topic]))

    def delete(self) -> None:
        if self.random.random() < 0.3:
            ids = [topic.id for topic in self.controller.image.topics_by_id.values()]
            self.apply(topics.delete_topics(self.controller, [self.random.choice(ids)] if ids else []))

    def change_minimum(self) -> None:
        """Of one topic or of all: who is eligible stays so where nobody is in sync, and only there."""
        topics_now = [topic.name for topic in self.controller.image.topics_by_id.values()]
        name = self.random.choice(["", *topics_now])
        resource = (ConfigResource.TOPIC if name else ConfigResource.BROKER, name)
        change = configs.ConfigChange("min.insync.replicas", configs.SET, str(self.random.randrange(1, 4)))
        before = self.partitions()
        result = configs.alter_configs(self.controller, {resource: [change]})
        self.apply(result)
        for key, partition in self.partitions().items():
            concerned = result.records and name in ("", self.controller.image.topics_by_id[key[0]].name)
            kept = before[key].elr if not concerned or not partition.isr else ()
            assert partition.elr == kept, partition

    def some_partition(self) -> tuple[UUID, int, PartitionRegistration] | None:
        known = list(self.partitions().items())
        if not known:
            return None
        (topic_id, index), partition = self.random.choice(known)
        return topic_id, index, partition

    def alter_isr(self) -> None:
        """A leader says who is in sync: mostly what it may say, sometimes nonsense."""
        found = self.some_partition()
        if found is None:
            return
        self.asked_by_leader = True
        topic_id, index, partition = found
        chosen = [each for each in partition.replicas if each == partition.leader or self.random.random() < 0.7]
        if self.random.random() < 0.2:
            chosen = self.random.choices(list(BROKERS), k=self.random.randrange(4))
        wanted = alter_partition.WantedIsr(
            topic_id,
            index,
            partition.leader_epoch + self.random.choice((0, 0, 0, 0, -1, 1)),
            partition.partition_epoch + self.random.choice((0, 0, 0, 0, -1, 1)),
            [(each, self.random.choice((-1, *2 * [self.epoch_of(each)], self.epoch_of(each) - 1))) for each in chosen],
            self.random.choice((0, 0, partition.leader_recovery_state)),
        )
        leader = partition.leader if self.random.random() < 0.9 else self.random.choice(BROKERS)
        result = alter_partition.alter_partitions(self.controller, leader, self.epoch_of(leader), [wanted])
        self.apply(result)
        if result.response[0].code is ErrorCode.NONE:
            assert all(epoch in (-1, self.epoch_of(each)) for each, epoch in wanted.isr), "a past incarnation joins"

    def reassign(self) -> None:
        found = self.some_partition()
        if found is None:
            return
        topic_id, index, _ = found
        name = self.controller.image.topics_by_id[topic_id].name
        target = self.random.sample(list(BROKERS), self.random.randrange(1, 4))
        wanted = Reassignment(name, index, target if self.random.random() < 0.7 else None)
        allow = self.random.random() < 0.7
        self.apply(reassignments.alter_reassignments(self.controller, [wanted], allow_replication_factor_change=allow))

    def elect(self) -> None:
        self.apply(leadership.elect_leaders(self.controller, 0, None))

    def balance(self) -> None:
        self.apply(leadership.balance(self.controller))

    def elect_unclean(self) -> None:
        self.apply(leadership.elect_unclean(self.controller))

    def commit(self) -> None:
        self.state.commit()

    def lose_appends(self) -> None:
        if self.random.random() < 0.3:
            self.controller.revert()

    # What must hold

    def partitions(self) -> Partitions:
        return {
            (topic.id, index): partition
            for topic in self.controller.image.topics_by_id.values()
            for index, partition in enumerate(topic.partitions)
        }

    def check(self, before: Partitions, reverted: bool) -> None:
        for (topic_id, index), partition in self.partitions().items():
            self.check_partition(self.controller.image.topics_by_id[topic_id].name, partition)
            earlier = before.get((topic_id, index))
            if earlier is not None and not reverted:
                self.check_change(self.controller.image.topics_by_id[topic_id].name, earlier, partition)
        self.check_indexes()

    def minimum(self, topic: str) -> int:
        return self.controller.topic_config(topic).min_insync_replicas

    def check_partition(self, name: str, partition: PartitionRegistration) -> None:
        assert set(partition.isr) <= set(partition.replicas), partition
        assert len(set(partition.isr)) == len(partition.isr), partition
        assert len(set(partition.replicas)) == len(partition.replicas), partition
        assert len(partition.directories) == len(partition.replicas), partition
        assert set(partition.adding_replicas) <= set(partition.replicas), partition
        assert set(partition.removing_replicas) <= set(partition.replicas), partition
        assert not set(partition.elr) & set(partition.isr), partition
        assert not partition.elr or len(partition.isr) < max(1, self.minimum(name)), f"{partition} goes on without them"
        assert self.elr or (partition.isr and not partition.elr and not partition.last_known_elr), partition
        if partition.leader >= 0:
            assert partition.leader in partition.isr, partition
            assert self.may_lead(partition, partition.leader), partition
        else:
            able = partition.isr or partition.elr
            assert not any(self.may_lead(partition, each) for each in able), f"somebody could lead {partition}"

    def may_lead(self, partition: PartitionRegistration, broker_id: int) -> bool:
        return self.controller.is_active(broker_id) and self.controller.has_online_directory(
            broker_id, partition.directory(broker_id)
        )

    def check_change(self, name: str, before: PartitionRegistration, after: PartitionRegistration) -> None:
        assert after.partition_epoch >= before.partition_epoch
        forgotten = before.with_(elr=(), last_known_elr=())
        assert after in (before, forgotten) or after.partition_epoch > before.partition_epoch
        assert after.leader_epoch >= before.leader_epoch
        if after.leader != before.leader or not set(before.replicas) <= set(after.replicas):
            assert after.leader_epoch > before.leader_epoch
        added = set(before.adding_replicas)
        if added and not after.adding_replicas and added <= set(after.replicas):
            assert added <= set(after.isr), f"a reassignment ends early: {before} to {after}"
        allowed = self.controller.image.topic_configs(name)["unclean.leader.election.enable"] == "true"
        clean = not allowed and not self.asked_by_leader
        if clean and after.leader not in (-1, before.leader):
            last_known = after.leader in before.last_known_elr and after.leader_recovery_state == RECOVERING
            complete = after.leader in {*before.isr, *before.elr}
            assert complete or last_known, f"an unclean election: {before} to {after}"
            lay = before.directory(after.leader)
            if lay != after.directory(after.leader) and lay != UUID(int=0) and len(before.replicas) > 1:
                there = self.controller.image.brokers[after.leader].log_dirs
                assert lay in there, f"an empty replica is elected: {before} to {after}"

    def check_indexes(self) -> None:
        fresh = PartitionIndexes(Timeline(), self.controller.image)
        kept = self.controller.indexes
        for broker_id in BROKERS:
            assert members(kept.led_by(broker_id)) == members(fresh.led_by(broker_id))
            assert members(kept.in_sync_on(broker_id)) == members(fresh.in_sync_on(broker_id))
            assert members(kept.eligible_on(broker_id)) == members(fresh.eligible_on(broker_id))
        assert members(kept.leaderless) == members(fresh.leaderless)
        assert members(kept.imbalanced) == members(fresh.imbalanced)
        assert members(kept.reassigning) == members(fresh.reassigning)


def members(partitions: PartitionSet) -> set[int]:
    return set(partitions)


@pytest.mark.parametrize("elr", [False, True], ids=["in-sync only", "eligible leader replicas"])
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), steps=st.integers(10, 120))
def test_every_decision_keeps_what_must_hold(elr: bool, seed: int, steps: int) -> None:
    history = History(Random(seed), elr=elr)
    for _ in range(steps):
        before, offset = history.partitions(), history.state.last_offset
        history.step()
        history.check(before, history.state.last_offset < offset)


def everybody_is_active(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Controller, "is_active", lambda self, broker_id: broker_id in self.image.brokers)


def deleted_topics_stay_in_the_indexes(patch: pytest.MonkeyPatch) -> None:
    def forgetful(self: PartitionIndexes, delta: Any) -> None:
        delta.deleted_topics, deleted = {}, delta.deleted_topics
        apply(self, delta)
        delta.deleted_topics = deleted

    apply = PartitionIndexes.apply
    patch.setattr(PartitionIndexes, "apply", forgetful)


def a_new_leader_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    def stuck(self: PartitionRegistration, record: Any) -> PartitionRegistration:
        return changed_by(self, record).with_(leader_epoch=self.leader_epoch)

    changed_by = PartitionRegistration.changed_by
    patch.setattr(PartitionRegistration, "changed_by", stuck)


def the_last_replica_in_sync_leaves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Controller, "elr_enabled", True)


def a_leader_may_say_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alter_partition, "problem_of", lambda *_: ErrorCode.NONE)


def directories_never_fail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Controller, "has_online_directory", lambda *_: True)
    patch.setattr(History, "may_lead", honest_may_lead)


def a_new_minimum_forgets_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(eligible, "nobody_in_sync", lambda controller: ())


def what_was_made_anew_passes_for_what_it_was(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(directories, "passes_for_another", lambda *_: False)


def who_is_elected_alone_leaves_others_eligible(patch: pytest.MonkeyPatch) -> None:
    def enough(self: _Change) -> bool:
        return self.partition.isr != () and enough_in_sync(self)

    enough_in_sync = _Change._enough_in_sync
    patch.setattr(_Change, "_enough_in_sync", enough)


def an_unclean_stop_counts_as_clean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leadership, "unclean_shutdown", lambda controller, broker_id: [])


def a_past_incarnation_joins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alter_partition, "may_join", lambda controller, replica, epoch: controller.is_active(replica))


def a_reassignment_ends_before_all_have_joined(patch: pytest.MonkeyPatch) -> None:
    def complete(self: _Change) -> None:
        isr = tuple(each for each in self.isr if each not in self.removing)
        if isr and (self.removing or self.adding):
            self.isr, self.replicas = isr, tuple(each for each in self.replicas if each not in self.removing)
            self.removing = self.adding = ()

    patch.setattr(_Change, "_complete_reassignment", complete)


def honest_may_lead(history: History, partition: PartitionRegistration, broker_id: int) -> bool:
    broker = history.controller.image.brokers.get(broker_id)
    lies = partition.directory(broker_id)
    return broker is not None and broker.active and (lies in broker.log_dirs or lies == UUID(int=0))


OF_ELIGIBLE = (
    a_new_minimum_forgets_everybody,
    who_is_elected_alone_leaves_others_eligible,
    an_unclean_stop_counts_as_clean,
)


@pytest.mark.parametrize(
    "plant",
    [
        everybody_is_active,
        deleted_topics_stay_in_the_indexes,
        a_new_leader_keeps_the_epoch,
        the_last_replica_in_sync_leaves,
        a_leader_may_say_anything,
        directories_never_fail,
        a_new_minimum_forgets_everybody,
        what_was_made_anew_passes_for_what_it_was,
        who_is_elected_alone_leaves_others_eligible,
        an_unclean_stop_counts_as_clean,
        a_past_incarnation_joins,
        a_reassignment_ends_before_all_have_joined,
    ],
)
def test_a_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    def runs_well(seed: int) -> bool:
        try:
            history = History(Random(seed), elr=plant in OF_ELIGIBLE)
            for _ in range(60):
                before, offset = history.partitions(), history.state.last_offset
                history.step()
                history.check(before, history.state.last_offset < offset)
        except (AssertionError, KeyError):
            return False
        return True

    assert not all(runs_well(seed) for seed in range(100))
