"""Brokers of a secured run: each has a listener of SASL_SSL beside its own, ACLs, and one ordinary user.

The harness stays with the plain listener, whose anonymous clients are super users; what a broker calls its address is
the secured one, so that the clients of a test come there, and may do what their module's grants say.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka.admin
from interop.secured.grants import Grants, acls_of
from interop.secured_kafka import ALICE, PASSWORD
from support.processes import Cluster, free_ports
from support.tls import Authority

from penstock.client.acls import creation_of
from penstock.config.jaas import PLAIN_MODULE
from penstock.protocol.acls import Acl, AclOperation, ResourceType
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_acls_request import CreateAclsRequest
from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest
from penstock.security.authorizer import Principal, StandardAuthorizer
from penstock.testing.broker import REQUEST_TIMEOUT_S, LocalBroker

SECURED = "SECURED"
MAP = f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{SECURED}:SASL_SSL"
USER = f"User:{ALICE}"
EVERY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
TIMEOUT_S = 30.0
Right = tuple[AclOperation, ResourceType]


class Brokers:
    """All brokers of this process and those that it has started.

    Attributes:
        trust: the authority's file.
        plain: the address of the plain listener, by that of the secured one.
        used, denied: rights that the user has used, and that it was denied, at brokers in this process.
    """

    def __init__(self, directory: Path) -> None:
        self._store = Authority(directory).store("broker")
        self.trust = self._store.trust
        self.plain: dict[str, str] = {}
        self.used: set[Right] = set()
        self.denied: set[Right] = set()
        self._running: dict[LocalBroker, str] = {}
        self._clusters: list[tuple[Cluster, str]] = []
        self._grants: Grants = {}

    def settings(self) -> dict[str, str]:
        """What each node gets, beside its listeners."""
        key = {name: text for name, text in self._store.properties().items() if "keystore" in name}
        return {
            "listener.security.protocol.map": MAP,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{ALICE}="{PASSWORD}";',
            **{f"listener.name.secured.{name}": text for name, text in key.items()},
        }

    def grant(self, grants: Grants) -> None:
        """Makes these the user's rights, at brokers that run and at those to come."""
        self._grants = grants
        self.used.clear()
        self.denied.clear()
        for broker in self._running:
            set_acls(broker, acls_of(USER, grants))

    def knows(self, addresses: object) -> bool:
        """Whether one of the addresses, a text with commas or a sequence, is of a secured listener."""
        given = addresses.split(",") if isinstance(addresses, str) else addresses
        return isinstance(given, list | tuple) and any(each in self.plain for each in given)

    def plain_of(self, addresses: str) -> str:
        """The harness's addresses instead of the clients'."""
        return ",".join(self.plain.get(each, each) for each in addresses.split(","))

    # Brokers in this process

    def secure_local_brokers(self) -> None:
        """Has every LocalBroker without listeners of its own be a secured one."""
        make, start, stop, connect = LocalBroker.__init__, LocalBroker.start, LocalBroker.stop, LocalBroker._connect

        def made(broker: LocalBroker, settings: Mapping[str, str] | None = None, data_dir: Any = None) -> None:
            given = dict(settings or {})
            if "listeners" not in given:
                listeners = f"PLAINTEXT://127.0.0.1:0,{SECURED}://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
                given = {"listeners": listeners, **self.settings(), **given}
            make(broker, given, data_dir)

        def started(broker: LocalBroker) -> None:
            start(broker)
            if SECURED in broker.addresses:
                set_acls(broker, acls_of(USER, self._grants))
                plain, secured = broker.bootstrap, broker.addresses[SECURED]
                self._running[broker] = self.plain[secured] = plain
                broker.bootstrap, broker.port = secured, int(secured.rpartition(":")[2])

        def stopped(broker: LocalBroker) -> None:
            if self._running.pop(broker, None):
                self.plain.pop(broker.bootstrap, None)
            stop(broker)

        def connected(broker: LocalBroker) -> socket.socket:
            plain = self._running.get(broker)
            if plain is None:
                return connect(broker)
            host, _, port = plain.rpartition(":")
            return socket.create_connection((host, int(port)), REQUEST_TIMEOUT_S)

        LocalBroker.__init__ = made  # type: ignore[assignment,method-assign]  # tests are not asked
        LocalBroker.start = started  # type: ignore[method-assign]  # as above
        LocalBroker.stop = stopped  # type: ignore[method-assign]  # as above
        LocalBroker._connect = connected  # type: ignore[method-assign]  # as above

    def note_rights(self) -> None:
        """Has what the user asks of the brokers in this process noted."""
        authorize = StandardAuthorizer.authorize

        def noted(authorizer: StandardAuthorizer, principal: Principal, *asked: Any) -> bool:
            allowed = authorize(authorizer, principal, *asked)
            _, operation, resource, _ = asked
            if principal.name == ALICE:
                (self.used if allowed else self.denied).add((operation, resource))
            return allowed

        StandardAuthorizer.authorize = noted  # type: ignore[method-assign]  # it is listened to

    # Brokers in processes of their own

    def secure_clusters(self) -> None:
        """Has every Cluster be a secured one. Its `ports` are the secured ones."""
        make, enter = Cluster.__init__, Cluster.__enter__

        def made(cluster: Cluster, *arguments: Any, **settings: Any) -> None:
            make(cluster, *arguments, **settings)
            plain = cluster.bootstrap
            for id_, port in zip(cluster.nodes("broker"), free_ports(len(cluster.nodes("broker"))), strict=True):
                lines = cluster.file(id_).read_text().splitlines()
                added = f",{SECURED}://127.0.0.1:{port}"
                named = ("listeners=", "advertised.listeners=")
                lines = [each + added if each.startswith(named) else each for each in lines]
                cluster.file(id_).write_text("\n".join(lines) + "\n")
                self.plain[f"127.0.0.1:{port}"] = f"127.0.0.1:{cluster.ports[id_]}"
                cluster.ports[id_] = port
            for id_ in cluster.roles:
                with cluster.file(id_).open("a") as file:
                    file.writelines(f"{name}={text}\n" for name, text in self.settings().items())
            self._clusters.append((cluster, plain))

        def entered(cluster: Cluster) -> Cluster:
            enter(cluster)
            plain = next(address for each, address in self._clusters if each is cluster)
            create_acls(plain, acls_of(USER, self._grants))
            return cluster

        Cluster.__init__ = made  # type: ignore[method-assign]  # tests are not asked
        Cluster.__enter__ = entered  # type: ignore[method-assign]  # as above


