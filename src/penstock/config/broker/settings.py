"""All declared settings of a node in one class: how they are read and resolved is `config.server`'s."""

from __future__ import annotations

from penstock.config.broker.access import AccessSettings
from penstock.config.broker.cluster import ClusterSettings
from penstock.config.broker.groups import GroupSettings
from penstock.config.broker.log import LogSettings
from penstock.config.broker.network import NetworkSettings
from penstock.config.broker.node import MetadataSettings, NodeSettings
from penstock.config.broker.oauthbearer import OAuthBearerSettings
from penstock.config.broker.own import OwnSettings
from penstock.config.broker.quorum import QuorumSettings
from penstock.config.broker.quotas import QuotaSettings
from penstock.config.broker.replication import ReplicationSettings
from penstock.config.broker.sasl import SaslSettings
from penstock.config.broker.tls import TlsSettings
from penstock.config.broker.tokens import TokenSettings
from penstock.config.broker.transactions import TransactionSettings


class BrokerSettings(
    NodeSettings,
    MetadataSettings,
    QuorumSettings,
    ClusterSettings,
    GroupSettings,
    TransactionSettings,
    NetworkSettings,
    TlsSettings,
    SaslSettings,
    TokenSettings,
    OAuthBearerSettings,
    LogSettings,
    ReplicationSettings,
    QuotaSettings,
    AccessSettings,
    OwnSettings,
):
    """Values by attribute, the property's name with `_`, and what follows from one or two of them."""

    @property
    def directories(self) -> tuple[str, ...]:
        """The log directories: log.dirs, else log.dir."""
        return self.log_dir if self.log_dirs is None else self.log_dirs

    @property
    def metadata_directory(self) -> str:
        """The directory of the metadata log: metadata.log.dir, else the first log directory."""
        return self.metadata_log_dir or self.directories[0]

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles
