"""What settings must say of one another: Kafka's own rules, and what is not supported here yet.

One function a rule book; each raises ConfigError with the names involved and what would be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.config.broker.network import SECURITY_PROTOCOLS, WITH_TLS
from penstock.config.listeners import Endpoint, Voter, endpoints, protocol_map, split_address, voters
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.config.broker.settings import BrokerSettings
    from penstock.config.topic import TopicConfig

KNOWN_CLASSES = {
    "replica.selector.class": ("org.apache.kafka.common.replica.RackAwareReplicaSelector",),
    "metric.reporters": ("org.apache.kafka.common.metrics.JmxReporter",),
    "authorizer.class.name": ("org.apache.kafka.metadata.authorizer.StandardAuthorizer",),
}
"""Class names of Kafka that have a counterpart here. Every other class name is an error."""
CLEANER_BUFFER_MIN_BYTES = 100
"""The least memory for keys of one thread of the log cleaner. With so little it gets on a few keys at a time; Apache
Kafka wants more than 1 MiB."""


def cross_check(
    settings: BrokerSettings, given: Mapping[str, str], topic_defaults: TopicConfig
) -> tuple[dict[str, Any], list[ConfigError]]:
    """Checks settings against one another. Gives the attributes that follow from several of them, and what is wrong:
    the first of each rule book.
    """
    derived: dict[str, Any] = {}
    problems: list[ConfigError] = []

    def apply(check: Callable[[], dict[str, Any] | None]) -> None:
        try:
            derived.update(check() or {})
        except ConfigError as wrong:
            problems.append(wrong)

    apply(lambda: check_identity(settings, given))
    for check in (check_logs, check_replication, check_connections, check_groups):
        apply(partial(check, settings))
    for name, class_name in classes(settings):
        apply(partial(check_class, name, class_name))
    apply(lambda: check_listeners(settings, given, derived.get("node_id", settings.node_id)))
    apply(topic_defaults.cross_check)
    return derived, problems


def require(condition: bool, sentence: str) -> None:
    """Raises ConfigError with the sentence unless the condition holds."""
    if not condition:
        raise ConfigError(sentence)


def check_groups(settings: BrokerSettings) -> None:
    """Times of consumer groups within their bounds, as in Kafka; and the assignors: Kafka takes names of classes too,
    of which there are none here."""
    for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        in_order(settings, f"group.consumer.min.{what}", f"group.consumer.{what}")
        in_order(settings, f"group.consumer.{what}", f"group.consumer.max.{what}")
    heartbeat_ms, session_ms = settings.group_consumer_heartbeat_interval_ms, settings.group_consumer_session_timeout_ms
    require(
        heartbeat_ms < session_ms,
        f"group.consumer.heartbeat.interval.ms = {heartbeat_ms} must be less than group.consumer.session.timeout.ms = "
        f"{session_ms}: every member would be taken for dead between two heartbeats",
    )
    for name in settings.group_consumer_assignors:
        require(
            name in ("uniform", "range"),
            f'group.consumer.assignors = "{name}" names no assignor: it must be some of uniform, range',
        )


def in_order(settings: BrokerSettings, smaller: str, larger: str) -> None:
    """Raises ConfigError when the first of two settings is larger than the second."""
    values = [getattr(settings, name.replace(".", "_")) for name in (smaller, larger)]
    require(
        values[0] <= values[1],
        f"{smaller} = {values[0]} is larger than {larger} = {values[1]}: it must be less than or equal to it",
    )


def check_identity(settings: BrokerSettings, given: Mapping[str, str]) -> dict[str, Any]:
    """Roles and node id. `broker.id` is the older name of `node.id`."""
    require(bool(settings.process_roles), "process.roles is missing: it must be broker, controller or both")
    node_id, broker_id = settings.node_id, settings.broker_id
    if "node.id" not in given:
        node_id = broker_id
    elif "broker.id" not in given:
        broker_id = node_id
    require(
        node_id == broker_id,
        f"node.id = {node_id} and broker.id = {broker_id} differ: they are names of one number, leave broker.id out",
    )
    require(node_id >= 0, "node.id is missing: it must be a number of at least 0 that no other node of the cluster has")
    return {"node_id": node_id, "broker_id": broker_id}


def check_logs(settings: BrokerSettings) -> None:
    """Log directories, rolling, retention, and the memory of the log cleaner."""
    directories = settings.directories
    require(bool(directories), "log.dirs is empty: it must name at least one directory")
    require(len(set(directories)) == len(directories), "log.dirs names a directory twice")
    for directory in settings.cordoned_log_dirs:
        require(
            directory == "*" or directory in directories,
            f"cordoned.log.dirs names {directory}, which is not in log.dirs",
        )
    require(settings.log_roll_ms is None or settings.log_roll_ms >= 1, "log.roll.ms must be at least 1")
    require(
        settings.log_roll_jitter_ms is None or settings.log_roll_jitter_ms >= 0, "log.roll.jitter.ms must be at least 0"
    )
    for name, value in (
        ("log.retention.ms", settings.log_retention_ms),
        ("log.retention.minutes", settings.log_retention_minutes),
        ("log.retention.hours", settings.log_retention_hours),
    ):
        require(value != 0, f"{name} = 0 would delete everything at once: it must be at least 1, or -1 for no limit")
    threads, buffer_bytes = settings.log_cleaner_threads, settings.log_cleaner_dedupe_buffer_size
    require(
        buffer_bytes // max(threads, 1) >= CLEANER_BUFFER_MIN_BYTES,
        f"log.cleaner.dedupe.buffer.size = {buffer_bytes} has no room for a single key of each of "
        f"log.cleaner.threads = {threads}: it must be at least {CLEANER_BUFFER_MIN_BYTES} for each, better some MiB",
    )


def check_replication(settings: BrokerSettings) -> None:
    """Followers' waits fit into the leader's patience."""
    wait_ms = settings.replica_fetch_wait_max_ms
    require(
        wait_ms <= settings.replica_socket_timeout_ms,
        f"replica.fetch.wait.max.ms = {wait_ms} is larger than replica.socket.timeout.ms = "
        f"{settings.replica_socket_timeout_ms}: an idle follower would time out on every fetch",
    )
    require(
        wait_ms <= settings.replica_lag_time_max_ms,
        f"replica.fetch.wait.max.ms = {wait_ms} is larger than replica.lag.time.max.ms = "
        f"{settings.replica_lag_time_max_ms}: an idle follower would leave the in-sync replicas on every fetch",
    )


def check_connections(settings: BrokerSettings) -> None:
    """Connection and request limits."""
    queued = settings.queued_max_request_bytes
    require(
        queued <= 0 or queued >= settings.socket_request_max_bytes,
        f"queued.max.request.bytes = {queued} is smaller than socket.request.max.bytes = "
        f"{settings.socket_request_max_bytes}: the largest request would never be read",
    )
    require(
        settings.max_connections_per_ip != 0 or bool(settings.max_connections_per_ip_overrides),
        "max.connections.per.ip = 0 refuses everyone: max.connections.per.ip.overrides must name who may connect",
    )


def classes(settings: BrokerSettings) -> Iterator[tuple[str, str]]:
    """The class names that are asked for, by setting."""
    given = {
        "replica.selector.class": settings.replica_selector_class,
        "authorizer.class.name": settings.authorizer_class_name,
    }
    for name, class_name in given.items():
        if class_name:
            yield name, class_name
    for class_name in settings.metric_reporters:
        yield "metric.reporters", class_name


def check_class(name: str, class_name: str) -> None:
    """Raises ConfigError unless the class is one of Kafka's own that has a counterpart here."""
    known = KNOWN_CLASSES.get(name, ())
    if class_name not in known:
        wanted = f"it must be {' or '.join(known)}" if known else "leave it out"
        raise ConfigError(f"{name} = {class_name}: Java classes cannot be loaded here; {wanted}")


