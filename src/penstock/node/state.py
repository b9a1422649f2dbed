"""What a node is and what it knows: plain state, which the parts of the node read and change and which knows none."""

from __future__ import annotations

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.log.directory import LogDirectory
from penstock.metadata.features import METADATA_VERSIONS, MetadataVersion
from penstock.metadata.image import EMPTY_IMAGE, BrokerRegistration, MetadataImage
from penstock.node.outgoing import Peer


class NodeState:
    """See the module's head.

    Attributes:
        settings: the node's, with the dynamic configs of now.
        metadata_directory: where the metadata log is. image: the committed metadata.
        broker_epoch: of this broker's last registration; -1 before the first is granted.
        ready: the node leads its partitions and serves.
        stopping: a clean stop has begun. stopped: it is complete.
        failure: why the node cannot go on; None while it can.
    """

    __slots__ = (
        "broker_epoch",
        "failure",
        "image",
        "metadata_directory",
        "node_id",
        "ready",
        "settings",
        "stopped",
        "stopping",
    )

    def __init__(self, settings: Settings, metadata_directory: LogDirectory) -> None:
        self.metadata_directory = metadata_directory
        self.node_id = settings.node_id
        self.settings = settings
        self.image: MetadataImage = EMPTY_IMAGE
        self.broker_epoch = -1
        self.ready = False
        self.stopping = False
        self.stopped = False
        self.failure: Exception | None = None

    def fail(self, error: Exception) -> None:
        """The node cannot go on; the first reason is kept."""
        self.failure = self.failure or error

    @property
    def own_registration(self) -> BrokerRegistration | None:
        """This broker as the image has it."""
        return self.image.brokers.get(self.node_id)

    @property
    def version(self) -> MetadataVersion:
        """The row of the finalized metadata.version, by which versions of requests between brokers are chosen."""
        return METADATA_VERSIONS[self.image.metadata_version or max(METADATA_VERSIONS)]

    def topic_config(self, name: str) -> TopicConfig:
        """The configuration of a topic now. Topics without overrides share one object."""
        overrides = self.image.topic_configs(name)
        return TopicConfig.resolve(self.settings, overrides) if overrides else self.settings.topic_defaults

    def rack_of(self, broker_id: int) -> str | None:
        """The rack of a broker; None if it has none or is not registered."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.rack

    def peer(self, broker_id: int) -> Peer | None:
        """A broker as others reach it; None while it is not registered or has no such listener."""
        listener = self.settings.inter_broker_listener
        broker = self.image.brokers.get(broker_id)
        endpoint = broker.endpoint(listener) if broker is not None and listener is not None else None
        return None if endpoint is None else Peer(broker_id, endpoint.host, endpoint.port, endpoint.name)
