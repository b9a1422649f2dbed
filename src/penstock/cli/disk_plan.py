"""What to move between log directories: from what brokers describe to a plan of `placement.evening`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli.disk_report import OFFLINE, OK, Disk
from penstock.placement.evening import Directory, Move, evened, plan_of
from penstock.placement.plan import plan_json

if TYPE_CHECKING:
    from penstock.client.view import View

SAME_DISK_SHARE = 1000
"""Directories of one host are taken for one disk if they have the same size and their free bytes differ by less than
a thousandth of it: brokers do not tell the file system."""


@dataclass(frozen=True, slots=True)
class DiskPlan:
    """Moves and the plan that makes them; `by_size`: bytes of replicas were evened out, as free space is not known."""

    moves: Sequence[Move]
    plan: Mapping[str, Any]
    by_size: bool


def plan_moves(disks: Sequence[Disk], view: View, moves_max: int) -> DiskPlan:
    """What to move so that the free space becomes more even, at most so many replicas.

    Partitions that nobody leads stay, as do those that are being moved already.
    """
    online = [disk for disk in disks if disk.health != OFFLINE]
    by_size = not all(disk.has_totals for disk in online)
    hosts = {broker.id: broker.host for broker in view.brokers}
    directories = by_replica_bytes(online) if by_size else by_free_bytes(online, hosts)
    coming = {each.key for disk in online for each in disk.state.replicas if each.is_future}
    stay = coming | set(view.moving) | {each.key for each in view.partitions if each.unavailable}
    current = {key: replicas for key, replicas in view.replicas.items() if key not in stay}
    held = {place_of(disk): {each.key: each.size_bytes for each in disk.state.replicas} for disk in online}
    moves = evened(current, directories, held, view.racks, moves_max)
    return DiskPlan(moves, plan_json(*plan_of(current, moves, directories)), by_size)


def place_of(disk: Disk) -> tuple[int, str]:
    return disk.state.broker, disk.state.path


def by_free_bytes(disks: Sequence[Disk], hosts: Mapping[int, str]) -> list[Directory]:
    """The directories with what is free on their disks."""
    names: dict[tuple[int, str], str] = {}
    firsts: list[Disk] = []
    for disk in disks:
        first = next((each for each in firsts if same_disk(each, disk, hosts)), disk)
        if first is disk:
            firsts.append(disk)
        names[place_of(disk)] = " ".join(map(str, place_of(first)))
    return [
        Directory(
            place_of(disk),
            names[place_of(disk)],
            disk.state.usable_bytes,
            (disk.metrics and disk.metrics.reserve_bytes) or 0,
            takes=disk.health == OK,
        )
        for disk in disks
    ]


def same_disk(one: Disk, other: Disk, hosts: Mapping[int, str]) -> bool:
    """Whether two directories seem to be on one file system."""
    a, b = one.state, other.state
    is_one_host = a.broker == b.broker or (a.broker in hosts and hosts[a.broker] == hosts.get(b.broker))
    alike = abs(a.usable_bytes - b.usable_bytes) * SAME_DISK_SHARE <= a.total_bytes
    return is_one_host and a.total_bytes == b.total_bytes and alike


def by_replica_bytes(disks: Sequence[Disk]) -> list[Directory]:
    """The directories as if all disks were as large as what the fullest of them holds."""
    largest = max((disk.replica_bytes for disk in disks), default=0)
    return [
        Directory(
            place_of(disk), " ".join(map(str, place_of(disk))), largest - disk.replica_bytes, takes=disk.health == OK
        )
        for disk in disks
    ]
