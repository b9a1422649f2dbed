"""The REST API of a running node: door, application and desk, with the node behind them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

from penstock.errors import Report
from penstock.guardian.core.answering import RESOURCES
from penstock.guardian.core.calls import Call
from penstock.guardian.core.node import GuardianNode
from penstock.guardian.core.state import GuardianState
from penstock.guardian.rest.app import app_of
from penstock.guardian.rest.desk import Answered, Desk
from penstock.guardian.rest.door import Door
from penstock.node.metrics import COUNTER, GAUGE, Sample
from penstock.server.shell import Shell


class NodeBack:
    """The node behind the desk: what it knows, and calls as events of its loop."""

    def __init__(self, node: GuardianNode, shell: Shell) -> None:
        self._node = node
        self._shell = shell

    @property
    def state(self) -> GuardianState:
        return self._node.quorum.state

    @property
    def age_ms(self) -> int | None:
        return self._node.quorum.age_ms(self.now_ms)

    @property
    def now_ms(self) -> int:
        return self._shell.clock.now_ms()

    @property
    def wall_ms(self) -> int:
        return self._node.scheduler.wall.at(self.now_ms)

    def ask(self, call: Call, answered: Answered) -> None:
        self._shell.begin()
        self._node.ask(call, answered, self._shell.now_ms)


class RestEndpoint:
    """The REST API. `context`: TLS for the next connection. `report` gets the errors that should never happen."""

    def __init__(
        self, node: GuardianNode, shell: Shell, context: Callable[[], ssl.SSLContext] | None, report: Report
    ) -> None:
        self._desk = Desk(NodeBack(node, shell), report)
        self._door = Door(app_of(self._desk, RESOURCES.values()), context)

    async def start(self, address: str) -> str:
        """Listens on `host:port`; returns the address with the port that was bound. Raises ConfigError."""
        return await self._door.start(address)

    async def stop(self) -> None:
        """Ends what is being answered, and closes all connections."""
        await self._door.stop()

    def samples(self) -> Iterator[Sample]:
        """Metrics of the endpoint."""
        door = self._door
        yield Sample("penstock_guardian_rest_connections", GAUGE, "Open connections over HTTP.", door.connections)
        text = "Connections over HTTP closed, idle longest, because there were too many."
        yield Sample("penstock_guardian_rest_connections_made_room_total", COUNTER, text, door.made_room)
        text = "Connections over HTTP for which there was no room."
        yield Sample("penstock_guardian_rest_connections_refused_total", COUNTER, text, door.refused)
        yield from self._desk.samples()
