"""What the shell may use: the bounds that settings and the operating system set, resolved once at start."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.config.limits import DESCRIPTORS_RESERVED, RECEIVED_MAX_BYTES
from penstock.errors import ConfigError
from penstock.server.logs import events

if TYPE_CHECKING:
    from penstock.config.server import Settings

logger = events("server.limits")

CLIENTS_SHARE = 0.75
"""Of the descriptors beyond the reserved ones, what clients may have; the rest is for log files."""

DESCRIPTORS_WANTED = 4096
"""A node works with fewer; below this it says at start that it may not be enough."""


@dataclass(frozen=True, slots=True)
class ShellLimits:
    """Bounds of sockets and connections. Sizes in bytes, -1 of a socket buffer leaves it to the system."""

    request_max_bytes: int = 100 * 1024 * 1024
    received_max_bytes: int = RECEIVED_MAX_BYTES
    connections_max: int = 2**31 - 1
    connections_per_address_max: int = 2**31 - 1
    connections_per_address: Mapping[str, int] = field(default_factory=dict)
    idle_ms: int = 600_000
    receive_timeout_ms: int = 30_000
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50

    @classmethod
    def of(cls, settings: Settings, descriptors: int) -> ShellLimits:
        """From the settings, and from how many descriptors the process may have."""
        clients_max = max(16, int((descriptors - DESCRIPTORS_RESERVED) * CLIENTS_SHARE))
        received = settings.queued_max_request_bytes
        given = settings.given
        return cls(
            request_max_bytes=settings.socket_request_max_bytes,
            received_max_bytes=received if received > 0 else RECEIVED_MAX_BYTES,
            connections_max=min(settings.max_connections, clients_max),
            connections_per_address_max=settings.max_connections_per_ip,
            connections_per_address=address_overrides(settings.max_connections_per_ip_overrides),
            idle_ms=settings.connections_max_idle_ms,
            receive_timeout_ms=settings.penstock_receive_timeout_ms,
            send_buffer_bytes=settings.socket_send_buffer_bytes if "socket.send.buffer.bytes" in given else -1,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes if "socket.receive.buffer.bytes" in given else -1,
            backlog=settings.socket_listen_backlog_size,
        )


def address_overrides(text: str) -> dict[str, int]:
    """`max.connections.per.ip.overrides`, as `127.0.0.1:200,10.0.0.7:5`."""
    overrides = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        address, colon, count = entry.rpartition(":")
        if not colon or not count.isdigit():
            raise ConfigError(f'max.connections.per.ip.overrides: "{entry}" must be like 10.0.0.7:100')
        overrides[address.strip("[]")] = int(count)
    return overrides


def raise_descriptor_limit() -> int:
    """Raises the process's soft limit of descriptors to its hard limit; returns what holds now."""
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
