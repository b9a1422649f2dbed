"""A world for Guardian: three nodes, and people who register clusters, set modes and look, while the leader fails.

- *Admins* have clusters of their own. Each change has a request id, and is asked for again, of any node, until it has
  an answer; so an admin knows what must be there.
- *Readers* ask any node. What they get must not be older than the node says it is.
- *Trouble* comes to the leader most of all: killed, without power, stopped, cut off in both directions or one. In every
  fourth seed it aims at the moments in which two nodes might both act (`simulator.guardian.trouble`).

At all times at most one node may act. At the end all is healed, and every node has the same state, with everything that
was answered, once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from penstock.guardian.core.state import ACTIONS, MODES, OBSERVE
from penstock.protocol.messages.own.guardian_call_request import GuardianCallRequest
from simulator.guardian.machine import GuardianMachine, settings_of
from simulator.guardian.trouble import Trouble
from simulator.node.client import Client
from simulator.world.checks import check, replayable
from simulator.world.driver import Simulation
from simulator.world.network import Network

RUN_MS = 8_000
FINAL_MS = 10_000
"""After the trouble: an election, and what was asked is asked again."""
NODES = 3
ADMINS = 3
READERS = 2
RETRY_MS = 60
THINK_MS = 120
PATIENCE_MS = 1_500
"""After so long a client asks another node."""
AIMED = 4
"""Every so many seeds the trouble aims at the lease."""
AGAIN = (429, 503, 507)
ONE_ACTS = "at most one node may act"
ANSWERED_ONCE = "what was answered is there, once"
AS_OLD_AS_TOLD = "a read is not older than it says"
SAME = "all nodes come to the same state"


@dataclass(slots=True)
class Expected:
    """What an admin knows of a cluster: its modes (None: it is removed), since when, and whether that is changing."""

    modes: dict[str, str] | None
    since_ms: int
    changing: bool = False


class Caller:
    """Asks one node after the other until it has an answer."""

    def __init__(self, world: GuardianWorld, name: str) -> None:
        self.world = world
        self.client = Client(world.simulation, world.machines[0], name)
        self._asked = 0

    def ask(self, request: GuardianCallRequest, answered: Callable[[Any, int], None]) -> None:
        """Calls `answered(response, asked_ms)`, None for no answer, of a node that chance has chosen."""
        world = self.world
        self._asked += 1
        number = self._asked
        self.client.machine = world.random.choice(world.machines)
        asked_ms = world.simulation.now_ms

        def once(response: Any) -> None:
            if self._asked == number:
                self._asked += 1
                answered(response, asked_ms)

        self.client.ask(request, 0, once)
        world.simulation.after_ms(PATIENCE_MS, partial(self._lose_patience, number, once))

    def _lose_patience(self, number: int, once: Callable[[Any], None]) -> None:
        if self._asked == number:
            self.client.close()
            self.client._waiting = None
            once(None)


class Admin:
    """Registers, changes and removes clusters of its own."""

    def __init__(self, world: GuardianWorld, number: int) -> None:
        self.world = world
        self.caller = Caller(world, f"admin-{number}")
        self.number = number
        self.count = 0
        self.clusters: dict[str, Expected] = {}

    def go_on(self) -> None:
        """The next change."""
        world = self.world
        if not world.loading:
            return
        if world.quiet:
            world.simulation.after_ms(THINK_MS, self.go_on)
            return
        present = [name for name, each in self.clusters.items() if each.modes is not None]
        what = world.random.random()
        if not present or what < 0.5:
            self.count += 1
            name = f"c{self.number}-{self.count}"
            body = {"name": name, "bootstrap": [f"{name}:9092"], "labels": {"filler": "x" * world.random.randrange(60)}}
            self._change("POST", "/v1/clusters", name, body, dict.fromkeys(ACTIONS, OBSERVE))
        elif what < 0.8:
            name = world.random.choice(present)
            mode = {world.random.choice(ACTIONS): world.random.choice(MODES)}
            modes = {**(self.clusters[name].modes or {}), **mode}
            self._change("PATCH", f"/v1/clusters/{name}", name, {"modes": mode}, modes)
        else:
            name = world.random.choice(present)
            self._change("DELETE", f"/v1/clusters/{name}", name, {}, None)

    def _change(self, method: str, path: str, name: str, body: Any, after: dict[str, str] | None) -> None:
        world = self.world
        request = GuardianCallRequest(
            method=method, path=path, body=json.dumps(body).encode(), request_id=UUID(int=world.random.getrandbits(128))
        )
        world.simulation.trace(f"admin-{self.number}: {method} {path}")
        expected = self.clusters.setdefault(name, Expected(None, world.simulation.now_ms))
        expected.changing = True
        self._try(request, expected, after)

    def _try(self, request: GuardianCallRequest, expected: Expected, after: dict[str, str] | None) -> None:
        def answered(response: Any, asked_ms: int) -> None:
            world = self.world
            if response is None or response.status in AGAIN:
                world.simulation.after_ms(RETRY_MS, lambda: self._try(request, expected, after))
                return
            what = f"{request.method} {request.path}: {response.status} {bytes(response.body).decode()}"
            check(response.status in (200, 201), ANSWERED_ONCE, what)
            expected.modes, expected.since_ms, expected.changing = after, world.simulation.now_ms, False
            world.changes += 1
            world.simulation.after_ms(world.random.randrange(THINK_MS), self.go_on)

        self.caller.ask(request, answered)

    @property
    def busy(self) -> bool:
        """Whether a change has no answer yet."""
        return any(each.changing for each in self.clusters.values())


class Reader:
    """Asks for all clusters, and compares."""

    def __init__(self, world: GuardianWorld, number: int) -> None:
        self.world = world
        self.caller = Caller(world, f"reader-{number}")

    def go_on(self) -> None:
        if self.world.loading:
            self.caller.ask(GuardianCallRequest(method="GET", path="/v1/clusters"), self._answered)

    def _answered(self, response: Any, asked_ms: int) -> None:
        world = self.world
        if response is not None and response.status == 200:
            world.reads += 1
            found = {each["name"]: each["modes"] for each in json.loads(bytes(response.body))["clusters"]}
            check(response.age_ms >= 0, AS_OLD_AS_TOLD, "an answer without an age")
            for name, expected in world.expected().items():
                if not expected.changing and expected.since_ms < asked_ms - response.age_ms:
                    what = f"{name} of node {response.answered_by}, {response.age_ms} ms old: {found.get(name)}"
                    check(found.get(name) == expected.modes, AS_OLD_AS_TOLD, f"{what}, not {expected.modes}")
        world.simulation.after_ms(world.random.randrange(1, THINK_MS), self.go_on)


class GuardianWorld:
    """See the module's head.

    Attributes: `changes` that were answered, `reads` that were compared, `acted` by epoch how often a node found that
    it may act, `failovers` how often another node came to that.
    """

    name = "guardian"

    def __init__(self, seed: int, *, nodes: int = NODES) -> None:
        self.simulation = Simulation(seed)
        self.random = self.simulation.random
        self.network = Network(self.simulation, half_open_probability=0.1)
        self.machines = [
            GuardianMachine(self.simulation, settings_of(each, nodes), self.network) for each in range(1, nodes + 1)
        ]
        for machine in self.machines:
            machine.observed = self._observed
        self.admins = [Admin(self, each) for each in range(ADMINS)]
        self.readers = [Reader(self, each) for each in range(READERS)]
        self.loading = True
        self.troubled = True
        self.quiet = False
        self.trouble = Trouble(self, aimed=seed % AIMED == 0 and nodes == NODES)
        self.changes = self.reads = self.failovers = 0
        self._last_actor: int | None = None

    def expected(self) -> dict[str, Expected]:
        """All that the admins know."""
        return {name: each for admin in self.admins for name, each in admin.clusters.items()}

    def run(self) -> Simulation:
        """Runs the seed. Raises Violation."""
        with replayable(self.simulation, self.name):
            self._run()
        return self.simulation

    def _run(self) -> None:
        simulation = self.simulation
        for machine in self.machines:
            machine.start()
        for go_on in (*(each.go_on for each in self.admins), *(each.go_on for each in self.readers)):
            simulation.after_ms(self.random.randrange(500), go_on)
        simulation.after_ms(self.random.randrange(2_000), self.trouble.go_on)
        start_ms = simulation.now_ms
        simulation.run(start_ms + RUN_MS)
        self.troubled = False
        self.loading = False
        self.trouble.heal()
        simulation.run(start_ms + RUN_MS + FINAL_MS)
        self._compare()

    def _observed(self) -> None:
        """After each event of a node: who may act?"""
        acting = [each for each in self.machines if each.running and not each.paused and each.node.may_act(each.now_ms)]
        check(len(acting) <= 1, ONE_ACTS, " and ".join(each.host for each in acting))
        for machine in acting:
            node_id = machine.node.node_id
            if node_id != self._last_actor:
                self.failovers += self._last_actor is not None
                self._last_actor = node_id
                self.simulation.trace(f"node {node_id} acts")

    # The end

    def _compare(self) -> None:
        for admin in self.admins:
            check(not admin.busy, "every change has an answer in the end", f"admin-{admin.number}")
        states = [each.node.quorum.state for each in self.machines]
        check(all(each == states[0] for each in states), SAME, f"{[len(each.clusters) for each in states]} clusters")
        found = {each.name: {action: each.mode(action) for action in ACTIONS} for each in states[0].clusters.values()}
        check(len(found) == len(states[0].clusters), ANSWERED_ONCE, "two clusters of one name")
        wanted = {name: each.modes for name, each in self.expected().items() if each.modes is not None}
        check(found == wanted, ANSWERED_ONCE, differing(found, wanted))
        check(self.changes > 0 and self.reads > 0, "something was done", f"{self.changes} changes, {self.reads} reads")


def differing(found: dict[str, dict[str, str]], wanted: dict[str, dict[str, str]]) -> str:
    """The clusters that are not as wanted, for people."""
    names = sorted({*found, *wanted})
    return ", ".join(f"{each}: {found.get(each)}" for each in names if found.get(each) != wanted.get(each))[:500]
