"""What a heartbeat or an offset commit costs in the node: from the frame to the answer, without sockets and disk.

    python bench/group_node.py [--requests 30000] [--turn 16] [--profile]

Members of many groups, each on a connection of its own; a turn of the loop has frames of several. The disk takes writes
and forgets them. CPU of this process, best of three rounds.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.broker import Client, Node
from support.group_requests import ALONE, commit, coordinate, heartbeat, stable_member

from penstock.log.disk import Buffer
from penstock.node.effects import Run, Send
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

MEMBERS = 300
ROUNDS = 3
SETTLED_MS = 20_000
"""After so long a group that has nothing to do has settled."""


def frame_of(message: Message, version: int) -> memoryview:
    """A request without its length, as a buffer that may be written."""
    chunks = frames.encode_request(API_BY_NUMBER[message.KEY], version, 1, "test", message)
    return memoryview(bytearray(b"".join(chunks)[4:]))  # type: ignore[arg-type]


class Bench:
    """A node with members of both protocols, whose disk forgets what it is told to write."""

    def __init__(self) -> None:
        self.node = Node(**ALONE)
        self.node.create_topic("t", partitions=10)
        coordinate(self.node)

        def forget(path: str, position: int, chunks: Sequence[Buffer]) -> None:
            """Takes the bytes."""

        self.members = [self.node.connect() for _ in range(MEMBERS)]
        self.classic = [self._classic(*each) for each in enumerate(self.members)]
        self.consumer = [self._consumer(*each) for each in enumerate(self.members)]
        self.node.now_ms += SETTLED_MS
        self.node.disks[0].write = forget  # type: ignore[method-assign]

    def _classic(self, number: int, client: Client) -> tuple[int, memoryview]:
        group_id = f"a-group-{number}"
        joined = stable_member(client, group_id)
        return client.number, frame_of(heartbeat(joined.member_id, joined.generation_id, group_id), 4)

    def _consumer(self, number: int, client: Client) -> tuple[int, memoryview]:
        request = ConsumerGroupHeartbeatRequest(
            group_id=f"b-group-{number}",
            member_id=str(UUID(int=number + 1)),
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        answer = client.ask(request, 1)
        assert not answer.error_code
        stable = ConsumerGroupHeartbeatRequest(
            group_id=request.group_id, member_id=request.member_id, member_epoch=answer.member_epoch
        )
        return client.number, frame_of(stable, 1)

    def commit(self, number: int) -> tuple[int, memoryview]:
        """A commit of a consumer without a group."""
        client = self.members[number % MEMBERS]
        return client.number, frame_of(commit({("t", 0): number}, f"c-group-{number % 20}"), 9)

    def turn(self, sent: Sequence[tuple[int, memoryview]], now_ms: int) -> int:
        """One turn of a shell's loop; returns the number of answers."""
        broker = self.node.broker
        for number, view in sent:
            broker.received(number, view, now_ms)
        answers = 0
        while effects := broker.take_effects():
            for effect in effects:
                if isinstance(effect, Run):
                    operation = effect.operation
                    result = operation.run(self.node.disks[0])  # type: ignore[arg-type]
                    broker.operation_completed(operation, result, now_ms)
                elif isinstance(effect, Send):
                    answers += 1
        broker.next_deadline_ms()
        return answers


def measure(
    bench: Bench, name: str, made: Callable[[int], tuple[int, memoryview]], options: argparse.Namespace
) -> None:
    """Runs turns in rounds and prints microseconds a request."""
    best = float("inf")
    profiler = cProfile.Profile()
    gc.collect()
    gc.freeze()
    for round_number in range(ROUNDS):
        numbers = range(round_number * options.requests, (round_number + 1) * options.requests)
        sent = [made(each) for each in numbers]
        turns = [sent[first : first + options.turn] for first in range(0, len(sent), options.turn)]
        if options.profile:
            profiler.enable()
        started = time.process_time()
        answers = sum(bench.turn(each, bench.node.now_ms) for each in turns)
        spent = time.process_time() - started
        profiler.disable()
        assert answers == len(sent), "every request is answered"
        best = min(best, spent / len(sent))
    print(f"{name:40} {best * 1e6:7.1f} us a request")
    if options.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=30_000)
    parser.add_argument("--turn", type=int, default=16, help="frames in a turn of the loop")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    bench = Bench()
    measure(bench, "classic heartbeat", lambda number: bench.classic[number % MEMBERS], options)
    measure(bench, "KIP-848 heartbeat", lambda number: bench.consumer[number % MEMBERS], options)
    measure(bench, "commit of one partition", bench.commit, options)


if __name__ == "__main__":
    main()
