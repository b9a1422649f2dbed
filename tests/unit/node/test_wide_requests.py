"""No event of the loop does more for a request than a bounded step, however many elements which of its arrays has."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support import hostile
from support.broker import Node
from support.isolation import HANDLERS

from penstock.node.request import Handler

ELEMENTS = 10_000
CALLS_MAX = 9_000
"""Calls of functions in one event: those of a step, and fewer than a walk over all elements makes."""
LIMITS = {
    "penstock.node.dispatcher.STEPPED_FRAME_BYTES": 1_000,
    **{
        f"penstock.node.handlers.{handler}": 1_000
        for handler in (
            "alter_configs.RESOURCES_PER_REQUEST_MAX",
            "consumer_group_heartbeat.TOPICS_PER_REQUEST_MAX",
            "create_partitions.TOPICS_PER_REQUEST_MAX",
            "create_topics.TOPICS_PER_REQUEST_MAX",
            "delete_topics.TOPICS_PER_REQUEST_MAX",
            "elect_leaders.TOPICS_PER_REQUEST_MAX",
            "leave_group.MEMBERS_PER_REQUEST_MAX",
            "partition_reassignments.PARTITIONS_PER_REQUEST_MAX",
        )
    },
}
"""As they are here, where fewer elements than usual are many."""


class Calls:
    """Counts calls of functions while something is done."""

    def __init__(self) -> None:
        self.most = 0
        self.events = 0
        self._count = 0

    def count(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            self._count += 1

    def of(self, do: Any, *args: Any) -> None:
        self._count = 0
        sys.setprofile(self.count)
        try:
            do(*args)
        finally:
            sys.setprofile(None)
        self.events += 1
        self.most = max(self.most, self._count)


@pytest.fixture(scope="module")
def node() -> Node:
    node = Node(offsets_topic_num_partitions=1, offsets_topic_replication_factor=1)
    node.create_topic(hostile.NAME)
    readings = iter(range(0, 1_000_000_000, 10))
    node.broker.dispatcher.turns._clock_ms = lambda: float(next(readings))  # a step takes all of a turn
    return node


WIDE = [
    pytest.param(handler, path, id=f"{handler.key.name}-{'.'.join(path)}")
    for handler in HANDLERS.values()
    for path in hostile.arrays(handler.api.request_class.__name__, handler.max_version)
]


@pytest.mark.parametrize(("handler", "path"), WIDE)
def test_a_step_is_bounded(node: Node, handler: Handler, path: hostile.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in LIMITS.items():
        monkeypatch.setattr(name, limit)
    message = hostile.wide(handler.api.request_class.__name__, handler.max_version, path, ELEMENTS)
    client = node.connect("PLAINTEXT" if "broker" in handler.api.listeners else "CONTROLLER")
    frame, broker, calls = memoryview(client.frame(message, handler.max_version)), node.broker, Calls()
    calls.of(broker.received, client.number, frame, node.now_ms)
    node.run()
    while (deadline_ms := broker.next_deadline_ms()) is not None and deadline_ms <= node.now_ms:
        calls.of(broker.tick, node.now_ms)
        node.run()
    assert calls.most <= CALLS_MAX
    node.disconnect(client)
