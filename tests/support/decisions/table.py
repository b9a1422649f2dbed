"""Asks all probes with all sets of ACLs, and writes the outcomes down."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from penstock.client.acls import creation_of
from penstock.protocol.acls import Acl
from penstock.protocol.messages.create_acls_request import CreateAclsRequest
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.delete_topics_response import DeleteTopicsResponse
from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from support.decisions.admins import of_admins, of_controllers
from support.decisions.edges import with_edges
from support.decisions.groups import of_groups, of_transactions, offset_commit
from support.decisions.principals import principals
from support.decisions.probe import Asker, Probe, outcome
from support.decisions.records import of_metadata, of_records

SUPER = "a super user"
CREATED = "auto"
"""The topic that a probe would have created by asking for it."""
NOT_REFUSED = ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE")
"""What Kafka says of a topic that it is creating; Penstock waits for it."""

Table = dict[str, dict[str, list[str]]]
"""By probe and outcome, the names of the principals that get it."""


def probes() -> Iterator[Probe]:
    """All of them. Those that change something come last, or change the same thing again."""
    return with_edges(of_all())


def of_all() -> Iterator[Probe]:
    yield from of_records()
    yield from of_metadata()
    yield from of_groups()
    yield from of_transactions()
    yield from of_admins()
    yield from of_controllers()


class World:
    """A cluster under test. `client` and `controller` are connections of somebody whose rights are the ACLs; `admin`
    and `controller_admin` are a super user's. `wait` lets some time pass.
    """

    def __init__(
        self, client: Asker, controller: Asker, admin: Asker, controller_admin: Asker, wait: Callable[[], None]
    ) -> None:
        self.client = client
        self.controller = controller
        self.admin = admin
        self.controller_admin = controller_admin
        self.wait = wait
        self._known: dict[str, UUID] = {}

    def until(self, true: Callable[[], bool]) -> None:
        """Waits until something is so."""
        for _ in range(600):
            if true():
                return
            self.wait()
        raise AssertionError("it never came")

    def topic_ids(self) -> dict[str, UUID]:
        """Has t and d exist, and gives their ids."""

        def exist() -> bool:
            self._known = self._ids()
            return {"t", "d"} <= self._known.keys()

        if not self._known and not exist():
            kept = [CreatableTopicConfig(name="retention.ms", value="-1")]
            sizes = {"num_partitions": 1, "replication_factor": 1}
            topics = [CreatableTopic(name=name, configs=kept, **sizes) for name in ("t", "d")]
            self.admin.ask(CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7)
            self.until(exist)
        return self._known

    def _ids(self) -> dict[str, UUID]:
        topics = [MetadataRequestTopic(name=name) for name in ("t", "d")]
        answer = self.admin.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        led = [topic for topic in answer.topics if not topic.error_code and topic.partitions[0].leader_id >= 0]
        return {topic.name: topic.topic_id for topic in led}

    def deleted(self, answer: DeleteTopicsResponse) -> None:
        """Waits until the broker knows of a deletion."""
        if any(not each.error_code for each in answer.responses):
            self.until(lambda: "d" not in self._ids())
            self._known = {}

    def warm_up(self) -> None:
        """Has the coordinators exist, and an offset of the group."""
        self.topic_ids()
        for kind, key in ((0, "g"), (1, "x")):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            self.until(lambda request=request: not self.admin.ask(request, 4).coordinators[0].error_code)
        self.until(lambda: not self.admin.ask(offset_commit("t"), 8).topics[0].partitions[0].error_code)
        self.until(lambda: not self.admin.ask(InitProducerIdRequest(transactional_id=None), 4).error_code)

    def set_acls(self, acls: list[Acl]) -> None:
        """Makes these the only ACLs, and waits until the broker knows it."""
        everything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        self.admin.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**everything, **names)]), 3)
        answer = self.admin.ask(CreateAclsRequest(creations=[creation_of(acl) for acl in acls]), 3)
        assert not any(each.error_code for each in answer.results)

        def known(by: Asker) -> bool:
            resources = by.ask(DescribeAclsRequest(**everything, **names), 3).resources
            there = {
                (each.resource_name, acl.operation, acl.permission_type) for each in resources for acl in each.acls
            }
            return there == {(acl.name, acl.operation, acl.permission) for acl in acls}

        self.until(lambda: known(self.admin) and known(self.controller_admin))


def ask_all(world: World) -> Table:
    """The whole table of a cluster."""
    table: Table = {}
    world.warm_up()
    for number, (name, acls) in enumerate([*principals().items(), (SUPER, [])]):
        world.set_acls(acls)
        as_super = name == SUPER
        for probe in probes():
            to, controllers = (world.admin, world.controller_admin) if as_super else (world.client, world.controller)
            found = outcome_of(world, controllers if probe.controller else to, probe, number)
            of_probe = table.setdefault(f"{probe.name}, version {probe.version}", {})
            of_probe.setdefault(json.dumps(found, sort_keys=True), []).append(name)
    return table


def outcome_of(world: World, to: Asker, probe: Probe, number: int) -> Any:
    """What the answer to a probe says."""
    message = probe.make(world.topic_ids())
    asks_for_new = isinstance(message, MetadataRequest) and [each.name for each in message.topics or ()] == [CREATED]
    if asks_for_new:
        message = MetadataRequest(topics=[MetadataRequestTopic(name=f"{CREATED}-{number}-{probe.version}")])
    answer = to.ask(message, probe.version)
    if isinstance(answer, DeleteTopicsResponse):
        world.deleted(answer)
    found = outcome(answer)
    return settled(found) if asks_for_new else without_created(found)


def settled(found: Any) -> Any:
    """Without what tells how far the creation of a topic is."""
    (topic,) = found["topics"]
    code = topic.get("error_code")
    return {"error_code": None if code in NOT_REFUSED else code}


def without_created(found: Any) -> Any:
    """Without the topics that probes have had created, and those of coordinators."""
    if isinstance(found, list):
        kept = (each for each in found if not str(named(each)).startswith((CREATED, "__")))
        return [without_created(each) for each in kept]
    return {key: without_created(value) for key, value in found.items()} if isinstance(found, dict) else found


def named(each: Any) -> object:
    return each.get("name") or each.get("topic") if isinstance(each, dict) else ""
