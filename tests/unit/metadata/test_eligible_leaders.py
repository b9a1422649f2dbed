"""Eligible leader replicas (KIP-966): who has everything that was committed though it is not in sync."""

from __future__ import annotations

import pytest
from unit.metadata.cluster import Cluster

from penstock.errors import ErrorCode
from penstock.metadata import configs, features
from penstock.metadata.alter_partition import WantedIsr, alter_partitions
from penstock.metadata.configs import DELETE, SET, ConfigChange
from penstock.metadata.feature_updates import FeatureUpdate, UpgradeType, update_features
from penstock.metadata.image import ConfigResource

MINIMUM = "min.insync.replicas"


def of(minimum: int = 2) -> Cluster:
    return Cluster(elr=True, configs={MINIMUM: str(minimum)})


def test_who_leaves_below_the_minimum_is_eligible() -> None:
    cluster = of()
    cluster.fence(3)
    assert (cluster.partition().isr, cluster.partition().elr) == ((1, 2), ()), "two are enough"
    cluster.fence(2)
    assert (cluster.partition().isr, cluster.partition().elr) == ((1,), (2,))


def test_the_last_one_leaves_as_well_and_an_eligible_one_leads() -> None:
    cluster = of()
    for broker_id in (3, 2, 1):
        cluster.fence(broker_id)
    after = cluster.partition()
    assert (after.isr, after.elr, after.leader, after.last_known_elr) == ((), (1, 2), -1, (1,))
    cluster.unfence(3)
    assert cluster.partition().leader == -1, "it may lack records"
    cluster.unfence(2)
    after = cluster.partition()
    assert (after.isr, after.elr, after.leader, after.leader_recovery_state) == ((2,), (1,), 2, 0)
    assert after.last_known_elr == ()


def test_who_stopped_uncleanly_is_not_eligible() -> None:
    cluster = of()
    for broker_id in (3, 2, 1):
        cluster.fence(broker_id)
    cluster.register(2, incarnation=2)
    assert cluster.partition().elr == (1,)
    cluster.unfence(2)
    assert cluster.partition().leader == -1


def test_who_stopped_cleanly_stays_eligible() -> None:
    cluster = of()
    for broker_id in (3, 2, 1):
        cluster.fence(broker_id)
    cluster.register(2, incarnation=2, previous_epoch=cluster.epoch_of(2))
    assert cluster.partition().elr == (1, 2)


def test_the_last_known_leader_leads_when_nobody_is_eligible() -> None:
    cluster = of()
    for broker_id in (3, 2, 1):
        cluster.fence(broker_id)
    for broker_id in (2, 1):
        cluster.register(broker_id, incarnation=2)
    assert (cluster.partition().isr, cluster.partition().elr) == ((), ())
    cluster.unfence(2)
    assert cluster.partition().leader == -1
    cluster.unfence(1)
    after = cluster.partition()
    assert (after.leader, after.isr, after.leader_recovery_state) == (1, (1,), 1), "records may be lost, so it recovers"


def test_enough_replicas_in_sync_end_eligibility() -> None:
    cluster = of()
    cluster.fence(3)
    cluster.fence(2)
    cluster.unfence(3)
    before = cluster.partition()
    assert before.elr == (2,)
    wanted = WantedIsr(cluster.topic.id, 0, before.leader_epoch, before.partition_epoch, [(1, -1), (3, -1)])
    cluster.replay(alter_partitions(cluster.controller, 1, cluster.epoch_of(1), [wanted]).records)
    assert (cluster.partition().isr, cluster.partition().elr) == ((1, 3), ())


def test_a_new_minimum_forgets_who_was_eligible() -> None:
    cluster = of()
    cluster.fence(3)
    cluster.fence(2)
    change = [ConfigChange(MINIMUM, SET, "1")]
    result = configs.alter_configs(cluster.controller, {(ConfigResource.TOPIC, "t"): change})
    assert not result.response[ConfigResource.TOPIC, "t"].failed
    cluster.replay(result.records)
    assert cluster.partition().elr == ()


def leaderless(*, eligible: bool = True) -> Cluster:
    """Nobody is in sync: replicas 1 and 2 are eligible, or neither but 1, which has led last."""
    cluster = of()
    for broker_id in (3, 2, 1):
        cluster.fence(broker_id)
    if not eligible:
        for broker_id in (2, 1):
            cluster.register(broker_id, incarnation=2)
    return cluster


