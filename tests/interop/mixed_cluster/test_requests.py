"""Every request between nodes has the version that Apache Kafka's own broker gives it, at either metadata.version.

Kafka's request log is the witness: its controller and its broker write down who asked what, in which version.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from interop.mixed_cluster.load import Load
from interop.mixed_cluster.nodes import CONTROLLER, PENSTOCKS, MixedCluster
from interop.mixed_cluster.test_mixed_cluster import KAFKAS, LED_BY_EACH, TOPIC, more_is_acknowledged

from penstock import __version__
from penstock.client.client import Client
from penstock.errors import ErrorCode
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest

pytestmark = [pytest.mark.java, pytest.mark.slow]

REQUEST_LOG = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"
MARK = "Completed request:"
OURS, KAFKAS_OWN = ("penstock", __version__), ("apache-kafka-java", "4.3.1")
FETCH_VERSIONS = {25: 17, 30: 18}
"""Of followers, who do not negotiate: what metadata.version dictates."""
ASKED = {"FETCH", "BROKER_REGISTRATION", "BROKER_HEARTBEAT", "ALTER_PARTITION"}
"""What brokers of either kind have asked the controller when the test has done its work."""
ONLY_OURS = {"ALLOCATE_PRODUCER_IDS": {0}, "ASSIGN_REPLICAS_TO_DIRS": {0}}
"""What ours have asked besides: they gave a producer its id, and have two directories each."""
UNKNOWN = ("unknown", "unknown")
"""Who fetches from another broker says no word of its software."""


def requests(log: str, listener: str) -> dict[tuple[str, str], dict[str, set[int]]]:
    """By software and its version: the APIs that it asked for on a listener, and their versions."""
    found: dict[tuple[str, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for line in log.splitlines():
        _, mark, text = line.partition(MARK)
        if not mark:
            continue
        entry = json.loads(text)
        if entry["listener"] == listener:
            header, client = entry["requestHeader"], entry["clientInformation"]
            software = (client["softwareName"], client["softwareVersion"])
            found[software][header["requestApiKeyName"]].add(header["requestApiVersion"])
    return found


@pytest.mark.parametrize("metadata_version", FETCH_VERSIONS)
def test_versions_are_those_of_kafkas_broker(tmp_path: Path, metadata_version: int) -> None:
    with MixedCluster(
        tmp_path,
        metadata_version=metadata_version,
        controllers=KAFKAS,
        java_options=(REQUEST_LOG,),
        log_directories=2,
        settings={"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500},
    ) as cluster:
        cluster.create_topic(TOPIC, LED_BY_EACH, through=2, min_insync_replicas=2)
        asyncio.run(one_of_ours_gives_a_producer_id(cluster))
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        more_is_acknowledged(cluster, load)
        cluster.stop_node(3, signal.SIGKILL)
        cluster.wait_until(lambda: cluster.leads_nothing(TOPIC, 3), "broker 3 leads nothing")
        more_is_acknowledged(cluster, load)
        cluster.start_node(3)
        cluster.wait_until_in_sync(TOPIC)
        for through in (1, 2, 3):
            cluster.reassign(TOPIC, {0: [through, through % 3 + 1]}, through=through)
            cluster.wait_until_in_sync(TOPIC)
        load.finish()
    asked = requests(cluster.controllers[CONTROLLER].log(), "CONTROLLER")
    versions_agree(asked[OURS], asked[KAFKAS_OWN])
    with pytest.raises(AssertionError, match="ALTER_PARTITION"):
        versions_agree({**asked[OURS], "ALTER_PARTITION": {2}}, asked[KAFKAS_OWN])
    followers = requests(cluster.kafka.log(), "PLAINTEXT")[UNKNOWN]
    assert followers["FETCH"] == {FETCH_VERSIONS[metadata_version]}


async def one_of_ours_gives_a_producer_id(cluster: MixedCluster) -> None:
    """The producers of a load ask whichever broker they like."""
    async with Client(cluster.bootstrap) as client:
        answer = await client.send(InitProducerIdRequest(transactional_id=None), node_id=PENSTOCKS[0])
        assert answer.error_code == ErrorCode.NONE


def versions_agree(ours: Mapping[str, set[int]], kafkas: Mapping[str, set[int]]) -> None:
    """Both have asked for what brokers ask for, in the same version."""
    assert set(kafkas) >= ASKED
    assert set(ours) >= ASKED | set(ONLY_OURS)
    for name in ours:
        assert ours[name] == kafkas.get(name, ONLY_OURS.get(name)), name
