"""The lowest and the highest version of every API, on each listener that serves it.

What no probe asks of them is asked as the nearest version is: its first probe at the version that is lacking, on the
listener that is lacking. Requests that a version must say otherwise are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from uuid import UUID

from penstock.node.handlers import registry
from penstock.protocol.api import APIS, Api, ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages import offset_commit_request, offset_fetch_request, update_features_request
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from support.decisions.probe import TOPICS, Probe
from support.requests import fetch, wanted

ELSEWHERE = "it is asked on a listener with SASL, in test_token_decisions"
NOT_ASKED = {
    ApiKey.API_VERSIONS: "it is open to all",
    ApiKey.SASL_HANDSHAKE: "it comes before anybody is known; node/logins answers it, and no ACL counts",
    ApiKey.SASL_AUTHENTICATE: "it comes before anybody is known; node/logins answers it, and no ACL counts",
    ApiKey.CREATE_DELEGATION_TOKEN: ELSEWHERE,
    ApiKey.RENEW_DELEGATION_TOKEN: ELSEWHERE,
    ApiKey.EXPIRE_DELEGATION_TOKEN: ELSEWHERE,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ELSEWHERE,
    ApiKey.VOTE: "it would disturb the quorum",
    ApiKey.BEGIN_QUORUM_EPOCH: "it would disturb the quorum",
    ApiKey.END_QUORUM_EPOCH: "it would disturb the quorum",
    ApiKey.UPDATE_RAFT_VOTER: "it would disturb the quorum",
    ApiKey.BROKER_REGISTRATION: "it would register a broker",
    ApiKey.CONTROLLER_REGISTRATION: "it would register a controller",
    **{key: "Kafka has no such API" for key, api in APIS.items() if api.own},
}
"""APIs without a probe, and why. Those of nodes need CLUSTER_ACTION, as the rows say."""
UNKNOWN = UUID(int=77)
LISTENERS = {False: "broker", True: "controller"}
"""By whether a probe is the controller's: how the schema calls its listener."""
Edge = tuple[ApiKey, int, bool]
"""An API, a version, and whether it is asked on the controllers' listener."""


def edges() -> Iterator[Edge]:
    """What the table must have."""
    for key, handler in registry().items():
        if key in NOT_ASKED:
            continue
        for controller, listener in LISTENERS.items():
            if listener in handler.api.listeners:
                for version in dict.fromkeys(versions_at_the_edge(handler.api)):
                    yield key, version, controller


def versions_at_the_edge(api: Api) -> tuple[int, int]:
    """The lowest version, and the highest that Kafka does not call a draft."""
    return api.min_version, api.stable_max_version


def with_edges(probes: Iterable[Probe]) -> Iterator[Probe]:
    """The probes, and those of the edges that they lack."""
    given = [*probes, *special()]
    yield from given
    ids = {name: UUID(int=5) for name in TOPICS}
    of: dict[ApiKey, list[Probe]] = {}
    for probe in given:
        of.setdefault(ApiKey(probe.make(ids).KEY), []).append(probe)
    for key, version, controller in edges():
        there = of.get(key, [])
        if any((each.version, each.controller) == (version, controller) for each in there):
            continue
        assert there, f"{key.name} has no probe"
        nearest = min(there, key=lambda each: (each.controller != controller, abs(each.version - version)))
        name = nearest.name.removeprefix("controller: ")
        yield replace(
            nearest, name=f"controller: {name}" if controller else name, version=version, controller=controller
        )


def special() -> Iterator[Probe]:
    """Requests which the lowest or highest version says in its own way."""
    yield Probe("commit offsets by id", 10, commit_by_id)
    yield Probe("fetch offsets by id", 10, fetch_offsets_by_id)
    for controller, prefix in ((False, ""), (True, "controller: ")):
        yield Probe(f"{prefix}update features", 0, update_features, controller)
    yield Probe(
        "controller: fetch the metadata log by name",
        4,
        lambda ids: fetch("__cluster_metadata", wanted(), replica_id=99),
        controller=True,
    )
    yield Probe(
        "controller: describe cluster",
        0,
        lambda ids: DescribeClusterRequest(include_cluster_authorized_operations=True),
        controller=True,
    )


def commit_by_id(ids: dict[str, UUID]) -> Message:
    topics = [
        offset_commit_request.OffsetCommitRequestTopic(
            topic_id=each,
            partitions=[offset_commit_request.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
        )
        for each in (ids["t"], UNKNOWN)
    ]
    return offset_commit_request.OffsetCommitRequest(group_id="g", topics=topics)


def fetch_offsets_by_id(ids: dict[str, UUID]) -> Message:
    topics = [
        offset_fetch_request.OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0])
        for each in (ids["t"], UNKNOWN)
    ]
    group = offset_fetch_request.OffsetFetchRequestGroup(group_id="g", topics=topics)
    return offset_fetch_request.OffsetFetchRequest(groups=[group])


def update_features(ids: object) -> Message:
    update = update_features_request.FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
    return update_features_request.UpdateFeaturesRequest(feature_updates=[update])
