"""One measurement of bench/turns.py, of the tree that is on the path. Prints the figures as JSON."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Sequence
from typing import Any

from support.broker import Client, Node
from support.requests import batch, list_offsets, produce

from penstock.log.disk import Buffer
from penstock.node.connection import Connection
from penstock.node.effects import Run, Send
from penstock.node.turns import Turns
from penstock.security.authorizer import Principal

PASSES = 25
REQUESTS = 2_000
CONNECTIONS, FRAMES, TENANTS = 50, 4, 8
GREEDY_CONNECTIONS = 200
WAITING = 30
SHARED_TURNS = 300
KINDS: tuple[tuple[str, Any, int], ...] = (
    ("ListOffsets", list_offsets("t", (0, -1)), 7),
    ("Produce 1 KB", produce("t", batch(b"x" * 1_000)), 9),
)
CASES = (
    # connections, frames of each in a turn, tenants
    ("one at a time", 1, 1, 1),
    ("one tenant, busy", CONNECTIONS, FRAMES, 1),
    ("many tenants, busy", CONNECTIONS, FRAMES, TENANTS),
)


def a_node() -> Node:
    """A node that measures the time of its requests, and whose disk forgets the records that it is told to write."""
    node = Node()
    node.create_topic("t")
    node.broker.dispatcher.turns._clock_ms = lambda: time.perf_counter() * 1e3

    write = node.disks[0].write

    def forget(path: str, position: int, chunks: Sequence[Buffer]) -> None:
        if not path.endswith(".log"):
            write(path, position, chunks)

    node.disks[0].write = forget  # type: ignore[method-assign]
    return node


def answers_of_turn(node: Node) -> int:
    """Ends a turn of the loop, and goes on until nothing waits. Returns how many answers there were."""
    broker, answers = node.broker, 0
    while True:
        while effects := broker.take_effects():
            for effect in effects:
                if isinstance(effect, Run):
                    result = effect.operation.run(node.disks[0])  # type: ignore[arg-type]
                    broker.operation_completed(effect.operation, result, node.now_ms)
                elif isinstance(effect, Send):
                    answers += 1
        if not broker.dispatcher.turns.waiting:
            return answers
        broker.tick(node.now_ms)


def cost_us(node: Node, clients: Sequence[Client], frames: Sequence[bytearray], in_turn: int) -> float:
    """CPU time of a request, where so many of each connection come in a turn of the loop."""
    best_s = float("inf")
    count = len(clients) * in_turn
    turns = REQUESTS // count
    for _ in range(PASSES):
        gc.collect()
        answers, began_s = 0, time.process_time()
        for _ in range(turns):
            for client, frame in zip(clients, frames, strict=True):
                for _ in range(in_turn):
                    node.broker.received(client.number, memoryview(frame), node.now_ms)
            answers += answers_of_turn(node)
        best_s = min(best_s, time.process_time() - began_s)
        assert answers == turns * count, f"{answers} answers to {turns * count}"
    return best_s / (turns * count) * 1e6


def shares() -> float:
    """How many requests of a tenant with many connections are executed for each of one with a single connection."""
    executed = [0, 0]
    now_ms = [0.0]

    def execute(connection: Connection, frame: memoryview) -> None:
        executed[connection.id == 0] += 1
        now_ms[0] += 0.1

    turns = Turns(execute, lambda work, missing: None, lambda: now_ms[0], lambda connection: None)
    connections = []
    for number in range(GREEDY_CONNECTIONS + 1):
        made = Connection(number, "L", "10.0.0.1:1", max_in_flight=1_000, max_in_flight_bytes=1 << 30)
        made.principal = Principal("User", "single" if number == 0 else "many")
        connections.append(made)
    frame = memoryview(bytes(100))
    for _ in range(SHARED_TURNS):
        for connection in connections:
            while len(connection.waiting) < WAITING:
                turns.execute(connection, frame)
        turns.serve()
        turns.turn_ended()
    return executed[0] / executed[1]


def main() -> None:
    """Measures all cases."""
    found = {}
    for kind, message, version in KINDS:
        for case, connections, in_turn, tenants in CASES:
            node = a_node()
            clients = [node.connect() for _ in range(connections)]
            frames = [client.frame(message, version, f"t{each % tenants}") for each, client in enumerate(clients)]
            found[f"{kind}, {case}, us a request"] = cost_us(node, clients, frames, in_turn)
    found["requests of 200 connections for one of a single one"] = shares()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
