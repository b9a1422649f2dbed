"""Replicas moved between log directories, of one broker or of several, until about as much is free in each.

A greedy rule, so that each move can be understood by itself: from the fullest directory to the emptiest, the replica
after whose move the two are the most alike. A move is only made if both have then more free than the fuller one had,
so the least free space never falls and the plan comes to an end. A partition moves once, never to a broker that has it
already, and never so that its replicas are in fewer racks. Directories of one disk share what is free there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.config.values import MiB
from penstock.placement.plan import Partition, Plan, Racks, Replica, Replicas, rack_count

MOVED_BYTES_MIN = MiB
"""Smaller replicas stay: to move them costs more than it frees."""

Place = tuple[int, str]
"""A broker and the path of one of its log directories."""
Held = Mapping[Place, Mapping[Partition, int]]
"""Bytes of each replica, by where it is."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A log directory that is online.

    Attributes:
        place: where it is.
        disk: the name of its file system. Directories with the same one share their free space.
        free_bytes: what is free there. reserve_bytes: what a move must leave free.
        takes: whether replicas may move here; not to a full or cordoned one.
    """

    place: Place
    disk: str
    free_bytes: int
    reserve_bytes: int = 0
    takes: bool = True


@dataclass(frozen=True, slots=True)
class Move:
    """One replica from one directory to another."""

    partition: Partition
    size_bytes: int
    source: Place
    target: Place


def evened(current: Plan, directories: Sequence[Directory], held: Held, racks: Racks, moves_max: int) -> list[Move]:
    """Moves that even out the free space, at most so many; see the module's head.

    Args:
        current: the partitions that may move, with their replicas.
        directories: where replicas may come from and go to.
        held: what lies there. What `current` does not have stays.
    """
    free = free_by_disk(directories)
    movable = Movable(current, held, racks)
    disks = {each.place: each.disk for each in directories}
    moves: list[Move] = []
    while len(moves) < moves_max:
        move = next((each for pair in pairs(directories, free) if (each := best(pair, free, movable))), None)
        if move is None:
            break
        moves.append(move)
        free[disks[move.source]] += move.size_bytes
        free[disks[move.target]] -= move.size_bytes
        movable.drop(move.partition)
    return moves


def free_by_disk(directories: Sequence[Directory]) -> dict[str, int]:
    """Free bytes of each disk: the least of what its directories report."""
    free: dict[str, int] = {}
    for each in directories:
        free[each.disk] = min(each.free_bytes, free.get(each.disk, each.free_bytes))
    return free


class Movable:
    """The replicas that are worth a move, lie where the plan has them, and have not moved yet.

    Where one may go does not change before it moves, so that is found out once: there are many pairs of directories.
    """

    def __init__(self, current: Plan, held: Held, racks: Racks) -> None:
        self._current = current
        self._held = held
        self._racks = racks
        self._found: dict[Place, dict[int, list[tuple[int, Partition]]]] = {}
        self._moved: set[Partition] = set()

    def replicas(self, source: Place, broker_id: int) -> list[tuple[int, Partition]]:
        """Sizes and partitions of those that may move from a directory to a broker, the smallest first."""
        by_broker = self._found.setdefault(source, {})
        if broker_id not in by_broker:
            by_broker[broker_id] = sorted(
                (size_bytes, key)
                for key, size_bytes in self._held.get(source, {}).items()
                if size_bytes >= MOVED_BYTES_MIN
                and key not in self._moved
                and self._may_move(key, source[0], broker_id)
            )
        return by_broker[broker_id]

    def _may_move(self, key: Partition, source: int, target: int) -> bool:
        replicas = self._current.get(key, ())
        return source in replicas and may_move(replicas, source, target, self._racks)

    def drop(self, partition: Partition) -> None:
        """A partition has moved: none of its replicas moves any more."""
        self._moved.add(partition)
        for source, by_broker in self._found.items():
            if (size_bytes := self._held.get(source, {}).get(partition)) is not None:
                entry = (size_bytes, partition)
                for replicas in by_broker.values():
                    at = bisect_left(replicas, entry)
                    if replicas[at : at + 1] == [entry]:
                        del replicas[at]


def pairs(directories: Sequence[Directory], free: Mapping[str, int]) -> Iterator[tuple[Directory, Directory]]:
    """From the fullest to the emptiest, where there is less free here than there; of equal ones, the same broker's."""
    order = sorted(directories, key=lambda each: (free[each.disk], each.place))
    for source in order:
        emptiest = sorted(
            (each for each in order if each.takes and free[each.disk] > free[source.disk]),
            key=lambda each: (-free[each.disk], each.place[0] != source.place[0], each.place),
        )
        for target in emptiest:
            yield source, target


def best(pair: tuple[Directory, Directory], free: Mapping[str, int], movable: Movable) -> Move | None:
    """The move after which the two directories are the most alike, if one makes them more so."""
    source, target = pair
    difference = free[target.disk] - free[source.disk]
    too_large = min(difference, free[target.disk] - target.reserve_bytes + 1)
    replicas = movable.replicas(source.place, target.place[0])
    fitting = replicas[: bisect_left(replicas, too_large, key=lambda each: each[0])]
    found = min(fitting, key=lambda each: (abs(difference - 2 * each[0]), each), default=None)
    return None if found is None else Move(found[1], found[0], source.place, target.place)


def may_move(replicas: Replicas, source: int, target: int, racks: Racks) -> bool:
    """Whether a partition may move from one broker to another, or within one."""
    if source == target:
        return True
    after = tuple(target if each == source else each for each in replicas)
    return target not in replicas and rack_count(after, racks) >= rack_count(replicas, racks)


def replicas_after(replicas: Replicas, move: Move) -> Replicas:
    """The replicas of a partition after a move; the new one has the place of the old one."""
    return tuple(move.target[0] if each == move.source[0] else each for each in replicas)


def plan_of(
    current: Plan, moves: Sequence[Move], directories: Sequence[Directory]
) -> tuple[dict[Partition, Replicas], dict[Replica, str]]:
    """What moves come to: the replicas of the partitions that move, and the directories to take.

    A directory is named where a replica moves within its broker, and where its new broker has several of them.
    """
    brokers = [each.place[0] for each in directories]
    plan: dict[Partition, Replicas] = {}
    log_dirs: dict[Replica, str] = {}
    for move in moves:
        broker_id, path = move.target
        plan[move.partition] = replicas_after(current[move.partition], move)
        if broker_id == move.source[0] or brokers.count(broker_id) > 1:
            log_dirs[(*move.partition, broker_id)] = path
    return plan, log_dirs
