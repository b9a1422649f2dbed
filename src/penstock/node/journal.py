"""What an operator reads in the log: who changed what, who leads, which brokers come and go, what was refused.

Changes are logged when they are committed, with the requester: metadata by the active controller, deleted groups and
offsets by the group's coordinator, deleted records by the partition's leader. A broker logs its own leaderships and
in-sync replicas, as its metadata says, but not those from before its start. A refusal is logged again for the same
client host only after REFUSAL_REPEAT_MS, with the number of refusals since. No line here is about a single record or
request: under load the log is quiet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from penstock.config.server import SETTINGS
from penstock.events import LineBudget, RateLimit, events
from penstock.metadata.configs import APPEND, DELETE, SET, SUBTRACT
from penstock.metadata.image import NO_LEADER, BrokerRegistration, ConfigResource, PartitionRegistration
from penstock.metadata.result import ApiError
from penstock.metadata.scram import ScramMechanism
from penstock.metadata.topics import CreatedTopic
from penstock.node.limits import (
    JOURNAL_LINES_MAX,
    JOURNAL_PARTITIONS_MAX,
    JOURNAL_TEXT_MAX,
    LOGIN_FAILURES_LOGGED_PER_S,
    REFUSAL_REPEAT_MS,
    REFUSALS_REMEMBERED_MAX,
)
from penstock.node.request import Request
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.acls import AclOperation, PatternType, PermissionType, ResourceType
from penstock.protocol.api import ApiKey

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta
    from penstock.metadata.image import MetadataImage
    from penstock.node.connection import Connection

Fields = dict[str, Any]
Lines = Iterator[tuple[str, Fields]]

HIDDEN = "(hidden)"
NO_LEADER_NOW = "partitions without a leader"
UNCLEAN = "unclean leader elections, records may be lost"
RECOVERING = 1
RESOURCES = {
    ConfigResource.TOPIC: "topic",
    ConfigResource.BROKER: "broker",
    ConfigResource.GROUP: "group",
    ConfigResource.CLIENT_METRICS: "client_metrics",
}
OPERATORS = {SET: "=", APPEND: "+=", SUBTRACT: "-="}
NO_SHARE_GROUPS = "share groups are not supported yet"
UNSUPPORTED_APIS = (
    ("Share", NO_SHARE_GROUPS),
    ("Streams", "streams groups are not supported yet"),
)
"""What a request for an API that is not served asks for, by a part of the API's name."""

logger = events("node.journal")


