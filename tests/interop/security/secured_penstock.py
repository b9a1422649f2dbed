"""A node of Penstock with a listener of SASL_SSL beside the plain one, and the ordinary user alice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from interop.secured_kafka import ALICE, PASSWORD, properties_of_alice
from support.tls import Authority, KeyStore

from penstock.config.jaas import PLAIN_MODULE
from penstock.testing.broker import LocalBroker


class SecuredPenstock(LocalBroker):
    """See the module's head; `settings` are more of the node. `secured` is the secured listener's address."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.store: KeyStore = Authority(directory).store("broker")
        key = {name: text for name, text in self.store.properties().items() if "keystore" in name}
        super().__init__(
            {
                "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
                "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{ALICE}="{PASSWORD}";',
                **{f"listener.name.secured.{name}": text for name, text in key.items()},
                **(settings or {}),
            }
        )

    @property
    def secured(self) -> str:
        return self.addresses["SECURED"]

    def properties(self, mechanism: str = "PLAIN", password: str = PASSWORD) -> dict[str, str]:
        """Client properties of alice."""
        return properties_of_alice(self.store.trust, mechanism, password)
