"""DescribeTelemetry: what clients have sent and got, to the byte; what has changed since; when all is told again."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any
from uuid import UUID

import pytest
from support.broker import Client, Node
from support.requests import batch, fetch, produce, wanted

from penstock.errors import ErrorCode
from penstock.guardian.telemetry.decode import Frame, decode
from penstock.guardian.telemetry.view import View
from penstock.node.telemetry import clients as clients_module
from penstock.node.telemetry import table as table_module
from penstock.node.telemetry.pull import pull
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.own.describe_telemetry_request import DescribeTelemetryRequest
from penstock.protocol.telemetry import BLOCKS, FULL, Kind, is_exact
from penstock.replication import traffic as traffic_module
from penstock.security.authorizer import AclOperation, ResourceType

COUNTERS = ("bytes_in", "records_in", "bytes_out", "records_out")


class Reader:
    """Somebody who asks again and again."""

    def __init__(self, node: Node) -> None:
        self.client = node.connect()
        self.view = View()

    def pull(self, **fields: Any) -> Frame:
        asked = {"incarnation_id": self.view.incarnation, "sequence": self.view.sequence, **fields}
        answer = self.client.ask(DescribeTelemetryRequest(**asked), 0, "reader")
        assert answer.error_code == 0, answer.error_message
        frame = decode(bytes(answer.frame))
        self.view.take(frame)
        return frame

    def counters(self, topic: str, partition: str = "0") -> tuple[int, ...]:
        row = self.view["partitions"].row(topic, partition)
        return tuple(row[name] for name in COUNTERS)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    made.create_topic("t", partitions=2)
    yield made
    made.stop()


def produced(client: Client, *batches: bytearray, topic: str = "t", client_id: str = "writer") -> int:
    """Bytes of batches that were produced to partition 0, 1, ..."""
    for partition, data in enumerate(batches):
        answer = client.ask(produce(topic, data, first=partition), 9, client_id)
        assert answer.responses[0].partition_responses[0].error_code == 0
    return sum(map(len, batches))


def fetched(client: Client, offset: int, topic: str = "t", **fields: Any) -> int:
    """Bytes of partition 0 from an offset on."""
    answer = client.ask(fetch(topic, wanted(0, offset), **fields), 12, "reader of records")
    return len(bytes(answer.responses[0].partitions[0].records or b""))


def test_partitions_have_what_clients_sent_and_got(node: Node) -> None:
    first, second = batch(b"a", b"b", b"c"), batch(b"x" * 1000)
    produced(node.connect(), first, second)
    produced(node.connect(), first)
    got = fetched(node.connect(), 1)
    assert got == 2 * len(first), "whole batches, from the one with the offset on"
    reader = Reader(node)
    reader.pull()
    assert reader.counters("t") == (2 * len(first), 6, got, 5)
    assert reader.counters("t", "1") == (len(second), 1, 0, 0)
    row = reader.view["partitions"].row("t", "0")
    gauges = {name: row[name] for name in ("leader", "replicas", "in_sync_replicas", "in_sync_lag", "lag", "disk")}
    assert gauges == {"leader": 1, "replicas": 1, "in_sync_replicas": 1, "in_sync_lag": 0, "lag": -1, "disk": 0}
    assert (row["log_start_offset"], row["log_end_offset"], row["high_watermark"]) == (0, 6, 6)
    assert row["size_bytes"] == 2 * len(first)


def test_a_session_counts_as_a_single_fetch_does(node: Node) -> None:
    data = batch(b"a", b"b")
    produced(node.connect(), data)
    assert fetched(node.connect(), 0, session_epoch=0) == len(data)
    reader = Reader(node)
    reader.pull()
    assert reader.counters("t") == (len(data), 2, len(data), 2)


def test_clients_have_the_bytes_of_their_frames(node: Node) -> None:
    client, other = node.connect(), node.connect()
    sent = got = 0
    client.ask(ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.3.0"), 3, "writer")
    reader = Reader(node)
    reader.pull()
    before = reader.view["clients"].row("User:ANONYMOUS", "writer", "127.0.0.1", "librdkafka", "2.3.0")
    for each in (client, client, other):
        frame = each.frame(produce("t", batch(b"x" * 50)), 9, "writer")
        sent += len(frame) + 4
        each.send_bytes(frame)
        got += len(each.answers[0]) + 4
        each.receive()
    reader.pull()
    row = reader.view["clients"].row("User:ANONYMOUS", "writer")
    assert row["connections"] == 2
    assert row["requests"] == before["requests"] + 3 == 4
    assert row["bytes_in"] - before["bytes_in"] == sent
    assert row["bytes_out"] - before["bytes_out"] == got


def test_a_client_that_calls_itself_otherwise_is_another(node: Node) -> None:
    client, reader = node.connect(), Reader(node)
    produced(client, batch(b"x"), client_id="one")
    produced(client, batch(b"x"), client_id="two")
    reader.pull()
    clients = reader.view["clients"]
    assert clients.row("User:ANONYMOUS", "one")["connections"] == 0
    assert clients.row("User:ANONYMOUS", "two")["connections"] == 1
    assert clients.row("User:ANONYMOUS", "one")["requests"] == clients.row("User:ANONYMOUS", "two")["requests"] == 1


def test_only_what_has_changed_is_told_again(node: Node) -> None:
    node.create_topic("quiet", partitions=50)
    reader = Reader(node)
    whole = reader.pull()
    assert whole.since == FULL
    produced(node.connect(), batch(b"x"))
    changes = reader.pull()
    assert changes.since == whole.sequence
    told = {(part.block.name, part.kind): len(part.ids) for part in changes.parts}
    assert told[("partitions", Kind.CHANGES)] == 1
    assert ("partitions", Kind.VALUES) not in told
    assert ("partitions", Kind.NAMES) not in told
    assert ("groups", Kind.VALUES) not in told
    assert reader.counters("t")[1] == 1
    assert len(reader.view["partitions"]) == 53
    told = {(part.block.name, part.kind): len(part.ids) for part in reader.pull().parts}
    assert ("partitions", Kind.CHANGES) not in told


def test_two_readers_each_get_what_is_news_to_them(node: Node) -> None:
    one, two = Reader(node), Reader(node)
    one.pull()
    two.pull()
    produced(node.connect(), batch(b"x"))
    one.pull()
    produced(node.connect(), batch(b"y"))
    one.pull()
    two.pull()
    assert one.counters("t") == two.counters("t")
    assert one.view["partitions"].names == two.view["partitions"].names


@pytest.mark.parametrize("wrong", ["incarnation", "future", "zero", "negative"])
def test_who_knows_what_was_never_told_gets_everything(node: Node, wrong: str) -> None:
    reader = Reader(node)
    reader.pull()
    fields: dict[str, Any] = {
        "incarnation": {"incarnation_id": UUID(int=5)},
        "future": {"sequence": reader.view.sequence + 10},
        "zero": {"sequence": 0},
        "negative": {"sequence": -(1 << 63)},
    }[wrong]
    assert reader.pull(**fields).since == FULL


def test_a_new_process_is_another_incarnation_and_counts_from_0(node: Node) -> None:
    reader = Reader(node)
    produced(node.connect(), batch(b"x"))
    reader.pull()
    before = reader.view.incarnation
    node.restart()
    reader.client = node.connect()
    frame = reader.pull()
    assert frame.since == FULL
    assert frame.incarnation != before
    assert frame.incarnation != ZERO_UUID
    assert reader.counters("t") == (0, 0, 0, 0)
    assert reader.view["partitions"].row("t", "0")["log_end_offset"] in {-1, 1}, "its log may not be open yet"


def total(view: View, block: str, column: str) -> int:
    return int(view[block].column(column).sum())


def test_the_sums_of_a_deleted_topic_stay(node: Node) -> None:
    reader = Reader(node)
    sent = produced(node.connect(), batch(b"x"), batch(b"y"))
    reader.pull()
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    assert node.connect().ask(deletion, 6).responses[0].error_code == 0
    node.advance(100)
    frame = reader.pull()
    assert [len(part.ids) for part in frame.parts if part.kind is Kind.REMOVED and part.block.name == "partitions"] == [
        2
    ]
    assert reader.view["partitions"].names == [("", "-1")]
    assert reader.counters("", "-1")[:2] == (sent, 2)
    node.create_topic("t", partitions=2)
    sent += produced(node.connect(), batch(b"z"))
    reader.pull()
    assert reader.counters("t")[1] == 1, "the new topic begins at 0"
    assert total(reader.view, "partitions", "bytes_in") == sent


def test_what_came_and_went_between_two_frames_is_no_news(node: Node) -> None:
    reader, other = Reader(node), Reader(node)
    reader.pull()
    node.create_topic("short-lived")
    other.pull()
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="short-lived")], timeout_ms=1000)
    node.connect().ask(deletion, 6)
    node.advance(100)
    other.pull()
    reader.pull()
    assert reader.view["partitions"].names == other.view["partitions"].names


def test_replicas_beyond_the_bound_count_together(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_module, "COUNTED_PARTITIONS_MAX", 1)
    sent = produced(node.connect(), batch(b"x"), batch(b"yy"))
    reader = Reader(node)
    reader.pull()
    assert total(reader.view, "partitions", "bytes_in") == sent
    assert reader.counters("", "-1")[1] == reader.counters("t")[1] == 1


def test_clients_without_connections_make_room_and_their_sums_stay(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(node)
    reader.pull()
    monkeypatch.setattr(clients_module, "TELEMETRY_CLIENTS_MAX", 3)
    sent = 0
    for number in range(5):
        client = node.connect()
        frame = client.frame(produce("t", batch(b"x")), 9, f"short-lived {number}")
        client.send_bytes(frame)
        sent += len(frame) + 4
        node.broker.disconnected(client.number, node.now_ms)
        node.run()
    reader.pull()
    clients = reader.view["clients"]
    names = [name[1] for name in clients.names]
    assert sorted(names) == ["", "reader", "short-lived 3", "short-lived 4"]
    of_writers = [index for index, name in enumerate(names) if name != "reader"]
    assert clients.column("requests")[of_writers].sum() == 5
    assert clients.column("bytes_in")[of_writers].sum() == sent


def test_a_client_that_makes_room_during_a_look_counts_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in its own row and among the others as well, whichever step of the look it makes room at."""
    monkeypatch.setattr(clients_module, "TELEMETRY_CLIENTS_MAX", 2)
    reader = Reader(node)
    reader.pull()
    sent = total(reader.view, "clients", "requests")

    def comes_and_goes(name: str, requests: int) -> None:
        client = node.connect()
        for _ in range(requests):
            client.send_bytes(client.frame(produce("t", batch(b"x")), 9, name))
        node.broker.disconnected(client.number, node.now_ms)
        node.run()

    for step in range(9):
        slow = pull(node.broker, reader.view.incarnation, reader.view.sequence)
        for _ in range(step):
            next(slow)
        requests = 2**step
        comes_and_goes(f"short-lived {step}", requests)
        reader.view.take(decode(ended(slow)))
        assert total(reader.view, "clients", "requests") in (sent, sent + requests), f"step {step}"
        sent += requests


