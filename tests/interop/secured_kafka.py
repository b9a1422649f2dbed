"""Apache Kafka with a listener of SASL_SSL beside the plain one, users of every mechanism, and ACLs.

    with SecuredKafka() as kafka:
        kafka.client_file("SCRAM-SHA-512")       # properties of the ordinary user alice

Who comes by the plain listener is anonymous and a super user, as a test needs somebody who may do all. Certificates are
made for each node of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interop.kafka_peer import KafkaPeer
from support.processes import free_ports
from support.tls import Authority

from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE

ALICE = "alice"
PASSWORD = "canary-of-alice"
SHORT_LOGIN_MS = 2_000


class SecuredKafka(KafkaPeer):
    """See the module's head. `secured` is the address of the secured listener, `brief` of one whose logins end soon."""

    def __init__(self, directory: Path | str | None = None, **more: Any) -> None:
        super().__init__(directory, **more)
        self.secured = self.brief = ""
        self.trust_file = Path()

    def write_configuration(self) -> None:
        super().write_configuration()
        identity = Authority(self.directory).store("broker")
        self.trust_file = identity.trust
        self.secured, self.brief = (f"127.0.0.1:{port}" for port in free_ports(2))
        before = self.config_file.read_text()
        plain = next(line for line in before.splitlines() if line.startswith("listeners="))
        lines = [
            f"{plain},SECURED://{self.secured},BRIEF://{self.brief}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL,BRIEF:SASL_PLAINTEXT",
            "inter.broker.listener.name=PLAINTEXT",
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"ssl.keystore.type=PEM\nssl.keystore.location={identity.pem}",
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.trust_file}",
            f"listener.name.brief.connections.max.reauth.ms={SHORT_LOGIN_MS}",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        ]
        for listener in ("secured", "brief"):
            lines.append(
                f'listener.name.{listener}.plain.sasl.jaas.config={PLAIN_MODULE} required user_{ALICE}="{PASSWORD}";'
            )
            lines += [
                f"listener.name.{listener}.{mechanism}.sasl.jaas.config={SCRAM_MODULE} required;"
                for mechanism in ("scram-sha-256", "scram-sha-512")
            ]
        self.config_file.write_text(before + "\n".join(lines) + "\n")

    def format(self, *options: str) -> None:
        users = [
            part
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for part in ("--add-scram", f"{mechanism}=[name={ALICE},password={PASSWORD}]")
        ]
        super().format(*users, *options)

    def properties(self, mechanism: str = "SCRAM-SHA-512", password: str = PASSWORD) -> dict[str, str]:
        """Client properties of alice at the secured listener."""
        return properties_of_alice(self.trust_file, mechanism, password)

    def allow(self, *operations: str, **resource: str) -> None:
        """Lets alice do something: `allow("read", "write", topic="clicks")`."""
        ((kind, name),) = resource.items()
        words = [part for each in operations for part in ("--operation", each)]
        named = ["--cluster"] if kind == "cluster" else [f"--{kind}", name]
        self.run_tool(
            "org.apache.kafka.tools.AclCommand",
            "--add", "--allow-principal", f"User:{ALICE}", *words, *named,
        )  # fmt: skip


def properties_of_alice(trust: Path, mechanism: str, password: str) -> dict[str, str]:
    """Client properties of alice for SASL_SSL."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{ALICE}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
    }


def write_properties(path: Path, properties: dict[str, str]) -> Path:
    """A properties file."""
    path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    return path
