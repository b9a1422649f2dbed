"""What a node is and knows: plain state, which the parts of the node read and change, and which knows none of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.log.directory import LogDirectory
from penstock.metadata.features import METADATA_VERSIONS, MetadataVersion
from penstock.metadata.image import EMPTY_IMAGE, BrokerRegistration, MetadataImage
from penstock.node.outgoing import Peer
from penstock.node.store_checks import CheckStores, any_stores


@dataclass(slots=True, eq=False)
class NodeState:
    """See the module's head.

    Attributes:
        settings: the node's, including the current dynamic configs.
        metadata_directory: the directory of the metadata log. image: the committed metadata.
        broker_epoch: of this broker's last registration; -1 before the first is granted.
        ready: the node leads its partitions and serves.
        stopping: a clean stop has begun. stopped: it is complete.
        check_stores: says whether other key and trust stores could be used.
        failure: why the node cannot go on; None while it can.
    """

    settings: Settings
    metadata_directory: LogDirectory
    node_id: int = field(init=False)
    image: MetadataImage = EMPTY_IMAGE
    broker_epoch: int = -1
    ready: bool = False
    stopping: bool = False
    stopped: bool = False
    failure: Exception | None = None
    check_stores: CheckStores = any_stores

    def __post_init__(self) -> None:
        self.node_id = self.settings.node_id

    def fail(self, error: Exception) -> None:
        """The node cannot go on; the first reason is kept."""
        self.failure = self.failure or error

    @property
    def own_registration(self) -> BrokerRegistration | None:
        """This broker's registration according to the image."""
        return self.image.brokers.get(self.node_id)

    @property
    def version(self) -> MetadataVersion:
        """The row of the finalized metadata.version, which determines the versions of requests between brokers."""
        return METADATA_VERSIONS[self.image.metadata_version or max(METADATA_VERSIONS)]

    def topic_config(self, name: str) -> TopicConfig:
        """The current configuration of a topic. Topics without overrides share one object."""
        overrides = self.image.topic_configs(name)
        return TopicConfig.resolve(self.settings, overrides) if overrides else self.settings.topic_defaults

    def rack_of(self, broker_id: int) -> str | None:
        """The rack of a broker; None if it has none or is not registered."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.rack

    def peer(self, broker_id: int) -> Peer | None:
        """A broker's address for other brokers; None while it is not registered or has no such listener."""
        listener = self.settings.inter_broker_listener
        broker = self.image.brokers.get(broker_id)
        endpoint = broker.endpoint(listener) if broker is not None and listener is not None else None
        return None if endpoint is None else Peer(broker_id, endpoint.host, endpoint.port, endpoint.name)
