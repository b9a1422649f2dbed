"""Settings that Kafka does not have. Their names start with `penstock.`."""

from __future__ import annotations

from penstock.config.broker.log import default_of
from penstock.config.setting import CLUSTER, Group, Setting
from penstock.config.topic import TopicConfig
from penstock.config.values import INT, LONG, PASSWORD, STRING, MiB, Password


class OwnSettings(Group):
    """The settings that only Penstock has."""

    penstock_produce_validation = Setting(
        "penstock.produce.validation", STRING, default="header", one_of=("header", "deep"), dynamic=CLUSTER
    ).documented(
        "How a produced batch is checked. header: checksum, lengths, counts, attributes, sequence and "
        "timestamps of the batch header. deep: every record too, as Kafka does; compacted topics always get it."
    )
    penstock_log_fsync = default_of(TopicConfig.penstock_log_fsync, "penstock.log.fsync")
    penstock_connection_max_in_flight = Setting(
        "penstock.connection.max.in.flight", INT, default=64, at_least=1, at_most=10_000
    ).documented("Requests of one connection that may wait or run; reading from it pauses beyond that.")
    penstock_connection_max_in_flight_bytes = Setting(
        "penstock.connection.max.in.flight.bytes", LONG, default=128 * MiB, at_least=1
    ).documented(
        "Bytes of requests of one connection that may wait or run; reading from it pauses beyond that, save for "
        "one request."
    )
    penstock_receive_timeout_ms = Setting("penstock.receive.timeout.ms", INT, default=30_000, at_least=100).documented(
        "How long a request may take to arrive once its first byte is there, besides its size at 16 KiB a second; "
        "a slower connection is closed."
    )
    penstock_log_dir_placement = Setting(
        "penstock.log.dir.placement", STRING, default="free", one_of=("free", "count"), dynamic=CLUSTER
    ).documented(
        "Which log directory a new replica goes to. free: the one with the most free bytes, less what replicas that "
        "are being filled there will still take; of equal ones the one to which least is written. count: the one with "
        "the fewest replicas, as in Kafka."
    )
    penstock_log_dir_reserve_bytes = Setting[int | None](
        "penstock.log.dir.reserve.bytes", LONG, default=None, at_least=0, dynamic=CLUSTER
    ).documented(
        "Bytes of each log directory's file system that are kept free of records: below it, producers get "
        "KAFKA_STORAGE_ERROR and followers stop fetching, until a quarter more is free. Topics of coordinators, "
        "checkpoints and the metadata log may use it. Unset: 256 MiB, or a twentieth of a smaller file system."
    )
    penstock_lane_threads = Setting("penstock.lane.threads", INT, default=2, at_least=1, at_most=64).documented(
        "Threads of one log directory, for reads that miss the page cache, forcing to disk, and file changes."
    )
    penstock_tls_handshake_threads = Setting(
        "penstock.tls.handshake.threads", INT, default=2, at_least=1, at_most=64
    ).documented("Threads that TLS handshakes run in, so that they hold up nothing else.")
    penstock_metrics_listener = Setting("penstock.metrics.listener", STRING, default="").documented(
        "Address of the HTTP endpoint with /metrics, /telemetry, /healthz and /readyz, host:port; empty for none."
    )
    penstock_metrics_tls_listener = Setting("penstock.metrics.tls.listener", STRING, default="").documented(
        "The listener whose certificate, trust and ssl.client.auth the HTTP endpoint has, too; it then speaks HTTPS. "
        "Empty: it speaks HTTP."
    )
    penstock_metrics_token = Setting[Password | None]("penstock.metrics.token", PASSWORD, default=None).documented(
        "What whoever asks for /metrics or /telemetry must send, as Authorization: Bearer TOKEN. Unset: nothing. It "
        "needs penstock.metrics.tls.listener unless the endpoint is on loopback."
    )
    penstock_client_metrics_series_max = Setting(
        "penstock.client.metrics.series.max", INT, default=20_000, at_least=0, at_most=10_000_000, dynamic=CLUSTER
    ).documented(
        "Series in /metrics that clients have pushed (KIP-714), about half a KiB each. Beyond that, those of the "
        "client that pushed least recently go. 0: what clients push is read and not kept."
    )