def check_listeners(settings: BrokerSettings, given: Mapping[str, str], node_id: int) -> dict[str, Any]:
    """Listeners, advertised listeners, the controllers' listeners and the quorum, as Kafka's validateValues."""
    controllers = tuple(name.upper() for name in settings.controller_listener_names)
    require(bool(controllers), "controller.listener.names is missing: it must name the listener of the controllers")
    protocols = effective_protocols(settings, given, controllers)
    listening = endpoints(settings.listeners, protocols, "listeners")
    check_distinct(listening)
    advertised = listening
    if settings.advertised_listeners is not None:
        advertised = endpoints(settings.advertised_listeners, protocols, "advertised.listeners")
    broker, controller = "broker" in settings.process_roles, "controller" in settings.process_roles
    names = [endpoint.listener for endpoint in listening]
    quorum = voters(settings.controller_quorum_voters)
    check_quorum(settings, quorum, node_id, controller=controller)
    if controller:
        for name in controllers:
            require(
                name in names, f"controller.listener.names has {name}, which must stand in listeners of a controller"
            )
        if not broker:
            other = [name for name in names if name not in controllers]
            require(
                not other, f"listeners has {', '.join(other)}: a controller that is no broker listens on {controllers}"
            )
    else:
        shared = [name for name in names if name in controllers]
        require(
            not shared, f"listeners has {', '.join(shared)}, which belongs to the controllers; this is only a broker"
        )
        for name in controllers:
            require(name in protocols, f"controller listener {name} must stand in listener.security.protocol.map")
    for_clients = tuple(endpoint for endpoint in advertised if endpoint.listener not in controllers)
    if broker:
        check_advertised(for_clients, names)
    inter_broker = inter_broker_listener(settings, given, for_clients) if broker else None
    for endpoint in (*listening, *for_clients):
        check_security_protocol(endpoint)
    for name in settings.early_start_listeners or ():
        known = name.upper() in (*names, *controllers)
        require(known, f"early.start.listeners has {name}, which must stand in listeners or controller.listener.names")
    check_metrics_endpoint(settings, listening)
    return {
        "listener_endpoints": listening,
        "advertised_endpoints": for_clients,
        "controller_endpoints": controller_endpoints(listening, advertised, controllers),
        "inter_broker_listener": inter_broker,
        "voters": quorum,
        "security_protocols": protocols,
    }


