"""An admin of a dynamic quorum: it adds controllers to the voters and takes them away again (KIP-853).

It asks who the voters are, then changes one. What was answered well holds: who was added is a voter in the end, who was
removed is none. Where a change came to an unknown outcome it may still be made much later, so that voter is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from penstock.raft.topic import METADATA
from simulator.cluster.load import AGAIN, RETRY_MS, Load
from simulator.world.checks import check
from simulator.world.machine import CLUSTER_ID, Machine

CONTROLLER_LISTENER = "CONTROLLER"
ADD_VERSION, REMOVE_VERSION, DESCRIBE_VERSION = 0, 0, 2
TIMEOUT_MS = 6_000
PAUSE_MS_MAX = 1_000
"""Up to this between an answer and the next request, whatever time the clients of the load take."""
VOTERS_MIN = 2
REFUSALS = frozenset(
    {
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)

Key = tuple[int, UUID]


class VoterAdmin:
    """See the module's head.

    Args:
        controllers: all that may be voters.

    Attributes:
        confirmed: whether a controller is a voter, by the last change of it that was answered well.
        changes: how many of its changes were granted.
        busy: it waits for an answer.
    """

    def __init__(self, load: Load, controllers: Sequence[Machine]) -> None:
        self.load = load
        self.client = load.client("voter-admin")
        self.controllers = {machine.settings.node_id: machine for machine in controllers}
        self.confirmed: dict[Key, bool] = {}
        self._unsure: set[Key] = set()
        self.changes = 0
        self.busy = False

    def key(self, node_id: int) -> Key:
        """A controller as the quorum knows it: with the directory of its metadata log."""
        directory_id = self.controllers[node_id].broker.quorum.local.directory_id
        return node_id, directory_id

    def go_on(self) -> None:
        """Asks who the voters are, then changes one."""
        if not self.load.going_on:
            return
        self.busy = True
        topic = TopicData(topic_name=METADATA.name, partitions=[PartitionData(partition_index=0)])
        self.client.ask_any(DescribeQuorumRequest(topics=[topic]), DESCRIBE_VERSION, self._described)

    def _described(self, response: Any) -> None:
        voters = voters_in(response)
        if voters is None:
            self._later()
            return
        random = self.load.simulation.random
        outside = [node_id for node_id in self.controllers if self.key(node_id) not in voters]
        if len(voters) > VOTERS_MIN and (not outside or random.random() < 0.5):
            self._remove(random.choice(sorted(voters)))
        elif outside:
            self.add(random.choice(outside))
        else:
            self._later()

    def add(self, node_id: int) -> None:
        """Asks for one more voter."""
        key, machine = self.key(node_id), self.controllers[node_id]
        host, port = machine.address(CONTROLLER_LISTENER)
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=TIMEOUT_MS,
            voter_id=key[0],
            voter_directory_id=key[1],
            listeners=[Listener(name=CONTROLLER_LISTENER, host=host, port=port)],
        )
        self.client.ask_any(request, ADD_VERSION, lambda response: self._changed(response, key, True))

    def _remove(self, key: Key) -> None:
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=key[0], voter_directory_id=key[1])
        self.client.ask_any(request, REMOVE_VERSION, lambda response: self._changed(response, key, False))

    def _changed(self, response: Any, key: Key, is_voter: bool) -> None:
        code = None if response is None else ErrorCode(response.error_code)
        if code is not None:
            known = code is ErrorCode.NONE or code in AGAIN or code in REFUSALS
            check(known, "an admin is answered", f"{self.client.name}: {code.name} {response.error_message}")
        if code is ErrorCode.NONE:
            self.confirmed[key] = is_voter
            self.changes += 1
        else:
            self._unsure.add(key)
        self._later()

    def _later(self) -> None:
        self.busy = False
        pause_ms = RETRY_MS + self.load.simulation.random.randrange(PAUSE_MS_MAX)
        self.load.simulation.after_ms(pause_ms, self.go_on)

    def check_voters(self, voters: set[Key]) -> None:
        """Holds the voters at the end against what was answered."""
        wrong = [
            key for key, is_voter in self.confirmed.items() if (key in voters) != is_voter and key not in self._unsure
        ]
        detail = f"the voters are {sorted(voters)}, changed again: {wrong}"
        check(not wrong, "a change of the voters that was answered holds", detail)


def voters_in(response: Any) -> set[Key] | None:
    """The voters that an answer of DescribeQuorum tells; None if it tells of none."""
    if response is None or response.error_code or not response.topics:
        return None
    partition = response.topics[0].partitions[0]
    if partition.error_code or not partition.current_voters:
        return None
    return {(voter.replica_id, voter.replica_directory_id) for voter in partition.current_voters}
