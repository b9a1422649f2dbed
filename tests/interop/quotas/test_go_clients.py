"""franz-go and sarama set, describe and delete client quotas. (The Admins of librdkafka and kafka-python cannot.)"""

from __future__ import annotations

import pytest
from interop.clients.builds import go_clients
from interop.kafka_peer import run

from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def command() -> list[str]:
    return go_clients()


@pytest.mark.parametrize("client", ["franz-go", "sarama"])
def test_an_admin_client_in_go_sets_describes_and_deletes_quotas(
    penstock_session: LocalBroker, command: list[str], client: str
) -> None:
    said = run([*command, "quotas", client, penstock_session.bootstrap]).stdout.splitlines()
    assert [line.rstrip() for line in said] == [
        "refused true",
        "there are 1 client-id=default user=al/ice producer_byte_rate=1e+06",
        "there are 0",
    ]
