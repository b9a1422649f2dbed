"""Metadata (key 3): the brokers, and topics with the leaders of their partitions.

Versions 0-13, flexible from 9. No topics means all of them in version 0, none in later ones, where null means all. From
version 12 topics may be requested by id. A topic that does not exist is created, if auto.create.topics.enable and the
request allow it, with this broker's num.partitions and default.replication.factor, and with the client's rights, on the
controller too. Who lacks the right to create it gets TOPIC_AUTHORIZATION_FAILED. The answer waits for that and
contains the topic, where Kafka first answers UNKNOWN_TOPIC_OR_PARTITION; so does this broker for more than
CHANGES_PER_STEP of them, which are created when they are requested again. A partition without a leader is
LEADER_NOT_AVAILABLE, and, in answers about single topics, one whose leader seems to have just died, too
(`node.calls.suspects`); a leader without this listener is LISTENER_NOT_FOUND (below version 6 LEADER_NOT_AVAILABLE).

A topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED, by its name whether or not it exists; it is left
out where all are asked for.

Clients ask for the same topics again and again, so encoded answers are cached until the image changes (`KeptAnswers`),
for all who see the same: the ACLs are part of the image.
The answer for all topics, or very many, is made in steps, from the image of the first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Literal, NamedTuple
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from penstock.metadata.names import check_topic_name, is_internal
from penstock.node.limits import (
    ANSWERS_KEPT_MAX,
    CHANGES_PER_STEP,
    METADATA_ANSWER_KEPT_TOPICS_MAX,
    METADATA_PARTITIONS_PER_STEP,
)
from penstock.node.request import AGAIN, LATER, Handler, Kept, NoAnswerYet, Outcome, Request
from penstock.node.steps import Stepped, in_steps
from penstock.protocol.api import ApiKey
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.security.authorizer import ResourceType
from penstock.security.rights import CREATE_TOPIC, DESCRIBE_TOPIC

if TYPE_CHECKING:
    from penstock.node.broker import Broker


TOPIC_IDS_FROM = 12
NAME_AS_PARTITIONS = 10
"""A topic that is named takes as long as so many partitions of it, and as it takes to look at so many names."""


def handle(node: Broker, request: Request[MetadataRequest], now_ms: int) -> Outcome | Stepped[Outcome]:
    body = request.body
    wants_all = body.topics is None or (request.version == 0 and not body.topics)
    names = None
    if not wants_all:
        wanted = body.topics or []
        if len(wanted) > METADATA_ANSWER_KEPT_TOPICS_MAX:
            return handle_wide(node, request, wanted)
        check_wanted(wanted, request.version)
        names = list(names_of(node, request, wanted, by_id=any(map(has_id, wanted))))
        create = [name for name in names if may_create(node, request, name)]
        if create and create_then_answer(node, request, create, names, now_ms):
            return LATER
    return answer(node, request, names, now_ms)


def handle_wide(
    node: Broker, request: Request[MetadataRequest], wanted: Sequence[MetadataRequestTopic]
) -> Stepped[Outcome]:
    """Handles a request for very many topics, in steps."""
    pieces = [
        wanted[start : start + METADATA_PARTITIONS_PER_STEP]
        for start in range(0, len(wanted), METADATA_PARTITIONS_PER_STEP)
    ]
    by_id = False
    for piece in pieces:
        check_wanted(piece, request.version)
        by_id = by_id or any(map(has_id, piece))
        yield None
    found: dict[str, None] = {}
    for piece in pieces:
        found.update(names_of(node, request, piece, by_id=by_id))
        yield None
    names = list(found)
    may = yield from in_steps(partial(may_create, node, request), names)
    create = list(compress(names, may))
    if create and create_then_answer(node, request, create, names, node.scheduler.now_ms):
        return LATER
    return (yield from answer_wide(node, request, names))


def check_wanted(wanted: Sequence[MetadataRequestTopic], version: int) -> None:
    """Raises RequestError for an invalid list of topics."""
    for topic in wanted:
        if topic.name is None and not has_id(topic):
            raise RequestError(ErrorCode.INVALID_REQUEST, "A topic was asked for without a name and without an id")
        if version < TOPIC_IDS_FROM and topic.name is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if version < TOPIC_IDS_FROM and has_id(topic):
            sentence = f"Topic IDs are not supported in requests for version {version}"
            raise RequestError(ErrorCode.INVALID_REQUEST, sentence)


def has_id(topic: MetadataRequestTopic) -> bool:
    return topic.topic_id is not ZERO_UUID and topic.topic_id != ZERO_UUID


def names_of(
    node: Broker, request: Request[MetadataRequest], wanted: Sequence[MetadataRequestTopic], *, by_id: bool
) -> dict[str, None]:
    """The topics requested by name, or by id if any id is given, each once; by id those that may be seen."""
    if by_id:
        found = (node.state.image.topics_by_id.get(topic.topic_id) for topic in wanted if has_id(topic))
        may_see = node.gate.allowing(request, DESCRIBE_TOPIC)
        return dict.fromkeys(topic.name for topic in found if topic is not None and may_see(topic.name))
    return dict.fromkeys(topic.name for topic in wanted if topic.name is not None)


def may_create(node: Broker, request: Request[MetadataRequest], name: str) -> bool:
    """Whether a requested topic is to be created now."""
    return (
        request.body.allow_auto_topic_creation
        and name not in node.state.image.topics_by_name
        and node.state.settings.auto_create_topics_enable
        and (node.controller.active or node.channel.elsewhere)
        and node.gate.would_allow(request, DESCRIBE_TOPIC, name)
        and node.gate.allows(request, CREATE_TOPIC, name)
    )


def is_forbidden(node: Broker, request: Request[MetadataRequest], name: str) -> bool:
    """Whether a topic that does not exist would be created if the client might do that."""
    creates = request.body.allow_auto_topic_creation and node.state.settings.auto_create_topics_enable
    return creates and not node.gate.would_allow(request, CREATE_TOPIC, name)


def create_then_answer(
    node: Broker, request: Request[MetadataRequest], create: Sequence[str], names: Sequence[str], now_ms: int
) -> bool:
    """Creates topics, here or on the active controller, then answers; clients ask again for topics that this broker
    does not know by then, and for more than CHANGES_PER_STEP. False if there is nothing to create after all.
    """
    create = create[:CHANGES_PER_STEP]
    partitions, replicas = node.state.settings.num_partitions, node.state.settings.default_replication_factor
    wanted = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas) for name in create]
    body = request.body

    def finish(at_ms: int) -> None:
        request.body = body
        if len(names) > METADATA_ANSWER_KEPT_TOPICS_MAX:
            node.dispatcher.go_on(request, answer_wide(node, request, names))
            return
        response = answer(node, request, names, at_ms)
        if response is not AGAIN:
            node.answer(request, response, at_ms)

    then = node.dispatcher.later(request, finish)
    if not node.controller.active:
        creation = CreateTopicsRequest(topics=wanted)
        node.channel.ask_for(request, creation, lambda created, at_ms: then(at_ms), now_ms)
        return True
    quota = node.quotas.mutations(request, strict=True, now_ms=now_ms)  # as if another node were the controller
    topic_control.check_request_size([partitions] * len(wanted))
    so_far = topic_control.SoFar(mutated=quota.take)
    result = topic_control.create_topics(node.controller.state, wanted, so_far)
    if not result.records:
        return False

    def committed(at_ms: int) -> None:
        node.journal.made_by_itself(result.response, request)
        then(at_ms)

    try:
        node.controller.append(result.records, committed, lambda code, at_ms: then(at_ms), now_ms)
    except RequestError:
        return False
    return True


def answer(
    node: Broker,
    request: Request[MetadataRequest],
    names: Sequence[str] | None,
    now_ms: int,
    *,
    listing: Listing | None = None,
) -> Message | Kept | Literal[NoAnswerYet.AGAIN]:
    """The response, or AGAIN after a step towards all topics."""
    suspects = node.calls.suspects.brokers(now_ms)
    if suspects and names is not None:
        return build_named(node, request, names, suspects)
    key = cache_key(node, request, names)
    answers = request.handler.kept.of(node.state.image, ANSWERS_KEPT_MAX)
    kept = answers.get(key) if key is not None else None
    if kept is not None:
        return kept
    image = node.state.image
    if names is None:
        listing = listing or Listing(image)
        if not list_some(node, request, listing):
            request.again = partial(answer, node, request, None, listing=listing)
            return AGAIN
        image = listing.image
        response = build(node, request, image, listing.topics)
    else:
        response = build_named(node, request, names)
    if key is None:
        return response
    kept = Kept.of(request.api, request.version, response)
    if image is node.state.image:
        answers[key] = kept
    return kept


def answer_wide(node: Broker, request: Request[MetadataRequest], names: Sequence[str]) -> Stepped[Message]:
    """The response with very many topics, all of one image, in steps."""
    image, suspects = node.state.image, node.calls.suspects.brokers(node.scheduler.now_ms)
    ids: dict[UUID, ErrorCode] = {}
    wanted = request.body.topics or []
    for start in range(0, len(wanted), METADATA_PARTITIONS_PER_STEP):
        ids.update(unknown_ids(node, request, image, wanted[start : start + METADATA_PARTITIONS_PER_STEP]))
        yield None
    topics = yield from in_steps(unknown_topic, ids.items())
    described = 0
    for name in names:
        topics += named_topics(node, request, image, [name], suspects)
        described += NAME_AS_PARTITIONS + len(topics[-1].partitions)
        if described >= METADATA_PARTITIONS_PER_STEP:
            described = 0
            yield None
    return build(node, request, image, topics)


def named_topics(
    node: Broker,
    request: Request[MetadataRequest],
    image: MetadataImage,
    names: Sequence[str],
    suspects: frozenset[int] = frozenset(),
) -> list[MetadataResponseTopic]:
    """The requested topics; partitions led by one of `suspects` have no leader."""
    topics = [named(node, request, image, name) for name in names]
    for topic in topics if suspects else ():
        for partition in topic.partitions:
            if partition.leader_id in suspects:
                partition.error_code = ErrorCode.LEADER_NOT_AVAILABLE
                partition.leader_id = -1
    return topics


class Listing:
    """All topics of one image on their way into a response."""

    __slots__ = ("image", "remaining", "topics")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.remaining = iter(image.topics_by_name.values())
        self.topics: list[MetadataResponseTopic] = []


def list_some(node: Broker, request: Request[MetadataRequest], listing: Listing) -> bool:
    """Describes the next topics. Returns whether that was the last of them."""
    partitions = 0
    for topic in listing.remaining:
        partitions += NAME_AS_PARTITIONS
        if node.gate.shows(request, DESCRIBE_TOPIC, topic.name):
            listing.topics.append(described(node, request, topic, listing.image))
            partitions += len(topic.partitions)
        if partitions >= METADATA_PARTITIONS_PER_STEP:
            return False
    return True


def cache_key(
    node: Broker, request: Request[MetadataRequest], names: Sequence[str] | None
) -> tuple[object, ...] | None:
    """What an answer depends on besides the image: its key in the cache; None for one that is not worth caching."""
    body, topics = request.body, node.state.image.topics_by_name
    if names is not None and len(names) > METADATA_ANSWER_KEPT_TOPICS_MAX:
        return None
    if body.topics and any(topic.topic_id != ZERO_UUID for topic in body.topics):
        return None
    flags = (body.include_cluster_authorized_operations, body.include_topic_authorized_operations)
    seen = None
    if not node.gate.sees_all(request):
        if any(flags) or (names is None and len(topics) > METADATA_ANSWER_KEPT_TOPICS_MAX):
            return None
        seen = bytes(sight_of(node, request, name) for name in (topics if names is None else names))
        if names is not None and HIDDEN in seen:
            return None  # each time it is asked for, it is denied, and that is told
    return (request.version, request.listener, seen, flags, None if names is None else tuple(names))


HIDDEN, SEEN, MISSING, FORBIDDEN = range(4)
"""What a requester is told of a topic: nothing, all of it, that there is none, that it may not create it."""


def sight_of(node: Broker, request: Request[MetadataRequest], name: str) -> int:
    """What the requester is told of a topic."""
    if not node.gate.would_allow(request, DESCRIBE_TOPIC, name):
        return HIDDEN
    if name in node.state.image.topics_by_name:
        return SEEN
    return FORBIDDEN if is_forbidden(node, request, name) else MISSING


def build_named(
    node: Broker, request: Request[MetadataRequest], names: Sequence[str], suspects: frozenset[int] = frozenset()
) -> MetadataResponse:
    """The response with the named topics, from the present image."""
    image = node.state.image
    topics = [unknown_topic(each) for each in unknown_ids(node, request, image, request.body.topics or ()).items()]
    return build(node, request, image, topics + named_topics(node, request, image, names, suspects))


def build(
    node: Broker, request: Request[MetadataRequest], image: MetadataImage, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    """The response with these topics from an image."""
    body = request.body
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in image.brokers.values()
            if not broker.fenced and (endpoint := broker.endpoint(request.listener)) is not None
        ],
        cluster_id=node.cluster_id,
        controller_id=controller_id(node),
        topics=topics,
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = node.gate.operations_on_cluster(request)
    return response


def controller_id(node: Broker) -> int:
    """The id that clients send changes to: any broker, since brokers forward; -1 while this one is not up."""
    own = node.state.image.brokers.get(node.state.node_id)
    return -1 if own is None or own.fenced else node.state.node_id


def unknown_ids(
    node: Broker, request: Request[MetadataRequest], image: MetadataImage, wanted: Sequence[MetadataRequestTopic]
) -> dict[UUID, ErrorCode]:
    """The requested ids that no topic has, or none that the requester may see, with the error for each."""
    ids = {topic.topic_id: image.topics_by_id.get(topic.topic_id) for topic in wanted if has_id(topic)}
    may_see = node.gate.allowing(request, DESCRIBE_TOPIC)
    unknown, hidden = ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = {each: unknown if topic is None else hidden for each, topic in ids.items()}
    return {each: code for each, code in found.items() if (topic := ids[each]) is None or not may_see(topic.name)}


def unknown_topic(unknown: tuple[UUID, ErrorCode]) -> MetadataResponseTopic:
    topic_id, code = unknown
    return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)


def named(node: Broker, request: Request[MetadataRequest], image: MetadataImage, name: str) -> MetadataResponseTopic:
    """One requested topic."""
    if not node.gate.allows(request, DESCRIBE_TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = image.topics_by_name.get(name)
    if topic is not None:
        return described(node, request, topic, image)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except RequestError as error:
        code = error.code
    if is_forbidden(node, request, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def described(
    node: Broker, request: Request[MetadataRequest], topic: TopicImage, image: MetadataImage
) -> MetadataResponseTopic:
    """One topic that exists."""
    described_topic = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=partitions_of(image, topic, request.listener, request.version),
    )
    if request.body.include_topic_authorized_operations:
        described_topic.topic_authorized_operations = node.gate.operations(request, ResourceType.TOPIC, topic.name)
    return described_topic


def partitions_of(
    image: MetadataImage, topic: TopicImage, listener: str, version: int
) -> list[MetadataResponsePartition]:
    """All partitions of a topic for clients. Partitions with the same replicas share the results of that."""
    states: dict[tuple[object, ...], PartitionState] = {}
    found = []
    for index, partition in enumerate(topic.partitions):
        alike = (partition.leader, partition.replicas, partition.isr, partition.directories)
        state = states.get(alike)
        if state is None:
            state = states[alike] = state_of(image, partition, listener, version)
        code, leader_id, replicas, isr, offline = state
        found.append(
            MetadataResponsePartition(
                error_code=code,
                partition_index=index,
                leader_id=leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=isr,
                offline_replicas=offline,
            )
        )
    return found


class PartitionState(NamedTuple):
    """The leader and replicas of a partition, and the error that tells clients why it cannot be used."""

    code: ErrorCode
    leader_id: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def state_of(image: MetadataImage, partition: PartitionRegistration, listener: str, version: int) -> PartitionState:
    """The state of a partition for clients of a listener."""
    leads = is_reachable(image, partition.leader, listener)
    replicas, isr = list(partition.replicas), list(partition.isr)
    code = ErrorCode.NONE
    if not leads:
        code = ErrorCode.LEADER_NOT_AVAILABLE
        if version >= 6 and partition.leader in image.brokers:
            code = ErrorCode.LISTENER_NOT_FOUND
    if version == 0:
        alive = [broker_id for broker_id in replicas if is_reachable(image, broker_id, listener)]
        isr = [broker_id for broker_id in isr if is_reachable(image, broker_id, listener)]
        if code is ErrorCode.NONE and len(alive) + len(isr) < len(replicas) + len(partition.isr):
            code = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas = alive
    leader_id = partition.leader if leads else -1
    return PartitionState(code, leader_id, replicas, isr, offline_replicas(image, partition, listener))


def is_reachable(image: MetadataImage, broker_id: int, listener: str) -> bool:
    """Whether a broker is up and has this listener."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and broker.endpoint(listener) is not None


