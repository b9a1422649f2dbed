"""Settings of listeners, connections and requests."""

from __future__ import annotations

from penstock.config.addresses import overrides_problem
from penstock.config.checks import not_zero, some_distinct
from penstock.config.setting import CLUSTER, PER_BROKER, Group, Setting
from penstock.config.values import INT, INT_MAX, LIST, LONG, MINUTE_MS, SECOND_MS, STRING, KiB, MiB

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""What a listener may speak, in the order of Kafka's ids (SecurityProtocol)."""
WITH_TLS = ("SSL", "SASL_SSL")
WITH_SASL = ("SASL_PLAINTEXT", "SASL_SSL")


class NetworkSettings(Group):
    """Listeners, connections, requests."""

    listeners = Setting(
        "listeners", LIST, default=("PLAINTEXT://:9092",), dynamic=PER_BROKER, check=some_distinct
    ).documented(
        "Addresses to listen on, NAME://host:port; an empty host is all interfaces. A name that is no security "
        "protocol needs an entry in listener.security.protocol.map."
    )
    advertised_listeners = Setting[tuple[str, ...] | None](
        "advertised.listeners", LIST, default=None, check=some_distinct
    ).documented("Addresses that clients are told to connect to, when they differ from listeners.")
    listener_security_protocol_map = Setting(
        "listener.security.protocol.map",
        STRING,
        dynamic=PER_BROKER,
        default="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    ).documented(
        "Security protocol of each listener name, NAME:PROTOCOL with commas between. When it is not given, the "
        "listeners named in controller.listener.names are PLAINTEXT."
    )
    security_inter_broker_protocol = Setting(
        "security.inter.broker.protocol", STRING, default="PLAINTEXT", one_of=SECURITY_PROTOCOLS
    ).documented("Security protocol between brokers, when inter.broker.listener.name is not given.")
    inter_broker_listener_name = Setting[str | None]("inter.broker.listener.name", STRING, default=None).documented(
        "Listener that brokers use among themselves. Unset: the one of security.inter.broker.protocol."
    )
    socket_send_buffer_bytes = Setting("socket.send.buffer.bytes", INT, default=100 * KiB).documented(
        "Send buffer of client sockets (SO_SNDBUF); -1 for the operating system's own."
    )
    socket_receive_buffer_bytes = Setting("socket.receive.buffer.bytes", INT, default=100 * KiB).documented(
        "Receive buffer of client sockets (SO_RCVBUF); -1 for the operating system's own."
    )
    socket_request_max_bytes = Setting("socket.request.max.bytes", INT, default=100 * MiB, at_least=1).documented(
        "Largest request; a connection that announces a larger one is closed."
    )
    telemetry_max_bytes = Setting("telemetry.max.bytes", INT, default=1 * MiB, at_least=1).documented(
        "Largest push of metrics by a client (KIP-714), as it comes and decompressed."
    )
    socket_listen_backlog_size = Setting("socket.listen.backlog.size", INT, default=50, at_least=1).documented(
        "Connections that the operating system holds for a listener before they are accepted."
    )
    max_connections_per_ip = Setting(
        "max.connections.per.ip", INT, default=INT_MAX, at_least=0, dynamic=CLUSTER
    ).documented(
        "Connections from one address; further ones are closed. 0 is allowed when overrides name the addresses."
    )
    max_connections_per_ip_overrides = Setting(
        "max.connections.per.ip.overrides", STRING, default="", dynamic=CLUSTER, check=overrides_problem
    ).documented(
        "Connections allowed from particular addresses, address:count with commas between. Names of hosts are not "
        "looked up."
    )
    max_connections = Setting(
        "max.connections", INT, default=INT_MAX, at_least=0, dynamic=CLUSTER, remote=not_zero
    ).documented(
        "Connections in all, and of each listener; with listener.name.NAME. before it, of that listener. Beyond it "
        "further ones wait until one closes. On the inter-broker listener they come in beyond the number in all, and "
        "the connection of another listener that has been idle longest is closed."
    )
    max_connection_creation_rate = Setting(
        "max.connection.creation.rate", INT, default=INT_MAX, at_least=0, dynamic=CLUSTER, remote=not_zero
    ).documented(
        "New connections a second in all, and on each listener; with listener.name.NAME. before it, on that listener. "
        "Beyond it they wait. Those on the inter-broker listener do not count for the rate in all."
    )
    connections_max_idle_ms = Setting("connections.max.idle.ms", LONG, default=10 * MINUTE_MS).documented(
        "How long a connection may be silent before it is closed."
    )
    socket_connection_setup_timeout_ms = Setting(
        "socket.connection.setup.timeout.ms", LONG, default=10 * SECOND_MS
    ).documented(
        "How long this node waits for a connection to another one; twice as long after each failure, up to "
        "socket.connection.setup.timeout.max.ms."
    )
    socket_connection_setup_timeout_max_ms = Setting(
        "socket.connection.setup.timeout.max.ms", LONG, default=30 * SECOND_MS
    ).documented("Most that socket.connection.setup.timeout.ms grows to.")
    queued_max_request_bytes = Setting("queued.max.request.bytes", LONG, default=-1).documented(
        "Bytes of requests in memory over all connections before reading pauses; -1 for a share of the memory."
    )
    request_timeout_ms = Setting("request.timeout.ms", INT, default=30 * SECOND_MS).documented(
        "How long this node waits for the answer of another one."
    )
    max_request_partition_size_limit = Setting(
        "max.request.partition.size.limit", INT, default=2000, at_least=1
    ).documented("Partitions that one DescribeTopicPartitions answer may hold.")
    max_incremental_fetch_session_cache_slots = Setting(
        "max.incremental.fetch.session.cache.slots", INT, default=1000, at_least=0
    ).documented("Fetch sessions kept for clients; without a slot a client fetches without a session.")
    fetch_max_bytes = Setting("fetch.max.bytes", INT, default=55 * MiB, at_least=1 * KiB).documented(
        "Most bytes that one fetch is answered with; the first batch comes whole even when it is larger."
    )
