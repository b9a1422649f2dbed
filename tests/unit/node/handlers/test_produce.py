"""Produce: acknowledgement, refusals, idempotence, rewriting, and what a failing disk does."""

from __future__ import annotations

import errno

import pytest
from support.broker import START_MS, Node
from support.requests import batch, fetch, partitions_of, produce, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.log.operations import Write
from penstock.records.batch import CRC, CRC_POSITION, computed_crc, headers
from penstock.records.compression import Codec
from penstock.replication.rewrite import RewriteOperation

VERSIONS = range(3, 14)
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def shared() -> Node:
    """A node for tests that use topics of their own."""
    return Node()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_appends_and_answers_the_offset(version: int, shared: Node) -> None:
    name = f"versions-{version}"
    topic_id = shared.create_topic(name)
    client = shared.connect()
    topic = name if version < 13 else topic_id
    for base_offset in (0, 2):
        answer = client.ask(produce(topic, batch(b"a", b"b")), version)
        found = answer.responses[0].partition_responses[0]
        assert (found.error_code, found.base_offset, found.log_append_time_ms) == (0, base_offset, -1)
    read = client.ask(fetch(name, wanted()), 4)
    assert values_of(partitions_of(read)[0]) == [b"a", b"b", b"a", b"b"]


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_kept_as_it_came(codec: Codec, shared: Node) -> None:
    name = f"codec-{codec.kafka_name}"
    shared.create_topic(name)
    client = shared.connect()
    sent = batch(b"x" * 100, b"y" * 100, codec=codec)
    assert produced(client, name, sent).error_code == 0
    data = partitions_of(client.ask(fetch(name, wanted()), 12))[0]
    assert bytes(data.records)[61:] == bytes(sent)[61:]
    assert values_of(data) == [b"x" * 100, b"y" * 100]


def test_acks_0_gets_no_answer_and_acks_1_gets_one_when_the_write_has_completed(shared: Node) -> None:
    shared.create_topic("acks")
    client = shared.connect()
    client.send(produce("acks", batch(), acks=0), 9)
    assert not client.answers
    client.asked.clear()
    shared.held = lambda operation: isinstance(operation, Write)
    client.send(produce("acks", batch(), acks=1), 9)
    assert not client.answers
    assert partitions_of(client.node.connect().ask(fetch("acks", wanted()), 12))[0].high_watermark == 1
    shared.let_go()
    assert client.receive().responses[0].partition_responses[0].base_offset == 1


def test_an_error_with_acks_0_closes_the_connection(shared: Node) -> None:
    client = shared.connect()
    client.send(produce("no-such-topic", batch(), acks=0), 9)
    assert client.closed is not None
    assert not client.answers


def test_acks_all_with_one_replica_answers_when_it_is_written(shared: Node) -> None:
    shared.create_topic("all")
    assert produced(shared.connect(), "all", batch(), acks=-1).base_offset == 0


def test_appends_of_one_turn_are_one_write(shared: Node) -> None:
    shared.create_topic("turn")
    client = shared.connect()
    assert produced(client, "turn", batch()).error_code == 0
    shared.ran.clear()
    for _ in range(5):
        shared.broker.received(client.number, memoryview(client.frame(produce("turn", batch()), 9)), shared.now_ms)
    shared.run()
    assert [client.receive().responses[0].partition_responses[0].base_offset for _ in range(5)] == [1, 2, 3, 4, 5]
    assert sum(isinstance(operation, Write) for operation in shared.ran) == 1


def test_no_more_replicas_are_asked_for_than_there_are(shared: Node) -> None:
    shared.create_topic("isr", min_insync_replicas="2")
    assert produced(shared.connect(), "isr", batch(), acks=-1).base_offset == 0