def minimum(cluster: Cluster, value: str, *, of_all: bool = False) -> None:
    resource = (ConfigResource.BROKER, "") if of_all else (ConfigResource.TOPIC, "t")
    result = configs.alter_configs(cluster.controller, {resource: [ConfigChange(MINIMUM, SET, value)]})
    assert not result.response[resource].failed
    assert result.atomic
    cluster.replay(result.records)


@pytest.mark.parametrize("of_all", [False, True])
@pytest.mark.parametrize("value", ["1", "3"])
def test_a_new_minimum_forgets_nobody_where_nobody_is_in_sync(value: str, of_all: bool) -> None:
    cluster = leaderless()
    minimum(cluster, value, of_all=of_all)
    after = cluster.partition()
    assert (after.isr, after.elr, after.last_known_elr) == ((), (1, 2), (1,)), "nothing was committed without them"
    cluster.unfence(2)
    assert cluster.partition().leader == 2


def test_a_new_minimum_does_not_forget_who_led_last() -> None:
    cluster = leaderless(eligible=False)
    minimum(cluster, "1")
    assert cluster.partition().last_known_elr == (1,)
    cluster.unfence(1)
    assert cluster.partition().leader == 1


def test_who_is_elected_alone_and_is_enough_leaves_nobody_eligible() -> None:
    cluster = leaderless()
    minimum(cluster, "1")
    cluster.unfence(2)
    assert (cluster.partition().isr, cluster.partition().elr) == ((2,), ()), "it commits what 1 has not"


def switch(cluster: Cluster, level: int) -> None:
    kind = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
    update = FeatureUpdate(features.ELR_VERSION, level, kind)
    result = update_features(cluster.controller, {update.name: update})
    assert not result.response.failed, result.response
    cluster.replay(result.records)


@pytest.mark.parametrize(("eligible", "isr"), [(True, (1, 2)), (False, (1,))])
def test_who_was_eligible_is_in_sync_where_the_feature_goes_and_nobody_else_is(
    eligible: bool, isr: tuple[int, ...]
) -> None:
    cluster = leaderless(eligible=eligible)
    switch(cluster, 0)
    after = cluster.partition()
    assert (after.isr, after.elr, after.last_known_elr) == (isr, (), ())
    cluster.unfence(1)
    assert cluster.partition().leader == 1


def test_nobody_is_eligible_any_more_when_the_feature_comes_back() -> None:
    cluster = of()
    cluster.fence(3)
    cluster.fence(2)
    assert cluster.partition().elr == (2,)
    switch(cluster, 0)
    assert (cluster.partition().isr, cluster.partition().elr) == ((1,), ())
    switch(cluster, 1)
    assert cluster.partition().elr == ()


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        (
            "1",
            ConfigChange(MINIMUM, SET, "2"),
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            "",
            ConfigChange(MINIMUM, DELETE, None),
            "Cluster-level min.insync.replicas cannot be removed while ELR is en",
        ),
    ],
)
def test_the_minimum_is_the_clusters(name: str, change: ConfigChange, sentence: str) -> None:
    cluster = of()
    resource = (ConfigResource.BROKER, name)
    error = configs.alter_configs(cluster.controller, {resource: [change]}).response[resource]
    assert error.code is ErrorCode.INVALID_CONFIG
    assert (error.message or "").startswith(sentence)


def test_finalizing_the_level_writes_one_minimum_down_for_all() -> None:
    cluster = Cluster()
    own = (ConfigResource.BROKER, "2")
    cluster.replay(configs.alter_configs(cluster.controller, {own: [ConfigChange(MINIMUM, SET, "2")]}).records)
    update = FeatureUpdate(features.ELR_VERSION, 1)
    result = update_features(cluster.controller, {update.name: update})
    assert not result.response.failed, result.response
    cluster.replay(result.records)
    assert cluster.controller.elr_enabled
    assert cluster.controller.cluster_configs[MINIMUM] == "1"
    assert cluster.controller.image.configs.get(own) is None
    back = FeatureUpdate(features.ELR_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)
    cluster.replay(update_features(cluster.controller, {back.name: back}).records)
    assert not cluster.controller.elr_enabled


def test_the_last_in_sync_is_known_though_the_feature_was_off_when_it_was_lost() -> None:
    cluster = leaderless(eligible=False)
    switch(cluster, 0)
    switch(cluster, 1)
    cluster.register(1, incarnation=3)
    after = cluster.partition()
    assert (after.isr, after.elr, after.last_known_elr) == ((), (), (1,))
    cluster.unfence(1)
    after = cluster.partition()
    assert (after.leader, after.isr, after.leader_recovery_state) == (1, (1,), 1)
