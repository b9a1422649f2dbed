"""Markers that reach a leader twice: what a broker sends to end transactions is sent once more, later, on a connection
of its own, as if the network had kept it.

Only of a coordinator that ends each transaction by an epoch of its own: those of before KIP-890 have nothing that tells
a late marker from that of the next transaction.
"""

from __future__ import annotations

from typing import Any

from penstock.protocol import frames
from penstock.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from simulator.cluster.client import ClusterClient
from simulator.transactions.load import BY_EPOCHS, TransactionLoad
from simulator.world.network import Address, Socket

KEY = WriteTxnMarkersRequest.KEY.to_bytes(2, "big")


class MarkerRepeats:
    """See the module's head. Its `carried` is told of every frame on the network."""

    def __init__(self, load: TransactionLoad, port: int) -> None:
        self._load = load
        self._port = port
        self._random = load.clients.simulation.random
        self._clients: dict[str, ClusterClient] = {}

    def carried(self, socket: Socket, frame: bytes | bytearray) -> None:
        """A frame is on its way."""
        if frame[:2] != KEY or socket.host in self._clients or self._load.patient:
            return
        if socket.peer not in {machine.host for machine in self._load.checker.machines.values()}:
            return  # an answer to a client
        header, message = frames.decode_request(frame)
        assert isinstance(message, WriteTxnMarkersRequest)
        if any(marker.transaction_version < BY_EPOCHS for marker in message.markers):
            return
        if self._random.random() < self._load.repeat_probability:
            self._load.count("repeated WriteTxnMarkersRequest")
            address, version = (socket.peer, self._port), header.api_version
            self._load.later(lambda: self._send(address, message, version))

    def _send(self, address: Address, message: WriteTxnMarkersRequest, version: int) -> None:
        name = f"late-markers-to-{address[0]}"
        client = self._clients.get(name)
        if client is None:
            clients = self._load.clients
            client = ClusterClient(clients.simulation, clients.network, name, clients.brokers)
            self._clients[name] = client

        def answered(response: Any) -> None:
            pass

        client.ask(address, message, version, answered)
