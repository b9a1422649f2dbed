"""The parts of a node that its coordinators use."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.log.manager import LogManager
from penstock.node.channel import Channel
from penstock.node.controller import ControllerNode
from penstock.node.journal import Journal
from penstock.node.outgoing import Outgoing
from penstock.node.own_calls import OwnCalls
from penstock.node.producer_ids import ProducerIds
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.replication.replicas import Replicas


class CoordinatorHost(NamedTuple):
    """See the module's head. `controller` returns the controller of this node."""

    state: NodeState
    scheduler: Scheduler
    logs: LogManager
    replicas: Replicas
    channel: Channel
    outgoing: Outgoing
    own_calls: OwnCalls
    journal: Journal
    producer_ids: ProducerIds
    controller: Callable[[], ControllerNode]