def set_acls(broker: LocalBroker, acls: list[Acl]) -> None:
    """Makes these the only ACLs of a broker, and waits until it goes by them."""
    broker.request(ApiKey.DELETE_ACLS, 3, DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY_ACL)]))
    answer = broker.request(ApiKey.CREATE_ACLS, 3, CreateAclsRequest(creations=[creation_of(acl) for acl in acls]))
    assert not any(each.error_code for each in answer.results), answer
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        resources = broker.request(ApiKey.DESCRIBE_ACLS, 3, DescribeAclsRequest(**EVERY_ACL)).resources
        if sum(len(each.acls) for each in resources) == len(acls):
            return
        assert time.monotonic() < deadline_s, "the broker does not hear of its ACLs"
        time.sleep(0.01)


def create_acls(bootstrap: str, acls: list[Acl]) -> None:
    """Creates ACLs in a cluster, by its plain listeners, and waits until each broker has them."""
    bindings = [binding_of(acl) for acl in acls]
    addresses = bootstrap.split(",")
    if bindings:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
        for done in admin.create_acls(bindings).values():
            done.result(TIMEOUT_S)
    every = confluent_kafka.admin.AclBindingFilter(
        confluent_kafka.admin.ResourceType.ANY,
        None,
        confluent_kafka.admin.ResourcePatternType.ANY,
        None,
        None,
        confluent_kafka.admin.AclOperation.ANY,
        confluent_kafka.admin.AclPermissionType.ANY,
    )
    for address in addresses:
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": address})
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(admin.describe_acls(every).result(TIMEOUT_S)) < len(bindings):
            assert time.monotonic() < deadline_s, f"{address} does not hear of its ACLs"
            time.sleep(0.02)


def binding_of(acl: Acl) -> confluent_kafka.admin.AclBinding:
    """An ACL as librdkafka has it."""
    kinds = {
        ResourceType.CLUSTER: confluent_kafka.admin.ResourceType.BROKER,
        ResourceType.TRANSACTIONAL_ID: confluent_kafka.admin.ResourceType.TRANSACTIONAL_ID,
    }
    kind = kinds.get(acl.resource_type) or confluent_kafka.admin.ResourceType[acl.resource_type.name]
    return confluent_kafka.admin.AclBinding(
        kind,
        acl.name,
        confluent_kafka.admin.ResourcePatternType[acl.pattern_type.name],
        acl.principal,
        acl.host,
        confluent_kafka.admin.AclOperation[acl.operation.name],
        confluent_kafka.admin.AclPermissionType[acl.permission.name],
    )
