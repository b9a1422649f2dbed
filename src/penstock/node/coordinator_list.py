"""The coordinators of a node. A new kind is a line here; the rest of the node is told of all alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.node.coordinators import Coordinator
from penstock.node.groups import GroupService

if TYPE_CHECKING:
    from penstock.node.broker import Broker


class Coordinators:
    """See the module's head. Handlers use the one that they know by name."""

    def __init__(self, node: Broker) -> None:
        self.groups = Coordinator(node, GroupService(node))
        self.all: tuple[Coordinator[Any], ...] = (self.groups,)
