"""How the listeners of a mixed cluster are secured, and who its users are: the same for nodes of both kinds.

    with MixedCluster(path, security=sasl(path)) as cluster:         # logins over TLS: SCRAM among brokers, or PLAIN
        cluster.ask(2, message, user=ALICE)
    with MixedCluster(path, security=certificates(path)) as cluster: # everybody shows a certificate

The nodes are `node` and the administrator is `admin`, both super users; `alice` may do what ACLs allow her. Controllers
use PLAIN, as SCRAM among Apache Kafka's controllers cannot begin.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.tls import Authority

from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE

NODE, ADMIN, ALICE = "node", "admin", "alice"
SCRAM = "SCRAM-SHA-512"
LOGIN_MS = 10_000
"""How long a login lasts: each is renewed in the course of a test, by nodes of either kind at the other."""
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{NODE};User:{ADMIN}",
    "inter.broker.listener.name": "PLAINTEXT",
}
"""The listeners keep the names that they have without security."""


@dataclass(frozen=True)
class Security:
    """See the module's head.

    Attributes:
        settings: of all nodes. format_options: what controllers are formatted with.
        clients: Kafka's client properties of each user; everybody trusts `trust`.
    """

    settings: Mapping[str, object]
    clients: Mapping[str, Mapping[str, str]]
    trust: Path
    format_options: Sequence[str] = ()

    def properties(self, user: str) -> dict[str, str]:
        """Kafka's client properties of a user."""
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trust)}
        return {**self.clients[user], **trust}

    def librdkafka(self, user: str) -> dict[str, object]:
        """The same for librdkafka."""
        given = self.clients[user]
        found: dict[str, object] = {"security.protocol": given["security.protocol"], "ssl.ca.location": str(self.trust)}
        if "ssl.keystore.location" in given:
            found |= {f"ssl.{what}.location": given["ssl.keystore.location"] for what in ("certificate", "key")}
        else:
            found |= {"sasl.mechanism": given["sasl.mechanism"], "sasl.username": user, "sasl.password": password(user)}
        return found

    def context(self) -> ssl.SSLContext:
        """Who only looks whether a node is there."""
        context = ssl.create_default_context(cafile=str(self.trust))
        context.check_hostname = False
        store = self.clients[ADMIN].get("ssl.keystore.location")
        if store is not None:
            context.load_cert_chain(store)
        return context


def password(user: str) -> str:
    return f"canary-of-{user}"


def login(user: str, mechanism: str) -> dict[str, str]:
    """Client properties of a user who logs in."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password(user)}";',
    }


def sasl(directory: Path) -> Security:
    """Logins over TLS."""
    store = Authority(directory).store(NODE)
    own = f'username="{NODE}" password="{password(NODE)}"'
    users = " ".join(f'user_{each}="{password(each)}"' for each in (NODE, ADMIN, ALICE))
    settings = {
        **AUTHORIZED,
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "sasl.mechanism.inter.broker.protocol": SCRAM,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "connections.max.reauth.ms": LOGIN_MS,
        "listener.name.plaintext.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        f"listener.name.plaintext.{SCRAM.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required {own};",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {own} {users};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store.pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": store.trust,
    }
    clients = {each: login(each, "PLAIN") for each in (NODE, ADMIN, ALICE)}
    first = ("--add-scram", f"{SCRAM}=[name={NODE},password={password(NODE)}]")
    return Security(settings, clients, store.trust, first)


def certificates(directory: Path) -> Security:
    """Everybody shows a certificate, whose name is the user's."""
    authority = Authority(directory)
    stores = {each: authority.store(each) for each in (NODE, ADMIN, ALICE)}
    settings = {
        **AUTHORIZED,
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": stores[NODE].pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.trust,
    }
    clients = {
        each: {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store.pem),
        }
        for each, store in stores.items()
    }
    return Security(settings, clients, authority.trust)
