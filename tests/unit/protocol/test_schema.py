"""The schema file, the message classes and the API table agree with Kafka's own definitions and with each other."""

from __future__ import annotations

import generate_messages
import pytest

from penstock.errors import ProtocolError
from penstock.protocol import schema
from penstock.protocol.api import APIS, OWN_APIS_FROM, SOFTWARE_NAME, Api, ApiKey, api_of, message_class
from penstock.protocol.schema import Versions


def test_the_committed_classes_are_what_the_generator_writes() -> None:
    assert generate_messages.differences() == []


def test_a_class_edited_by_hand_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    files = generate_messages.all_files()
    monkeypatch.setattr(generate_messages, "all_files", lambda: {**files, "vote_request.py": "edited"})
    assert generate_messages.differences() == ["vote_request.py"]


def test_all_live_messages_and_records_are_there() -> None:
    headings = schema.headings().values()
    assert sum(1 for h in headings if not h.package) == 190
    assert sum(1 for h in headings if h.package == "metadata") == 26
    assert sum(1 for h in headings if h.package == "group") == 44
    assert {h.package for h in headings} == set(generate_messages.PACKAGE_DOCS)


def test_every_class_knows_its_definition() -> None:
    for name, heading in schema.headings().items():
        cls = message_class(name)
        assert (name, heading.api_key) == (cls.NAME, cls.KEY)
        assert (heading.versions.lowest, heading.versions.highest) == (cls.MIN_VERSION, cls.MAX_VERSION)
        assert (heading.flexible.lowest if heading.flexible else None) == cls.FLEXIBLE_FROM


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3", [3], [2, 4]), ("3-5", [3, 4, 5], [2, 6]), ("3+", [3, 30000], [2]), ("none", [], [0, 1])],
)
def test_versions_are_read_in_kafkas_notation(text: str, inside: list[int], outside: list[int]) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_names_become_snake_case() -> None:
    names = ("TopicId", "KRaftVersion", "ErrorCode", "ResultsByTopicV3AndBelow")
    assert [schema.snake_case(name) for name in names] == [
        "topic_id",
        "kraft_version",
        "error_code",
        "results_by_topic_v3_and_below",
    ]


TABLE = """
0 Produce 0-13 9 B|1 Fetch 4-18 12 BC|2 ListOffsets 1-11 6 B|3 Metadata 0-13 9 B|8 OffsetCommit 2-10 8 B
9 OffsetFetch 1-10 6 B|10 FindCoordinator 0-6 3 B|11 JoinGroup 0-9 6 B|12 Heartbeat 0-4 4 B|13 LeaveGroup 0-5 4 B
14 SyncGroup 0-5 4 B|15 DescribeGroups 0-6 5 B|16 ListGroups 0-5 3 B|17 SaslHandshake 0-1 - BC
18 ApiVersions 0-4 3 BC|19 CreateTopics 2-7 5 BC>|20 DeleteTopics 1-6 4 BC>|21 DeleteRecords 0-2 2 B
22 InitProducerId 0-5 2 B|23 OffsetForLeaderEpoch 2-4 4 B|24 AddPartitionsToTxn 0-5 3 B|25 AddOffsetsToTxn 0-4 3 B
26 EndTxn 0-5 3 B|27 WriteTxnMarkers 1-2 1 B|28 TxnOffsetCommit 0-5 3 B|29 DescribeAcls 1-3 2 BC
30 CreateAcls 1-3 2 BC>|31 DeleteAcls 1-3 2 BC>|32 DescribeConfigs 1-4 4 BC|33 AlterConfigs 0-2 2 BC>
34 AlterReplicaLogDirs 1-2 2 B|35 DescribeLogDirs 1-5 2 B|36 SaslAuthenticate 0-2 2 BC|37 CreatePartitions 0-3 2 BC>
38 CreateDelegationToken 1-3 2 BC>|39 RenewDelegationToken 1-2 2 BC>|40 ExpireDelegationToken 1-2 2 BC>
41 DescribeDelegationToken 1-3 2 BC|42 DeleteGroups 0-2 2 B|43 ElectLeaders 0-2 2 BC>
44 IncrementalAlterConfigs 0-1 1 BC>|45 AlterPartitionReassignments 0-1 0 BC>|46 ListPartitionReassignments 0-0 0 BC>
47 OffsetDelete 0-0 - B|48 DescribeClientQuotas 0-1 1 B|49 AlterClientQuotas 0-1 1 BC>
50 DescribeUserScramCredentials 0-0 0 BC|51 AlterUserScramCredentials 0-0 0 BC>|52 Vote 0-2 0 C
53 BeginQuorumEpoch 0-1 1 C|54 EndQuorumEpoch 0-1 1 C|55 DescribeQuorum 0-2 0 BC>|56 AlterPartition 2-3 0 C
57 UpdateFeatures 0-2 0 BC>|58 Envelope 0-0 0 C|59 FetchSnapshot 0-1 0 C|60 DescribeCluster 0-2 0 BC
61 DescribeProducers 0-0 0 B|62 BrokerRegistration 0-4 0 C|63 BrokerHeartbeat 0-2 0 C|64 UnregisterBroker 0-0 0 BC>
65 DescribeTransactions 0-0 0 B|66 ListTransactions 0-2 0 B|67 AllocateProducerIds 0-0 0 C
68 ConsumerGroupHeartbeat 0-1 0 B|69 ConsumerGroupDescribe 0-1 0 B|70 ControllerRegistration 0-0 0 C
71 GetTelemetrySubscriptions 0-0 0 B|72 PushTelemetry 0-0 0 B|73 AssignReplicasToDirs 0-0 0 C
74 ListConfigResources 0-1 0 B|75 DescribeTopicPartitions 0-0 0 B|76 ShareGroupHeartbeat 1-1 0 B
77 ShareGroupDescribe 1-1 0 B|78 ShareFetch 1-2 0 B|79 ShareAcknowledge 1-2 0 B|80 AddRaftVoter 0-1 0 BC>
81 RemoveRaftVoter 0-0 0 BC>|82 UpdateRaftVoter 0-0 0 C|83 InitializeShareGroupState 0-0 0 B
84 ReadShareGroupState 0-0 0 B|85 WriteShareGroupState 0-1 0 B|86 DeleteShareGroupState 0-0 0 B
87 ReadShareGroupStateSummary 0-1 0 B|88 StreamsGroupHeartbeat 0-0 0 B|89 StreamsGroupDescribe 0-0 0 B
90 DescribeShareGroupOffsets 0-1 0 B|91 AlterShareGroupOffsets 0-0 0 B|92 DeleteShareGroupOffsets 0-0 0 B
"""
"""The API table of Apache Kafka 4.3: key, name, advertised versions, first flexible, listeners, ">" if forwarded."""


