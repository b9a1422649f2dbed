"""Nodes that replicate to each other: followers, sessions, the ISR, and leaders that come and go."""

from __future__ import annotations

from typing import Any

import pytest
from support.replicated import Cluster
from support.requests import batch, fetch, partitions_of, produce, values_of, wanted

from penstock.errors import ErrorCode
from penstock.log.operations import Write
from penstock.node.limits import FOLLOWER_WRITE_WAIT_MS
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.fetch_request import FetchRequest, ReplicaState
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.remove_topic_record import RemoveTopicRecord
from penstock.protocol.messages.metadata.unregister_broker_record import UnregisterBrokerRecord
from penstock.protocol.messages.produce_response import PartitionProduceResponse
from penstock.replication.follower import Follower, State
from penstock.replication.partition import Partition
from penstock.replication.rewrite import RewriteOperation

LAG_MS = 30_000


def partition_of(answer: Any) -> PartitionProduceResponse:
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def produced(cluster: Cluster, *values: bytes, leader: int = 1, acks: int = -1, topic: str = "t") -> int:
    """Produces one batch, lets it be replicated, and gives the error."""
    client = cluster.client(leader)
    client.send(produce(topic, batch(*values), acks=acks), 9)
    cluster.advance(50)
    return partition_of(client.receive()).error_code


def follower(cluster: Cluster, node_id: int, name: str = "t", index: int = 0) -> Follower:
    found = cluster.nodes[node_id].broker.replicas.follower(name, index)
    assert found is not None
    return found


def leader(cluster: Cluster, node_id: int, name: str = "t", index: int = 0) -> Partition:
    node = cluster.nodes[node_id]
    found = node.broker.replicas.leader(name, index, node.now_ms)
    assert isinstance(found, Partition), found
    return found


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(3)
    made.create("t")
    made.advance(50)
    return made


def test_acks_all_is_answered_when_all_in_sync_replicas_have_the_batch(cluster: Cluster) -> None:
    client = cluster.client(1)
    client.send(produce("t", batch(b"a", b"b"), acks=-1), 9)
    assert not client.answers
    cluster.advance(20)
    assert partition_of(client.receive()).error_code == 0
    assert cluster.bytes_of(1) == cluster.bytes_of(2) == cluster.bytes_of(3) != b""


def test_a_replicated_batch_is_acknowledged_within_two_turns_of_the_followers(cluster: Cluster) -> None:
    assert produced(cluster, b"first") == 0
    client = cluster.client(1)
    client.send(produce("t", batch(b"a"), acks=-1), 9)
    cluster.settle()
    assert client.answers, "no timer is waited for: answer, write, and the fetch that tells of it"


def test_a_write_that_is_done_in_its_turn_wakes_the_follower_no_more(cluster: Cluster) -> None:
    assert produced(cluster, b"first") == 0
    cluster.client(1).send(produce("t", batch(b"a"), acks=-1), 9)
    cluster.settle()
    timers, now_ms = cluster.nodes[2].broker.scheduler.timers, cluster.nodes[2].now_ms
    deadline_ms = timers.next_deadline_ms()
    assert deadline_ms is None or deadline_ms > now_ms + 2 * FOLLOWER_WRITE_WAIT_MS


def test_all_partitions_of_a_produce_request_come_with_one_fetch(cluster: Cluster) -> None:
    cluster.create("six", partitions=6)
    cluster.advance(1500)
    counters = cluster.nodes[1].broker.dispatcher.exit.counters[FetchRequest.KEY]
    client = cluster.client(1)
    for _ in range(2):
        before = counters.requests
        client.send(produce("six", *[batch(b"x") for _ in range(6)], acks=-1), 9)
        cluster.settle()
        answers = client.receive().responses[0].partition_responses
        assert [each.error_code for each in answers] == [0] * 6
    assert counters.requests - before == 2, "one of each follower: it is answered, and the next one waits"


