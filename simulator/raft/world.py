"""A world of raft replicas alone: 3 or 5 voters and observers, a network that loses, delays, repeats and reorders
messages, disks that lose power, and clients that append to whoever leads.

Half of the seeds run a quorum of `controller.quorum.voters` (kraft.version 0, upgraded on the way), the others a
formatted one (kraft.version 1), in which voters are also removed and added, and one may lose its disk. With
`full_disks` disks also run full, and have room again later. `RaftRules` are held at every step. At the end all is well
for a while: then there must be a leader, what clients write must be committed, and all replicas must have the same log.
"""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from penstock.config.server import Settings
from penstock.errors import RequestError
from penstock.protocol.codec import decode, encode_bytes
from penstock.protocol.message import Message
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.protocol.messages.vote_response import VoteResponse
from penstock.raft.effects import Call
from penstock.raft.history import NO_VOTERS
from penstock.raft.voters import ReplicaKey, Voter, VoterSet
from simulator.raft.node import RaftNode, Setup, endpoint_of
from simulator.raft.rules import RaftRules
from simulator.world.checks import check, replayable
from simulator.world.driver import Simulation

RUN_MS = 14_000
CLIENT_EVERY_MS = 40
FAULT_EVERY_MS = 400
FULL_EVERY_MS = 500
FULL_MS_MAX = 4_000
ROOM_BYTES_MAX = 1_500
CALM_MS = 3_000
CALM_ROUNDS = 8
DELAY_US_MAX = 8_000
SLOW_DELAY_US_MAX = 400_000
POWER_LOST_IN_ELECTION = 0.05


