"""Apache Kafka with its StandardAuthorizer: clients without a name on two listeners, a super user on two others."""

from __future__ import annotations

import itertools
import socket
import struct
from typing import Any

from interop.kafka_peer import KafkaPeer
from support.processes import free_ports

from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER
from penstock.protocol.message import Message
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret";'
)
TIMEOUT_S = 30


class SecuredPeer(KafkaPeer):
    """See the module's head. `ports`, by listener: PLAINTEXT, ADMIN, CONTROLLER (the admin's) and OPEN (controllers'
    without a name).
    """

    ports: dict[str, int]

    def write_configuration(self) -> None:
        self.ports = dict(zip(("PLAINTEXT", "ADMIN", "CONTROLLER", "OPEN"), free_ports(4), strict=True))
        self._properties.update(
            {
                "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
                "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
                "controller.listener.names": "CONTROLLER,OPEN",
                "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{self.ports['CONTROLLER']}",
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,OPEN:PLAINTEXT,ADMIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
                ),
                "inter.broker.listener.name": "ADMIN",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.admin.plain.sasl.jaas.config": LOGIN,
                "listener.name.controller.plain.sasl.jaas.config": LOGIN,
                "authorizer.class.name": AUTHORIZER,
                "super.users": "User:admin",
            }
        )
        super().write_configuration()
        self.port = self.ports["PLAINTEXT"]

    def connect(self, listener: str) -> SocketAsker:
        """A connection, of the admin where the listener wants a name."""
        asker = SocketAsker(self.ports[listener])
        if listener in ("ADMIN", "CONTROLLER"):
            asker.log_in()
        return asker


class SocketAsker:
    """Asks over a socket, and waits for each answer."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self._socket = socket.create_connection(self._address, TIMEOUT_S)
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._socket.close()

    def log_in(self) -> None:
        """As the admin, by PLAIN."""
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        assert self.ask(SaslAuthenticateRequest(auth_bytes=b"\0admin\0secret"), 2).error_code == 0

    def ask(self, message: Message, version: int) -> Any:
        """The answer to a request."""
        api = API_BY_NUMBER[message.KEY]
        chunks = frames.encode_request(api, version, next(self._numbers), "decisions", message)
        self._socket.sendall(b"".join(bytes(chunk) for chunk in chunks))  # type: ignore[arg-type]  # no ranges of files
        frame = bytearray(self._read(struct.unpack(">i", self._read(4))[0]))
        return frames.decode_response(api, version, memoryview(frame))[1]

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the connection was closed"
            data += more
        return bytes(data)