def offline_replicas(image: MetadataImage, partition: PartitionRegistration, listener: str) -> list[int]:
    """The replicas whose broker is not up, or has lost their directory."""
    offline = []
    for broker_id in partition.replicas:
        directory = partition.directory(broker_id)
        broker = image.brokers.get(broker_id)
        lost = broker is not None and directory is not None and is_lost(directory.int, directory in broker.log_dirs)
        if lost or not is_reachable(image, broker_id, listener):
            offline.append(broker_id)
    return offline


def is_lost(directory: int, is_registered: bool) -> bool:
    """Whether a replica's directory is gone; the ids for "not assigned" and "unknown" are not."""
    unassigned, lost, migrating = range(3)
    return directory == lost or (directory not in (unassigned, migrating) and not is_registered)


def refuse(request: Request[MetadataRequest], code: ErrorCode, message: str) -> Message:
    """Every topic answered with the error."""
    nameless = None if request.version >= TOPIC_IDS_FROM else ""
    topics: Iterable[MetadataResponseTopic] = (
        MetadataResponseTopic(
            error_code=code, name=nameless if topic.name is None else topic.name, topic_id=topic.topic_id
        )
        for topic in (request.body.topics if request.body is not None else None) or ()
    )
    return MetadataResponse(topics=list(topics), error_code=code)


HANDLERS = (Handler(ApiKey.METADATA, handle, refuse),)
