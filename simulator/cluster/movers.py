"""Admins that move the partitions of the load between brokers, take moves back, and ask for elections.

What is answered does not matter to them, as long as it is an answer that a real controller gives: which replicas a
partition has is the cluster's business, and that nothing is lost on the way everybody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from simulator.cluster.load import AGAIN, Load
from simulator.world.checks import check

REASSIGN_VERSION, ELECT_VERSION = 0, 2
TIMEOUT_MS = 5_000
CANCEL_PROBABILITY = 0.2
ELECT_PROBABILITY = 0.2
PREFERRED = 0
REPLICAS_MIN, REPLICAS_MAX = 2, 4
PAUSE_MS_MAX = 600
"""Up to this between an answer and the next request, whatever time the clients of the load take."""
REFUSALS = frozenset(
    {
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
)


class Mover:
    """One of them.

    Attributes:
        moves: how many requests were granted.
        busy: it waits for an answer.
    """

    def __init__(self, load: Load, number: int, broker_ids: Sequence[int]) -> None:
        self.load = load
        self.client = load.client(f"mover-{number}")
        self.broker_ids = broker_ids
        self.moves = 0
        self.busy = False

    def go_on(self) -> None:
        """Asks for something."""
        if not self.load.going_on:
            return
        self.busy = True
        random = self.load.simulation.random
        partition = random.choice(list(self.load.partitions))
        if random.random() < ELECT_PROBABILITY:
            wanted = [TopicPartitions(topic=partition.topic, partitions=[partition.index])]
            election = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=wanted, timeout_ms=TIMEOUT_MS)
            self.client.ask_any(election, ELECT_VERSION, self._elected)
            return
        replicas = None
        if random.random() >= CANCEL_PROBABILITY:
            count = random.randint(REPLICAS_MIN, min(REPLICAS_MAX, len(self.broker_ids)))
            replicas = random.sample(list(self.broker_ids), count)
        moved = ReassignablePartition(partition_index=partition.index, replicas=replicas)
        topic = ReassignableTopic(name=partition.topic, partitions=[moved])
        request = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[topic])
        self.client.ask_any(request, REASSIGN_VERSION, self._moved)

    def _moved(self, response: Any) -> None:
        codes = []
        if response is not None:
            codes = [each.error_code for topic in response.responses for each in topic.partitions]
            codes.append(response.error_code)
        self._answered(codes)

    def _elected(self, response: Any) -> None:
        codes = []
        if response is not None:
            codes = [each.error_code for topic in response.replica_election_results for each in topic.partition_result]
            codes.append(response.error_code)
        self._answered(codes)

    def _answered(self, numbers: Sequence[int]) -> None:
        codes = [ErrorCode(number) for number in numbers]
        wrong = [code.name for code in codes if code and code not in AGAIN and code not in REFUSALS]
        check(not wrong, "an admin is answered", f"{self.client.name}: {', '.join(wrong)}")
        self.moves += bool(codes) and not any(codes)
        self.busy = False
        self.load.simulation.after_ms(self.load.simulation.random.randrange(PAUSE_MS_MAX), self.go_on)