def row(api: Api) -> str:
    flexible = "-" if api.flexible_from is None else api.flexible_from
    listeners = "".join(letter for letter, name in (("B", "broker"), ("C", "controller")) if name in api.listeners)
    versions = f"{api.advertised_min_version}-{api.stable_max_version}"
    return f"{int(api.key)} {api.name} {versions} {flexible} {listeners}{'>' if api.forwarded else ''}"


def test_the_api_table_is_kafkas() -> None:
    assert [row(api) for api in APIS.values() if not api.own] == TABLE.strip().replace("\n", "|").split("|")


def test_our_own_apis_are_beyond_kafkas_and_in_a_package_of_their_own() -> None:
    own = [heading for heading in schema.headings().values() if heading.package == schema.OWN_PACKAGE]
    keys = {heading.api_key for heading in own}
    assert keys == {int(api.key) for api in APIS.values() if api.own}
    assert min(keys) >= OWN_APIS_FROM > max(int(key) for key, api in APIS.items() if not api.own) + 10_000
    assert all(api.flexible_from == 0 and not api.forwarded for api in APIS.values() if api.own)
    assert SOFTWARE_NAME == "penstock", "brokers of other versions know us by it"


def test_produce_advertises_versions_that_it_does_not_serve() -> None:
    assert APIS[ApiKey.PRODUCE].min_version == 3
    assert APIS[ApiKey.PRODUCE].advertised_min_version == 0


def test_a_draft_version_exists_but_is_not_stable() -> None:
    api = APIS[ApiKey.INIT_PRODUCER_ID]
    assert (api.unstable, api.max_version, api.stable_max_version) == (True, 6, 5)
    assert [api.name for api in APIS.values() if api.unstable] == ["InitProducerId"]


def test_a_response_to_api_versions_always_has_the_oldest_header() -> None:
    api = APIS[ApiKey.API_VERSIONS]
    assert [api.response_header_version(version) for version in range(5)] == [0] * 5
    assert [api.request_header_version(version) for version in range(5)] == [1, 1, 1, 2, 2]
    assert APIS[ApiKey.FETCH].response_header_version(12) == 1


@pytest.mark.parametrize("number", [-1, 4, 7, 93, 32767])
def test_a_key_that_kafka_lacks_is_an_error(number: int) -> None:
    with pytest.raises(ProtocolError, match=f"no API with key {number}"):
        api_of(number)
