"""Clients of a secured cluster that log in: guests, who may do little, and an admin who changes what.

A guest asks for what it may do and for what it may not, through any broker. It does not care for the answers, but for
what they say of HIDDEN, a topic on which no guest ever has a right: nobody may learn that it exists. Some guests log in
again before their session ends, as KIP-368 wants it; others go on until the broker closes their connection.

The admin gives rights and takes them back. What it was told holds from then on, through all failovers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client.acls import creation_of, filter_of
from penstock.errors import ErrorCode
from penstock.protocol.acls import WILDCARD, Acl, AclFilter, AclOperation, PatternType, PermissionType, ResourceType
from penstock.protocol.message import Message
from penstock.protocol.messages.create_acls_request import CreateAclsRequest
from penstock.protocol.messages.delete_acls_request import DeleteAclsRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from simulator.cluster.admins import CREATE_VERSION, create_request
from simulator.cluster.client import Login
from simulator.cluster.load import Load
from simulator.world.checks import check
from simulator.world.network import Address

GUEST, ADMIN = "guest-", "root"
SHOWN, HIDDEN = "shown", "hidden"
UNSEEN = "who may not see a topic does not learn that it exists"
SURVIVES = "ACLs survive"
METADATA_VERSION, INIT_VERSION, OFFSETS_VERSION, ACLS_VERSION = 12, 4, 7, 3
RENEWED_AFTER = 0.6
"""Of a session, when the guests that log in again do so."""
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE, AclOperation.ALL)
PAUSE_MS = (20, 200)


def password(user: str) -> str:
    """What a user logs in with."""
    return f"{user}-secret"


class Guest:
    """One of them. `renews`: it logs in again in time."""

    def __init__(self, load: Load, number: int, brokers: list[Address], *, renews: bool) -> None:
        self.user = f"{GUEST}{number}"
        self.load = load
        self.random = load.simulation.random
        self.login = Login(self.user, password(self.user), renewed_after=RENEWED_AFTER if renews else None)
        self.client = load.client(self.user, brokers=brokers, login=self.login)
        self.answers = 0
        self.refusals = 0

    def may_have_been_logged_in(self, address: Address, age_ms: int) -> bool:
        """Whether a session at a broker may have lasted so long ago, for all that the guest knows."""
        return self.login.may_last(address, self.load.simulation.now_ms - age_ms)

    def knock(self, address: Address) -> None:
        """Asks one broker, beside everything else."""
        if self.load.going_on:
            self.client.ask(address, MetadataRequest(topics=None), METADATA_VERSION, lambda response: None)

    def go_on(self) -> None:
        """Asks for something."""
        if not self.load.going_on:
            return
        ask = self.random.choice((self._list_topics, self._look_at, self._create, self._begin, self._offsets))
        ask()

    def _ask(self, message: Message, version: int, learn: Callable[[Any], None]) -> None:
        def answered(response: Any) -> None:
            if response is not None:
                self.answers += 1
                learn(response)
            self.load.simulation.after_ms(self.random.randrange(*PAUSE_MS), self.go_on)

        self.client.ask_any(message, version, answered)

    def _list_topics(self) -> None:
        def learn(response: Any) -> None:
            names = [topic.name for topic in response.topics]
            check(HIDDEN not in names, UNSEEN, f"{self.user} sees it among all topics")

        self._ask(MetadataRequest(topics=None), METADATA_VERSION, learn)

    def _look_at(self) -> None:
        name = self.random.choice((SHOWN, HIDDEN))

        def learn(response: Any) -> None:
            (topic,) = response.topics
            self.refusals += topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if name == HIDDEN:
                said = ErrorCode(topic.error_code)
                refused = said == ErrorCode.TOPIC_AUTHORIZATION_FAILED and not topic.partitions
                check(refused, UNSEEN, f"{self.user} is answered {said.name}")

        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        self._ask(request, METADATA_VERSION, learn)

    def _create(self) -> None:
        """Asks, through a broker, whether the controller would create a topic."""
        request = create_request([f"{SHOWN}-{self.random.randrange(3)}"], 1, 1, {})
        request.validate_only = True
        self._ask(request, CREATE_VERSION, self._note)

    def _note(self, response: Any) -> None:
        self.refusals += response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=f"{SHOWN}-{self.user}", transaction_timeout_ms=60_000)
        self._ask(request, INIT_VERSION, lambda response: None)

    def _offsets(self) -> None:
        partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
        topics = [ListOffsetsTopic(name=name, partitions=partitions) for name in (SHOWN, HIDDEN)]

        def learn(response: Any) -> None:
            for topic in response.topics:
                if topic.name == HIDDEN:
                    code = ErrorCode(topic.partitions[0].error_code)
                    check(code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, UNSEEN, f"{self.user} is answered {code.name}")

        self._ask(ListOffsetsRequest(replica_id=-1, topics=topics), OFFSETS_VERSION, learn)


class AclAdmin:
    """The one who gives and takes rights.

    Attributes:
        present, absent: ACLs that it was told are there, and are gone. An ACL of a request without an answer is in
            neither from then on: the request may be carried out at any time.
        busy: it waits for an answer.
    """

    def __init__(self, load: Load, brokers: list[Address], users: list[str]) -> None:
        self.load = load
        self.random = load.simulation.random
        self.client = load.client(
            ADMIN, brokers=brokers, login=Login(ADMIN, password(ADMIN), renewed_after=RENEWED_AFTER)
        )
        self.present: set[Acl] = set()
        self.absent: set[Acl] = set()
        self.changes = 0
        self.busy = False
        self._users = users
        self._unsure: set[Acl] = set()

    def go_on(self) -> None:
        """Gives a right, or takes one back."""
        if not self.load.going_on:
            return
        self.client.ask_any(MetadataRequest(topics=None), METADATA_VERSION, lambda response: None)  # as guests do
        self.busy = True
        if self.present and self.random.random() < 0.45:
            self._remove(self.random.choice(sorted(self.present)))
        else:
            self._add(self._drawn())

    def _drawn(self) -> Acl:
        random = self.random
        resource, name, pattern = random.choice(
            (
                (ResourceType.TOPIC, SHOWN, PatternType.LITERAL),
                (ResourceType.TOPIC, SHOWN, PatternType.PREFIXED),
                (ResourceType.TOPIC, f"{SHOWN}-1", PatternType.LITERAL),
                (ResourceType.TRANSACTIONAL_ID, SHOWN, PatternType.PREFIXED),
            )
        )
        permission = PermissionType.DENY if random.random() < 0.3 else PermissionType.ALLOW
        user = random.choice([*self._users, WILDCARD])
        return Acl(resource, name, pattern, f"User:{user}", WILDCARD, random.choice(OPERATIONS), permission)

    def _add(self, acl: Acl) -> None:
        def answered(response: Any) -> None:
            self._outcome(acl, None if response is None else response.results[0].error_code, self.present, self.absent)

        self.client.ask_any(CreateAclsRequest(creations=[creation_of(acl)]), ACLS_VERSION, answered)

    def _remove(self, acl: Acl) -> None:
        def answered(response: Any) -> None:
            code = None if response is None else response.filter_results[0].error_code
            self._outcome(acl, code, self.absent, self.present)

        self.client.ask_any(DeleteAclsRequest(filters=[filter_of(AclFilter(*acl))]), ACLS_VERSION, answered)

    def _outcome(self, acl: Acl, code: int | None, into: set[Acl], out_of: set[Acl]) -> None:
        if code != ErrorCode.NONE:
            self._unsure.add(acl)
        else:
            self.changes += 1
        out_of.discard(acl)
        into.discard(acl)
        if acl not in self._unsure:
            into.add(acl)
        self.busy = False
        self.load.simulation.after_ms(self.random.randrange(*PAUSE_MS), self.go_on)

    def check_acls(self, found: set[Acl]) -> None:
        """What is there in the end is what the admin was told."""
        lost, back = sorted(self.present - found), sorted(self.absent & found)
        check(not lost, SURVIVES, f"given and gone: {lost}")
        check(not back, SURVIVES, f"taken and back: {back}")
