"""Verifications that come late: the network keeps a coordinator's answer to a leader that has asked whether a
transaction is under way, often until that transaction is over.

So what a client has written arrives, and waits; the client ends the transaction, or its timeout does; the marker is
written; and then the leader hears that the transaction, which was under way when it asked, goes on.
"""

from __future__ import annotations

from penstock.protocol import frames
from penstock.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from simulator.transactions.load import TransactionLoad
from simulator.world.network import Socket

KEY = AddPartitionsToTxnRequest.KEY.to_bytes(2, "big")
HELD_MS = (20, 600)
"""Bounds of the time for which an answer is kept; then it comes within RETRANSMIT_MAX_MS."""
HELD_OF_HASTY_PROBABILITY = 0.7
"""Where a producer is about to end the transaction."""


class HeldVerifications:
    """See the module's head. Its `carried` is told of every frame on the network.

    Args:
        probability: how likely the answer to a request is kept; 0: no answer ever is.
    """

    def __init__(self, load: TransactionLoad, probability: float) -> None:
        self._load = load
        self._probability = probability
        self._simulation = load.clients.simulation
        self._network = load.clients.network

    def carried(self, socket: Socket, frame: bytes | bytearray) -> None:
        """A frame is on its way."""
        if frame[:2] != KEY or not self._probability or self._load.patient or not self._between_brokers(socket):
            return
        _, message = frames.decode_request(frame)
        assert isinstance(message, AddPartitionsToTxnRequest)
        hasty = any(each.transactional_id in self._load.hasty for each in message.transactions)
        if self._simulation.random.random() < (HELD_OF_HASTY_PROBABILITY if hasty else self._probability):
            self._load.count("held verifications of hasty ends" if hasty else "held verifications")
            self._network.stall(socket)
            self._simulation.after_ms(self._simulation.random.randint(*HELD_MS), lambda: self._network.resume(socket))

    def _between_brokers(self, socket: Socket) -> bool:
        """Clients add partitions by the same request, and an answer to them may begin with the same bytes."""
        hosts = {machine.host for machine in self._load.checker.machines.values()}
        return socket.host in hosts and socket.peer in hosts