class Journal:
    """See the module's head.

    Attributes: `unclean_elections`, how many this node has seen while it was the active controller.
    """

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        caught_up: Callable[[], bool],
        is_controller: Callable[[], bool],
    ) -> None:
        """`caught_up`: whether the metadata are of the present; `is_controller`: whether this node is the active
        controller.
        """
        self._state = state
        self._scheduler = scheduler
        self._caught_up = caught_up
        self._is_controller = is_controller
        self.unclean_elections = 0
        self._refusals = RateLimit(REFUSAL_REPEAT_MS, REFUSALS_REMEMBERED_MAX)
        self._failures = LineBudget(LOGIN_FAILURES_LOGGED_PER_S)

    # Who changed what

    def committed(self, request: Request[Any], body: Any, response: Any, told: int = 0) -> int:
        """Logs what a request, or a part of it, has changed: `body` and its answer are committed.

        `told`: how many lines were logged for the request before; returns how many there are now.
        """
        describe = CHANGES.get(request.handler.key)
        if describe is None or body is None:
            return told
        return log_with_requester(request, describe(body, response), told)

    def token_changed(self, request: Request[Any], what: str, token_id: str, **fields: Any) -> None:
        """A delegation token was made, renewed or ended. Its HMAC is nobody's business."""
        log_with_requester(request, [(f"delegation token {what}", {"token": token_id, **fields})])

    def groups_deleted(self, request: Request[Any], group_ids: Iterable[str]) -> None:
        log_with_requester(request, (("group deleted", {"group": shortened(group_id)}) for group_id in group_ids))

    def offsets_deleted(self, request: Request[Any], group_id: str, partitions: Sequence[str]) -> None:
        """A group's committed offsets of these partitions have been deleted, other than by expiry."""
        if partitions:
            fields = {"group": shortened(group_id), "count": len(partitions), "partitions": listed(partitions)}
            log_with_requester(request, [("committed offsets deleted", fields)])

    def records_deleted(self, request: Request[Any], ends: Sequence[object]) -> None:
        """Records of partitions have been deleted, other than by retention; `ends` are like `clicks-0 before 5`."""
        if ends:
            log_with_requester(request, [("records deleted", {"count": len(ends), "partitions": listed(ends)})])

    def made_by_itself(self, answers: Sequence[CreatedTopic | ApiError], request: Request[Any] | None = None) -> None:
        """Topics have been created automatically: for a client that used them (`request`), or for this broker."""
        made = [each for each in answers if isinstance(each, CreatedTopic)]
        who = {"by": "this broker"} if request is None else {"asked_for_by": str(request.principal), **origin(request)}
        for topic in made[:JOURNAL_LINES_MAX]:
            counts = {"partitions": topic.partition_count, "replication_factor": topic.replication_factor}
            logger.info("topic created", topic=topic.name, **counts, **who)

    # Who leads, and which brokers there are

    def published(self, old: MetadataImage, delta: MetadataDelta) -> None:
        """Logs the changes of a new image, at a cost proportional to their number."""
        if self._is_controller():
            for broker_id, registration in delta.brokers.items():
                if what := broker_change(old.brokers.get(broker_id), registration):
                    logger.info(what, broker=broker_id, epoch=registration.epoch if registration else None)
            self.unclean_elections += sum(
                after.leader_recovery_state == RECOVERING and before.leader != after.leader != NO_LEADER
                for _, before, after in partition_changes(old, delta)
            )
        if self._caught_up() or self._is_controller():
            changes = leadership_changes(self._state.node_id, old, delta, is_controller=self._is_controller())
            tell(changes, expected=self._state.stopping or self._is_alone_and_starts)

    @property
    def _is_alone_and_starts(self) -> bool:
        """Whether this is the only broker and still starting: once registered, it leads its partitions again."""
        return not self._state.ready and self._state.image.brokers.keys() <= {self._state.node_id}

    def controller_changed(self, controller_id: int | None) -> None:
        """Another node is the active controller; None: it is not known which."""
        if controller_id is None:
            logger.info("the active controller is not known")
        else:
            logger.info("active controller", node=controller_id, this_node=controller_id == self._state.node_id)

    # What was refused

    def not_served(self, connection: Connection, api_name: str, client_id: str | None) -> None:
        """A client used an API that is not served; its connection is closed."""
        why = next(
            (why for part, why in UNSUPPORTED_APIS if part in api_name), "this API is not served on this listener"
        )
        self._refused(
            why, connection, {"api": api_name, "client": shortened(client_id), "listener": connection.listener}
        )

    def refused(self, why: str, request: Request[Any], **fields: Any) -> None:
        """A client used a feature that does not exist yet."""
        fields = {"api": request.api.name, "client": shortened(request.client_id), **fields}
        self._refused(why, request.connection, fields)

    def login_failed(self, connection: Connection, why: str, mechanism: str, user: str) -> None:
        """A client could not log in. At most LOGIN_FAILURES_LOGGED_PER_S lines a second."""
        left_out = self._failures.left_out(self._scheduler.now_ms)
        if left_out is None:
            return
        more = {"more_since_the_last": left_out} if left_out else {}
        logger.warning(
            f"login failed: {why}",
            mechanism=shortened(mechanism),
            user=shortened(user),
            listener=connection.listener,
            peer=connection.peer,
            **more,
        )

    def _refused(self, why: str, connection: Connection, fields: Fields) -> None:
        suppressed = self._refusals.suppressed((why, connection.client_host), self._scheduler.now_ms)
        if suppressed is not None:
            more = {"more_since_the_last": suppressed} if suppressed else {}
            logger.warning(f"refused: {why}", **fields, principal=connection.principal, peer=connection.peer, **more)


def log_with_requester(request: Request[Any], lines: Iterable[tuple[str, Fields]], told: int = 0) -> int:
    """Logs the changes of a request, at most JOURNAL_LINES_MAX, with the requester. `told`: lines logged before."""
    if told > JOURNAL_LINES_MAX:
        return told
    who = requester(request)
    for what, fields in lines:
        told += 1
        if told > JOURNAL_LINES_MAX:
            logger.info("and more of the same request", **who)
            break
        logger.info(what, **fields, **who)
    return told


def listed(partitions: Sequence[object]) -> str:
    """The first partitions as text, and how many more there are."""
    rest = len(partitions) - JOURNAL_PARTITIONS_MAX
    named = ", ".join(map(str, partitions[:JOURNAL_PARTITIONS_MAX]))
    return f"{named}, and {rest} more" if rest > 0 else named


def requester(request: Request[Any]) -> Fields:
    """The principal, client id and host of a request."""
    return {"by": str(request.principal), **origin(request)}


def origin(request: Request[Any]) -> Fields:
    """The client id and host of a request."""
    return {"client": shortened(request.client_id), "host": request.connection.client_host.lstrip("/")}


def shortened(text: str | None) -> str:
    """The first JOURNAL_TEXT_MAX characters of a text that a client supplied."""
    text = text or ""
    return text if len(text) <= JOURNAL_TEXT_MAX else f"{text[:JOURNAL_TEXT_MAX]}..."


