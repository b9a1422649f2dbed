"""Client quotas on three nodes: in force on all, counted by each broker, mutations by the controller."""

from __future__ import annotations

import json
import time
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from interop.clients.wire import Wire, request_frame
from interop.quotas.limited import BURST_S, NUMBER, PRODUCE_VERSION, WIRE, of_bytes, set_quotas
from support.heard import until_heard
from support.processes import Cluster, wait_until

from penstock.cli.main import main
from penstock.errors import ErrorCode
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

pytestmark = pytest.mark.slow

NODES = (1, 2, 3)
RATE, PARTITIONS = 4.0, 12
LIMIT, RECORD_BYTES = 10_000, 60_000
SETTINGS = {"controller_quota_window_num": 1, "quota_window_num": NUMBER}


def creation(name: str, *leaders: int) -> CreateTopicsRequest:
    """A topic with one partition for each leader, or many partitions."""
    if leaders:
        assigned = [CreatableReplicaAssignment(partition_index=i, broker_ids=[id_]) for i, id_ in enumerate(leaders)]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assigned)
    else:
        topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def test_every_broker_knows_a_quota_and_counts_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(tmp_path, **SETTINGS) as cluster:
        addresses = {id_: f"127.0.0.1:{cluster.ports[id_]}" for id_ in NODES}
        forwarded(cluster, addresses)
        bytes_by_broker(cluster, addresses)
        seen_by_broker(cluster, capsys)


def seen_by_broker(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """One command tells of all brokers, and which of them does not answer."""
    set_quotas(cluster.bootstrap, WIRE, controller_mutation_rate=RATE)
    with Wire(f"127.0.0.1:{cluster.ports[1]}") as wire:
        assert wire.ask(creation("seen", *NODES), 7).topics[0].error_code == 0
    answers = listed(cluster, capsys)
    assert [each["broker"] for each in answers] == [*NODES]
    assert sum(each["measures_mutations"] for each in answers) == 1
    for answer in answers:
        usages = {usage["key"]: usage for usage in answer["usages"]}
        assert ("controller_mutation_rate" in usages) == answer["measures_mutations"], "the active controller counts"
        produced = usages["producer_byte_rate"]
        assert (produced["limit"], produced["level"], produced["client_id"]) == (LIMIT, 7, WIRE["client-id"])
        assert produced["used"] > 0
    leader = next(each["broker"] for each in answers if each["measures_mutations"])
    gone = next(id_ for id_ in NODES if id_ != leader)
    cluster.kill(gone)
    for _ in range(2):
        failures = {each["broker"]: each["failure"] for each in listed(cluster, capsys)}
        assert [id_ for id_ in NODES if failures[id_] is not None] == [gone]
        if "fenced" not in str(failures[gone]):
            wait_until(lambda: "fenced" in str(listed(cluster, capsys)[gone - 1]["failure"]), "the broker is fenced")
    assert failures[gone] == "it is fenced, so nobody uses it"


def listed(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What `penstock quotas list` says of each broker."""
    capsys.readouterr()
    assert main(["quotas", "list", "--json", "--bootstrap", cluster.bootstrap]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["brokers"]
    return found


class Timed(NamedTuple):
    """An answer, and when its request was sent."""

    began_s: float
    answer: Any


def timed(wire: Wire, request: CreateTopicsRequest) -> Timed:
    began_s = time.monotonic()
    return Timed(began_s, wire.ask(request, 7))


def forwarded(cluster: Cluster, addresses: dict[int, str]) -> None:
    """At each broker, of which one is the controller, the connection of who mutates too much is mute."""
    for id_, address in addresses.items():
        set_quotas(cluster.bootstrap, WIRE, controller_mutation_rate=RATE)
        with Wire(address) as wire:
            names = (f"many-{id_}-{number}" for number in count())
            while not (refused := timed(wire, creation(next(names)))).answer.topics[0].error_code:
                pass  # so slow a machine has paid the debt of one before the next
            assert refused.answer.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            assert refused.answer.throttle_time_ms > 0
            wire.send(request_frame(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3))
            assert wire.receive() is not None
            assert (time.monotonic() - refused.began_s) * 1_000 >= refused.answer.throttle_time_ms, id_
        set_quotas(cluster.bootstrap, WIRE, controller_mutation_rate=None)


def bytes_by_broker(cluster: Cluster, addresses: dict[int, str]) -> None:
    """What is produced at one broker counts for nothing at another."""
    with Wire(addresses[1]) as wire:
        assert wire.ask(creation("led", *NODES), 7).topics[0].error_code == 0
    until_heard(cluster.bootstrap)
    set_quotas(cluster.bootstrap, WIRE, producer_byte_rate=LIMIT)
    for id_, address in addresses.items():
        with Wire(address) as wire:
            topics = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="led")]), 9).topics
            (partition,) = (each.partition_index for each in topics[0].partitions if each.leader_id == id_)
            request = of_bytes("led", RECORD_BYTES)
            request.topic_data[0].partition_data[0].index = partition
            answer = wire.ask(request, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0
            wait_s = RECORD_BYTES / LIMIT - BURST_S
            assert 0 < answer.throttle_time_ms / 1_000 < 1.1 * wait_s, "as if there were no other broker"