class RaftWorld:
    """One run. `run` raises Violation, with the seed and the end of the trace, if the code breaks a rule.

    Attributes:
        rules: what has been seen, and how much of it.
        faulty: whether faults still happen.
        ran_out: how often a disk ran full, and its replica found no room.
    """

    def __init__(self, seed: int, *, full_disks: bool = False) -> None:
        self.simulation = Simulation(seed)
        self._full_disks = Random(seed) if full_disks else None  # of its own: the other faults of a seed stay the same
        self.ran_out = 0
        self.random = self.simulation.random
        self.rules = RaftRules()
        self.faulty = True
        self.voter_changes = 0
        self.refused: dict[str, int] = {}
        checkpoint_every = self.random.choice((15, 40, 10_000))
        self._loss = self.random.choice((0.0, 0.01, 0.1))
        self._repeat = self.random.choice((0.0, 0.05))
        self._blocked: set[tuple[int, int]] = set()
        self._slow: set[int] = set()
        self._value = 0
        self._wiped = False
        self._directories = 0
        self.dynamic = self.random.random() < 0.5
        count = self.random.choice((1, 3, 3, 3, 5))
        observers = self.random.choice((0, 1, 2))
        ids = list(range(1, count + 1))
        static = VoterSet(Voter(ReplicaKey(node_id), (endpoint_of(node_id),)) for node_id in ids)
        setup = Setup(
            self.simulation,
            self.rules,
            Settings.for_node(1, internal_metadata_log_segment_bytes=1_500, metadata_max_retention_bytes=2_500),
            ids,
            NO_VOTERS if self.dynamic else static,
            checkpoint_every,
        )
        voters = [RaftNode(setup, self, node_id, self._directory(), stands=True) for node_id in ids]
        self.nodes = {node.key.id: node for node in voters}
        for node_id in range(count + 1, count + 1 + observers):
            self.nodes[node_id] = RaftNode(setup, self, node_id, self._directory(), stands=self.dynamic)
        formatted = VoterSet(Voter(node.key, (endpoint_of(node.key.id),)) for node in voters)
        if self.dynamic:
            for node in voters:
                node.format(formatted)

    @property
    def snapshots_installed(self) -> int:
        """How many snapshots all nodes have installed."""
        return sum(node.snapshots_installed for node in self.nodes.values())

    def _directory(self) -> UUID:
        self._directories += 1
        return UUID(int=0xD000 + self._directories)

    def run(self) -> Simulation:
        """The whole run."""
        with replayable(self.simulation, "raft" if self._full_disks is None else "raft-full"):
            for node in self.nodes.values():
                self.simulation.after_ms(self.random.randrange(500), node.start)
            self.simulation.after_ms(CLIENT_EVERY_MS, self._write)
            self.simulation.after_ms(FAULT_EVERY_MS, self._fault)
            if self._full_disks is not None:
                random = self._full_disks
                self.simulation.after_ms(FULL_EVERY_MS, lambda: self._fill(random))
            self.simulation.run(self.simulation.now_ms + RUN_MS)
            self._end_well()
        return self.simulation

    def _end_well(self) -> None:
        """No more faults: a leader is found, goes on committing, and all have what it has."""
        self.faulty = False
        self._heal()
        for node in self.nodes.values():
            node.disk.mend()
        for _ in range(CALM_ROUNDS):
            self.simulation.run(self.simulation.now_ms + CALM_MS)
            before = self.rules.committed_end
            self.simulation.run(self.simulation.now_ms + CALM_MS)
            if self._converged() and self.rules.committed_end > before:
                break
        leaders = [node.key.id for node in self.nodes.values() if node.running and node.replica.is_leader]
        check(bool(leaders), "a leader is found", f"none of {self._roles()}")
        check(self.rules.committed_end > before, "a leader commits", f"nothing after {before}: {self._roles()}")
        check(self._converged(), "all have what the leader has", self._roles())

    def _converged(self) -> bool:
        """Whether all replicas follow one leader and lack no more than what is on its way."""
        nodes = [node for node in self.nodes.values() if node.running]
        if len(nodes) < len(self.nodes):
            return False
        late = self.rules.committed_end - 60
        return len({(node.replica.leader_id, node.replica.epoch) for node in nodes}) == 1 and all(
            node.applied_offset >= late for node in nodes
        )

    def _roles(self) -> str:
        return "; ".join(
            f"{node.name} {node.replica.role if node.running else 'down'} applied {node.applied_offset}"
            for node in self.nodes.values()
        )

    # Clients

    def _write(self) -> None:
        """A client appends to a node that takes itself for the leader."""
        self.simulation.after_ms(CLIENT_EVERY_MS, self._write)
        leaders = [node for node in self.nodes.values() if node.running and node.replica.is_leader]
        if leaders:
            node = self.random.choice(leaders)
            self._value += 1
            node.append([b"value %d" % self._value] * self.random.randrange(1, 4))

    # The network

    def send(self, sender: RaftNode, call: Call) -> None:
        """A request on its way; its sender hears of the end of it in any case."""
        incarnation, number = sender.incarnation, call.call
        self.simulation.after_ms(call.timeout_ms, lambda: sender.answered(incarnation, number, None))
        version = call.request.MAX_VERSION
        data = encode_bytes(call.request, version)
        if isinstance(call.request, VoteRequest) and not call.request.topics[0].partitions[0].pre_vote:
            self._vote_left(sender.key, sender.key, call.request)
        token = (sender, incarnation, number, call.target.node_id, call.request)
        for _ in range(2 if self.random.random() < self._repeat else 1):
            self._carry(
                sender.key.id, call.target.node_id, lambda: self._arrive(token, type(call.request), version, data)
            )

    def _arrive(self, token: Any, kind: type[Message], version: int, data: bytes) -> None:
        request = decode(kind, version, memoryview(data))[0]
        node = self.nodes.get(token[3])
        if node is None:
            return
        if isinstance(request, ApiVersionsRequest):
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            self.answer(node, token, ApiVersionsResponse(supported_features=[feature]))
        else:
            node.receive(request, version, token)

    def answer(self, node: RaftNode, token: Any, response: Message) -> None:
        """A response on its way back; an administrator's needs no way."""
        if isinstance(token, str):
            self.simulation.trace(f"{node.name} answers {token}: {response}")
            self.voter_changes += getattr(response, "error_code", 1) == 0
            text = str(getattr(response, "error_message", None))[:40]
            self.refused[text] = self.refused.get(text, 0) + 1
            return
        sender, incarnation, number, _, request = token
        if isinstance(response, VoteResponse) and not request.topics[0].partitions[0].pre_vote and response.topics:
            asked = request.topics[0].partitions[0]
            if response.topics[0].partitions[0].vote_granted:
                self._vote_left(node.key, ReplicaKey(asked.replica_id, asked.replica_directory_id), request)
        version = response.MAX_VERSION
        data = encode_bytes(response, version)
        kind = type(response)
        self._carry(
            node.key.id,
            sender.key.id,
            lambda: sender.answered(incarnation, number, decode(kind, version, memoryview(data))[0]),
        )

    def _vote_left(self, voter: ReplicaKey, candidate: ReplicaKey, request: VoteRequest) -> None:
        self.rules.voted(voter, request.topics[0].partitions[0].replica_epoch, candidate)

    def _carry(self, source: int, target: int, arrive: Any) -> None:
        """Delivers after a while, unless it is lost or the way is blocked by then."""
        if self.faulty and self.random.random() < self._loss:
            return
        slow = source in self._slow or target in self._slow
        delay_us = 100 + self.random.randrange(SLOW_DELAY_US_MAX if slow else DELAY_US_MAX)

        def delivered() -> None:
            if (source, target) not in self._blocked:
                arrive()

        self.simulation.after_us(delay_us, delivered)

    # Faults

    def _fault(self) -> None:
        if not self.faulty:
            return
        self.simulation.after_ms(1 + self.random.randrange(2 * FAULT_EVERY_MS), self._fault)
        faults = [self._kill, self._lose_power, self._lose_power_later, self._split, self._isolate, self._block_one_way]
        faults += [
            self._heal,
            self._heal,
            self._break_some_link,
            self._slow_down,
            self._slow_disk,
            self._fail_fsync,
            self._resign,
        ]
        if not self.dynamic:
            faults.append(self._upgrade)
        else:
            faults += [self._remove_voter, self._add_voter, self._add_voter, self._wipe, self._remove_while_cut_off]
        self.random.choice(faults)()

    def _any(self) -> RaftNode:
        return self.nodes[self.random.choice(list(self.nodes))]

    def _kill(self) -> None:
        node = self._any()
        if node.running:
            node.kill(power_failed=False)

    def _lose_power(self) -> None:
        for node in list(self.nodes.values()) if self.random.random() < 0.2 else [self._any()]:
            if node.running:
                node.kill()

    def _lose_power_later(self) -> None:
        """Power fails in the middle of some change of the disk."""
        node = self._any()
        if node.running:
            node.disk.crash_at = node.disk.changes + self.random.randrange(1, 60)

    def persists_election(self, node: RaftNode) -> None:
        """Power fails most cruelly while a vote is on its way to the disk."""
        if self.faulty and self.random.random() < POWER_LOST_IN_ELECTION:
            node.disk.crash_at = node.disk.changes + self.random.randrange(1, 6)

    def _fail_fsync(self) -> None:
        node = self._any()
        if node.running and self.random.random() < 0.5:
            node.disk.fail_fsync_at = node.disk.fsyncs + self.random.randrange(1, 10)

    def _fill(self, random: Random) -> None:
        """A disk has little room left, most often the leader's; after a while there is room again."""
        if not self.faulty:
            return
        self.simulation.after_ms(1 + random.randrange(2 * FULL_EVERY_MS), lambda: self._fill(random))
        node = (self._leader() if random.random() < 0.5 else None) or self.nodes[random.choice(list(self.nodes))]
        disk = node.disk
        disk.capacity_bytes = sum(disk.size(path) for path in disk.paths()) + random.randrange(ROOM_BYTES_MAX)
        self.simulation.trace(f"the disk of {node.name} runs full")

        def freed() -> None:
            disk.capacity_bytes = None
            self.simulation.trace(f"the disk of {node.name} has room")

        self.simulation.after_ms(1 + random.randrange(FULL_MS_MAX), freed)

    def node_ran_out(self) -> None:
        self.ran_out += 1

    def _split(self) -> None:
        """Two halves that do not hear each other."""
        ids = list(self.nodes)
        self.random.shuffle(ids)
        cut = self.random.randrange(len(ids) + 1)
        self._blocked = {(a, b) for a in ids[:cut] for b in ids[cut:]} | {(b, a) for a in ids[:cut] for b in ids[cut:]}
        self.simulation.trace(f"split {sorted(ids[:cut])} from {sorted(ids[cut:])}")

    def _isolate(self) -> None:
        """The leader is cut off, most often."""
        leaders = [node.key.id for node in self.nodes.values() if node.running and node.replica.is_leader]
        one = self.random.choice(leaders or list(self.nodes))
        self._blocked |= {(one, other) for other in self.nodes} | {(other, one) for other in self.nodes}
        self.simulation.trace(f"{one} is cut off")

    def _block_one_way(self) -> None:
        pair = (self._any().key.id, self._any().key.id)
        self._blocked.add(pair)
        self.simulation.trace(f"{pair[1]} does not hear {pair[0]}")

    def _heal(self) -> None:
        self._blocked.clear()
        self._slow.clear()
        for node in self.nodes.values():
            node.disk.slow_fsync_us = 0
        self.simulation.trace("all hear each other")

    def _slow_down(self) -> None:
        self._slow.add(self._any().key.id)

    def node_died(self, dead: RaftNode) -> None:
        """Its connections break; those that followed it notice, a moment later."""
        for node in self.nodes.values():
            if node is not dead and self.random.random() < 0.7:
                self._break_link(node, dead.key.id)

    def _break_link(self, node: RaftNode, leader_id: int) -> None:
        def broken() -> None:
            if node.running and node.replica.leader_id == leader_id:
                node.act(node.replica.leader_link_lost)

        self.simulation.after_us(self.random.randrange(DELAY_US_MAX), broken)

    def _break_some_link(self) -> None:
        """The connection to a leader breaks that is alive."""
        node = self._any()
        if node.running and node.replica.leader_id is not None:
            self._break_link(node, node.replica.leader_id)

    def _slow_disk(self) -> None:
        """A disk that takes its time; then power fails where it hurts."""
        node = self._leader() or self._any()
        node.disk.slow_fsync_us = self.random.randrange(200_000)
        self.simulation.trace(f"the disk of {node.name} is slow")
        if self.random.random() < 0.5:
            self.simulation.after_ms(self.random.randrange(200), lambda: node.kill() if node.running else None)

    def _resign(self) -> None:
        for node in self.nodes.values():
            if node.running and node.replica.is_leader:
                node.act(node.replica.resign)
                return

    # Changes of the voters

    def _leader(self) -> RaftNode | None:
        return next((node for node in self.nodes.values() if node.running and node.replica.is_leader), None)

    def _upgrade(self) -> None:
        """From kraft.version 0 to 1, where everybody has told the leader of his directory."""
        leader = self._leader()
        if leader is None or leader.replica.kraft_version or leader.replica.high_watermark is None:
            return
        try:
            leader.act(lambda at_ms: leader.replica.upgrade_kraft_version(1, at_ms))
        except RequestError as refused:
            self.simulation.trace(str(refused))

    def _remove_voter(self) -> None:
        leader = self._leader()
        if leader is not None and len(leader.replica.voters.voters) > 2:
            keys = [voter.key for voter in leader.replica.voters.voters.values()]
            gone = [key for key in keys if key != self.nodes[key.id].key]
            key = self.random.choice(gone or keys)
            request = RemoveRaftVoterRequest(
                cluster_id="simulated-cluster", voter_id=key.id, voter_directory_id=key.directory_id
            )
            leader.receive(request, 0, f"remove {key.id}")

    def _remove_while_cut_off(self) -> None:
        """A leader that nobody hears is asked to remove all the others."""
        leader = self._leader()
        if leader is None or self._wiped:
            return
        one = leader.key.id
        self._blocked |= {(one, other) for other in self.nodes} | {(other, one) for other in self.nodes}
        for voter in list(leader.replica.voters.voters.values()):
            if voter.key.id != one and leader.replica.is_leader:
                request = RemoveRaftVoterRequest(
                    cluster_id="simulated-cluster", voter_id=voter.key.id, voter_directory_id=voter.key.directory_id
                )
                leader.receive(request, 0, f"remove {voter.key.id}")

    def _add_voter(self) -> None:
        leader = self._leader()
        if leader is None:
            return
        candidates = [node for node in self.nodes.values() if node.stands and node.key not in leader.replica.voters]
        if candidates:
            key = self.random.choice(candidates).key
            endpoint = endpoint_of(key.id)
            request = AddRaftVoterRequest(
                cluster_id="simulated-cluster",
                timeout_ms=1000,
                voter_id=key.id,
                voter_directory_id=key.directory_id,
                listeners=[Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)],
            )
            leader.receive(request, 1, f"add {key.id}")

    def _wipe(self) -> None:
        """A voter loses its disk, once in a run, and is not missed: the others are a majority of at least three."""
        leader, node = self._leader(), self._any()
        if self._wiped or leader is None or node is leader or not node.running or not node.replica.is_voter:
            return
        sets = [each.replica.voters for each in self.nodes.values() if each.running]
        agreed = len(sets) == len(self.nodes) and all(each == sets[0] for each in sets)
        if agreed and len(sets[0].voters) >= 3:
            self._wiped = True
            self._wipe_what_counts(leader, node)

    def _wipe_what_counts(self, leader: RaftNode, node: RaftNode) -> None:
        """The others lag behind these two; then one of the two loses its disk and the other its network."""
        pair = {leader.key.id, node.key.id}
        others = set(self.nodes) - pair
        self._blocked |= {(a, b) for a in pair for b in others} | {(b, a) for a in pair for b in others}

        def strike() -> None:
            if not self.faulty:
                return
            self._blocked.clear()
            self._blocked |= {(leader.key.id, other) for other in self.nodes}
            self._blocked |= {(other, leader.key.id) for other in self.nodes}
            if node.running:
                node.wipe(self._directory())

        self.simulation.after_ms(self.random.randrange(100, 500), strike)