def tell(changes: Iterator[tuple[str, str]], *, expected: bool) -> None:
    """Logs one line for all partitions to which the same has happened, with the names of the first. No line is a
    warning if the changes were expected.
    """
    named: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for what, partition in changes:
        counts[what] += 1
        if counts[what] <= JOURNAL_PARTITIONS_MAX:
            named.setdefault(what, []).append(partition)
    for what, partitions in named.items():
        rest = counts[what] - len(partitions)
        more = f", and {rest} more" if rest else ""
        log = logger.warning if what in (NO_LEADER_NOW, UNCLEAN) and not expected else logger.info
        log(what, count=counts[what], partitions=f"{', '.join(partitions)}{more}")


def broker_change(before: BrokerRegistration | None, after: BrokerRegistration | None) -> str:
    """What has happened to a broker, as the text of an event; empty if nothing that matters."""
    if after is None:
        return "broker unregistered"
    if before is None or before.epoch != after.epoch:
        return "broker registered"
    if after.in_controlled_shutdown and not before.in_controlled_shutdown:
        return "broker is stopping"
    if before.fenced != after.fenced:
        return "broker fenced" if after.fenced else "broker unfenced"
    return ""


def partition_changes(
    old: MetadataImage, delta: MetadataDelta
) -> Iterator[tuple[str, PartitionRegistration, PartitionRegistration]]:
    """Changed partitions that existed before: name, old state and new state."""
    for topic in delta.topics.values():
        was = old.topics_by_id.get(topic.id)
        if was is not None:
            for index, after in topic.partitions.items():
                if index < len(was.partitions):
                    yield f"{topic.name}-{index}", was.partitions[index], after


def leadership_changes(
    own: int, old: MetadataImage, delta: MetadataDelta, *, is_controller: bool
) -> Iterator[tuple[str, str]]:
    """Leaderships that the broker `own` wins or loses, and ISR changes of partitions that it leads; from the active
    controller also unclean elections, and partitions left without a leader.
    """
    for name, before, after in partition_changes(old, delta):
        for what in leadership_change(own, before, after, is_controller=is_controller):
            yield what, f"{name} ({leadership(after)})"


def leadership_change(
    own: int, before: PartitionRegistration, after: PartitionRegistration, *, is_controller: bool
) -> Iterator[str]:
    """The events for one partition; see `leadership_changes`."""
    if after.leader == NO_LEADER != before.leader and is_controller:
        yield NO_LEADER_NOW
    if is_controller and after.leader_recovery_state == RECOVERING and before.leader != after.leader:
        yield UNCLEAN
    if after.leader == own != before.leader:
        yield "leads partitions"
    elif before.leader == own != after.leader:
        yield "leads partitions no more"
    elif after.leader == own and set(after.isr) != set(before.isr):
        yield "in-sync replicas fewer" if len(after.isr) < len(before.isr) else "in-sync replicas more"


def leadership(after: PartitionRegistration) -> str:
    leader = "none" if after.leader == NO_LEADER else after.leader
    in_sync, replicas = (" ".join(map(str, ids)) or "none" for ids in (after.isr, after.replicas))
    return f"leader {leader}, epoch {after.leader_epoch}, in sync {in_sync} of {replicas}"


def topics_created(body: Any, response: Any) -> Lines:
    configs = {topic.name: topic.configs for topic in body.topics}
    for topic in response.topics:
        if not topic.error_code:
            settings = ",".join(f"{config.name}={config.value}" for config in configs.get(topic.name, ()))
            counts = {"partitions": topic.num_partitions, "replication_factor": topic.replication_factor}
            given = {"configs": shortened(settings)} if settings else {}
            yield "topic created", {"topic": topic.name, **counts, **given}


def topics_deleted(body: Any, response: Any) -> Lines:
    for topic in response.responses:
        if not topic.error_code:
            yield "topic deleted", {"topic": topic.name, "id": topic.topic_id}


def partitions_added(body: Any, response: Any) -> Lines:
    counts = {topic.name: topic.count for topic in body.topics}
    for topic in response.results:
        if not topic.error_code:
            yield "partitions added", {"topic": topic.name, "partitions": counts.get(topic.name)}


def configs_changed(body: Any, response: Any) -> Lines:
    wanted = {(each.resource_type, each.resource_name): each.configs for each in body.resources}
    for each in response.responses:
        key = (each.resource_type, each.resource_name)
        if not each.error_code and key in wanted:
            changes = ",".join(config_change(each.resource_type, config) for config in wanted[key])
            kind = RESOURCES.get(each.resource_type, "resource")
            yield "configs changed", {kind: each.resource_name or "(all)", "configs": shortened(changes) or "none"}


