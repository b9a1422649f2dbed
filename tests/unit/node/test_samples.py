"""What dashboards read: the names of the usual exporters, values that are right, and a bounded, stepped cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.broker import Node
from support.requests import batch, produced

from penstock.node import samples as samples_module
from penstock.node.metrics import LATENCY_BOUNDS_MS, WINDOW_MS, RequestCounters, Sample, request_samples
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

Values = dict[tuple[str, tuple[str, ...]], float]


def values(node: Node) -> Values:
    """All values by name and labels."""
    found: Values = {}
    for sample in node.broker.metrics():
        key = (sample.name, tuple(sample.labels.values()))
        assert key not in found, "a sample comes once"
        found[key] = sample.value
    return found


def commit(node: Node, group: str, topic: str, **offsets: int) -> None:
    """Commits offsets of a group without members; `p0=5` is partition 0."""
    client = node.connect()
    client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
    partitions = [
        OffsetCommitRequestPartition(partition_index=int(name[1:]), committed_offset=offset, committed_metadata="")
        for name, offset in offsets.items()
    ]
    answer = client.ask(
        OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
        ),
        8,
    )
    assert [each.error_code for each in answer.topics[0].partitions] == [0] * len(offsets)


@pytest.fixture
def node() -> Node:
    return Node(offsets_topic_num_partitions=2, offsets_topic_replication_factor=1)


def test_each_replica_has_its_size_and_its_ends(node: Node) -> None:
    node.create_topic("clicks", partitions=2)
    data = batch(b"one", b"two")
    produced(node.connect(), "clicks", data)
    found = values(node)
    assert found["kafka_log_log_logendoffset", ("clicks", "0")] == 2
    assert found["kafka_log_log_logstartoffset", ("clicks", "0")] == 0
    assert found["kafka_log_log_size", ("clicks", "0")] == len(data)
    assert found["kafka_log_log_numlogsegments", ("clicks", "0")] == 1
    assert ("kafka_log_log_logendoffset", ("clicks", "1")) not in found, "nobody has used it: it is not opened for this"
    assert found["penstock_metrics_partitions_left_out", ()] == 0


def test_groups_have_their_offsets_and_their_lag_also_after_a_restart(node: Node) -> None:
    node.create_topic("clicks", partitions=2)
    produced(node.connect(), "clicks", batch(b"one", b"two", b"three"))
    commit(node, "reports", "clicks", p0=1, p1=0)
    for _ in range(2):
        found = values(node)
        assert found["kafka_consumergroup_current_offset", ("reports", "clicks", "0")] == 1
        assert found["kafka_consumergroup_lag", ("reports", "clicks", "0")] == 2
        assert found["kafka_consumergroup_lag", ("reports", "clicks", "1")] == 0
        assert found["kafka_coordinator_group_groupmetadatamanager_numgroups", ()] == 1
        node.restart()


def test_partitions_without_a_leader_are_counted_by_controllers(node: Node) -> None:
    topic_id = node.create_topic("clicks", partitions=3)
    assert values(node)["kafka_controller_kafkacontroller_offlinepartitionscount", ()] == 0
    node.change([PartitionChangeRecord(topic_id=topic_id, partition_id=1, leader=-1)])
    found = values(node)
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount", ()] == 1
    assert found["kafka_controller_kafkacontroller_preferredreplicaimbalancecount", ()] == 1
    assert found["kafka_controller_controllerstats_uncleanleaderelections_total", ()] == 0
    change = PartitionChangeRecord(topic_id=topic_id, partition_id=1, leader=1, isr=[1], leader_recovery_state=1)
    node.change([change])
    assert values(node)["kafka_controller_controllerstats_uncleanleaderelections_total", ()] == 1


def test_the_quorum_is_seen(node: Node) -> None:
    found = values(node)
    assert found["kafka_server_raft_metrics_current_leader", ()] == 1
    assert found["kafka_server_raft_metrics_current_epoch", ()] >= 1
    end = found["kafka_server_raft_metrics_log_end_offset", ()]
    assert found["kafka_server_raft_metrics_high_watermark", ()] == end
    assert found["kafka_server_broker_metadata_metrics_last_applied_record_offset", ()] == end - 1
    assert found["kafka_controller_kafkacontroller_activebrokercount", ()] == 1
    assert found["kafka_controller_kafkacontroller_fencedbrokercount", ()] == 0


def test_times_of_requests_have_quantiles_of_the_last_minutes_and_a_histogram() -> None:
    api = RequestCounters("Produce")
    for time_ms in [1] * 90 + [40] * 9 + [100_000]:
        api.add(time_ms)
    assert dict(api.quantiles_ms(0)) == {0.5: 1, 0.75: 1, 0.95: 50, 0.98: 50, 0.99: 50, 0.999: LATENCY_BOUNDS_MS[-1]}
    samples = list(request_samples([api, RequestCounters("Fetch")], 0))
    found = {(each.name, *each.labels.values()): each.value for each in samples}
    assert found["kafka_network_requestmetrics_totaltimems", "Produce", "0.99"] == 50
    assert found["kafka_network_requestmetrics_totaltimems_count", "Produce"] == 100
    assert found["penstock_request_seconds_bucket", "Produce", "0.03"] == 90
    assert found["penstock_request_seconds_bucket", "Produce", "0.05"] == 99
    assert found["penstock_request_seconds_bucket", "Produce", "+Inf"] == 100
    assert found["penstock_request_seconds_sum", "Produce"] == api.total_time_ms / 1000
    assert not [key for key in found if key[0].startswith("penstock") and key[1] == "Fetch"], "nobody has asked for it"
    api.quantiles_ms(WINDOW_MS)
    assert dict(api.quantiles_ms(2 * WINDOW_MS)) == {}
    api.add(2)
    assert dict(api.quantiles_ms(2 * WINDOW_MS))[0.999] == 2


def test_samples_of_one_family_follow_each_other(node: Node) -> None:
    node.create_topic("clicks")
    produced(node.connect(), "clicks", batch())
    commit(node, "reports", "clicks", p0=1)
    families = [sample.name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for sample in
                node.broker.metrics() if sample.kind in ("histogram", "summary")]  # fmt: skip
    families += [sample.name for sample in node.broker.metrics() if sample.kind not in ("histogram", "summary")]
    changes = [name for name, before in zip(families, [None, *families], strict=False) if name != before]
    assert len(changes) == len(set(changes))


def test_a_scrape_of_a_large_node_is_bounded_and_in_steps(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_module, "METRICS_PARTITIONS_MAX", 100)
    monkeypatch.setattr(samples_module, "METRICS_PARTITIONS_PER_STEP", 50)
    monkeypatch.setattr(samples_module, "METRICS_GROUP_OFFSETS_MAX", 10)
    for number in range(6):
        node.create_topic(f"t{number}", partitions=100)
    commit(node, "large", "t0", **{f"p{index}": 0 for index in range(30)})
    commit(node, "small", "t1", p0=0)
    found = list(node.broker.metrics_in_steps())
    assert sum(sample is None for sample in found) >= 2 * 600 // 50
    names = [sample.name for sample in found if sample is not None]
    assert names.count("kafka_log_log_size") == 100
    assert names.count("kafka_consumergroup_current_offset") == 10
    left_out = {sample.name: sample.value for sample in found if sample is not None and "left_out" in sample.name}
    assert left_out["penstock_metrics_partitions_left_out"] == 602 - 100
    assert left_out["penstock_metrics_groups_left_out"] == 2


def test_a_node_may_change_while_it_is_looked_at(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_module, "METRICS_PARTITIONS_PER_STEP", 1)
    for number in range(5):
        node.create_topic(f"t{number}", partitions=3)
        produced(node.connect(), f"t{number}", batch())
        commit(node, f"g{number}", f"t{number}", p0=0)
    steps: Iterator[Sample | None] = node.broker.metrics_in_steps()
    for number, _ in enumerate(steps):
        if not number % 25:
            node.create_topic(f"more{number}", partitions=2)
            produced(node.connect(), f"more{number}", batch())
            commit(node, f"more{number}", f"more{number}", p0=0)
        if number == 200:
            node.delete_topic("t1")


def test_the_histogram_of_an_api_is_of_one_moment() -> None:
    """Requests are answered while the samples are taken in steps."""
    api = RequestCounters("Produce")
    api.add(1)
    found = []
    for sample in request_samples([api], 0):
        api.add(1)
        if sample.name.startswith("penstock_request_seconds"):
            found.append(sample)
    *buckets, infinite, total_s, count = (sample.value for sample in found)
    assert buckets == sorted(buckets)
    assert buckets[-1] == infinite == count
    assert total_s == count / 1000
