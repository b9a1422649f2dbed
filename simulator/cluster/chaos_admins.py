"""Admins that change what others stand on, while it carries load: brokers, settings, features, partitions, records.

They unregister brokers that live, raise and lower `min.insync.replicas` and other settings of topics, switch eligible
leader replicas on and off, add partitions, delete records, and have leaders elected uncleanly. What comes of a request
does not matter to them, as long as a real controller could answer so: that nothing is lost by it is everybody else's
business.

Unclean elections lose records by right, so only the topic WILD has them. Records are deleted up to where readers have
come, and never in the first topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.errors import ErrorCode
from penstock.metadata.features import ELR_VERSION
from penstock.protocol.message import Message
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from simulator.cluster.admins import CREATE_VERSION, create_request
from simulator.cluster.load import Load
from simulator.world.checks import check

WILD = "wild"
"""The topic of unclean elections."""
PARTITIONS_MAX = 8
PAUSE_MS_MAX = 900
SMALL_METADATA_SEGMENT_BYTES, TOO_MANY_PARTITIONS = 8_000, 120
"""So many partitions are more than a batch may hold; all that the load needs is not."""
TIMEOUT_MS = 5_000
TOPIC_RESOURCE = 2
SET, DELETE = 0, 1
UNCLEAN = 1
UPGRADE, SAFE_DOWNGRADE = 1, 2
UNREGISTER_VERSION, CONFIGS_VERSION, FEATURES_VERSION = 0, 1, 2
PARTITIONS_VERSION, ELECT_VERSION, DELETE_VERSION = 3, 2, 2
SETTINGS: dict[str, Sequence[str]] = {
    "compression.type": ("producer", "uncompressed", "gzip"),
    "index.interval.bytes": ("100", "4096"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "max.message.bytes": ("20000", "1048588"),
    "segment.ms": ("1500", "604800000"),
    "segment.index.bytes": ("96", "10485760"),
}
"""Settings of topics that change nothing of what the clients may expect."""

Codes = Callable[[Any], Iterable[int]]
Disruption = Callable[["ChaosAdmin"], None]


class ChaosAdmin:
    """One of them, who does a random one of `kinds` after the other.

    Attributes:
        changes: how many requests were granted, by the name of the kind.
        busy: it waits for an answer.
    """

    def __init__(
        self, load: Load, number: int, broker_ids: Sequence[int], replicas: int, kinds: Sequence[Disruption]
    ) -> None:
        self.load = load
        self.random = load.simulation.random
        self.client = load.client(f"chaos-admin-{number}")
        self.broker_ids = broker_ids
        self.replicas = replicas
        self.changes: dict[str, int] = {}
        self.busy = False
        self._kinds = kinds

    def go_on(self) -> None:
        """Asks for something."""
        if self.load.going_on:
            self.busy = True
            self.random.choice(self._kinds)(self)

    def ask(self, request: Message, version: int, codes: Codes) -> None:
        """Asks any broker, and goes on when it has answered, whatever it says."""
        self.client.ask_any(request, version, lambda response: self.answered(request, response, codes))

    def answered(self, request: Message, response: Any, codes: Codes) -> None:
        """There is an answer, or none."""
        if response is not None:
            found = [ErrorCode(number) for number in codes(response)]
            detail = f"{self.client.name}: {request.NAME}"
            check(ErrorCode.UNKNOWN_SERVER_ERROR not in found, "an admin is answered", detail)
            name = request.NAME.removesuffix("Request")
            self.changes[name] = self.changes.get(name, 0) + (not any(found))
        self.rest()

    def rest(self) -> None:
        """Waits a while."""
        self.busy = False
        self.load.simulation.after_ms(self.random.randrange(PAUSE_MS_MAX), self.go_on)

    def topic(self) -> str:
        """One of the topics of the load."""
        return self.random.choice([partition.topic for partition in self.load.partitions])

    def set(self, topic: str, name: str, value: str | None) -> None:
        """Has a topic's setting changed, or taken away."""
        operation = DELETE if value is None else SET
        config = AlterableConfig(name=name, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        self.ask(request, CONFIGS_VERSION, lambda response: [each.error_code for each in response.responses])


def unregister(admin: ChaosAdmin) -> None:
    """Unregisters a broker, which may be alive and well; then it registers again by itself."""
    request = UnregisterBrokerRequest(broker_id=admin.random.choice(list(admin.broker_ids)))
    admin.ask(request, UNREGISTER_VERSION, lambda response: [response.error_code])


def change_minimum(admin: ChaosAdmin) -> None:
    """Raises or lowers min.insync.replicas."""
    value = str(admin.random.randint(1, admin.replicas))
    admin.set(admin.topic(), "min.insync.replicas", value)


def change_setting(admin: ChaosAdmin) -> None:
    """Changes another setting, or has its default again."""
    name = admin.random.choice(sorted(SETTINGS))
    admin.set(admin.topic(), name, admin.random.choice([*SETTINGS[name], None]))


def change_feature(admin: ChaosAdmin) -> None:
    """Switches eligible leader replicas on or off."""
    level = admin.random.randrange(2)
    key = FeatureUpdateKey(
        feature=ELR_VERSION, max_version_level=level, upgrade_type=UPGRADE if level else SAFE_DOWNGRADE
    )
    request = UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=[key])
    admin.ask(request, FEATURES_VERSION, lambda response: [response.error_code])