def config_change(kind: int, config: Any) -> str:
    """`retention.ms=5`, `cleanup.policy+=compact`, `retention.ms to its default`; what may be a secret is hidden."""
    operation = getattr(config, "config_operation", SET)
    if operation == DELETE or config.value is None:
        return f"{config.name} to its default"
    setting = SETTINGS.get(config.name)
    secret = kind == ConfigResource.BROKER and (setting is None or setting.type.sensitive)
    return f"{config.name}{OPERATORS.get(operation, '=')}{HIDDEN if secret else config.value}"


def replicas_reassigned(body: Any, response: Any) -> Lines:
    wanted = {(topic.name, each.partition_index): each.replicas for topic in body.topics for each in topic.partitions}
    for topic in response.responses:
        for each in topic.partitions:
            if not each.error_code:
                replicas = wanted.get((topic.name, each.partition_index))
                partition = f"{topic.name}-{each.partition_index}"
                if replicas is None:
                    yield "reassignment cancelled", {"partition": partition}
                else:
                    yield "replicas reassigned", {"partition": partition, "replicas": ",".join(map(str, replicas))}


def leaders_elected(body: Any, response: Any) -> Lines:
    kind = "unclean" if body.election_type else "preferred"
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            if not each.error_code:
                yield "leader elected", {"partition": f"{topic.topic}-{each.partition_id}", "election": kind}


def features_updated(body: Any, response: Any) -> Lines:
    if not response.error_code:
        for each in body.feature_updates:
            yield "feature changed", {"feature": each.feature, "level": each.max_version_level}


def scram_credentials_altered(body: Any, response: Any) -> Lines:
    failed = {each.user for each in response.results if each.error_code}
    for each in body.deletions:
        if each.name not in failed:
            yield (
                "SCRAM credential deleted",
                {"user": shortened(each.name), "mechanism": mechanism_name(each.mechanism)},
            )
    for each in body.upsertions:
        if each.name not in failed:
            fields = {"user": shortened(each.name), "mechanism": mechanism_name(each.mechanism)}
            yield "SCRAM credential set", {**fields, "iterations": each.iterations}


def mechanism_name(code: int) -> str:
    """A SCRAM mechanism that exists, by its code."""
    return ScramMechanism(code).sasl_name


def broker_unregistered(body: Any, response: Any) -> Lines:
    if not response.error_code:
        yield "broker unregistered", {"broker": body.broker_id}


def client_quotas_altered(body: Any, response: Any) -> Lines:
    for entry, result in zip(body.entries, response.entries, strict=True):
        if not result.error_code:
            names = {each.entity_type: each.entity_name for each in entry.entity}
            of = ",".join(f"{kind}={'(default)' if name is None else name}" for kind, name in names.items())
            for op in entry.ops:
                fields = {"quota_of": shortened(of), "limit": shortened(op.key)}
                if op.remove:
                    yield "client quota deleted", fields
                else:
                    yield "client quota set", {**fields, "value": op.value}


def acls_created(body: Any, response: Any) -> Lines:
    for each, result in zip(body.creations, response.results, strict=True):
        if not result.error_code:
            yield "ACL created", acl_fields(each, each.resource_pattern_type)


def acls_deleted(body: Any, response: Any) -> Lines:
    for result in response.filter_results:
        for each in result.matching_acls:
            if not each.error_code:
                yield "ACL deleted", acl_fields(each, each.pattern_type)


def acl_fields(each: Any, pattern_type: int) -> Fields:
    return {
        "principal": shortened(each.principal),
        "permission": name_of(PermissionType, each.permission_type),
        "operation": name_of(AclOperation, each.operation),
        "resource": f"{name_of(ResourceType, each.resource_type)}:{shortened(each.resource_name)}",
        "pattern": name_of(PatternType, pattern_type),
        "from_host": shortened(each.host),
    }


def name_of(codes: type[IntEnum], code: int) -> str:
    return codes(code).name


CHANGES: Mapping[ApiKey, Callable[[Any, Any], Lines]] = {
    ApiKey.CREATE_TOPICS: topics_created,
    ApiKey.DELETE_TOPICS: topics_deleted,
    ApiKey.CREATE_PARTITIONS: partitions_added,
    ApiKey.ALTER_CONFIGS: configs_changed,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs_changed,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: replicas_reassigned,
    ApiKey.ELECT_LEADERS: leaders_elected,
    ApiKey.UPDATE_FEATURES: features_updated,
    ApiKey.UNREGISTER_BROKER: broker_unregistered,
    ApiKey.CREATE_ACLS: acls_created,
    ApiKey.DELETE_ACLS: acls_deleted,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: scram_credentials_altered,
    ApiKey.ALTER_CLIENT_QUOTAS: client_quotas_altered,
}
