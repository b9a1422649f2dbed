"""Limits of the server: those that nobody needs to tune, and the bounds from settings and the operating system,
resolved once at start.
"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.config.values import KiB, MiB
from penstock.events import events
from penstock.quota.usages import DEFAULT_WINDOWS, Windows
from penstock.server.disk import DESCRIPTORS_MAX

if TYPE_CHECKING:
    from penstock.config.server import Settings

logger = events("server.limits")

TURN_MAX_BYTES = 1 * MiB
"""Bytes that one connection may receive, or send, in one turn of the loop before the next one has its turn."""
CLOSED_LATER_MAX = 1_000
"""Connections above the quota of their address that wait to be closed."""
EXCESS_CLOSED_PER_TURN = 100
"""Connections that are closed in one turn of the loop when there are more than there may be."""
RECEIVE_BUFFER_BYTES = 64 * KiB
"""What one read from a socket asks for when no frame is open."""
COPIED_READ_BYTES = 4 * KiB
"""What a read has brought is copied out of the buffer up to so much, which is cheaper than to lend that out."""
BUFFER_POOL_MAX_BYTES = 16 * MiB
"""Idle receive buffers kept for reuse in all; what exceeds it is freed."""
SEND_CHUNKS_MAX = 1024
"""Chunks of one sendmsg (IOV_MAX on Linux); more go out in further calls."""
SEND_PIECE_BYTES = 1 * MiB
"""File bytes that a connection has in memory for sending; an answer is read piece by piece as the socket takes it. A
consumer's usual fetch of a partition (max.partition.fetch.bytes) is one piece."""
SEND_PIECE_WHEN_SHORT_BYTES = 256 * KiB
"""The same while more than half of UNSENT_PIECES_MAX_BYTES is used: what a slow client does not take is read again."""
SEND_QUEUE_MAX_BYTES = 4 * MiB
"""Answers in memory (not in files) that wait for one client to read; beyond it we stop reading its requests."""
UNSENT_PIECES_MAX_BYTES = 64 * MiB
"""File pieces kept for slow readers in all; beyond it an unsent piece is dropped and read again when its turn comes."""
RECEIVED_MAX_BYTES = 512 * MiB
"""Request bytes of all connections held at once when queued.max.request.bytes sets none; reading pauses beyond it."""
RECEIVE_RATE_MIN_BYTES_PER_S = 16 * KiB
"""A frame may take its base timeout plus its size at this rate; slower senders are closed."""
RECEIVE_GROWTH = 16
"""A frame's buffer is at most this many times what has arrived of it, so that announcing a size costs nothing."""
ACCEPTS_PER_TURN = 64
"""Connections one listener accepts in one turn of the loop."""
LOG_LINE_MAX_CHARACTERS = 4_000
"""What one event may say in the log; the rest is left out. Names that clients choose may be 32 KB long."""
CLOSE_LINGER_MS = 5_000
"""How long a connection that is being closed may take to read its last answers."""
DESCRIPTORS_RESERVED = 64
"""Descriptors kept from clients and log files: listeners, the loop, links to other nodes, checkpoints, lock files."""
LANE_TURN_BYTES = 256 * KiB
"""What a lane reads for one tenant before all others that wait have had as much."""
LANE_OPERATION_BYTES = 64 * KiB
"""What each of these reads counts for besides its bytes."""
LANE_SLOW_MS = 10
"""An append on the loop that took longer sends its directory's appends to the lane."""
LANE_SLOW_LATELY_MS = 1_000
"""For so long after a slow append the log cleaner lets its disk be."""
LANE_HEALTHY_AFTER_MS = 10_000
"""How long all appends of a lane must have been fast before they run on the loop again."""
WORKER_IDLE_S = 30.0
"""How long a worker process waits for the next task before it is ended."""
WORKERS_MAX = 8
"""Worker processes that validate batches, or recover logs of one directory, even on a machine with more cores. To
validate a batch takes twice the memory that it unpacks to, 290 MB at most: 2.3 GB if all have such batches."""
WORKER_WAIT_MAX_S = 10.0
"""How long a task that a client waits for may wait for a worker; then the lane does it."""
PACED_BYTES = 256 * KiB
"""After so many bytes that the log cleaner has read and written it asks whether to go on."""
PACE_LOOK_S = 0.3
"""The log cleaner looks so often whether what holds it up has changed."""
PACE_SLOW_DISK_MAX_S = 0.5
"""How long the log cleaner waits before it moves `PACED_BYTES` more, however slow the disk is: half a MB a second."""
WORKER_START_AGAIN_S = 30.0
"""How long no worker process is started after one did not start; lanes do the tasks, passes of the cleaner wait."""
WORKER_START_MAX_MS = 30_000
"""How long a worker process may take to start; one that takes longer is ended, and the node does the task itself."""
WORKER_MESSAGE_MAX_BYTES = 256 * MiB
"""A longer report is garbage: its worker is ended, and the task has failed."""
HTTP_CONNECTIONS_MAX = 32
"""Connections of the metrics endpoint; a further one is closed."""
HTTP_HEAD_MAX_BYTES = 8 * KiB
"""Request line and headers on the metrics endpoint."""
METRICS_STEP_MS = 2
"""How long a scrape works before others have their turn."""
HTTP_HANDSHAKE_TIMEOUT_S = 2
"""How long a TLS handshake with the HTTP endpoint may take."""
HTTP_TIMEOUT_MS = 10_000
"""How long a request on the metrics endpoint may take to arrive and its answer to be read."""
LATE_MAX_MS = 1_000
"""How late an event may come whose time had come; what is beyond is time in which the process did not run."""
PEER_ANSWER_MAX_BYTES = 256 * MiB
"""One answer of another node; a longer one closes the connection."""
RECORD_BYTES = 16 * KiB
"""Plain bytes of one TLS record, the most that the protocol allows; what is more goes into further records."""
JOINED_CHUNK_MAX_BYTES = 4 * KiB
"""Chunks of an answer up to so much are joined before they are encrypted; larger ones are encrypted as they lie."""
SEALED_MAX_BYTES = 256 * KiB
"""Encrypted at once for one connection, and held at most while its socket takes no more; the rest waits plain."""
HANDSHAKE_MAX_BYTES = 256 * KiB
"""What a TLS handshake may bring, certificates included; with more the connection is closed."""
EMPTY_RECORDS_MAX = 32
"""TLS records in which the other side sends no bytes but asks for new keys and the like, besides one in a thousand."""
HANDSHAKE_STEPS_MAX = 10_000
"""Steps of TLS handshakes that wait for a thread; with more waiting, a new connection is closed."""
LOGIN_THREADS = 4
"""Steps of logins that may block and run at once, one of this node's own among them; further ones wait."""
STORE_LOOK_S = 2.0
"""How often the files of key and trust stores are looked at for a change."""
JWKS_MAX_BYTES = MiB
"""Keys of an issuer; a larger answer or file is not read to its end, and refused. Usual are 2 to 5 KiB."""
KEY_SOURCES_LOOK_S = 5.0
"""How often it is looked at whether a listener has come to take tokens by OAUTHBEARER, or to fetch its keys otherwise:
how long its first logins may fail then."""

