"""Quotas of clients on a node: bytes, time and mutations, with the connections that are muted for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.broker import START_MS, Client, Node
from support.logins import logged_in, secured
from support.requests import batch, fetch, produce, wanted

from penstock.errors import ErrorCode
from penstock.node.limits import CROWDED_TOLD_EVERY_MS
from penstock.node.timers import TICK_MS
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.metadata.client_quota_record import ClientQuotaRecord, EntityData
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.quota.limits import TOLD_AFTER_MS

KIB = 1024
LARGE = b"x" * 10 * KIB


def quota(key: str, value: float | None, **entity: str | None) -> ClientQuotaRecord:
    """A record; without a value it removes the quota. `client_id` and `user`: None for the default."""
    parts = [EntityData(entity_type=name.replace("_", "-"), entity_name=each) for name, each in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    made.create_topic("t", partitions=2)
    yield made
    made.stop()


def produced(client: Client, *, client_id: str = "greedy", acks: int = 1) -> Any:
    return client.ask(produce("t", batch(LARGE), acks=acks), 9, client_id)


def test_a_producer_over_its_quota_is_told_and_muted_and_another_is_not(node: Node) -> None:
    node.change([quota("producer_byte_rate", 2 * KIB, client_id="greedy")])
    client, other = node.connect(), node.connect()
    assert produced(client).throttle_time_ms == 0, "20 KiB in ten windows are free"
    answer = produced(client)
    assert answer.responses[0].partition_responses[0].error_code == 0, "it is no error"
    assert answer.throttle_time_ms > 0
    assert client.paused
    assert produced(other, client_id="quiet").throttle_time_ms == 0
    client.send(MetadataRequest(topics=[]), 12, "greedy")
    assert not client.answers, "nothing of the connection executes"
    node.advance(answer.throttle_time_ms - 1)
    assert not client.answers
    node.advance(1 + TICK_MS)
    client.receive()
    assert not client.paused


def test_all_connections_of_an_entity_share_its_quota(node: Node) -> None:
    node.change([quota("producer_byte_rate", 2 * KIB, client_id=None)])
    times = [produced(node.connect()).throttle_time_ms for _ in range(4)]
    assert times[0] == 0
    assert times[3] > times[2] > times[1], "who opens another connection gains nothing"
    assert produced(node.connect(), client_id="another").throttle_time_ms == 0


def test_a_produce_counts_before_the_next_one_executes(node: Node) -> None:
    node.change([quota("producer_byte_rate", 1 * KIB, client_id="greedy")])
    client = node.connect()
    frames = [client.frame(produce("t", batch(LARGE), acks=0), 9, "greedy") for _ in range(3)]
    client.asked.clear()
    for frame in frames:
        client.send_bytes(frame)
    assert end_offset(node) == 1, "the second frame waits, though it was there"
    node.advance(60_000)
    assert end_offset(node) == 3


def end_offset(node: Node) -> int:
    partition = node.broker.replicas.leader("t", 0, node.now_ms)
    assert not isinstance(partition, ErrorCode)
    return partition.log.log_end_offset


def test_an_answer_that_leaves_later_says_what_is_left(node: Node) -> None:
    node.change([quota("producer_byte_rate", 1 * KIB, client_id="greedy")])
    client = node.connect()
    answer = produced(client)
    assert 0 < answer.throttle_time_ms < 1_000


def test_a_fetch_over_its_quota_is_empty_and_gets_everything_later(node: Node) -> None:
    node.change([quota("consumer_byte_rate", 2 * KIB, client_id="greedy")])
    writer, client = node.connect(), node.connect()
    for _ in range(4):
        produced(writer, client_id="writer")
    offset, empty, got = 0, 0, 0
    while offset < 4:
        answer = client.ask(fetch("t", wanted(offset=offset, max_bytes=11 * KIB)), 12, "greedy")
        assert answer.error_code == 0
        if not answer.responses:
            empty += 1
            assert answer.throttle_time_ms > 0
        else:
            got += 1
            offset += 1
        node.advance(answer.throttle_time_ms + TICK_MS)
    assert (got, empty > 0) == (4, True)
    assert node.now_ms > 0


def test_a_throttled_fetch_leaves_its_session_as_it_was(node: Node) -> None:
    writer, client = node.connect(), node.connect()
    for _ in range(3):
        produced(writer, client_id="writer")
    first = client.ask(fetch("t", wanted(max_bytes=11 * KIB), session_epoch=0), 12, "greedy")
    assert first.session_id
    node.change([quota("consumer_byte_rate", 2 * KIB, client_id="greedy")])
    epoch, offset = 1, 1
    answers = []
    while offset < 3:
        request = fetch(
            "t", wanted(offset=offset, max_bytes=11 * KIB), session_id=first.session_id, session_epoch=epoch
        )
        answer = client.ask(request, 12, "greedy")
        assert answer.session_id == first.session_id
        assert answer.error_code == 0
        epoch += 1
        answers.append(answer)
        offset += bool(answer.responses)
        node.advance(answer.throttle_time_ms + TICK_MS)
        assert len(answers) < 20
    assert any(not answer.responses for answer in answers)


def test_a_batch_larger_than_the_quota_allows_passes_after_a_while(node: Node) -> None:
    node.change([quota("consumer_byte_rate", 100, client_id="greedy")])
    produced(node.connect(), client_id="writer")
    client = node.connect()
    answer = client.ask(fetch("t", wanted()), 12, "greedy")
    assert answer.responses[0].partitions[0].records
    assert answer.throttle_time_ms > 50_000
    node.advance(answer.throttle_time_ms + TICK_MS)
    assert client.ask(fetch("t", wanted()), 12, "greedy").responses[0].partitions[0].records


def test_a_fetch_is_capped_to_what_the_windows_allow(node: Node) -> None:
    writer, client = node.connect(), node.connect()
    for _ in range(10):
        produced(writer, client_id="writer")
    node.change([quota("consumer_byte_rate", 3 * KIB, client_id="greedy")])
    answer = client.ask(fetch("t", wanted()), 12, "greedy")
    assert answer.throttle_time_ms == 0
    assert 20 * KIB < len(answer.responses[0].partitions[0].records) <= 30 * KIB


def test_time_of_the_loop_is_counted_and_a_delay_is_at_most_a_window(node: Node) -> None:
    node.change([quota("request_percentage", 0.01, client_id="greedy")])
    client = node.connect()
    delays = []
    for _ in range(20):
        answer = client.ask(MetadataRequest(topics=None), 12, "greedy")
        delays.append(answer.throttle_time_ms)
        node.advance(answer.throttle_time_ms + TICK_MS)
    assert max(delays) == 1_000
    assert client.ask(MetadataRequest(topics=None), 12, "other").throttle_time_ms == 0


def test_a_quota_changes_at_once_and_ends_at_once(node: Node) -> None:
    client = node.connect()
    produced(client)
    node.change([quota("producer_byte_rate", 100, user="ANONYMOUS")])
    answer = produced(client)
    assert answer.throttle_time_ms > 10_000
    node.change([quota("producer_byte_rate", None, user="ANONYMOUS")])
    assert produced(node.connect()).throttle_time_ms == 0
    node.advance(answer.throttle_time_ms + TICK_MS)
    assert produced(client).throttle_time_ms == 0, "who was muted goes on when it was told"


def test_a_connection_that_closes_while_it_is_mute_is_forgotten(node: Node) -> None:
    node.change([quota("producer_byte_rate", 100, client_id="greedy")])
    client = node.connect()
    answer = produced(client)
    client.send(MetadataRequest(topics=[]), 12, "greedy")
    node.disconnect(client)
    node.advance(answer.throttle_time_ms + TICK_MS)
    assert client.number not in node.broker.connections


def created(client: Client, name: str, partitions: int, version: int) -> Any:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), version, "greedy")


def test_mutations_are_refused_once_tokens_are_short(node: Node) -> None:
    node.change([quota("controller_mutation_rate", 1, client_id="greedy")])
    client = node.connect()
    answer = created(client, "a", 15, 7)
    assert answer.topics[0].error_code == 0, "a burst may be larger than what is there"
    answer = created(client, "b", 1, 7)
    assert answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert answer.throttle_time_ms == 4_000
    assert client.paused
    node.advance(4_000 + TICK_MS)
    assert created(client, "b", 1, 7).topics[0].error_code == 0
    more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="b", count=2, assignments=None)])
    assert client.ask(more, 3, "greedy").results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.advance(1_000 + TICK_MS)
    gone = DeleteTopicsRequest(topic_names=["a"], timeout_ms=1_000)
    answer = client.ask(gone, 5, "greedy")
    assert answer.responses[0].error_code == 0
    node.advance(answer.throttle_time_ms + TICK_MS)
    answer = client.ask(DeleteTopicsRequest(topic_names=["b"], timeout_ms=1_000), 5, "greedy")
    assert answer.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_older_clients_do_what_they_want_and_wait(node: Node) -> None:
    node.change([quota("controller_mutation_rate", 1, client_id="greedy")])
    client = node.connect()
    assert created(client, "a", 15, 5).throttle_time_ms == 4_000
    node.advance(4_000 + TICK_MS)
    answer = created(client, "b", 3, 5)
    assert answer.topics[0].error_code == 0
    assert answer.throttle_time_ms == 3_000 - TICK_MS, "a tick has passed"


def test_a_topic_that_is_made_on_demand_is_a_mutation_too(node: Node) -> None:
    node.change([quota("controller_mutation_rate", 1, client_id="greedy")])
    client = node.connect()
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="b")], allow_auto_topic_creation=True)
    created(client, "a", 15, 7)
    assert client.ask(wanted, 12, "greedy").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "b" not in node.broker.image.topics_by_name
    assert client.ask(wanted, 12, "other").topics[0].error_code == 0, "of another client it is created"
    wanted.topics[0].name = "c"
    assert client.ask(wanted, 12, "greedy").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.advance(4_000 + TICK_MS)
    assert client.ask(wanted, 12, "greedy").topics[0].error_code == 0


def test_a_login_counts_for_nobody() -> None:
    node = secured()
    node.change([quota("request_percentage", 0.01, user="ANONYMOUS")])
    for _ in range(20):
        assert logged_in(node, "alice").ask(MetadataRequest(topics=[]), 12).throttle_time_ms == 0
    assert not node.broker.quotas.usages.kept
    node.connect().ask(MetadataRequest(topics=[]), 12)
    assert node.broker.quotas.usages.kept, "who need not log in is measured"
    node.stop()


def test_use_is_in_the_metrics(node: Node) -> None:
    node.change([quota("producer_byte_rate", 1 * KIB, client_id="greedy")])
    client = node.connect()
    answer = produced(client)
    found = {sample.name: sample for sample in node.broker.metrics() if sample.labels.get("client_id") == "greedy"}
    assert found["kafka_server_produce_byte_rate"].value > 1 * KIB
    assert found["kafka_server_produce_throttle_time_total"].value == answer.throttle_time_ms
    assert found["kafka_server_produce_throttle_time"].value == answer.throttle_time_ms
    assert found["kafka_server_produce_byte_rate"].labels["user"] == ""
    node.advance(60_000)
    assert not node.broker.quotas.usages.kept, "what is as new is forgotten"


def test_time_and_mutations_are_in_the_metrics_by_user_and_client_id(node: Node) -> None:
    node.change(
        [
            quota("controller_mutation_rate", 1, client_id="greedy", user="ANONYMOUS"),
            quota("request_percentage", 0.01, user="ANONYMOUS"),
        ]
    )
    answer = created(node.connect(), "metered", 30, 5)
    assert answer.throttle_time_ms > 1_000
    found = {sample.name: sample for sample in node.broker.metrics() if sample.labels.get("user") == "ANONYMOUS"}
    mutations = "kafka_server_controllermutation"
    assert found[f"{mutations}_mutation_rate"].value == pytest.approx(3, rel=0.1)
    assert found[f"{mutations}_tokens"].value == 11 - 30
    assert found[f"{mutations}_tokens"].labels == {"user": "ANONYMOUS", "client_id": "greedy"}
    assert found[f"{mutations}_throttle_time"].value == answer.throttle_time_ms
    assert found["kafka_server_request_request_time"].value > 0
    assert found["kafka_server_request_throttle_time"].value <= 1_000
    assert found["kafka_server_request_throttle_time"].labels == {"user": "ANONYMOUS", "client_id": ""}


@pytest.mark.parametrize("broken", ["begins", "throttle_time_ms"])
def test_a_bug_in_the_counting_ends_one_request(node: Node, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    node.change([quota("producer_byte_rate", 1 * KIB, client_id="greedy")])
    node.bugs_expected = True
    client, other = node.connect(), node.connect()
    with monkeypatch.context() as patched:
        patched.setattr(node.broker.quotas, broken, raises)
        client.send(produce("t", batch(LARGE)), 9, "greedy")
    assert client.answers or client.closed
    assert len(node.bugs) == 1
    assert produced(other, client_id="quiet").responses


def raises(*_: object) -> int:
    raise RuntimeError("a bug")


def test_a_debugging_consumer_is_one(node: Node) -> None:
    node.change([quota("consumer_byte_rate", 100, client_id="greedy")])
    produced(node.connect(), client_id="writer")
    answer = node.connect().ask(fetch("t", wanted(), replica_id=-2), 12, "greedy")
    assert answer.responses[0].partitions[0].records
    assert answer.throttle_time_ms > 50_000, "only a broker's id is exempt"


def test_addresses_are_known_in_any_spelling(node: Node) -> None:
    for name in ("2001:db8::7", "::1", "10.0.0.7"):
        node.change([quota("connection_creation_rate", 1, ip=name)])
    for address in ("2001:db8::7", "::1", "10.0.0.7"):
        delays = [node.broker.connection_delay_ms(address, node.now_ms) for _ in range(11)]
        assert delays == [0] * 10 + [1_000], address


def test_nothing_is_kept_of_mute_connections_that_closed(node: Node) -> None:
    node.change([quota("producer_byte_rate", 1, client_id="greedy")])
    timers = len(node.broker.scheduler.timers)
    for _ in range(10):
        client = node.connect()
        assert produced(client).throttle_time_ms > 1_000_000
        node.disconnect(client)
        assert client.number not in node.broker.connections
    assert len(node.broker.scheduler.timers) <= timers + 2


def test_a_batch_larger_than_the_quota_allows_passes_though_others_fetch_little(node: Node) -> None:
    node.change([quota("consumer_byte_rate", 100, client_id="greedy")])
    produced(node.connect(), client_id="writer")
    client, other = node.connect(), node.connect()
    answers = []
    for _ in range(20):
        other.ask(fetch("t", wanted(1)), 12, "greedy")
        answers.append(client.ask(fetch("t", wanted()), 12, "greedy"))
        node.advance(answers[-1].throttle_time_ms + TICK_MS)
    assert sum(bool(answer.responses) for answer in answers) > 5


def test_a_fetch_that_waited_counts_although_its_client_was_forgotten_meanwhile(node: Node) -> None:
    node.change([quota("consumer_byte_rate", 1 * KIB, client_id="greedy")])
    client, other = node.connect(), node.connect()
    client.ask(fetch("t", wanted(1)), 12, "greedy")
    client.send(fetch("t", wanted(), max_wait_ms=100_000, min_bytes=1), 12, "greedy")
    node.advance(60_000)
    assert not node.broker.quotas.usages.kept
    other.ask(fetch("t", wanted(1)), 12, "greedy")
    produced(node.connect(), client_id="writer")
    client.receive()
    (usage,) = node.broker.quotas.usages.kept.values()
    assert usage.rate.per_second(node.now_ms) > 1_000


def test_the_settings_that_kafka_dropped_hold_for_each_client_id_that_no_quota_holds_for() -> None:
    node = Node(quota_producer_default=str(2 * KIB), quota_consumer_default=str(KIB))
    node.create_topic("t", partitions=2)
    one, two = node.connect(), node.connect()
    times = [produced(client, client_id="one").throttle_time_ms for client in (one, two)]
    assert times[0] == 0
    assert times[1] > 0, "all with the client id share it"
    assert produced(node.connect(), client_id="other").throttle_time_ms == 0, "each client id by itself"
    reader = node.connect()
    assert reader.ask(fetch("t", wanted()), 12, "reader").throttle_time_ms > 0
    node.change([quota("producer_byte_rate", 1_000 * KIB, client_id=None)])
    assert [produced(node.connect(), client_id="one").throttle_time_ms for _ in range(4)] == [0] * 4, "a quota wins"
    node.change([quota("producer_byte_rate", None, client_id=None)])
    assert produced(node.connect(), client_id="one").throttle_time_ms > 0, "and when it is gone, the setting is back"
    assert node.broker.quotas.active
    node.stop()


def test_the_log_tells_of_who_is_held_back_for_minutes(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.change([quota("producer_byte_rate", 2 * KIB, client_id="greedy")])
    client, slowed = node.connect(), "clients are held back by their quota all the time"
    while node.now_ms < START_MS + TOLD_AFTER_MS // 2:
        node.advance(produced(client).throttle_time_ms + TICK_MS)
    assert slowed not in caplog.text, "not so soon"
    while node.now_ms < START_MS + 2 * TOLD_AFTER_MS:
        node.advance(produced(client).throttle_time_ms + TICK_MS)
    (record,) = [each for each in caplog.records if slowed in each.getMessage()]
    assert record.levelname == "WARNING"
    for part in ("quota=producer_byte_rate", "client=greedy", "user=any", f"limit={2 * KIB}", "level=7"):
        assert part in record.getMessage()
    assert int(record.getMessage().rpartition("seconds=")[2]) >= TOLD_AFTER_MS // 1_000


def test_the_log_tells_once_an_hour_that_clients_share_a_measure(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(penstock_quota_entities_max=1)
    node.create_topic("t")
    node.change([quota("producer_byte_rate", 2 * KIB, client_id=None)])
    sharing = "more clients have quotas than are measured apart"
    produced(node.connect(), client_id="first")
    node.advance(12_000)
    assert sharing not in caplog.text
    while node.now_ms < START_MS + CROWDED_TOLD_EVERY_MS * 3 // 2:
        for name in ("first", "second", "third"):
            produced(node.connect(), client_id=name)
        node.advance(300_000)
    assert caplog.text.count(sharing) == 2
    (record, _) = [each for each in caplog.records if sharing in each.getMessage()]
    assert record.levelname == "WARNING"
    assert "setting=penstock.quota.entities.max" in record.getMessage()
    node.stop()