def check_metrics_endpoint(settings: BrokerSettings, listening: Sequence[Endpoint]) -> None:
    """The HTTP endpoint's certificate is that of a listener that has one, and its token is not sent in clear."""
    wanted = settings.penstock_metrics_tls_listener.upper()
    if wanted:
        has_tls = any(each.listener == wanted and each.security_protocol in WITH_TLS for each in listening)
        require(has_tls, f"penstock.metrics.tls.listener has {wanted}, which must be a listener of this node with TLS")
    elif settings.penstock_metrics_token is not None and settings.penstock_metrics_listener:
        host, _ = split_address(settings.penstock_metrics_listener, "penstock.metrics.listener", "127.0.0.1:9644")
        local = host in ("localhost", "127.0.0.1", "::1")
        require(local, "penstock.metrics.token would be sent in clear: set penstock.metrics.tls.listener")


def controller_endpoints(
    listening: Sequence[Endpoint], advertised: Sequence[Endpoint], controllers: Sequence[str]
) -> tuple[Endpoint, ...]:
    """Where others reach this node's controller: as advertised, else where it listens."""
    told = {endpoint.listener: endpoint for endpoint in advertised}
    return tuple(told.get(endpoint.listener, endpoint) for endpoint in listening if endpoint.listener in controllers)


def effective_protocols(
    settings: BrokerSettings, given: Mapping[str, str], controllers: tuple[str, ...]
) -> dict[str, str]:
    """The protocol map; when it is not given, controller listeners are PLAINTEXT as long as nothing else is in use."""
    protocols = protocol_map(settings.listener_security_protocol_map)
    if "listener.security.protocol.map" not in given:
        for name in controllers:
            protocols.setdefault(name, "PLAINTEXT")
    return protocols


def check_distinct(listening: tuple[Endpoint, ...]) -> None:
    """Every listener has its own name, and its own port unless one is IPv4 and the other IPv6."""
    require(bool(listening), "listeners is empty: it must be like PLAINTEXT://127.0.0.1:9092")
    seen: dict[int, Endpoint] = {}
    names: dict[str, Endpoint] = {}
    for endpoint in listening:
        twin = names.setdefault(endpoint.listener, endpoint)
        require(twin is endpoint, f"listeners names {endpoint.listener} twice: each listener needs its own name")
        other = seen.setdefault(endpoint.port, endpoint)
        if other is not endpoint and endpoint.port != 0:
            require(
                (":" in endpoint.host) != (":" in other.host) and bool(endpoint.host) and bool(other.host),
                f"listeners {other} and {endpoint} share a port: each needs its own, unless one is IPv4 and one IPv6",
            )


def check_quorum(settings: BrokerSettings, quorum: tuple[Voter, ...], node_id: int, *, controller: bool) -> None:
    """Where the controllers are, and whether this node is one of them."""
    require(
        bool(quorum) or bool(settings.controller_quorum_bootstrap_servers),
        "controller.quorum.bootstrap.servers and controller.quorum.voters are both missing: one of them must say where "
        "the controllers are",
    )
    ids = [voter.id for voter in quorum]
    if controller:
        require(not ids or node_id in ids, f"controller.quorum.voters must name node {node_id}, which is a controller")
    else:
        require(node_id not in ids, f"controller.quorum.voters names node {node_id}, which is only a broker")


def check_advertised(for_clients: tuple[Endpoint, ...], names: list[str]) -> None:
    """Checks the advertised listeners: at least one, each one that we listen on, at an address clients can reach."""
    require(bool(for_clients), "there is no listener for clients: all of listeners belong to the controllers")
    for endpoint in for_clients:
        require(
            endpoint.listener in names,
            f"advertised.listeners has {endpoint.listener}, which is not in listeners ({', '.join(names)})",
        )
        require(
            endpoint.host != "0.0.0.0",
            f"advertised.listeners cannot use 0.0.0.0 ({endpoint}): it must be an address that clients can reach",
        )


def inter_broker_listener(settings: BrokerSettings, given: Mapping[str, str], for_clients: tuple[Endpoint, ...]) -> str:
    """The listener that brokers use among themselves."""
    name = settings.inter_broker_listener_name
    if name is not None and "security.inter.broker.protocol" in given:
        raise ConfigError("only one of inter.broker.listener.name and security.inter.broker.protocol may be given")
    chosen = (name or settings.security_inter_broker_protocol).upper()
    known = [endpoint.listener for endpoint in for_clients]
    advertising = "listeners" if settings.advertised_listeners is None else "advertised.listeners"
    require(
        chosen in known,
        f"{advertising} has {', '.join(known)} for clients: inter.broker.listener.name = {chosen} must be one of them",
    )
    return chosen


def check_security_protocol(endpoint: Endpoint) -> None:
    """Refuses a protocol that does not exist."""
    require(
        endpoint.security_protocol in SECURITY_PROTOCOLS,
        f"listeners: {endpoint.listener} wants {endpoint.security_protocol}, which is no security protocol: it must be "
        f"one of {', '.join(SECURITY_PROTOCOLS)}",
    )