def test_a_new_partition_is_followed_at_once_though_fetches_of_others_wait(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.advance(150)
    cluster.create("new")
    assert produced(cluster, b"a", topic="new") == 0, "within 50 ms, while a fetch waits for 500"


def test_it_is_followed_soon_when_the_follower_hears_of_it_after_the_leader(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.change("t", leader=2, but=(3,))
    cluster.advance(200)
    client = cluster.client(2)
    client.send(produce("t", batch(b"b"), acks=-1), 9)
    cluster.advance(100)
    assert not client.answers
    cluster.change("t", leader=2, but=(1, 2))
    cluster.advance(100)
    assert partition_of(client.receive()).error_code == 0


def test_consumers_read_what_is_replicated_and_are_woken_by_the_high_watermark(cluster: Cluster) -> None:
    cluster.cut.update({(2, 1)})
    consumer = cluster.client(1)
    consumer.send(fetch("t", wanted(offset=0), max_wait_ms=2000, min_bytes=1), 12)
    client = cluster.client(1)
    client.send(produce("t", batch(b"a"), acks=1), 9)
    cluster.advance(100)
    assert partition_of(client.receive()).error_code == 0
    assert not consumer.answers
    cluster.cut.clear()
    cluster.advance(1500)
    answer = partitions_of(consumer.receive())[0]
    assert values_of(answer) == [b"a"]
    assert answer.high_watermark == 1


def test_a_consumer_gets_the_data_at_once_when_the_high_watermark_moves(cluster: Cluster) -> None:
    consumer = cluster.client(1)
    consumer.send(fetch("t", wanted(offset=0), max_wait_ms=5000, min_bytes=1), 12)
    assert produced(cluster, b"a") == 0
    assert values_of(partitions_of(consumer.receive())[0]) == [b"a"]


def test_followers_take_over_the_high_watermark(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.advance(600)
    assert follower(cluster, 2).high_watermark == 1
    assert cluster.nodes[2].broker.logs.high_watermark("t", 0) == 1
    assert follower(cluster, 2).lag == 0


def test_a_follower_has_the_high_watermark_that_came_with_the_records_once_they_are_written(cluster: Cluster) -> None:
    cluster.advance(1500)
    assert produced(cluster, b"a") == 0
    assert produced(cluster, b"b") == 0
    assert follower(cluster, 2).high_watermark == 1, "of the time when the second batch was fetched"


def test_a_follower_is_no_leader(cluster: Cluster) -> None:
    client = cluster.client(2)
    client.send(produce("t", batch(b"a"), acks=1), 12)
    answer = partition_of(client.receive())
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 1
    consumer = cluster.client(2)
    assert partitions_of(consumer.ask(fetch("t", wanted()), 10))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_consumers_read_from_the_replica_in_their_rack() -> None:
    cluster = Cluster(3, replica_selector_class=RACK_AWARE)
    cluster.create("t")
    cluster.advance(50)
    assert produced(cluster, b"a") == 0
    here, nowhere = cluster.client(1), cluster.client(1)
    assert values_of(partitions_of(here.ask(fetch("t", wanted(), rack_id="rack 1"), 12))[0]) == [b"a"]
    assert values_of(partitions_of(nowhere.ask(fetch("t", wanted(), rack_id="rack 9"), 12))[0]) == [b"a"]
    answer = partitions_of(cluster.client(1).ask(fetch("t", wanted(), rack_id="rack 3"), 12))[0]
    assert (answer.preferred_read_replica, values_of(answer)) == (3, [])
    near = cluster.client(3)
    assert values_of(partitions_of(near.ask(fetch("t", wanted(), rack_id="rack 3"), 12))[0]) == [b"a"]
    near.send(fetch("t", wanted(offset=1), rack_id="rack 3", max_wait_ms=5_000, min_bytes=1), 12)
    assert produced(cluster, b"b") == 0
    assert values_of(partitions_of(near.receive())[0]) == [b"b"], "its high watermark came at once"


def test_a_reader_of_a_follower_is_sent_away_when_the_leader_changes(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.advance(600)
    reader = cluster.client(2)
    reader.send(fetch("t", wanted(offset=1, current_leader_epoch=0), max_wait_ms=60_000, min_bytes=1), 12)
    assert not reader.answers
    cluster.change("t", leader=3)
    assert partitions_of(reader.receive())[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_what_is_not_replicated_is_not_read_from_a_follower(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.advance(600)
    cluster.cut.add((3, 1))
    cluster.client(1).send(produce("t", batch(b"b"), acks=1), 9)
    cluster.advance(600)
    assert cluster.log(2).log_end_offset == 2
    assert values_of(partitions_of(cluster.client(2).ask(fetch("t", wanted()), 12))[0]) == [b"a"]


def test_a_follower_that_is_behind_sends_readers_to_the_leader(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    reader = cluster.client(2)
    assert partitions_of(reader.ask(fetch("t", wanted(offset=5)), 12))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    reader = cluster.client(1)
    assert partitions_of(reader.ask(fetch("t", wanted(offset=5)), 12))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_idle_session_costs_a_look_at_nothing(cluster: Cluster) -> None:
    cluster.create("many", partitions=20)
    cluster.advance(1000)
    node = cluster.nodes[1].broker
    before = node.fetches.looked_at
    cluster.advance(2000)
    assert node.fetches.looked_at == before
    assert produced(cluster, b"a") == 0
    assert node.fetches.looked_at - before <= 10, "one partition of 21, by two followers"


def test_a_dead_follower_leaves_the_isr_and_joins_it_again(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.kill(3)
    client = cluster.client(1)
    client.send(produce("t", batch(b"b"), acks=-1, timeout_ms=3 * LAG_MS), 9)
    cluster.advance(1000, 100)
    assert not client.answers
    cluster.advance(2 * LAG_MS, 500)
    assert partition_of(client.receive()).error_code == 0
    assert cluster.registration("t").isr == (1, 2)
    assert cluster.nodes[1].broker.replication.isr_changes.shrinks == 1
    cluster.dead.clear()
    cluster.nodes[3].now_ms = cluster.nodes[1].now_ms
    cluster.advance(3000)
    assert cluster.registration("t").isr == (1, 2, 3)
    assert cluster.bytes_of(1) == cluster.bytes_of(3)


def test_a_leader_from_an_unclean_election_has_recovered_with_its_first_proposal(cluster: Cluster) -> None:
    cluster.change("t", leader=1, isr=[1], leader_recovery_state=1)
    assert not produced(cluster, b"a", acks=1)
    (request, *_) = cluster.altered
    assert request.topics[0].partitions[0].leader_recovery_state == 0
    assert cluster.registration("t").isr == (1, 2, 3)


def test_a_follower_that_keeps_up_stays_in_sync_for_as_long_as_it_takes(cluster: Cluster) -> None:
    for _ in range(4):
        assert produced(cluster, b"a") == 0
        cluster.advance(LAG_MS, 100)
    assert cluster.altered == []
    assert cluster.nodes[1].broker.replication.isr_changes.lagging == {}


def test_a_proposal_is_made_again_after_an_answer_that_says_nothing(cluster: Cluster) -> None:
    cluster.change("t", isr=[1, 2])
    cluster.refused = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR]
    assert produced(cluster, b"a") == 0
    cluster.advance(700)
    assert cluster.registration("t").isr == (1, 2, 3)
    assert len(cluster.altered) == 3
    (topic,) = cluster.altered[-1].topics
    epochs = {each.broker_id: each.broker_epoch for each in topic.partitions[0].new_isr_with_epochs}
    assert epochs == {number: node.broker.state.broker_epoch for number, node in cluster.nodes.items()}


def test_another_leader_takes_over_and_the_old_one_cuts_what_nobody_else_has(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.cut.update({(2, 1), (3, 1)})
    client = cluster.client(1)
    client.send(produce("t", batch(b"lost"), acks=-1, timeout_ms=60_000), 9)
    client.send(produce("t", batch(b"lost too"), acks=1), 9)
    cluster.advance(50)
    cluster.change("t", leader=2)
    assert partition_of(client.receive()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.advance(100)
    assert produced(cluster, b"b", leader=2) == 0
    cluster.advance(1000)
    assert cluster.bytes_of(1) == cluster.bytes_of(2) == cluster.bytes_of(3)
    consumer = cluster.client(2)
    assert values_of(partitions_of(consumer.ask(fetch("t", wanted()), 12))[0]) == [b"a", b"b"]
    assert cluster.log(1).leader_epochs.entries() == cluster.log(2).leader_epochs.entries()


def test_a_follower_asks_again_soon_when_the_leader_has_not_heard_of_its_leadership(cluster: Cluster) -> None:
    cluster.change("t", leader=2, but=(2,))
    cluster.advance(30)
    assert follower(cluster, 1).state is State.RETRYING
    cluster.change("t", leader=2, but=(1, 3))
    cluster.advance(150)
    assert follower(cluster, 1).state is State.FETCHING
    assert produced(cluster, b"a", leader=2) == 0


def test_the_same_leader_with_another_epoch_is_followed_on(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.change("t", leader=1)
    cluster.advance(100)
    assert leader(cluster, 1).leader_epoch == 1
    assert produced(cluster, b"b") == 0
    assert cluster.bytes_of(1) == cluster.bytes_of(3)


def test_a_slow_directory_of_a_follower_does_not_hold_up_its_other_partitions(cluster: Cluster) -> None:
    cluster.create("u")
    cluster.advance(600)
    assert produced(cluster, b"u", topic="u") == 0
    slow = cluster.nodes[2]
    slow.held = lambda operation: isinstance(operation, Write) and operation.order == "t-0"
    client = cluster.client(1)
    client.send(produce("t", batch(b"a"), acks=-1, timeout_ms=20_000), 9)
    cluster.advance(50)
    for _ in range(3):
        assert produced(cluster, b"u", topic="u") == 0
    assert not client.answers
    assert follower(cluster, 2).state is State.WRITING
    slow.let_go()
    cluster.advance(600)
    assert partition_of(client.receive()).error_code == 0
    assert cluster.bytes_of(1) == cluster.bytes_of(2)


def test_a_directory_that_fails_takes_its_own_replicas_only() -> None:
    """Also of partitions whose logs are closed at that moment, since others were used more recently."""
    cluster = Cluster(2, directories=2)
    cluster.create("t", partitions=4)
    cluster.advance(50)
    node = cluster.nodes[2]
    logs = node.broker.logs
    logs.table.open_logs_max = 1
    cluster.create("u")
    cluster.advance(50)
    logs.fail_directory(1, OSError("gone"), node.now_ms)
    for index in range(4):
        lost = logs.directory_of("t", index).index == 1
        assert (follower(cluster, 2, index=index).state is State.BROKEN) is lost


def test_a_leader_whose_log_is_closed_goes_on_under_a_new_epoch(cluster: Cluster) -> None:
    """A log that nobody has used for long is closed; the epoch is noted when it is opened again."""
    assert not produced(cluster, b"a")
    node = cluster.nodes[1]
    logs = node.broker.logs
    logs.table.open_logs_max = 0
    cluster.create("another")
    cluster.advance(50)
    assert logs.open_log("t", 0) is None
    logs.table.open_logs_max = 100
    cluster.change("t", leader=1)
    assert not produced(cluster, b"b")
    assert leader_epochs(cluster) == [(0, 0), (1, 1)]


def leader_epochs(cluster: Cluster) -> list[tuple[int, int]]:
    return leader(cluster, 1).log.leader_epochs.entries()


def test_a_new_replica_begins_where_the_leaders_log_does(cluster: Cluster) -> None:
    for number in range(4):
        assert produced(cluster, b"%d" % number, b"more") == 0
    cluster.change("t", replicas=[1, 2], isr=[1, 2])
    cluster.advance(100)
    assert not cluster.nodes[3].broker.logs.exists("t", 0), "what is not assigned any more goes"
    cluster.client(1).send(deleted(5), 2)
    cluster.change("t", replicas=[1, 2, 3])
    cluster.advance(1500)
    assert cluster.log(3).log_start_offset == 5
    assert cluster.log(3).log_end_offset == 8
    assert cluster.registration("t").isr == (1, 2, 3)
    consumer_start = cluster.log(2).log_start_offset
    assert consumer_start == 5, "followers take over the log start"


def deleted(offset: int, timeout_ms: int = 5_000) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=timeout_ms)


def test_records_are_deleted_when_all_replicas_that_are_alive_have_moved_their_start(cluster: Cluster) -> None:
    assert produced(cluster, b"a", b"b") == 0
    cluster.advance(1000)
    client = cluster.client(1)
    client.send(deleted(1), 2)
    assert not client.answers
    cluster.advance(1500)
    (result,) = client.receive().topics[0].partitions
    assert (result.error_code, result.low_watermark) == (0, 1)
    assert cluster.log(2).log_start_offset == cluster.log(3).log_start_offset == 1


def test_records_that_are_not_deleted_everywhere_in_time_are_told_so(cluster: Cluster) -> None:
    assert produced(cluster, b"a", b"b") == 0
    cluster.cut.add((3, 1))
    client = cluster.client(1)
    client.send(deleted(2), 2)
    cluster.advance(5_050, 10)
    (result,) = client.receive().topics[0].partitions
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_a_deleted_topic_is_followed_no_more(cluster: Cluster) -> None:
    topic = cluster.nodes[1].broker.image.topics_by_name.get("t")
    assert topic is not None
    cluster.tell([RemoveTopicRecord(topic_id=topic.id)])
    cluster.advance(1000)
    assert list(cluster.nodes[2].broker.replicas.following()) == []
    assert len(cluster.nodes[1].broker.fetches.sessions) == 0


def test_who_is_not_answered_in_time_does_not_wait_any_more(cluster: Cluster) -> None:
    cluster.cut.update({(2, 1), (3, 1)})
    client = cluster.client(1)
    for _ in range(5):
        again = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
        client.send(produce("t", again, acks=-1, timeout_ms=100), 9)
        cluster.advance(200)
        assert partition_of(client.receive()).error_code == ErrorCode.REQUEST_TIMED_OUT
    led = cluster.nodes[1].broker.replicas.in_use("t", 0)
    assert led is not None
    assert len(led.waiting_for_watermark) == 0, "the high watermark may never come, and producers repeat"


def create_packed(cluster: Cluster) -> None:
    """A topic whose batches are rewritten."""
    cluster.create("packed")
    packed = ConfigRecord(resource_type=2, resource_name="packed", name="compression.type", value="zstd")
    cluster.tell([packed])
    cluster.advance(50)


def test_who_waits_with_a_batch_that_was_rewritten_waits_no_longer_than_others(cluster: Cluster) -> None:
    create_packed(cluster)
    cluster.cut.update({(2, 1), (3, 1)})
    client = cluster.client(1)
    client.send(produce("packed", batch(b"x" * 100_000), acks=-1, timeout_ms=100), 9)
    cluster.advance(200)
    assert partition_of(client.receive()).error_code == ErrorCode.REQUEST_TIMED_OUT
    led = leader(cluster, 1, "packed")
    assert (led.log.log_end_offset, len(led.waiting_for_watermark)) == (1, 0)


def test_a_batch_that_is_not_rewritten_in_time_is_said_to_be_late_and_appended(cluster: Cluster) -> None:
    create_packed(cluster)
    node, client = cluster.nodes[1], cluster.client(1)
    node.held = lambda operation: isinstance(operation, RewriteOperation)
    client.send(produce("packed", batch(b"x" * 100_000), acks=-1, timeout_ms=100), 9)
    cluster.advance(200)
    answer = partition_of(client.receive())
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    led = leader(cluster, 1, "packed")
    assert led.log.log_end_offset == 0
    node.held = None
    node.let_go()
    assert (led.log.log_end_offset, len(led.waiting_for_watermark)) == (1, 0)
    cluster.advance(50)
    assert led.high_watermark == 1
    assert produced(cluster, b"next", topic="packed") == 0


def test_fetches_of_a_past_incarnation_are_refused(cluster: Cluster) -> None:
    topic = cluster.nodes[1].broker.image.topics_by_name.get("t")
    assert topic is not None
    stale = fetch(topic.id, wanted(offset=0, current_leader_epoch=0))
    stale = FetchRequest(topics=stale.topics, replica_state=ReplicaState(replica_id=2, replica_epoch=0), max_bytes=1000)
    answer = cluster.client(1).ask(stale, 17)
    assert partitions_of(answer)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_broker_that_registers_anew_while_it_fetches_joins_again(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.advance(1000)
    again = cluster.registered(cluster.nodes[2])
    cluster.tell([UnregisterBrokerRecord(broker_id=2, broker_epoch=again.broker_epoch)], but=(2,))
    cluster.change("t", isr=[1, 3])
    cluster.advance(1000)
    again.broker_epoch += 100
    cluster.tell([again], but=(2,))
    cluster.advance(1000)
    assert cluster.registration("t").isr == (1, 3), "who fetches is of a past incarnation"
    cluster.nodes[2].broker.state.broker_epoch += 100
    cluster.advance(1000)
    assert cluster.registration("t").isr == (1, 3, 2), "its session goes on, and nothing in the partition has changed"


def test_a_leader_that_is_gone_is_asked_again_until_it_is_back(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.cut.update({(2, 1)})
    cluster.advance(3000)
    cluster.cut.clear()
    cluster.advance(1600)
    assert produced(cluster, b"b") == 0


def test_operators_see_what_is_not_in_sync(cluster: Cluster) -> None:
    assert produced(cluster, b"a") == 0
    cluster.change("t", isr=[1, 2])
    seen = {sample.name: sample.value for sample in cluster.nodes[1].broker.metrics()}
    name = "kafka_server_replicamanager"
    assert (seen[f"{name}_leadercount"], seen[f"{name}_underreplicatedpartitions"]) == (1, 1)
    assert (seen[f"{name}_underminisrpartitioncount"], seen[f"{name}_atminisrpartitioncount"]) == (0, 0)
    cluster.advance(700)
    seen = {sample.name: sample.value for sample in cluster.nodes[1].broker.metrics()}
    assert (seen[f"{name}_underreplicatedpartitions"], seen[f"{name}_isrexpands_total"]) == (0, 1)
    follower_sees = {sample.name: sample.value for sample in cluster.nodes[2].broker.metrics()}
    assert follower_sees["kafka_server_brokertopicmetrics_replicationbytesin_total"] == len(cluster.bytes_of(2))