def test_unknown_acks_are_refused(shared: Node) -> None:
    shared.create_topic("acks-2")
    assert produced(shared.connect(), "acks-2", batch(), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_unknown_topics_ids_and_partitions_are_named_by_their_errors(shared: Node) -> None:
    topic_id = shared.create_topic("known")
    client = shared.connect()
    assert produced(client, "unknown", batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produced(client, "known", batch(), partition=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = client.ask(produce(topic_id.__class__(int=5), batch()), 13)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def corrupt(data: bytearray) -> bytearray:
    data[-1] ^= 1
    return data


def transactional() -> bytearray:
    return batch(b"t", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"\0" * 10, ErrorCode.INVALID_RECORD),
        (batch()[:-3], ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (corrupt(batch()), ErrorCode.CORRUPT_MESSAGE),
        (batch(timestamp_ms=START_MS + 2 * 3_600_000), ErrorCode.INVALID_TIMESTAMP),
        (batch(b"x" * (1 << 20)), ErrorCode.MESSAGE_TOO_LARGE),
        (transactional(), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (b"\0" * 100, ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=["null", "empty", "short", "cut", "two", "crc", "future", "large", "transaction", "zeros"],
)
def test_a_bad_batch_is_refused_and_nothing_is_appended(data: bytearray | None, code: ErrorCode, shared: Node) -> None:
    if shared.broker.image.topics_by_name.get("bad") is None:
        shared.create_topic("bad", message_timestamp_after_max_ms="3600000")
    client = shared.connect()
    answer = client.ask(produce("bad", data), 9).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert answer.error_message
    assert partitions_of(client.ask(fetch("bad", wanted()), 12))[0].high_watermark == 0


def test_one_bad_partition_does_not_disturb_the_others(shared: Node) -> None:
    shared.create_topic("mixed", partitions=3)
    client = shared.connect()
    answers = client.ask(produce("mixed", batch(), corrupt(batch()), batch()), 9).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [0, ErrorCode.CORRUPT_MESSAGE, 0]


def test_internal_topics_are_for_kafkas_own_tools(shared: Node) -> None:
    shared.create_topic("__consumer_offsets")
    client = shared.connect()
    assert produced(client, "__consumer_offsets", batch()).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    answer = client.ask(produce("__consumer_offsets", batch()), 9, client_id="__admin_client")
    assert answer.responses[0].partition_responses[0].error_code == 0


# Timestamps and rewriting


def test_log_append_time_is_the_brokers_clock(shared: Node) -> None:
    shared.create_topic("append-time", message_timestamp_type="LogAppendTime")
    client = shared.connect()
    answer = produced(client, "append-time", batch(timestamp_ms=5))
    assert answer.log_append_time_ms == shared.now_ms
    data = partitions_of(client.ask(fetch("append-time", wanted()), 12))[0]
    _, header = next(headers(memoryview(bytes(data.records))))
    assert header.max_timestamp_ms == shared.now_ms


@pytest.mark.parametrize("step_ms", [-DAY_MS, DAY_MS])
def test_what_is_stamped_follows_the_clock_that_somebody_sets(step_ms: int) -> None:
    node = Node()
    node.create_topic("append-time", message_timestamp_type="LogAppendTime")
    node.create_topic("bounded", message_timestamp_after_max_ms="1000", message_timestamp_before_max_ms="1000")
    node.wall.ahead_ms = step_ms
    client = node.connect()
    clock_ms = node.now_ms + step_ms
    assert produced(client, "append-time", batch(timestamp_ms=5)).log_append_time_ms == clock_ms
    assert produced(client, "bounded", batch(timestamp_ms=clock_ms)).error_code == ErrorCode.NONE
    assert produced(client, "bounded", batch(timestamp_ms=node.now_ms)).error_code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_keeps_its_own_codec(name: str, shared: Node) -> None:
    shared.create_topic(f"own-{name}", compression_type=name)
    client = shared.connect()
    assert produced(client, f"own-{name}", batch(b"a", b"b", codec=Codec.LZ4)).base_offset == 0
    assert produced(client, f"own-{name}", batch(b"c")).base_offset == 2
    data = partitions_of(client.ask(fetch(f"own-{name}", wanted()), 12))[0]
    codecs = {header.compression.kafka_name for _, header in headers(memoryview(bytes(data.records)))}
    assert codecs == {"none" if name == "uncompressed" else name}
    assert values_of(data) == [b"a", b"b", b"c"]


def test_large_batches_are_rewritten_off_the_loop_and_hold_back_their_connection(shared: Node) -> None:
    shared.create_topic("rewrite", partitions=2, compression_type="zstd")
    client = shared.connect()
    other = shared.connect()
    shared.held = lambda operation: isinstance(operation, RewriteOperation)
    client.send(produce("rewrite", batch(b"x" * 100_000)), 9)
    client.send(produce("rewrite", batch(b"second")), 9)
    assert not client.answers
    assert produced(other, "rewrite", batch(b"other"), partition=1).base_offset == 0, "others go on"
    shared.let_go()
    offsets = [client.receive().responses[0].partition_responses[0].base_offset for _ in range(2)]
    assert offsets == [0, 1]
    data = partitions_of(client.ask(fetch("rewrite", wanted()), 12))[0]
    assert values_of(data) == [b"x" * 100_000, b"second"]


def test_deep_validation_names_the_records_at_fault() -> None:
    node = Node()
    node.create_topic("compacted", cleanup_policy="compact")
    answer = produced(node.connect(), "compacted", batch(b"a", b"b", key=None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]


def test_deep_validation_can_be_asked_for_everywhere() -> None:
    """A record whose length does not fit passes `header` validation, and not `deep`."""
    broken = batch(b"abc")
    broken[61] = 0x7E  # the first record's length
    CRC.pack_into(broken, CRC_POSITION, computed_crc(broken, 0, len(broken)))
    shallow, deep = Node(), Node(penstock_produce_validation="deep")
    for node in (shallow, deep):
        node.create_topic("t")
    assert produced(shallow.connect(), "t", bytearray(broken)).error_code == 0
    assert produced(deep.connect(), "t", bytearray(broken)).error_code == ErrorCode.INVALID_RECORD


# Idempotence


def idempotent(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 7) -> bytearray:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_a_duplicate_is_answered_with_the_first_offset() -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    assert produced(client, "t", idempotent(0, b"a", b"b")).base_offset == 0
    assert produced(client, "t", idempotent(2, b"c")).base_offset == 2
    again = produced(client, "t", idempotent(0, b"a", b"b"))
    assert (again.error_code, again.base_offset) == (0, 0)
    assert partitions_of(client.ask(fetch("t", wanted()), 12))[0].high_watermark == 3


def test_a_duplicate_is_answered_only_when_the_first_one_is_written() -> None:
    node = Node()
    node.create_topic("t")
    first, second = node.connect(), node.connect()
    assert produced(first, "t", batch()).base_offset == 0
    node.held = lambda operation: isinstance(operation, Write)
    first.send(produce("t", idempotent(0, b"a"), acks=-1), 9)
    second.send(produce("t", idempotent(0, b"a"), acks=-1), 9)
    assert not first.answers
    assert not second.answers
    node.let_go()
    assert first.receive().responses[0].partition_responses[0].base_offset == 1
    assert second.receive().responses[0].partition_responses[0].base_offset == 1


def test_a_gap_in_sequences_and_an_old_epoch_are_refused() -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    assert produced(client, "t", idempotent(0, b"a", epoch=1)).error_code == 0
    assert produced(client, "t", idempotent(2, b"c", epoch=1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produced(client, "t", idempotent(1, b"b", epoch=0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produced(client, "t", idempotent(1, b"b", epoch=1)).base_offset == 1


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_sequences_survive(how: str) -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    for sequence in range(3):
        assert produced(client, "t", idempotent(sequence, b"v%d" % sequence)).base_offset == sequence
    if how == "stop":
        node.restart()
    else:
        node.crash(power_failed=False)
    client = node.connect()
    for sequence in range(3):
        again = produced(client, "t", idempotent(sequence, b"v%d" % sequence))
        assert again.base_offset == sequence, "a duplicate, also of one that others followed"
    assert produced(client, "t", idempotent(9, b"gap")).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produced(client, "t", idempotent(3, b"v3")).base_offset == 3


# A failing disk


def test_a_failed_write_takes_the_directory_offline_and_no_other() -> None:
    node = Node(directories=2)
    node.create_topic("t", partitions=2)
    client = node.connect()
    for index in range(2):
        assert produced(client, "t", batch(), partition=index).error_code == 0
    where = {index: node.broker.logs.directory_of("t", index).index for index in range(2)}
    broken = next(index for index, directory in where.items() if directory == 1)
    disk = node.disks[1]

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    disk.write = fail  # type: ignore[method-assign, assignment]
    assert produced(client, "t", batch(), partition=broken).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(client, "t", batch(), partition=broken).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(client, "t", batch(), partition=1 - broken).base_offset == 1
    answer = partitions_of(client.ask(fetch("t", wanted(broken)), 12))[broken]
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.broker.failure is None


def test_a_failing_metadata_directory_ends_the_node() -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    assert produced(client, "t", batch()).error_code == 0
    node.disks[0].fail_write_at = node.disks[0].changes
    assert produced(client, "t", batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(node.broker.failure, OSError)
