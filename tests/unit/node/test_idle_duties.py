"""What a node does from time to time, on a clock of the test's."""

from __future__ import annotations

import pytest
from support.broker import START_MS, Node
from support.requests import batch, produced

from penstock.log import producer_expiry
from penstock.log.producer_state import ProducerState

DAY_MS = 86_400_000
CHECK_MS = 600_000


def producers_of(node: Node, partition: int = 0) -> ProducerState:
    log = node.broker.logs.open_log("t", partition)
    assert log is not None
    return log.producers


def test_an_open_log_forgets_producers_that_have_gone_silent() -> None:
    node = Node()
    node.create_topic("t", partitions=2)
    client = node.connect()
    for partition in (0, 1):
        data = batch(producer_id=7, producer_epoch=0, base_sequence=0)
        assert produced(client, "t", data, partition=partition).error_code == 0
    node.advance(DAY_MS - CHECK_MS)
    later = batch(producer_id=8, producer_epoch=0, base_sequence=0, timestamp_ms=node.now_ms)
    assert produced(client, "t", later).error_code == 0
    assert list(producers_of(node).producers) == [7, 8]
    node.advance(2 * CHECK_MS)
    assert list(producers_of(node).producers) == [8]
    assert not producers_of(node, 1).producers


def test_the_age_at_which_producers_are_forgotten_is_the_setting_of_now() -> None:
    node = Node(producer_id_expiration_ms=1_000, producer_id_expiration_check_interval_ms=5_000)
    node.create_topic("t")
    assert produced(node.connect(), "t", batch(producer_id=7, producer_epoch=0, base_sequence=0)).error_code == 0
    node.advance(5_000)
    node.advance(4_999)
    assert list(producers_of(node).producers) == [7]
    node.advance(1)
    assert not producers_of(node).producers


def test_many_producers_of_many_logs_are_looked_at_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_expiry, "PRODUCERS_EXPIRED_PER_STEP", 1)
    node = Node(producer_id_expiration_ms=1_000, producer_id_expiration_check_interval_ms=5_000)
    node.create_topic("t", partitions=3)
    client = node.connect()
    for partition in range(3):
        data = batch(producer_id=7, producer_epoch=0, base_sequence=0)
        assert produced(client, "t", data, partition=partition).error_code == 0
    node.advance(5_002)
    node.advance(5_000)
    assert [len(producers_of(node, partition).producers) for partition in range(3)] == [0, 1, 1]
    node.advance(10)
    assert [len(producers_of(node, partition).producers) for partition in range(3)] == [0, 0, 0]
    assert produced(client, "t", batch(producer_id=8, producer_epoch=0, base_sequence=0)).error_code == 0
    node.advance(20_000)
    assert not producers_of(node).producers


def test_logs_without_producers_have_nobody_look_at_them() -> None:
    node = Node(producer_id_expiration_ms=1_000, producer_id_expiration_check_interval_ms=5_000)
    node.create_topic("t")
    client = node.connect()
    assert produced(client, "t", batch(producer_id=7, producer_epoch=0, base_sequence=0)).error_code == 0
    node.advance(3_600_000)
    idle = node.broker.logs.next_deadline_ms()
    assert produced(client, "t", batch(timestamp_ms=START_MS)).error_code == 0
    node.advance(60_000)
    after = node.broker.logs.next_deadline_ms()
    for deadline_ms in (idle, after):
        assert deadline_ms is None or deadline_ms > node.now_ms + 5_000


def test_a_segment_whose_time_has_come_stays_active_on_an_idle_log_until_the_next_append() -> None:
    node = Node()
    node.create_topic("t", segment_ms="60000", retention_ms="86400000")
    client = node.connect()
    assert produced(client, "t", batch(timestamp_ms=START_MS)).error_code == 0
    node.advance(3_600_000)
    log = node.broker.logs.open_log("t", 0)
    assert log is not None
    assert [segment.base_offset for segment in log.segments.all] == [0]
    assert produced(client, "t", batch(timestamp_ms=node.now_ms)).error_code == 0
    assert [segment.base_offset for segment in log.segments.all] == [0, 1]


def test_an_active_segment_that_is_too_old_to_keep_is_replaced_by_an_empty_one() -> None:
    node = Node()
    node.create_topic("t", segment_ms="60000", retention_ms="120000")
    assert produced(node.connect(), "t", batch(timestamp_ms=START_MS)).error_code == 0
    node.advance(3_600_000)
    log = node.broker.logs.open_log("t", 0)
    assert log is not None
    assert [segment.base_offset for segment in log.segments.all] == [1]
    assert log.log_start_offset == log.log_end_offset == 1
