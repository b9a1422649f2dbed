"""Tenants that share brokers: a greedy one with many connections, and a modest one with a single connection, both of
which ask for more than they can have at once. Neither has a quota.

    TenantWorld(seed, TENANT_SCENARIOS["tenants"]).run()

Requests are made to take time, and come in many at once, so that they wait in line. `WatchedTurns` looks at every
broker who is served: from the line the modest tenant has every other turn.
"""

from __future__ import annotations

from typing import Any

from penstock.node.connection import Connection
from penstock.node.turns import CountedWork, ready
from penstock.protocol.messages.metadata_request import MetadataRequest
from simulator.cluster import faults
from simulator.cluster.load import Load
from simulator.cluster.scenarios import CONTROLLER, Scenario
from simulator.cluster.world import ClusterWorld
from simulator.world.checks import check
from simulator.world.machine import Machine

TENANTS_IN_TURN = "tenants have their turns one after the other"
GREEDY, MODEST = "greedy", "modest"
CONNECTIONS = 16
AT_ONCE = 12
"""Requests of a connection that are under way together."""
TURN_MS = 5
EVERY_MS = 500
"""When they ask, all of them do at once."""
REQUEST_MS = 1.5
"""How long a request takes: a connection's share is used up by two, a tenant's by four."""
OTHERS_MAX = 8
"""Requests of the greedy tenant that may be served between two of the modest one's: those of a turn, what a request
takes beyond a share, and what goes on in any case. By connection it would be two of each."""
METADATA_VERSION = 9
OTHER_PRODUCERS, OTHER_PLAIN, OTHER_READERS = 2, 1, 1

TENANT_SCENARIOS = {
    "tenants": Scenario(
        "tenants",
        "a tenant with many connections and one with a single connection ask for more than there is; nodes die, stand "
        "still and are cut off",
        nodes=(3,),
        kinds=(*CONTROLLER, faults.kill, faults.pause, faults.broken_connections),
        durable=True,
        load_ms=5_000,
        admins=1,
    )
}


class WatchedTurns:
    """The turns of one broker, with an eye on them. A simulated loop has one event in a turn; as a real one, this has
    all that has come meanwhile, and serves the line.

    Attributes: `waited`, how often a request of the modest tenant was served from the line; `others`, how many of the
    greedy one's since then.
    """

    def __init__(self, machine: Machine) -> None:
        self.waited = 0
        self.others = 0
        self._machine = machine
        self._broker = machine.broker
        turns = machine.broker.dispatcher.turns
        self._connections = machine.broker.connections
        self._execute, self._receive = turns._execute, turns.execute
        self._serve, self._turn_ended = turns.serve, turns.turn_ended
        self._received: list[tuple[Connection, memoryview]] = []
        self._serving = self._served = False
        turns._clock_ms = CountedWork(REQUEST_MS)
        turns._execute = self.execute
        turns.execute = self.received  # type: ignore[method-assign]
        turns.serve = self.serve  # type: ignore[method-assign]
        turns.turn_ended = self.turn_ended  # type: ignore[method-assign]

    def turn_ended(self) -> None:
        if self._served:
            self._served = False
            self._turn_ended()

    def received(self, connection: Connection, frame: memoryview) -> None:
        if not self._received:
            self._machine.simulation.after_ms(TURN_MS, lambda: self._machine.on_loop(self._deliver))
        self._received.append((connection, frame))

    def _deliver(self) -> None:
        received, self._received = self._received, []
        if self._machine.broker is self._broker:
            for connection, frame in received:
                if not connection.closed:
                    self._receive(connection, frame)

    def serve(self) -> None:
        self._serving = self._served = True
        try:
            self._serve()
        finally:
            self._serving = False

    def execute(self, connection: Connection, frame: memoryview) -> None:
        name = connection.named
        if self._serving and name == MODEST:
            self.waited += 1
            self.others = 0
        elif self._serving and name == GREEDY:
            waits = any(each.named == MODEST and ready(each) for each in self._connections.values())
            self.others = self.others + 1 if waits else 0
            check(self.others <= OTHERS_MAX, TENANTS_IN_TURN, f"{self.others} of {GREEDY}, while {MODEST} waits")
        self._execute(connection, frame)


class Asker:
    """A connection of a tenant to each broker that asks for so much at a time, together with all others."""

    def __init__(self, load: Load, name: str, client_id: str) -> None:
        self.load = load
        self.client = load.client(name)
        self.client.client_id = client_id
        self.answers = 0
        self._left = 0

    def go_on(self) -> None:
        """Asks a broker, which all of them choose alike, if it has all answers from before."""
        if not self.load.going_on:
            return
        simulation = self.load.simulation
        simulation.after_ms(EVERY_MS - simulation.now_ms % EVERY_MS, self.go_on)
        if self._left:
            return
        broker = self.load.brokers[simulation.now_ms // EVERY_MS % len(self.load.brokers)]
        self._left = AT_ONCE
        for _ in range(AT_ONCE):
            self.client.ask(broker, MetadataRequest(topics=[]), METADATA_VERSION, self._answered)

    def _answered(self, response: Any) -> None:
        self.answers += response is not None
        self._left -= 1


class TenantWorld(ClusterWorld):
    """See the module's head. Attributes: `watches`, one of each broker that has been ready."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        super().__init__(seed, scenario)
        del self.producers[OTHER_PRODUCERS:], self.plain[OTHER_PLAIN:], self.readers[OTHER_READERS:]
        self.askers = [Asker(self.load, f"{GREEDY}-{number}", GREEDY) for number in range(CONNECTIONS)]
        self.askers.append(Asker(self.load, MODEST, MODEST))
        self.watches: list[WatchedTurns] = []
        for machine in self.machines:
            self._watch(machine)

    def _watch(self, machine: Machine) -> None:
        machine.started = lambda: self.watches.append(WatchedTurns(machine))

    def _suffer(self) -> None:
        for asker in self.askers:
            asker.go_on()
        super()._suffer()
