"""Somebody sets the clock of the machine on which a broker runs: members stay, and only timestamps follow the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Consumer, Producer

from penstock.server import node_server
from penstock.server.clock import Clock
from penstock.testing.broker import LocalBroker

DAY_MS = 86_400_000
STEPS_MS = (60_000, DAY_MS, -2 * DAY_MS)
POLL_S = 20
TURNS_S = 1.5
"""Long enough for each timer of the node to come due that a clock could have moved."""
STAMP_SLACK_MS = 3_600_000
"""Small beside the steps of days, large beside what a slow machine takes."""


class SetClock:
    """The machine's wall clock, which somebody sets."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_ms * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    made = SetClock()
    monkeypatch.setattr(node_server, "Clock", partial(Clock, wall=made.now_ns))
    return made


@pytest.fixture
def broker(clock: SetClock) -> Iterator[LocalBroker]:
    with LocalBroker({"group.initial.rebalance.delay.ms": "0"}) as made:
        made.create_topic("clicks", configs={"message.timestamp.type": "LogAppendTime"})
        yield made


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_stay_and_only_timestamps_follow(protocol: str, broker: LocalBroker, clock: SetClock) -> None:
    assigned: list[str] = []
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": protocol, "group.protocol": protocol,
         "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe(
        ["clicks"],
        on_assign=lambda _, partitions: assigned.append("assigned"),
        on_revoke=lambda _, partitions: assigned.append("revoked"),
        on_lost=lambda _, partitions: assigned.append("lost"),
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for step_ms in (0, *STEPS_MS):
        clock.ahead_ms += step_ms
        if step_ms:
            assert consumer.poll(TURNS_S) is None
        producer.produce("clicks", str(step_ms).encode())
        producer.flush()
        message = consumer.poll(POLL_S)
        assert message is not None
        assert message.value() == str(step_ms).encode()
        assert abs(message.timestamp()[1] - clock.now_ns() // 1_000_000) < STAMP_SLACK_MS
        consumer.commit(message, asynchronous=False)
    assert assigned == ["assigned"]
    consumer.close()
