"""All samples of a node, of each of its parts in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.node.metrics import login_samples, request_samples
from penstock.node.quota_samples import quota_samples
from penstock.node.samples import (
    Steps,
    metadata_samples,
    own_samples,
    partition_samples,
    quorum_samples,
    replica_samples,
)

if TYPE_CHECKING:
    from penstock.log.manager import LogManager
    from penstock.metadata.image import MetadataImage
    from penstock.node.bugs import Bugs
    from penstock.node.client_quotas import ClientQuotas
    from penstock.node.connection import Connection
    from penstock.node.controller import ControllerNode
    from penstock.node.coordinator_list import Coordinators
    from penstock.node.dispatcher import Dispatcher
    from penstock.node.fetches import Fetches
    from penstock.node.gate import Gate
    from penstock.node.journal import Journal
    from penstock.node.outgoing import Outgoing
    from penstock.node.purgatory import Purgatory
    from penstock.node.quorum import Quorum
    from penstock.node.replication import Replication
    from penstock.node.state import NodeState
    from penstock.node.telemetry.telemetry import Telemetry
    from penstock.node.verification import Verifier


class Sampled(Protocol):
    """The parts of a node that have samples; `penstock.node.broker.Broker` is one."""

    telemetry: Telemetry
    dispatcher: Dispatcher
    gate: Gate
    state: NodeState
    controller: ControllerNode
    journal: Journal
    replication: Replication
    logs: LogManager
    quorum: Quorum
    coordinators: Coordinators
    connections: dict[int, Connection]
    purgatory: Purgatory
    fetches: Fetches

    @property
    def now_ms(self) -> int: ...

    @property
    def image(self) -> MetadataImage: ...

    @property
    def quotas(self) -> ClientQuotas: ...

    @property
    def verifier(self) -> Verifier: ...

    @property
    def outgoing(self) -> Outgoing: ...

    @property
    def bugs(self) -> Bugs: ...


def node_samples(node: Sampled) -> Steps:
    """The samples in steps: None where a caller may serve others, whereupon the node may change. Samples of one name
    follow each other.
    """
    yield from node.telemetry.topics.samples()
    yield from login_samples(node.dispatcher.logins.counters)
    yield from node.gate.denials.samples()
    yield from request_samples(node.dispatcher.exit.counters.values(), node.now_ms)
    yield from quota_samples(node.quotas, node.now_ms)
    yield from node.dispatcher.client_metrics.samples()
    yield from metadata_samples(
        node.state, is_controller=node.controller.active, unclean_elections=node.journal.unclean_elections
    )
    yield from replica_samples(node.state, node.replication)
    yield from node.replication.hanging.samples()
    yield from partition_samples(node.logs)
    yield from quorum_samples(node.quorum, node.image)
    for coordinator in node.coordinators.all:
        yield from coordinator.samples()
    yield from node.verifier.samples()
    parked, cold_reads = len(node.purgatory) + len(node.fetches.waiting), node.dispatcher.cold_reads
    yield from own_samples(node.fetches.sessions, node.outgoing, parked=parked, cold_reads=cold_reads)
    yield from node.bugs.samples()