def add_partitions(admin: ChaosAdmin) -> None:
    """Adds partitions to a topic; they stay empty."""
    topic = CreatePartitionsTopic(name=admin.topic(), count=admin.random.randint(2, PARTITIONS_MAX), assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    admin.ask(request, PARTITIONS_VERSION, lambda response: [each.error_code for each in response.results])


def create_too_much(admin: ChaosAdmin) -> None:
    """Creates a topic whose records do not fit into a segment of SMALL_METADATA_SEGMENT_BYTES: the log refuses them."""
    request = create_request(["too-wide"], TOO_MANY_PARTITIONS, 1, {})
    admin.ask(request, CREATE_VERSION, lambda response: [topic.error_code for topic in response.topics])


def allow_unclean_elections(admin: ChaosAdmin) -> None:
    """Lets anybody lead where nobody else can, or forbids it again."""
    admin.set(WILD, "unclean.leader.election.enable", admin.random.choice(("true", "true", "false")))


def elect_uncleanly(admin: ChaosAdmin) -> None:
    """Has anybody lead where nobody does."""
    wild = [partition.index for partition in admin.load.partitions if partition.topic == WILD]
    wanted = [TopicPartitions(topic=WILD, partitions=wild)]
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted, timeout_ms=TIMEOUT_MS)

    def codes(response: Any) -> list[int]:
        found = [each.error_code for topic in response.replica_election_results for each in topic.partition_result]
        return [response.error_code, *found]

    admin.ask(request, ELECT_VERSION, codes)


def delete_records(admin: ChaosAdmin) -> None:
    """Deletes what readers have passed."""
    partitions = admin.load.partitions
    partition = admin.random.choice([each for each in partitions if each.topic != partitions[0].topic])
    offset = admin.random.randint(0, partition.read_to)
    partition.may_start_at = max(partition.may_start_at, offset)
    wanted = DeleteRecordsPartition(partition_index=partition.index, offset=offset)
    topic = DeleteRecordsTopic(name=partition.topic, partitions=[wanted])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)

    def found() -> None:
        leader = admin.client.leaders.get((partition.topic, partition.index))
        if leader is None:
            admin.rest()
            return
        admin.client.ask(leader, request, DELETE_VERSION, lambda answer: admin.answered(request, answer, codes))

    def codes(response: Any) -> list[int]:
        return [each.error_code for answered in response.topics for each in answered.partitions]

    admin.client.find_leaders(partition.topic, found)


EVERYTHING: tuple[Disruption, ...] = (
    *2 * (unregister, change_minimum),
    *(change_setting, change_feature, add_partitions, delete_records),
    *(allow_unclean_elections, elect_uncleanly),
)
