"""Replicas are placed where Kafka's StripedReplicaPlacer places them, draw by draw, when every broker has its own host.

Both draw from the same generator: Java's, which is a few lines of arithmetic.
"""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from interop.kafka_peer import run_java_source

from penstock.metadata.image import BrokerRegistration, Endpoint
from penstock.metadata.partitions import Placer

pytestmark = pytest.mark.java

SOURCE = """
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Scanner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;

public class Placements {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            List<UsableBroker> brokers = new ArrayList<>();
            for (int word = 3; word < words.length; word++) {
                String[] parts = words[word].split(":", -1);
                Optional<String> rack = parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]);
                brokers.add(new UsableBroker(Integer.parseInt(parts[0]), rack, parts[2].equals("fenced")));
            }
            ClusterDescriber cluster = new ClusterDescriber() {
                @Override
                public Iterator<UsableBroker> usableBrokers() {
                    return brokers.iterator();
                }

                @Override
                public Uuid defaultDir(int broker) {
                    return Uuid.ZERO_UUID;
                }
            };
            PlacementSpec wanted =
                new PlacementSpec(0, Integer.parseInt(words[1]), Short.parseShort(words[2]));
            StripedReplicaPlacer placer = new StripedReplicaPlacer(new Random(Long.parseLong(words[0])));
            StringBuilder line = new StringBuilder();
            for (PartitionAssignment assignment : placer.place(wanted, cluster).assignments()) {
                line.append(assignment.replicas().toString().replace(" ", "")).append(" ");
            }
            System.out.println(line.toString().trim());
        }
    }
}
"""
PARTITIONS = 25


class JavaRandom:
    """java.util.Random, as its documentation defines it."""

    def __init__(self, seed: int) -> None:
        self._seed = (seed ^ 0x5DEECE66D) & (1 << 48) - 1

    def _next(self, bits: int) -> int:
        self._seed = (self._seed * 0x5DEECE66D + 0xB) & (1 << 48) - 1
        return self._seed >> 48 - bits

    def randrange(self, stop: int, /) -> int:
        if stop & -stop == stop:
            return stop * self._next(31) >> 31
        while True:
            drawn = self._next(31)
            if drawn - drawn % stop + stop - 1 < 1 << 31:
                return drawn % stop

    def shuffle(self, x: list[Any], /) -> None:
        """Collections.shuffle."""
        for size in range(len(x), 1, -1):
            other = self.randrange(size)
            x[size - 1], x[other] = x[other], x[size - 1]


def scenario(seed: int) -> tuple[int, dict[int, tuple[str, bool]]]:
    """A replication factor, and brokers by id: rack and whether fenced."""
    random = Random(seed)
    racks = random.choice(([""], ["a", "b", "c"], ["a", "b"], ["a", "b", "c", "d", "e"]))
    brokers = {
        broker_id: (random.choice(racks), random.random() < 0.2) for broker_id in range(1, random.randrange(2, 12))
    }
    brokers[1] = (brokers[1][0], False)
    return random.randrange(1, min(len(brokers), 5) + 1), brokers


def registration(broker_id: int, rack: str, fenced: bool) -> BrokerRegistration:
    return BrokerRegistration(
        id=broker_id,
        epoch=0,
        incarnation_id=UUID(int=broker_id),
        endpoints=(Endpoint("PLAINTEXT", f"host-{broker_id}", 9092),),
        features={},
        rack=rack or None,
        fenced=fenced,
        log_dirs=(UUID(int=1000 + broker_id),),
    )


def test_every_replica_is_where_kafka_puts_it() -> None:
    scenarios = [scenario(seed) for seed in range(300)]
    lines = [
        " ".join(
            [str(seed), str(PARTITIONS), str(factor)]
            + [f"{each}:{rack}:{'fenced' if fenced else ''}" for each, (rack, fenced) in brokers.items()]
        )
        for seed, (factor, brokers) in enumerate(scenarios)
    ]
    theirs = run_java_source(SOURCE, stdin="\n".join(lines) + "\n").stdout.splitlines()
    assert len(theirs) == len(scenarios)
    for seed, (factor, brokers) in enumerate(scenarios):
        registered = {each: registration(each, *of) for each, of in brokers.items()}
        placer = Placer(registered, JavaRandom(seed))
        ours = [placer.place(factor) for _ in range(PARTITIONS)]
        assert " ".join(str(each).replace(" ", "") for each in ours) == theirs[seed], lines[seed]
