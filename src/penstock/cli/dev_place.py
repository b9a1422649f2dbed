"""Where `penstock dev` runs, one node or several: ports, directory and overrides as they were asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from penstock.cli.common import pairs
from penstock.errors import ConfigError, UsageError

HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_METRICS_PORT = 9644
PORTS_TRIED = 100
PLACES = frozenset({"log.dir", "log.dirs", "metadata.log.dir"})
MISSING = "share groups, tiered storage"
"""What of Kafka does not work yet, in one line."""


def given_directory(text: str) -> str:
    """The directory of --data. Raises UsageError for none: an unset variable is not the current directory."""
    if not text:
        raise UsageError("--data is empty: it must name a directory")
    return os.path.abspath(os.path.expanduser(text))


def given_overrides(texts: Sequence[str]) -> dict[str, str]:
    """The settings of --override. Raises UsageError for those that say where the data is: --data does."""
    overrides = pairs(texts, "--override")
    for name in PLACES & overrides.keys():
        raise UsageError(f"--override {name}: penstock dev keeps its data in one directory, and --data says where")
    return overrides


def choose_port(asked: int | None, usual: int, option: str, what: str, notes: dict[str, str]) -> int:
    """The port asked for, else the usual one or the next that is free."""
    if asked is not None:
        if not 0 <= asked <= 65535:
            raise UsageError(f"{option} {asked} is not a port: it must be from 0 (any free one) to 65535")
        if asked and not is_free(asked):
            raise ConfigError(f"port {asked} is taken: choose another {option}, or 0 for any free one")
        return asked
    for port in range(usual, usual + PORTS_TRIED):
        if is_free(port):
            if port != usual:
                notes[what] = f"port {usual} is taken"
            return port
    raise ConfigError(f"ports {usual} to {usual + PORTS_TRIED - 1} are all taken: {option} 0 takes any free one")


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that are free now, each another."""
    import socket

    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def is_free(port: int) -> bool:
    """Whether a server can listen on the port of the loopback."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def seconds_since_start() -> float:
    """How long this process has lived, the start of the interpreter included where the system tells it (Linux)."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return time.process_time()
