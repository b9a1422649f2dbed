"""What is looked at now and then finds logs that part."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.records.builder import BatchBuilder
from simulator.cluster.replica_rules import EQUAL, MATCHING, QuorumRules, ReplicaRules
from simulator.world.checks import Violation


def batch(offset: int, value: bytes, epoch: int = 1) -> bytes:
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    builder.append(1, None, value)
    return bytes(builder.build())


def node(name: str) -> Any:
    return SimpleNamespace(host=name)


def test_the_same_offset_and_epoch_with_another_batch_break_log_matching() -> None:
    rules = QuorumRules([])
    rules._match(node("a"), batch(0, b"x") + batch(1, b"y", 2))
    rules._match(node("b"), batch(0, b"x") + batch(1, b"z", 3))
    with pytest.raises(Violation, match=MATCHING):
        rules._match(node("c"), batch(0, b"x") + batch(1, b"z", 2))
    with pytest.raises(Violation, match=MATCHING):
        rules._match(node("c"), batch(0, b"w", 0) + batch(1, b"y", 2))


def test_replicas_part_above_the_high_watermark_only() -> None:
    rules = ReplicaRules({})
    leaders, own = batch(0, b"x") + batch(1, b"y"), batch(0, b"x") + batch(1, b"z")
    rules._compare(leaders, own, 1, "t-0")
    rules._compare(leaders, batch(0, b"x"), 2, "t-0")
    rules._compare(batch(1, b"y"), batch(0, b"x") + batch(1, b"y"), 2, "t-0")
    with pytest.raises(Violation, match=EQUAL):
        rules._compare(leaders, own, 2, "t-0")
