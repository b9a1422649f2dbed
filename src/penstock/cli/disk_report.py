"""Log directories as `penstock disks` shows them: health, a table, JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.output import print_table, printable, size_text
from penstock.client.log_directories import ReplicaInDirectory
from penstock.errors import ErrorCode, UnreachableError

if TYPE_CHECKING:
    from penstock.cli.disk_metrics import DirectoryMetrics
    from penstock.client.log_directories import Described, LogDirectoryState
    from penstock.placement.evening import Move

OK, CORDONED, SLOW, FULL, OFFLINE = "ok", "cordoned", "slow", "full", "offline"
UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Disk:
    """A log directory with what is known of it; `metrics` is None where /metrics was not asked or has nothing."""

    state: LogDirectoryState
    metrics: DirectoryMetrics | None = None

    @property
    def health(self) -> str:
        """Offline before full before slow before cordoned. Without metrics, full means that no byte is usable."""
        if self.state.error is not ErrorCode.NONE:
            return OFFLINE
        told = None if self.metrics is None else self.metrics.full
        if told or (told is None and self.state.usable_bytes == 0):
            return FULL
        if self.metrics is not None and self.metrics.slow:
            return SLOW
        return CORDONED if self.state.is_cordoned else OK

    @property
    def has_totals(self) -> bool:
        """Whether the broker tells the size of the file system."""
        return self.state.total_bytes > 0 and self.state.usable_bytes >= 0

    @property
    def used_bytes(self) -> int | None:
        """What is used of the file system, by whomever."""
        return self.state.total_bytes - self.state.usable_bytes if self.has_totals else None

    @property
    def replica_bytes(self) -> int:
        """What the replicas take, also those on their way here."""
        return sum(each.size_bytes for each in self.state.replicas)

    def largest(self, count: int) -> list[ReplicaInDirectory]:
        """The largest replicas."""
        return sorted(self.state.replicas, key=lambda each: (-each.size_bytes, each.key))[:count]


def disks_of(described: Described, metrics: Mapping[int, Mapping[str, DirectoryMetrics]]) -> list[Disk]:
    """All directories that brokers have described, by broker and path."""
    return [
        Disk(state, metrics.get(broker_id, {}).get(state.path))
        for broker_id, states in sorted(described.items())
        if not isinstance(states, UnreachableError)
        for state in sorted(states, key=lambda each: each.path)
    ]


def silent_of(described: Described) -> dict[int, str]:
    """Why brokers have not answered, by id."""
    return {id_: str(states) for id_, states in sorted(described.items()) if isinstance(states, UnreachableError)}


def is_well(disks: Sequence[Disk], silent: Mapping[int, str]) -> bool:
    """Whether every broker has answered and no directory is offline or full."""
    return not silent and all(disk.health not in (OFFLINE, FULL) for disk in disks)


def print_disks(disks: Sequence[Disk], top: int) -> None:
    """Prints a line for each directory, then its largest replicas, and which logs the cleaner could not clean."""
    with_metrics = any(disk.metrics is not None for disk in disks)
    head = ["BROKER", "DIRECTORY", "HEALTH", "REPLICAS", "LOGS", "USED", "FREE", "TOTAL"]
    if with_metrics:
        head += ["RESERVE", "WRITTEN/S", "UNCLEANABLE"]
    rows = [[*cells(disk), *(metrics_cells(disk) if with_metrics else ())] for disk in disks]
    print_table(head, rows, right=[name for name in head if name not in ("DIRECTORY", "HEALTH")])
    largest = [(disk, replica) for disk in disks for replica in disk.largest(top)]
    if largest:
        print()
        print_table(
            ("BROKER", "DIRECTORY", "LARGEST", "SIZE"),
            [
                (disk.state.broker, disk.state.path, name_of(replica), size_text(replica.size_bytes))
                for disk, replica in largest
            ],
            right=("BROKER", "SIZE"),
        )
    print_uncleanable(disks)


def print_uncleanable(disks: Sequence[Disk]) -> None:
    """Which logs the cleaner could not clean, and why, as far as the brokers name them."""
    told = [(disk, disk.metrics) for disk in disks if disk.metrics is not None and disk.metrics.uncleanable_logs]
    if not told:
        return
    print()
    print_table(
        ("BROKER", "DIRECTORY", "UNCLEANABLE", "SIZE", "WHY"),
        [
            (
                disk.state.broker,
                disk.state.path,
                printable(f"{log.topic}-{log.partition}"),
                size_text(log.size_bytes),
                printable(log.reason),
            )
            for disk, metrics in told
            for log in metrics.uncleanable_logs
        ],
        right=("BROKER", "SIZE"),
    )
    for disk, metrics in told:
        more = (metrics.uncleanable or 0) - len(metrics.uncleanable_logs)
        if more > 0:
            print(f"and {more:,} more on broker {disk.state.broker} in {disk.state.path}")


def cells(disk: Disk) -> list[object]:
    """The row of a directory, as far as every broker can tell it."""
    state = disk.state
    begun = [state.broker, state.path, disk.health]
    if disk.health == OFFLINE:
        return [*begun, *([UNKNOWN] * 5)]
    sizes = (state.usable_bytes, state.total_bytes) if disk.has_totals else (None, None)
    used = UNKNOWN if disk.used_bytes is None else f"{100 * disk.used_bytes / state.total_bytes:.0f}%"
    return [*begun, len(state.replicas), size_text(disk.replica_bytes), used, *map(known_size, sizes)]


def metrics_cells(disk: Disk) -> list[str]:
    """What /metrics adds to the row."""
    metrics = disk.metrics
    if metrics is None:
        return [UNKNOWN] * 3
    uncleanable = UNKNOWN
    if metrics.uncleanable is not None:
        uncleanable = str(metrics.uncleanable)
        if metrics.uncleanable:
            uncleanable += f" ({size_text(metrics.uncleanable_bytes or 0)})"
    return [known_size(metrics.reserve_bytes), known_size(metrics.write_rate_bytes), uncleanable]


def known_size(size_bytes: int | None) -> str:
    return UNKNOWN if size_bytes is None else size_text(size_bytes)


def name_of(replica: ReplicaInDirectory) -> str:
    """A replica in the table."""
    return f"{replica.topic}-{replica.index}{' (on its way here)' if replica.is_future else ''}"


def disks_json(disks: Sequence[Disk], silent: Mapping[int, str], top: int) -> dict[str, Any]:
    """All of it as one JSON object; null where something is not known."""
    return {
        "directories": [disk_json(disk, top) for disk in disks],
        "unreachable": [{"broker": broker_id, "error": error} for broker_id, error in silent.items()],
    }


def disk_json(disk: Disk, top: int) -> dict[str, Any]:
    state, metrics = disk.state, disk.metrics
    online = disk.health != OFFLINE
    return {
        "broker": state.broker,
        "path": state.path,
        "health": disk.health,
        "cordoned": state.is_cordoned,
        "total_bytes": state.total_bytes if disk.has_totals else None,
        "used_bytes": disk.used_bytes,
        "free_bytes": state.usable_bytes if disk.has_totals else None,
        "replicas": len(state.replicas) if online else None,
        "replica_bytes": disk.replica_bytes if online else None,
        "reserve_bytes": None if metrics is None else metrics.reserve_bytes,
        "write_rate_bytes": None if metrics is None else metrics.write_rate_bytes,
        "uncleanable": None if metrics is None else metrics.uncleanable,
        "uncleanable_bytes": None if metrics is None else metrics.uncleanable_bytes,
        "uncleanable_logs": None if metrics is None else [asdict(each) for each in metrics.uncleanable_logs],
        "largest": [
            {
                "topic": each.topic,
                "partition": each.index,
                "size_bytes": each.size_bytes,
                "future": each.is_future,
            }
            for each in disk.largest(top)
        ],
    }


def move_text(move: Move) -> str:
    """A move in a line."""
    (source, source_path), (target, target_path) = move.source, move.target
    name, size = f"{move.partition[0]}-{move.partition[1]}", size_text(move.size_bytes)
    if source == target:
        return f"{name} ({size}) on broker {source}: {source_path} -> {target_path}"
    return f"{name} ({size}): broker {source} {source_path} -> broker {target} {target_path}"


def move_json(move: Move) -> dict[str, Any]:
    return {
        "topic": move.partition[0],
        "partition": move.partition[1],
        "size_bytes": move.size_bytes,
        "from": {"broker": move.source[0], "path": move.source[1]},
        "to": {"broker": move.target[0], "path": move.target[1]},
    }
