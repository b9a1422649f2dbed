"""Requests of groups before anybody has asked for a coordinator: there is no `__consumer_offsets` yet."""

from __future__ import annotations

from uuid import UUID

import pytest
from interop.clients.valid_group_requests import VALID_OF_GROUPS
from interop.clients.wire import Wire, errors_in
from interop.kafka_peer import KafkaPeer

from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

MAKES_THE_TOPIC = ApiKey.FIND_COORDINATOR
TOPIC_ID = UUID(int=77)


def errors(bootstrap: str) -> dict[str, object]:
    """What a broker answers to each request of a group, by API and version."""
    found: dict[str, object] = {}
    with Wire(bootstrap) as wire:
        for key, make in VALID_OF_GROUPS.items():
            api = API_BY_NUMBER[key]
            if key is MAKES_THE_TOPIC:
                continue
            for version in range(api.min_version, api.stable_max_version + 1):
                answer = wire.ask(make("nowhere", TOPIC_ID, version, "a group"), version)
                found[f"{api.name} {version}"] = [(path, code.name) for path, code in errors_in(answer)]
    return found


def test_who_is_no_coordinator_says_so_as_kafka_does() -> None:
    with KafkaPeer() as kafka, LocalBroker() as penstock:
        assert errors(penstock.bootstrap) == errors(kafka.bootstrap)
