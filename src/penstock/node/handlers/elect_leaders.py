"""ElectLeaders (key 43): preferred leaders, or any live replica for partitions without a leader (KIP-183, KIP-460).

Versions 0-2, flexible from 2; the election type is in the request from 1 on, before it is preferred. No topics (null)
means all, and then partitions that need no election are left out of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import leadership
from penstock.metadata.result import ApiError, Result
from penstock.node.decisions import decided, parts_of
from penstock.node.limits import CHANGES_PER_STEP, TOPICS_PER_REQUEST_MAX
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.node.steps import Stepped, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from penstock.node.broker import Broker


WHOLE_ERROR_FROM = 1

Some = tuple[int, str, Sequence[int]]
"""The number of a topic among those that are named, its name, and some of its partitions."""
Elected = tuple[str, list[tuple[int, ApiError]]]


def handle(node: Broker, request: Request[ElectLeadersRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    if not node.controller.active:
        return FORWARD
    topics, controller, election_type = body.topic_partitions, node.controller.state, body.election_type
    if topics is not None and len(topics) > TOPICS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {TOPICS_PER_REQUEST_MAX} topics in one request.")
    everything = topics is None
    named = ((topic.topic, topic.partitions) for topic in topics or ())
    wanted = leadership.all_partitions(controller) if everything else named

    def decide(part: list[Some]) -> Result[list[tuple[int, Elected]]]:
        some = [(name, partitions) for _, name, partitions in part]
        result = leadership.elect_leaders(controller, election_type, some, everything=everything)
        numbered = [(number, of_some) for (number, _, _), of_some in zip(part, result.response, strict=True)]
        return Result(numbered, result.records, atomic=result.atomic)

    plan = yield from decided(
        node,
        request,
        parts_of(cut(wanted), lambda some: len(some[2])),
        decide,
        lambda part, answers: (body, response_of([elected for _, elected in answers])),
    )
    return plan.outcome(response_of(joined(plan.answers)))


def cut(wanted: Iterable[tuple[str, Sequence[int]]]) -> Iterator[Some]:
    """Cuts topics with many partitions into pieces; each topic gives at least one."""
    for number, (name, partitions) in enumerate(wanted):
        for start in range(0, max(1, len(partitions)), CHANGES_PER_STEP):
            yield number, name, partitions[start : start + CHANGES_PER_STEP]


def joined(answers: Iterable[tuple[int, Elected]]) -> list[Elected]:
    """The answers by topic."""
    topics: dict[int, Elected] = {}
    for number, (name, partitions) in answers:
        topics.setdefault(number, (name, []))[1].extend(partitions)
    return list(topics.values())


def response_of(topics: Sequence[Elected]) -> ElectLeadersResponse:
    return ElectLeadersResponse(replica_election_results=lazily(result_of, topics))


def result_of(topic: Elected) -> ReplicaElectionResult:
    name, partitions = topic
    return ReplicaElectionResult(topic=name, partition_result=lazily(lambda each: answer(*each), partitions))


def answer(index: int, error: ApiError) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)


def refuse(request: Request[ElectLeadersRequest], code: ErrorCode, message: str) -> Message:
    """Every requested partition answered with the error; from version 1 the whole request, too."""
    topics = [] if request.body is None else request.body.topic_partitions or []
    error = ApiError(code, message or None)

    def refused(topic: TopicPartitions) -> ReplicaElectionResult:
        return ReplicaElectionResult(
            topic=topic.topic, partition_result=lazily(lambda index: answer(index, error), topic.partitions)
        )

    return ElectLeadersResponse(
        error_code=code if request.version >= WHOLE_ERROR_FROM else ErrorCode.NONE,
        replica_election_results=lazily(refused, topics),
    )


HANDLERS = (Handler(ApiKey.ELECT_LEADERS, handle, refuse),)
