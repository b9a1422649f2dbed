"""The APIs that a Guardian node serves: those of its quorum, ApiVersions, logins, and GuardianCall (key 30100).

GuardianCall version 0 carries one call (`guardian.core.answering`) and its answer. Any node answers what changes
nothing, with the age of what it knows; a change is made by the leader, to which another node hands it on. Status and
body are the answer; the error code says only that a caller may not ask. `on_behalf_of` is the requester of a call that
was handed on, and counts only from a node of this Guardian (who may do CLUSTER_ACTION); so does `token_id`, of the
token by which that requester has logged in over HTTP.

Whoever the authorizer lets alter the cluster (the super users; everybody, where none is set) may do everything. Others
may do what the roles of the user of their name let them (`guardian.core.permitted`); who is no user is turned away
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.errors import ErrorCode
from penstock.guardian.core.calls import Call
from penstock.guardian.core.front import Front
from penstock.guardian.core.quorum import GuardianQuorum
from penstock.node.dispatcher import Dispatcher
from penstock.node.gate import Gate
from penstock.node.handlers import api_versions, sasl
from penstock.node.handlers.quorum import state_of
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.node.scheduler import Scheduler
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from penstock.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData, TopicData
from penstock.protocol.messages.own.guardian_call_request import GuardianCallRequest
from penstock.protocol.messages.own.guardian_call_response import GuardianCallResponse
from penstock.raft.messages import FETCHES_FROM, partition_of
from penstock.security.authorizer import CLUSTER_NAME, Principal
from penstock.security.rights import ACT_IN_CLUSTER, ALTER_CLUSTER, DESCRIBE_CLUSTER


class GuardianNode(Protocol):
    """What the handlers use of their node."""

    @property
    def node_id(self) -> int: ...

    scheduler: Scheduler
    dispatcher: Dispatcher
    gate: Gate
    quorum: GuardianQuorum
    front: Front

    def answer(self, request: Request[Any], message: Message | None, now_ms: int) -> None:
        """Answers a request for which the handler returned LATER."""


def of_quorum(node: GuardianNode, request: Request[Any], now_ms: int) -> Outcome:
    """Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot: the replica answers, now or later."""
    node.quorum.handle(request, now_ms)
    return LATER


def versions(node: GuardianNode, request: Request[ApiVersionsRequest | None], now_ms: int) -> Outcome:
    """ApiVersions: there are no features of a cluster."""
    if request.body is None:
        request.version = 0
        return api_versions.unsupported()
    served = node.dispatcher.served[request.listener].values()
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=each.key, min_version=each.advertised_min_version, max_version=each.max_version)
            for each in served
        ]
    )


def describe(node: GuardianNode, request: Request[DescribeQuorumRequest], now_ms: int) -> Outcome:
    """DescribeQuorum of Guardian's log, by its leader."""
    quorum = node.quorum
    if partition_of(request.body, quorum.topic) is None:
        partition = PartitionData(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message="No such quorum.")
    elif (described := quorum.describe()).leader_id == node.node_id:
        partition = state_of(described, request.version, node.scheduler.wall, now_ms)
    else:
        partition = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message="Another node leads it.")
    return DescribeQuorumResponse(topics=[TopicData(topic_name=quorum.topic.name, partitions=[partition])])


def call(node: GuardianNode, request: Request[GuardianCallRequest], now_ms: int) -> Outcome:
    """GuardianCall: checks who asks, and has the node answer."""
    body = request.body
    handed_on = body.on_behalf_of is not None
    if handed_on and not node.gate.allows(request, ACT_IN_CLUSTER):
        return node.dispatcher.exit.refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not a node")
    asked = Call(
        body.method,
        body.path,
        bytes(body.body),
        body.request_id,
        str(body.on_behalf_of if handed_on else request.principal),
        token_id=body.token_id if handed_on else None,
        is_super=is_super(node, request),
    )
    right = ALTER_CLUSTER if asked.changes else DESCRIBE_CLUSTER
    if not handed_on and not asked.is_super and is_stranger(node, asked) and not node.gate.allows(request, right):
        return node.dispatcher.exit.refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not allowed")

    def answered(response: GuardianCallResponse, at_ms: int) -> None:
        node.answer(request, response, at_ms)

    node.front.take(asked, node.dispatcher.later(request, answered), now_ms, handed_on=handed_on)
    return LATER


def is_super(node: GuardianNode, request: Request[GuardianCallRequest]) -> bool:
    """Whether the authorizer lets whoever asks do everything; of a call that was handed on: whoever asked first, by
    this node's settings. Who logged in by a token is never meant by the name alone."""
    asked_first, connection = request.body.on_behalf_of, request.connection
    if asked_first is None:
        return node.gate.would_allow(request, ALTER_CLUSTER)
    if request.body.token_id is not None:
        return False
    kind, _, name = asked_first.partition(":")
    right = ALTER_CLUSTER
    return node.gate.authorizer.authorize(
        Principal(kind, name), connection.address, right.operation, right.resource, CLUSTER_NAME
    )


def is_stranger(node: GuardianNode, asked: Call) -> bool:
    """Whether somebody whom the authorizer does not know is no user of Guardian's either."""
    return node.quorum.state.accounts.of_principal(asked.principal) is None


def refuse_call(request: Request[Any], code: ErrorCode, message: str) -> Message:
    return GuardianCallResponse(error_code=code, error_message=message or None)


def handlers() -> Mapping[ApiKey, Handler[Any]]:
    """All of them, by key."""
    quorum = (ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT)
    own: list[Handler[Any]] = [
        *(Handler(key, of_quorum) for key in quorum),
        Handler(ApiKey.FETCH, of_quorum, min_version=FETCHES_FROM),
        Handler(ApiKey.DESCRIBE_QUORUM, describe),
        Handler(ApiKey.API_VERSIONS, versions),
        Handler(ApiKey.GUARDIAN_CALL, call, refuse_call),
        *sasl.HANDLERS,
    ]
    return {each.key: each for each in sorted(own, key=lambda each: each.key)}