def test_while_all_have_connections_a_further_client_counts_with_the_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients_module, "TELEMETRY_CLIENTS_MAX", 2)
    reader = Reader(node)
    reader.pull()
    connected = [node.connect() for _ in range(3)]
    for number, client in enumerate(connected):
        produced(client, batch(b"x"), client_id=f"writer {number}")
    reader.pull()
    clients = reader.view["clients"]
    assert sorted(name[1] for name in clients.names) == ["", "reader", "writer 0"]
    assert clients.row("", "", "")["requests"] == 2
    assert clients.row("", "", "")["connections"] == 2
    for client in connected:
        node.broker.disconnected(client.number, node.now_ms)
        node.run()
    reader.pull()
    assert clients.row("", "", "")["connections"] == 0


def test_who_missed_more_ends_than_are_remembered_gets_everything(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, other = Reader(node), Reader(node)
    reader.pull()
    monkeypatch.setattr(table_module, "TELEMETRY_REMOVALS_MAX", 1)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
    node.connect().ask(deletion, 6)
    node.advance(100)
    other.pull()
    assert reader.pull().since == FULL
    assert reader.view["partitions"].names == [("", "-1")]


def test_more_ends_at_once_than_are_remembered_make_a_whole_answer(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(node)
    reader.pull()
    monkeypatch.setattr(table_module, "TELEMETRY_REMOVALS_MAX", 1)
    node.connect().ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
    node.advance(100)
    assert reader.pull().since == FULL


def ended(steps: Generator[object, None, bytes]) -> bytes:
    """The result of work in steps."""

    def result() -> Generator[object, None, None]:
        found.append((yield from steps))

    found: list[bytes] = []
    for _ in result():
        pass
    return found[0]


def test_looks_that_overlap_lose_no_change(node: Node) -> None:
    """The second look ends while the first is under way, and the first then finds something."""
    reader = Reader(node)
    reader.pull()
    sequence, own = reader.view.sequence, reader.view.incarnation
    slow = pull(node.broker, own, sequence)
    next(slow)
    reader.pull()
    produced(node.connect(), batch(b"x"))
    frame = decode(ended(slow))
    assert frame.sequence < reader.view.sequence
    assert not is_exact(frame.sequence), "it has what came after the other's beginning"
    reader.pull()
    assert reader.counters("t")[1] == 1


def test_who_has_the_frame_of_an_overlapped_look_is_told_whole_values(node: Node) -> None:
    """It may know some of what came later: a difference from what it had before would count twice."""
    reader, other = Reader(node), Reader(node)
    reader.pull()
    slow = pull(node.broker, reader.view.incarnation, reader.view.sequence)
    next(slow)
    produced(node.connect(), batch(b"x"))
    other.pull()
    reader.view.take(decode(ended(slow)))
    assert reader.counters("t")[1] == 1
    for expected in (1, 1):
        reader.pull()
        assert reader.counters("t")[1] == expected
    produced(node.connect(), batch(b"y"))
    reader.pull()
    other.pull()
    assert reader.counters("t")[1] == other.counters("t")[1] == 2


def test_a_look_that_is_given_up_harms_nobody(node: Node) -> None:
    reader = Reader(node)
    reader.pull()
    given_up = pull(node.broker, reader.view.incarnation, reader.view.sequence)
    for _ in range(4):
        next(given_up)
    given_up.close()
    produced(node.connect(), batch(b"x"))
    reader.pull()
    assert reader.counters("t")[1] == 1


def test_a_broker_with_many_replicas_answers_in_steps(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.telemetry.blocks.TELEMETRY_ROWS_PER_STEP", 7)
    monkeypatch.setattr("penstock.node.telemetry.table.TELEMETRY_ROWS_PER_STEP", 7)
    node.create_topic("wide", partitions=60)
    reader = Reader(node)
    frame = reader.pull()
    assert max(len(part.ids) for part in frame.parts) <= 7
    assert len(reader.view["partitions"]) == 63
    assert reader.pull().since == frame.sequence


def test_reads_from_the_disk_count_for_their_partition(node: Node) -> None:
    node.broker.dispatcher.disk_reads.count("t-1/00000000000000000000.log", 4096)
    node.broker.dispatcher.disk_reads.count("__cluster_metadata/x.log", 5)
    reader = Reader(node)
    reader.pull()
    assert reader.view["partitions"].row("t", "1")["disk_read_bytes"] == 4096
    assert reader.view["partitions"].row("", "-1")["disk_read_bytes"] == 5
    reader.pull()
    assert reader.view["partitions"].row("t", "1")["disk_read_bytes"] == 4096


def test_it_needs_describe_configs_on_the_cluster(node: Node) -> None:
    client = node.connect()
    asked: list[tuple[AclOperation, ResourceType]] = []
    node.acls.refused = lambda operation, resource, name: not asked.append((operation, resource))
    answer = client.ask(DescribeTelemetryRequest(), 0)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not answer.frame
    node.acls.refused = lambda *_: False
    assert (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER) in asked


def test_every_block_is_told(node: Node) -> None:
    reader = Reader(node)
    reader.pull()
    assert set(reader.view.blocks) == {block.name for block in BLOCKS}
    assert [len(reader.view[name]) for name in ("broker", "disks")] == [1, 1]
    row = reader.view["broker"].row("1")
    assert (row["replicas"], row["replicas_left_out"], row["controller"]) == (2, 0, 1)
