"""A client of a simulated cluster: connections to any broker, several requests on each, and where the leaders are.

It knows what a real client knows: an answer, or that the connection broke or was silent for too long, and then the
outcome is unknown. Connections are made when there is something to ask, and never repeat a request by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.config.sasl import PLAIN
from penstock.errors import ErrorCode
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER, Api
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.protocol.wire import joined
from penstock.security.plain import PlainClient
from penstock.security.sasl import Derivation, SaslClient
from simulator.world.checks import check
from simulator.world.driver import Simulation
from simulator.world.network import Address, Network, Socket

REQUEST_TIMEOUT_MS = 8_000
METADATA_VERSION = 9
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2

Answered = Callable[[Any], None]
LOGS_IN = "who has the right password is let in"


class Question:
    """A request that waits for its answer."""

    __slots__ = ("answered", "api", "number", "version")

    def __init__(self, number: int, api: Api, version: int, answered: Answered) -> None:
        self.number = number
        self.api = api
        self.version = version
        self.answered = answered


class Login:
    """How a client logs in on its connections: with SASL PLAIN, and in time once more (KIP-368) or not.

    Args:
        renewed_after: the part of a session after which it logs in again; None: it never does.

    Attributes:
        began, let_in: called when a login begins at a broker, and when it has succeeded, with for how many ms.
    """

    mechanism = PLAIN

    def __init__(self, user: str, password: str, *, renewed_after: float | None) -> None:
        self.user = user
        self.renewed_after = renewed_after
        self.began: Callable[[Address], None] = lambda address: None
        self.let_in: Callable[[Address, int], None] = lambda address, lifetime_ms: None
        self._password = password
        self._lifetime_ms = 0
        self._until_ms: dict[Address, int] = {}
        self._begun: dict[Address, int] = {}

    def exchange(self) -> SaslClient:
        """Begins a login."""
        return PlainClient(self.user, self._password)

    def derive(self, derivation: Derivation) -> bytes:
        """The key of a password; PLAIN needs none."""
        return derivation.derive()

    def refused(self, name: str, why: str) -> None:
        """A broker does not let the client in."""
        check(False, LOGS_IN, f"{name}: {why}")

    def begins(self, address: Address) -> None:
        """The client asks to be let in."""
        self.began(address)
        self._begun[address] = self._begun.get(address, 0) + 1

    def ends(self, address: Address, lifetime_ms: int | None, now_ms: int) -> None:
        """It has been let in for so long, or heard no answer (None): then it may have been, at the latest now."""
        self._begun[address] -= 1
        self._lifetime_ms = lifetime_ms or self._lifetime_ms
        self._until_ms[address] = max(self._until_ms.get(address, 0), now_ms + self._lifetime_ms)

    def denied(self, address: Address) -> None:
        """It has not been let in."""
        self._begun[address] -= 1

    def may_last(self, address: Address, now_ms: int) -> bool:
        """Whether any session at a broker may be under way, for all that the client knows."""
        return bool(self._begun.get(address)) or now_ms <= self._until_ms.get(address, 0)


class Wire:
    """One connection of a client: what is asked before it is up, and logged in, goes out when it is. Answers come in
    order."""

    def __init__(self, client: ClusterClient, address: Address) -> None:
        self.client = client
        self.address = address
        self.dead = False
        self.questions: list[Question] = []
        self._ready = False
        self._unsent: list[bytes] = []
        self._socket: Socket = client.network.dial(client.name, address, self)

    def ask(self, question: Question, frame: bytes) -> None:
        """Asks something, now or when the connection is ready for it."""
        self.questions.append(question)
        self.send(frame)

    def send(self, frame: bytes) -> None:
        """Sends a request, now or when the connection is ready for it."""
        if self._ready:
            self._socket.send(frame)
        else:
            self._unsent.append(frame)

    def up(self) -> None:
        if self.client.login is None:
            self._begin()
        else:
            self._log_in(self.client.login)

    def _begin(self) -> None:
        self._ready = True
        for frame in self._unsent:
            self._socket.send(frame)
        self._unsent.clear()

    def _log_in(self, login: Login) -> None:
        """Logs in, for the first time or again, and later once more."""
        simulation, exchange = self.client.simulation, login.exchange()
        login.begins(self.address)

        def answered(response: Any) -> None:
            if response is None:
                login.ends(self.address, None, simulation.now_ms)
                return
            if response.error_code != ErrorCode.NONE:
                login.denied(self.address)
                login.refused(self.client.name, response.error_message)
                self.client.hang_up(self.address)
                return
            step = exchange.evaluate(bytes(response.auth_bytes))
            token = exchange.derived(login.derive(step)) if isinstance(step, Derivation) else step
            if token is not None:
                assert isinstance(token, bytes), "no mechanism of the simulator asks the world"
                self._send(SaslAuthenticateRequest(auth_bytes=token), AUTHENTICATE_VERSION, answered)
                return
            login.let_in(self.address, response.session_lifetime_ms)
            login.ends(self.address, response.session_lifetime_ms, simulation.now_ms)
            if not self._ready:
                self._begin()
            if login.renewed_after is not None:
                simulation.after_ms(round(response.session_lifetime_ms * login.renewed_after), renew)

        def renew() -> None:
            if not self.dead:
                self._log_in(login)

        self._send(SaslHandshakeRequest(mechanism=login.mechanism), HANDSHAKE_VERSION, lambda response: None)
        first = exchange.first()
        assert isinstance(first, bytes), "no mechanism of the simulator asks the world"
        self._send(SaslAuthenticateRequest(auth_bytes=first), AUTHENTICATE_VERSION, answered)

    def _send(self, message: Message, version: int, answered: Answered) -> None:
        """Sends a request of its own, ahead of what waits."""
        question, frame = self.client.question(message, version, answered)
        self.questions.insert(len(self.questions) - len(self._unsent), question)
        self._socket.send(frame)

    def received(self, frame: bytearray) -> None:
        question = self.questions.pop(0)
        number, message = frames.decode_response(question.api, question.version, memoryview(frame))
        rule = "answers come in the order of the requests"
        check(number == question.number, rule, f"{self.client.name}: {number} for {question.number}")
        question.answered(message)

    def lost(self, reason: str) -> None:
        self.dead = True
        questions, self.questions = self.questions, []
        for question in questions:
            question.answered(None)

    def give_up(self) -> None:
        """Closes; nobody waits any more."""
        self._socket.close()
        self.lost("given up")


class ClusterClient:
    """One client, a host of the network by the name `name`.

    Args:
        brokers: where to ask for metadata, before anything is known. client_id: None: the name. login: None: it never
        logs in.

    Attributes:
        leaders, leader_epochs: address and epoch of the leader, by topic and partition index, as far as metadata told.
    """

    def __init__(
        self,
        simulation: Simulation,
        network: Network,
        name: str,
        brokers: Sequence[Address],
        *,
        client_id: str | None = None,
        login: Login | None = None,
    ) -> None:
        self.simulation = simulation
        self.network = network
        self.name = name
        self.brokers = brokers
        self.client_id = name if client_id is None else client_id
        self.login = login
        self.leaders: dict[tuple[str, int], Address] = {}
        self.leader_epochs: dict[tuple[str, int], int] = {}
        self._wires: dict[Address, Wire] = {}
        self._last_number = 0

    def ask(
        self,
        address: Address,
        message: Message,
        version: int,
        answered: Answered,
        *,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Asks a broker. `answered` is told the answer, or None when the connection broke or time was up."""
        question, frame = self.question(message, version, answered)
        wire = self._wire(address)
        wire.ask(question, frame)
        self.simulation.after_ms(timeout_ms, lambda: self._time_out(wire, question))

    def tell(self, address: Address, message: Message, version: int) -> None:
        """Sends what has no answer."""
        self._wire(address).send(self.question(message, version, lambda response: None)[1])

    def _wire(self, address: Address) -> Wire:
        """The connection to a broker, a new one if there is none."""
        wire = self._wires.get(address)
        if wire is None or wire.dead:
            wire = self._wires[address] = Wire(self, address)
        return wire

    def question(self, message: Message, version: int, answered: Answered) -> tuple[Question, bytes]:
        """A request under the next number, and its frame."""
        self._last_number += 1
        question = Question(self._last_number, API_BY_NUMBER[message.KEY], version, answered)
        chunks = frames.encode_request(question.api, version, question.number, self.client_id, message)
        return question, joined(chunks)[4:]

    def any_broker(self) -> Address:
        """One of those that are known from the start."""
        return self.simulation.random.choice(self.brokers)

    def ask_any(self, message: Message, version: int, answered: Answered) -> None:
        """Asks any broker."""
        self.ask(self.any_broker(), message, version, answered)

    def find_leaders(self, topic: str, then: Callable[[], None]) -> None:
        """Asks any broker who leads a topic's partitions, and goes on, whether it was told or not."""

        def answered(response: Any) -> None:
            if response is not None:
                self._learn(response)
            then()

        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        self.ask_any(request, METADATA_VERSION, answered)

    def _learn(self, response: Any) -> None:
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                if partition.leader_epoch < self.leader_epochs.get(key, -1):
                    continue  # of a broker that is behind; as Kafka's clients, ours never go back
                self.leaders.pop(key, None)
                if partition.leader_id in addresses:
                    self.leaders[key] = addresses[partition.leader_id]
                    self.leader_epochs[key] = partition.leader_epoch

    def hang_up(self, address: Address) -> None:
        """Breaks off with a broker: what was asked there is answered None."""
        wire = self._wires.pop(address, None)
        if wire is not None and not wire.dead:
            wire.give_up()

    def _time_out(self, wire: Wire, question: Question) -> None:
        if not wire.dead and question in wire.questions:
            self.simulation.trace(f"{self.name}: no answer to {question.api.name} from {wire.address[0]}")
            if self._wires.get(wire.address) is wire:
                del self._wires[wire.address]
            wire.give_up()