CLIENTS_SHARE = 0.75
"""Of the descriptors beyond the reserved ones, what clients may have; the rest is for log files."""

DESCRIPTORS_WANTED = 4096
"""A node works with fewer; below this it says at start that it may not be enough."""


@dataclass(frozen=True, slots=True)
class ShellLimits:
    """Bounds of sockets, connections and files. Sizes in bytes; -1 leaves a socket buffer to the system.

    `connections_max`: what descriptors allow, whatever the limits of settings are. `rate_windows`: those over which new
    connections are measured. `before_login_max_bytes`: the largest frame of who has not logged in, by listener that
    asks for it.
    """

    request_max_bytes: int = 100 * 1024 * 1024
    received_max_bytes: int = RECEIVED_MAX_BYTES
    files_max: int = DESCRIPTORS_MAX
    connections_max: int = 2**31 - 1
    rate_windows: Windows = DEFAULT_WINDOWS
    idle_ms: int = 600_000
    receive_timeout_ms: int = 30_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50
    before_login_max_bytes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, descriptors: int) -> ShellLimits:
        """The limits from the settings and from the number of descriptors that the process may have."""
        shared = max(0, descriptors - DESCRIPTORS_RESERVED)
        clients_max = max(16, int(shared * CLIENTS_SHARE))
        files_max = max(16, min(DESCRIPTORS_MAX, shared - min(settings.max_connections, clients_max)))
        received = settings.queued_max_request_bytes
        given = settings.given
        return cls(
            request_max_bytes=settings.socket_request_max_bytes,
            received_max_bytes=received if received > 0 else RECEIVED_MAX_BYTES,
            files_max=files_max,
            connections_max=max(1, min(clients_max, shared - files_max)),
            rate_windows=Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1_000),
            idle_ms=settings.connections_max_idle_ms,
            receive_timeout_ms=settings.penstock_receive_timeout_ms,
            send_buffer_bytes=settings.socket_send_buffer_bytes if "socket.send.buffer.bytes" in given else -1,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes if "socket.receive.buffer.bytes" in given else -1,
            backlog=settings.socket_listen_backlog_size,
            before_login_max_bytes={name: each.receive_max_bytes for name, each in settings.sasl.listeners.items()},
        )


def raise_descriptor_limit() -> int:
    """Raises the process's soft limit of descriptors to its hard limit; returns the limit in effect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:  # macOS: the hard limit may be "unlimited", and refused
            logger.warning("cannot raise the descriptor limit", soft=soft, hard=hard, error=error)
    if soft < DESCRIPTORS_WANTED:
        logger.warning("few descriptors; raise the limit (ulimit -n)", limit=soft, wanted=DESCRIPTORS_WANTED)
    return soft


def descriptor_limit() -> int:
    """The process's soft limit of descriptors."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
