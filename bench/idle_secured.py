"""What idle connections cost that speak TLS and have logged in with SCRAM: memory of each, and CPU of all.

python bench/idle_secured.py [--connections 1000] [--seconds 20]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from idle import idle_cpu_percent
from peers import ROOT, Peer, free_port, running

from penstock.client.connection import BrokerConnection
from penstock.client.security import ClientSecurity, client_security

sys.path.append(str(ROOT))
from tests.support.tls import Authority

AT_ONCE = 20
USER, PASSWORD = "alice", "alice-secret"


async def connected(port: int, count: int, security: ClientSecurity) -> list[BrokerConnection]:
    """Connections that have logged in."""
    opened: list[BrokerConnection] = []
    for _ in range(0, count, AT_ONCE):
        some = [BrokerConnection("localhost", port, "idle", 60_000, security) for _ in range(AT_ONCE)]
        await asyncio.gather(*(each.open() for each in some))
        opened += some
    return opened


async def measure(peer: Peer, port: int, security: ClientSecurity, count: int, seconds: float) -> None:
    """Prints the figures."""
    warm = await connected(port, AT_ONCE, security)
    before = peer.resident_bytes()
    connections = await connected(port, count, security)
    each = (peer.resident_bytes() - before) / count
    cpu = await asyncio.to_thread(idle_cpu_percent, peer, seconds)
    print(f"{count} connections: {each / 1024:.1f} KiB each, {cpu:.2f} % of one core")
    for connection in (*warm, *connections):
        connection.close()


def main() -> None:
    """Runs it and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        store = Authority(Path(directory)).store("node")
        port = free_port()
        settings = {"sasl.enabled.mechanisms": "SCRAM-SHA-256", **store.properties()}
        extra = "".join(f"{name}={value}\n" for name, value in settings.items())
        with running("penstock", extra=extra, listeners=f",SASL_SSL://localhost:{port}") as peer:
            peer.create_topic("first")
            info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
            alteration = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            admin = AdminClient({"bootstrap.servers": peer.bootstrap})
            admin.alter_user_scram_credentials([alteration])[USER].result()
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            security = client_security(
                {
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": "SCRAM-SHA-256",
                    "sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
                    **store.properties(),
                }
            )
            asyncio.run(measure(peer, port, security, options.connections, options.seconds))


if __name__ == "__main__":
    main()
