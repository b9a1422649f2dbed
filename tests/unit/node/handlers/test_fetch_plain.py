"""A plain fetch is answered as the same fetch that may wait is, byte for byte, and counted in the same way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support import logs
from support.broker import Node
from support.requests import batch, fetch, partitions_of, produced, values_of, wanted

from penstock.errors import ErrorCode, StorageError
from penstock.node.handlers import fetch as fetch_handler
from penstock.node.handlers import fetch_plain
from penstock.protocol.message import Message
from penstock.replication.partition import Partition
from penstock.security.authorizer import ResourceType

VERSIONS = range(4, 19)
SIZES = (0, 1, 70, 500, 5_000, 1 << 20)


def partition_of(node: Node, index: int) -> Partition:
    found = node.broker.replicas.leader("t", index, node.now_ms)
    assert isinstance(found, Partition)
    return found


def append(node: Node, index: int, records: bytearray) -> None:
    """Appends what no client may: what belongs to transactions."""
    partition_of(node, index).log.append_as_leader(records, 0, node.now_ms)
    node.run()


def filled(random: Random) -> Node:
    """A node with a topic of four partitions: batches, transactions, one behind its high watermark, and none."""
    node = Node()
    node.create_topic("t", partitions=4, segment_bytes=str(1 << 20))
    client = node.connect()
    for index in (0, 1):
        for _ in range(random.randrange(1, 60)):
            produced(client, "t", batch(*[bytes(random.randrange(2_000))] * random.choice([1, 3])), partition=index)
    for number in range(30):
        producer = number % 3
        append(node, 2, logs.batch(b"x", b"y", producer=(producer, 0, number // 3 * 2), transactional=True))
        if random.random() < 0.3:
            append(node, 2, logs.marker(producer, 0, commit=random.random() < 0.5))
    partition = partition_of(node, 1)
    partition.high_watermark = random.randrange(partition.high_watermark)
    partition_of(node, 0).log.advance_log_start(random.randrange(3), partition_of(node, 0).high_watermark)
    node.run()
    return node


def some_fetch(node: Node, random: Random) -> tuple[Message, int]:
    """A request, mostly a plain one, and its version."""
    version = random.choice(VERSIONS)
    topic: Any = node.broker.image.topics_by_name["t"].id if version >= 13 else "t"

    def often(value: int, *others: int) -> int:
        return value if random.random() < 0.9 else random.choice(others)

    index = random.choice([0, 0, 1, 2, 2, 3, 4])
    end = partition_of(node, index).log.log_end_offset if index < 4 else 0
    one = wanted(index, random.randrange(-1, end + 3), random.choice(SIZES))
    one.current_leader_epoch = often(-1, 0, 1) if version >= 9 else -1
    one.last_fetched_epoch = often(-1, 0, 7) if version >= 12 else -1
    partitions = [one] if random.random() < 0.9 else [one, wanted((index + 1) % 4, 0, random.choice(SIZES))]
    request = fetch(topic, *partitions, isolation_level=random.choice([0, 1]), max_bytes=random.choice(SIZES))
    request.min_bytes = random.choice([0, 1, 1, 300, 1 << 20])
    request.max_wait_ms = random.choice([0, 100])
    if version >= 7:
        request.session_epoch = often(-1, 0)
    replica_id = often(-1, -2, 5)
    if version >= 15:
        request.replica_state.replica_id = replica_id
    else:
        request.replica_id = replica_id
    return request, version


def counted(node: Node) -> tuple[int, ...]:
    counters = node.broker.fetches.topic_metrics.of("t")
    return node.broker.fetches.looked_at, counters.fetches, counters.bytes_out, counters.failed_fetches


def answered(node: Node, request: Message, version: int, patch: pytest.MonkeyPatch, *, plain: bool) -> Any:
    """The frame that answers, how soon, and what was counted meanwhile."""
    client, before = node.connect(), counted(node)
    with patch.context() as only_now:
        if not plain:
            only_now.setattr(fetch_handler, "plain_answer", lambda *_: None)
        client.send(request, version)
    arrived_at_once = len(client.answers)
    node.advance(200)
    (frame,) = client.answers
    node.disconnect(client)
    if version >= 7:  # the id of a new session is random
        at = 10 if version < 12 else 11
        frame = frame[:at] + (b"some" if any(frame[at : at + 4]) else b"none") + frame[at + 4 :]
    return arrived_at_once, frame, tuple(now - then for now, then in zip(counted(node), before, strict=True))


def compare(seed: int, patch: pytest.MonkeyPatch) -> int:
    """Compares both ways; returns how many requests were plain."""
    random, plain = Random(seed), []
    node = filled(random)
    real = fetch_plain.plain_answer

    def noted(*arguments: Any) -> Any:
        answer = real(*arguments)
        plain.append(answer is not None)
        return answer

    patch.setattr(fetch_handler, "plain_answer", noted)
    for _ in range(60):
        refuses = random.random() < 0.1
        node.acls.refused = lambda _operation, kind, _name, refuses=refuses: refuses and kind is ResourceType.TOPIC
        request, version = some_fetch(node, random)
        both = [answered(node, request, version, patch, plain=each) for each in (True, False)]
        assert both[0] == both[1], (request, version)
    return sum(plain)


@pytest.mark.parametrize("seed", range(12))
def test_a_plain_fetch_is_answered_as_any_other(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(seed, monkeypatch) >= 10, "or nothing has been compared"


def reads_to_the_log_end(patch: pytest.MonkeyPatch) -> None:
    real = fetch_plain.read

    def too_far(partition: Any, offset: int, max_bytes: int, *, committed: bool) -> Any:
        high_watermark, partition.high_watermark = partition.high_watermark, partition.log.log_end_offset
        found = real(partition, offset, max_bytes, committed=committed)
        partition.high_watermark = high_watermark
        return found

    patch.setattr(fetch_plain, "read", too_far)


def is_never_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetch_plain, "READ_COMMITTED", 7)


def lists_no_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetch_plain, "put_records", lambda data, log, offset, found: setattr(data, "records", found.slices))


@pytest.mark.parametrize("plant", [reads_to_the_log_end, is_never_committed, lists_no_aborted_transactions])
def test_the_comparison_sees_what_is_planted(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(differs(seed, monkeypatch) for seed in range(12))


def differs(seed: int, patch: pytest.MonkeyPatch) -> bool:
    with patch.context() as only_now:
        try:
            compare(seed, only_now)
        except AssertionError:
            return True
    return False


def test_a_plain_fetch_of_what_is_not_in_memory_is_run_again() -> None:
    node = Node()
    node.create_topic("t", segment_bytes=str(1 << 20))
    client = node.connect()
    for number in range(12):
        produced(client, "t", batch(b"%d" % number + b"x" * 200_000))
    node.restart()
    client = node.connect()
    assert partitions_of(client.ask(fetch("t", wanted(offset=12)), 12))[0].error_code == 0  # the log is open
    node.disks[0].cold = True
    found = partitions_of(client.ask(fetch("t", wanted(offset=3, max_bytes=1)), 12))[0]
    assert values_of(found)[0][:2] == b"3x"  # type: ignore[index]
    assert node.broker.dispatcher.cold_reads > 0


def test_an_error_of_the_log_is_told_as_to_any_other_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    produced(client, "t", batch(b"x"))

    def fails(*_: object, **__: object) -> None:
        raise StorageError("damaged")

    monkeypatch.setattr("penstock.log.log.Log.read", fails)
    data = partitions_of(client.ask(fetch("t", wanted()), 12))[0]
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
