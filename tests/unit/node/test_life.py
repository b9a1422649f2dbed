"""A node comes up and goes down, and what it is told of itself meanwhile."""

from __future__ import annotations

import pytest
from support.broker import Node
from support.requests import batch, fetch, partitions_of, produced, values_of, wanted

from penstock.errors import ConfigError, ErrorCode
from penstock.log.events import RecordsLost
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord


def test_a_clean_stop_closes_connections_and_marks_the_directories() -> None:
    node = Node(directories=2)
    node.create_topic("t", partitions=4)
    client = node.connect()
    for index in range(4):
        assert produced(client, "t", batch(b"v%d" % index), partition=index).error_code == 0
    client.send(fetch("t", wanted(offset=1), min_bytes=1, max_wait_ms=30_000), 12)
    node.stop()
    assert client.closed is not None
    assert all(disk.exists(".kafka_cleanshutdown") for disk in node.disks)
    epoch = node.broker.state.broker_epoch
    node.start()
    assert node.broker.logs.previous_broker_epoch == epoch
    client = node.connect()
    found = partitions_of(client.ask(fetch("t", *(wanted(index) for index in range(4))), 12))
    assert [values_of(found[index]) for index in range(4)] == [[b"v0"], [b"v1"], [b"v2"], [b"v3"]]
    assert not any(isinstance(event, RecordsLost) for event in node.events)


def test_a_crash_keeps_what_was_synced_and_serves_only_what_was_written() -> None:
    node = Node()
    node.create_topic("t", flush_messages="1")
    client = node.connect()
    for number in range(5):
        assert produced(client, "t", batch(b"v%d" % number)).error_code == 0
    node.crash()
    values = values_of(partitions_of(node.connect().ask(fetch("t", wanted()), 12))[0])
    assert values == [b"v0", b"v1", b"v2", b"v3", b"v4"]
    assert node.broker.logs.previous_broker_epoch == -1


def test_a_clean_stop_ends_though_the_metadata_log_fails_under_it() -> None:
    node = Node()
    node.create_topic("t")
    (disk,) = node.disks
    disk.fail_fsync_at = disk.fsyncs + 1
    node.broker.shutdown(node.now_ms)
    node.run()
    node.advance(1_000)
    assert node.broker.stopped
    assert node.broker.failure is not None


def test_requests_before_the_logs_are_open_wait_for_them() -> None:
    node = Node()
    node.create_topic("t")
    assert produced(node.connect(), "t", batch(b"a")).error_code == 0
    node.crash(power_failed=False)
    node.held = lambda operation: type(operation).__name__ in ("RecoverLog", "OpenLog")
    client = node.connect()
    client.send(fetch("t", wanted()), 12)
    assert not client.answers
    while node.waiting_operations:
        node.let_go()
    assert values_of(partitions_of(client.receive())[0]) == [b"a"]


def test_a_deleted_topic_is_gone_and_its_name_begins_anew() -> None:
    node = Node()
    first = node.create_topic("t", partitions=2)
    client = node.connect()
    assert produced(client, "t", batch(b"old")).error_code == 0
    node.delete_topic("t")
    assert produced(client, "t", batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    second = node.create_topic("t")
    assert first != second
    assert produced(client, "t", batch(b"new")).base_offset == 0
    assert values_of(partitions_of(client.ask(fetch("t", wanted()), 12))[0]) == [b"new"]
    assert values_of(partitions_of(client.ask(fetch(second, wanted()), 13))[0]) == [b"new"]
    node.restart()
    assert values_of(partitions_of(node.connect().ask(fetch("t", wanted()), 12))[0]) == [b"new"]


def test_topics_are_led_after_a_restart_under_a_new_epoch() -> None:
    node = Node()
    node.create_topic("t")
    before = node.broker.image.partition("t", 0)
    node.restart()
    after = node.broker.image.partition("t", 0)
    assert before is not None
    assert after is not None
    assert after.leader == 1
    assert after.leader_epoch > before.leader_epoch


def test_a_topic_config_is_in_force_at_once() -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    large = batch(b"x" * 10_000)
    assert produced(client, "t", bytearray(large)).error_code == 0
    alter(node, 2, "t", "max.message.bytes", "5000")
    assert produced(client, "t", bytearray(large)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_broker_config_is_in_force_at_once_also_as_the_default_of_topics() -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    assert produced(client, "t", batch()).error_code == 0
    alter(node, 4, "", "message.max.bytes", "1000")
    assert node.broker.settings.message_max_bytes == 1000
    assert produced(client, "t", batch(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def alter(node: Node, resource_type: int, resource: str, name: str, value: str) -> None:
    node.change([ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value)])


def test_the_minimum_of_an_image_counts_for_the_in_sync_replicas_of_the_same_image() -> None:
    node = Node()
    topic_id = node.create_topic("t")
    node.change([PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], isr=[1, 2])])
    produced(node.connect(), "t", batch())
    led = node.broker.replicas.in_use("t", 0)
    assert led is not None
    assert (led.log_end_offset, led.high_watermark) == (1, 0)
    node.change(
        [
            ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2"),
            PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1], eligible_leader_replicas=[2]),
        ]
    )
    assert led.isr.committed == (1,)
    assert led.high_watermark == 0, "replica 2 may be elected, and has nothing"


