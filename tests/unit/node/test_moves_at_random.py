"""Replicas that move between directories under a random load: writes, cuts of the start, moves here and there, clean
stops, crashes, operations that take their time. Nothing acknowledged and flushed is lost, and there is one replica."""

from __future__ import annotations

from random import Random

import pytest
from support.broker import Client, Node
from support.requests import batch, fetch, partitions_of, produce, values_of, wanted

from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

PARTITIONS = 2
DIRECTORIES = 3
pytestmark = pytest.mark.usefixtures("way")


class Run:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.node = Node(directories=DIRECTORIES, seed=seed)
        self.node.create_topic("t", partitions=PARTITIONS, flush_messages="1", segment_bytes="1048576")
        self.acknowledged: dict[int, dict[int, bytes]] = {index: {} for index in range(PARTITIONS)}
        self.sent: list[tuple[Client, int, bytes]] = []
        self.number = 0

    def step(self) -> None:
        act = self.random.choice(
            (self.produce, self.produce, self.produce, self.move, self.wait, self.wait, self.break_off)
        )
        act()

    def produce(self) -> None:
        index = self.random.randrange(PARTITIONS)
        self.number += 1
        value = b"%d" % self.number + b"." * self.random.choice((10, 1_000, 200_000))
        client = self.node.connect()
        client.send(produce("t", batch(value), first=index), 9)
        self.sent.append((client, index, value))
        self.collect()

    def collect(self) -> None:
        """Takes up the answers that have come."""
        waiting = []
        for client, index, value in self.sent:
            if not client.answers:
                waiting.append((client, index, value))
                continue
            answer = client.receive().responses[0].partition_responses[0]
            assert answer.error_code == 0
            assert answer.base_offset not in self.acknowledged[index], "two records have one offset"
            self.acknowledged[index][answer.base_offset] = value
        self.sent = waiting

    def move(self) -> None:
        path = f"/data/{self.random.randrange(DIRECTORIES)}"
        topics = [AlterReplicaLogDirTopic(name="t", partitions=[self.random.randrange(PARTITIONS)])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
        assert self.node.connect().ask(request, 2).results[0].partitions[0].error_code == 0

    def wait(self) -> None:
        """Time passes; some operations take long."""
        node = self.node
        if node.waiting_operations and self.random.random() < 0.7:
            node.let_go()
        if self.random.random() < 0.5:
            chance = self.random.random()
            node.held = lambda operation: self.random.random() < chance
        node.advance(self.random.randrange(200))
        self.collect()

    def break_off(self) -> None:
        """A clean stop or a crash."""
        if self.random.random() < 0.6:
            return
        node = self.node
        node.held = None
        if self.random.random() < 0.3:
            node.let_go()
            self.collect()
            node.restart()
        else:
            node.crash(power_failed=self.random.random() < 0.5)
        self.sent.clear()
        self.check()

    def check(self) -> None:
        node = self.node
        node.held = None
        while node.waiting_operations:
            node.let_go()
        node.advance(2_000)
        self.collect()
        for index in range(PARTITIONS):
            found = self.read(index)
            for offset, value in self.acknowledged[index].items():
                assert found.get(offset) == value, f"partition {index} offset {offset}"

    def read(self, index: int) -> dict[int, bytes]:
        client, found = self.node.connect(), dict[int, bytes]()
        while True:
            data = partitions_of(client.ask(fetch("t", wanted(index, offset=len(found))), 12))[index]
            assert data.error_code == 0
            values = values_of(data)
            if not values:
                return found
            found.update(enumerate(values, start=len(found)))

    def end(self) -> None:
        self.check()
        self.node.advance(200_000)
        assert len(self.node.broker.replication.moves) == 0
        for index in range(PARTITIONS):
            names = [
                entry.name
                for disk in self.node.disks
                for entry in disk.list("")
                if entry.is_directory and entry.name.startswith(f"t-{index}")
            ]
            assert names == [f"t-{index}"]


@pytest.mark.parametrize("seed", range(40))
def test_moves_at_random(seed: int) -> None:
    run = Run(seed)
    for _ in range(60):
        run.step()
    run.end()
