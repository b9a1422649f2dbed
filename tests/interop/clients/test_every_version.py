"""Every advertised API answers in every version of its range: the answer decodes to the last byte, without errors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from uuid import UUID

import pytest
from interop.clients.valid_group_requests import expected_errors
from interop.clients.valid_requests import VALID, World, batch, produce
from interop.clients.valid_security_requests import ERRORS_WITHOUT_SECURITY
from interop.clients.valid_transaction_requests import NOBODY, errors_of_nobody
from interop.clients.wire import Wire, errors_in

from penstock.errors import ErrorCode
from penstock.node.handlers import registry
from penstock.protocol.api import APIS, SOFTWARE_NAME, ApiKey
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.testing.broker import LocalBroker

RANGES = {key: range(handler.min_version, handler.max_version + 1) for key, handler in registry().items()}
SERVED = [(key, version) for key, versions in RANGES.items() if "broker" in APIS[key].listeners for version in versions]
PRODUCE_REFUSED = range(3)
"""Versions of Produce that are advertised and closed on, for librdkafka (KAFKA-18659)."""


def id_of(wire: Wire, name: str) -> UUID:
    (topic,) = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
    assert topic.error_code == ErrorCode.NONE
    found: UUID = topic.topic_id
    return found


@pytest.fixture(scope="module")
def wire(penstock_session: LocalBroker) -> Iterator[Wire]:
    with Wire(penstock_session.bootstrap) as connection:
        yield connection


@pytest.fixture(scope="module")
def world(penstock_session: LocalBroker, wire: Wire) -> World:
    penstock_session.create_topic("every-version")

    def expendable() -> str:
        name = made.new_name()
        penstock_session.create_topic(name)
        return name

    made = World("every-version", id_of(wire, "every-version"), expendable, partial(id_of, wire))
    wire.ask(produce(made, 9, batch(b"one", b"two", b"three")), 9)
    wire.ask(VALID[ApiKey.FIND_COORDINATOR](made, 6), 6)  # has the coordinators' topic made
    transactions = FindCoordinatorRequest(key_type=1, coordinator_keys=[NOBODY])
    while any(code for _, code in errors_in(wire.ask(transactions, 6))):
        pass  # until there is their topic, too
    while (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
        not in dict(errors_in(wire.ask(VALID[ApiKey.END_TXN](made, 4), 4))).values()
    ):
        pass
    while any(code for _, code in errors_in(wire.ask(VALID[ApiKey.OFFSET_COMMIT](made, 9), 9))):
        pass  # until the coordinator has read its log, which is empty
    return made


@pytest.mark.parametrize(("key", "version"), SERVED, ids=[f"{key.name}-{version}" for key, version in SERVED])
def test_an_answer_decodes_and_has_no_errors(wire: Wire, world: World, key: ApiKey, version: int) -> None:
    answer = wire.ask(VALID[key](world, version), version)
    expected = {
        **ERRORS_WITHOUT_SECURITY,
        ApiKey.ALTER_REPLICA_LOG_DIRS: [ErrorCode.LOG_DIR_NOT_FOUND],
        ApiKey.UNREGISTER_BROKER: [ErrorCode.BROKER_ID_NOT_REGISTERED],
        ApiKey.ADD_RAFT_VOTER: [ErrorCode.DUPLICATE_VOTER],
        ApiKey.REMOVE_RAFT_VOTER: [ErrorCode.VOTER_NOT_FOUND],
    }
    found = [code for _, code in errors_in(answer) if code]
    assert found == (expected.get(key) or expected_errors(key, version) or errors_of_nobody(key))


def test_what_is_advertised_is_what_is_tested(wire: Wire) -> None:
    answer = wire.ask(ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="1"), 4)
    advertised = {
        (row.api_key, version) for row in answer.api_keys for version in range(row.min_version, row.max_version + 1)
    }
    assert advertised - set(SERVED) == {(ApiKey.PRODUCE, version) for version in PRODUCE_REFUSED}
    assert set(SERVED) <= advertised