def test_all_replicas_of_a_large_topic_are_made() -> None:
    node = Node()
    node.create_topic("t", partitions=3000)
    client = node.connect()
    assert produced(client, "t", batch(), partition=2999).base_offset == 0
    assert sum(len(replicas) for replicas in node.broker.logs.describe().values()) == 3000


def test_an_unformatted_directory_is_refused_in_one_line() -> None:
    node = Node(start=False)
    node.disks[0].unlink("meta.properties")
    with pytest.raises(ConfigError, match=r"meta\.properties"):
        node.start()


def test_metrics_have_kafkas_names() -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    assert produced(client, "t", batch(b"a", b"b")).error_code == 0
    client.ask(fetch("t", wanted()), 12)
    found = {(sample.name, tuple(sample.labels.values())): sample.value for sample in node.broker.metrics()}
    assert found["kafka_server_brokertopicmetrics_messagesin_total", ("t",)] == 2
    assert found["kafka_server_brokertopicmetrics_bytesin_total", ()] == len(batch(b"a", b"b"))
    assert found["kafka_server_brokertopicmetrics_bytesout_total", ("t",)] == len(batch(b"a", b"b"))
    assert found["kafka_network_requestmetrics_requests_total", ("Produce",)] == 1
    assert found["kafka_controller_kafkacontroller_activecontrollercount", ()] == 1
    assert found["kafka_server_replicamanager_partitioncount", ()] == 1


def test_the_node_is_a_state_machine_of_its_events() -> None:
    """The same seed and events give the same effects."""

    def trace(node: Node) -> list[str]:
        node.create_topic("t", partitions=3)
        client = node.connect()
        answers = [produced(client, "t", batch(b"v"), partition=index % 3).base_offset for index in range(9)]
        return [f"{type(op).__name__} {op.order}" for op in node.ran] + [str(answer) for answer in answers]

    assert trace(Node(seed=3)) == trace(Node(seed=3))


def test_logs_close_when_many_are_used_and_nothing_is_lost_by_it() -> None:
    node = Node()
    node.broker.logs.table.open_logs_max = 16
    node.create_topic("t", partitions=40)
    client = node.connect()
    session = client.ask(fetch("t", *(wanted(index) for index in range(40)), session_epoch=0), 12)
    for turn in range(2):
        for index in range(40):
            answer = produced(client, "t", batch(b"%d-%d" % (index, turn)), partition=index)
            assert (answer.error_code, answer.base_offset) == (0, turn)
    assert sum(node.broker.logs.open_log("t", index) is not None for index in range(40)) <= 16
    ready = client.ask(fetch("t", session_id=session.session_id, session_epoch=1), 12)
    found = {index: values_of(data) for index, data in partitions_of(ready).items()}
    assert found == {index: [b"%d-0" % index, b"%d-1" % index] for index in range(40)}


@pytest.fixture
def behind() -> Node:
    """A node that has a topic with a record, and does not know yet that its metadata is as new as its registration."""
    node = Node()
    node.create_topic("t")
    assert produced(node.connect(), "t", batch(b"kept")).error_code == 0
    node.broker.replicas.caught_up = False
    node.broker.state.broker_epoch += 1
    return node


def test_what_the_metadata_log_tells_of_the_past_touches_no_logs(behind: Node) -> None:
    """A node reads its metadata in steps: a topic of this name was deleted once, and that must not be done again; nor
    is the log of its successor that of the topic which is made in a past image."""
    broker = behind.broker
    log = broker.logs.open_log("t", 0)
    behind.delete_topic("t")
    behind.create_topic("t")
    behind.create_topic("u")
    assert broker.logs.open_log("t", 0) is log
    assert not broker.logs.exists("u", 0)


def test_who_asks_before_the_metadata_is_read_is_sent_away(behind: Node) -> None:
    """What this node led once it may lead no more."""
    behind.create_topic("u")
    assert produced(behind.connect(), "u", batch(b"late")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_replicas_whose_topic_goes_while_they_are_made_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with many replicas makes them in steps, and its metadata goes on meanwhile."""
    monkeypatch.setattr("penstock.node.lifecycle.REPLICAS_PER_STEP", 1)
    node = Node()
    for name in ("a", "b"):
        node.create_topic(name)
    broker = node.broker
    for name in ("a", "b"):
        broker.logs.delete(name, 0, node.now_ms)
    making = broker.lifecycle._make_replicas()
    next(making)
    made = [name for name in ("a", "b") if broker.logs.exists(name, 0)]
    assert len(made) == 1
    (other,) = {"a", "b"} - set(made)
    node.delete_topic(other)
    for _ in making:
        pass
    assert not broker.logs.exists(other, 0)
