"""Whether a plan fits the cluster that was seen: read from its JSON, and held against metadata and log directories.

A plan is JSON as `kafka-reassign-partitions` reads it, with leaders and moves beside the partitions (`plan.document`
makes such). The plan must have been made for the cluster as it is: its moves must find the replicas where they take
them from. No two replicas may come to one broker, no partition may have fewer racks or another number of replicas than
before, and brokers and directories that get something must be there. A plan with one fault is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.guardian.core.limits import GUARDIAN_PLAN_MOVES_MAX, GUARDIAN_TEXT_MAX
from penstock.guardian.core.sight import ClusterSight, SeenPartition
from penstock.guardian.core.work.plans import ANY_DIRECTORY, Move, Part, Stage

LEADER, DISK, REPLICA, SWAP = KINDS = ("leader", "disk", "replica", "swap")
WHY_MAX = 500
"""Characters of a move's reason that are kept."""
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class Unfit(Exception):
    """A plan that cannot be taken, in a sentence. `malformed`: whatever the cluster is like."""

    def __init__(self, sentence: str, *, malformed: bool = False) -> None:
        super().__init__(sentence)
        self.malformed = malformed


def moves_of(document: Any, seen: ClusterSight, wall_ms: int) -> tuple[Move, ...]:
    """The moves of a plan, by partition, in the order of its own moves. Raises Unfit."""
    partitions = entries(document, "partitions")
    if not partitions:
        raise Unfit("the plan moves nothing: its partitions are empty", malformed=True)
    if len(partitions) > GUARDIAN_PLAN_MOVES_MAX:
        raise Unfit(f"the plan moves {len(partitions)} partitions: at most {GUARDIAN_PLAN_MOVES_MAX}", malformed=True)
    parts = parts_of(entries(document, "moves"))
    leaders = leaders_of(entries(document, "leaders"))
    found: dict[tuple[str, int], Move] = {}
    for number, each in enumerate(partitions, 1):
        move = one_move(each, f"partitions[{number - 1}]", leaders, parts, seen)
        if move.key in found:
            raise Unfit(f"{move.name} is there twice", malformed=True)
        found[move.key] = move
    for key in (*leaders, *parts):
        if key not in found:
            raise Unfit(f"{key[0]}-{key[1]} has moves or a leader, but is not among the partitions", malformed=True)
    order = {key: at for at, key in enumerate(parts)}
    ordered = sorted(found.values(), key=lambda each: order.get(each.key, len(order)))
    return tuple(numbered(each, number, wall_ms) for number, each in enumerate(ordered, 1))


def numbered(move: Move, number: int, wall_ms: int) -> Move:
    """A move as it begins, with its number."""
    return Move(
        number,
        move.topic,
        move.topic_id,
        move.partition,
        move.partitions,
        move.before,
        move.target,
        move.directories,
        move.leader,
        move.parts,
        (Stage("waiting", wall_ms),),
    )


def one_move(
    entry: Mapping[str, Any],
    place: str,
    leaders: Mapping[tuple[str, int], int],
    parts: Mapping[tuple[str, int], tuple[Part, ...]],
    seen: ClusterSight,
) -> Move:
    """The move of one partition. Raises Unfit."""
    topic, partition = text_in(entry, "topic", place), number_in(entry, "partition", place)
    key = topic, partition
    target = tuple(integer(each, f"{place}.replicas") for each in items(entry, "replicas", place))
    named = items(entry, "log_dirs", place) if entry.get("log_dirs") is not None else ()
    directories = tuple(text(each, f"{place}.log_dirs") for each in named)
    if directories and len(directories) != len(target):
        raise Unfit(f"{place}: {len(directories)} log_dirs for {len(target)} replicas", malformed=True)
    if all(each == ANY_DIRECTORY for each in directories):
        directories = ()
    known = seen.topics.get(topic)
    there = seen.partition(topic, partition)
    if known is None or there is None:
        raise Unfit(f"{topic}-{partition} is not there")
    move = Move(
        0,
        topic,
        known.id,
        partition,
        len(known.partitions),
        there.replicas,
        target,
        directories,
        leaders.get(key, -1),
        parts.get(key, ()),
    )
    check_replicas(move, there, seen)
    check_directories(move, seen)
    check_parts(move, seen)
    return move


def check_replicas(move: Move, there: SeenPartition, seen: ClusterSight) -> None:
    """Whether the replicas that a move wants may be. Raises Unfit."""
    name = move.name
    if there.adding or there.removing:
        raise Unfit(f"{name} is being reassigned already")
    if not move.target or len(dict.fromkeys(move.target)) != len(move.target):
        raise Unfit(f"{name}: two replicas would be on one broker, or none: {listed(move.target)}", malformed=True)
    if len(move.target) != len(move.before):
        raise Unfit(
            f"{name} has {len(move.before)} replicas, and would have {len(move.target)}: plans do not change that"
        )
    for broker in move.adding:
        if broker not in seen.brokers:
            raise Unfit(f"{name} would come to broker {broker}, which is not there")
    if move.leader >= 0 and move.target[0] != move.leader:
        raise Unfit(f"{name}: broker {move.leader} is to lead, so it must be the first of its replicas", malformed=True)
    if racks(move.target, seen) < racks(move.before, seen):
        raise Unfit(f"{name} would be in fewer racks than now: on brokers {listed(move.target)}")


def racks(brokers: Iterable[int], seen: ClusterSight) -> int:
    """In how many racks brokers are; one without a rack, or that is not there, is in none."""
    known = (seen.brokers[each].rack for each in brokers if each in seen.brokers)
    return len(dict.fromkeys(rack for rack in known if rack is not None))


def check_directories(move: Move, seen: ClusterSight) -> None:
    """Whether the directories that get something are there, and in use. Raises Unfit."""
    for broker, path in move.wanted_directories:
        if not any(each.broker == broker for each in seen.disks.values()):
            raise Unfit(f"{move.name}: the directories of broker {broker} have not been seen, so {path} is not known")
        disk = seen.disks.get((broker, path))
        if disk is None:
            raise Unfit(f"{move.name}: broker {broker} has no directory {path[:GUARDIAN_TEXT_MAX]}")
        if disk.error:
            raise Unfit(f"{move.name}: directory {path} of broker {broker} is not in use")


def check_parts(move: Move, seen: ClusterSight) -> None:
    """Whether the plan's own moves find the replicas, and are all that is wanted. Raises Unfit."""
    if not move.parts:
        return
    left: list[int] = []
    came: list[int] = []
    for part in move.parts:
        if part.kind in (REPLICA, SWAP):
            left.append(part.from_broker)
            came.append(part.to_broker)
        elif part.kind == DISK:
            check_disk_part(move, part, seen)
    for broker in left:
        if broker not in move.before:
            where = listed(move.before)
            raise Unfit(f"{move.name} has no replica on broker {broker} any more, but on {where}: plan anew")
    if sorted(left) != sorted(move.removing) or sorted(came) != sorted(move.adding):
        wanted = f"from {listed(move.before)} to {listed(move.target)}"
        raise Unfit(f"{move.name} would go {wanted}, which is not what the plan's moves say: plan anew")


def check_disk_part(move: Move, part: Part, seen: ClusterSight) -> None:
    """Whether a replica lies where a move takes it from. Raises Unfit."""
    if part.from_broker not in move.before:
        raise Unfit(f"{move.name} has no replica on broker {part.from_broker} any more: plan anew")
    replica = seen.replicas.get((move.topic, move.partition, part.from_broker))
    if replica is not None and part.from_directory and replica.path not in (part.from_directory, part.to_directory):
        where = f"in {replica.path} of broker {part.from_broker}, not in {part.from_directory}"
        raise Unfit(f"{move.name} lies {where}: plan anew")


def leaders_of(leaders: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    """By partition, who is to lead it. Raises Unfit."""
    found = {}
    for number, each in enumerate(leaders):
        place = f"leaders[{number}]"
        key = text_in(each, "topic", place), number_in(each, "partition", place)
        found[key] = number_in(each, "broker", place)
    return found


def parts_of(moves: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], tuple[Part, ...]]:
    """By partition, the plan's own moves; partitions in the order of their first. Raises Unfit."""
    found: dict[tuple[str, int], list[Part]] = {}
    for number, each in enumerate(moves):
        place = f"moves[{number}]"
        kind = text_in(each, "kind", place)
        if kind not in KINDS:
            raise Unfit(f"{place}: kind {kind} must be one of {', '.join(KINDS)}", malformed=True)
        ends = [each.get(end) for end in ("from", "to")]
        if not all(isinstance(end, dict) for end in ends):
            raise Unfit(f"{place}: from and to must be objects that name a broker", malformed=True)
        begin, end = ends
        assert begin is not None
        assert end is not None
        size = each.get("bytes", 0)
        part = Part(
            number_in(each, "id", place) if "id" in each else number + 1,
            kind,
            number_in(begin, "broker", f"{place}.from"),
            text(begin.get("dir", ""), f"{place}.from.dir"),
            number_in(end, "broker", f"{place}.to"),
            text(end.get("dir", ""), f"{place}.to.dir"),
            integer(size, f"{place}.bytes", INT64_MAX),
            text(each.get("why", ""), f"{place}.why", len_max=None)[:WHY_MAX],
        )
        key = text_in(each, "topic", place), number_in(each, "partition", place)
        found.setdefault(key, []).append(part)
    return {key: tuple(parts) for key, parts in found.items()}


def entries(document: Any, name: str) -> list[Mapping[str, Any]]:
    """A list of objects in the plan; empty where there is none. Raises Unfit."""
    if not isinstance(document, dict):
        raise Unfit("plan must be a JSON object, as `penstock guardian plan --json` prints it", malformed=True)
    found = document.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Unfit(f"{name} of the plan must be a list of objects", malformed=True)
    return found


def items(entry: Mapping[str, Any], name: str, place: str) -> list[Any]:
    found = entry.get(name)
    if not isinstance(found, list):
        raise Unfit(f"{place}.{name} must be a list", malformed=True)
    return found


def text_in(entry: Mapping[str, Any], name: str, place: str) -> str:
    return text(entry.get(name), f"{place}.{name}")


def number_in(entry: Mapping[str, Any], name: str, place: str) -> int:
    return integer(entry.get(name), f"{place}.{name}")


def integer(value: Any, place: str, highest: int = INT32_MAX) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise Unfit(f"{place} must be a whole number from 0 to {highest}", malformed=True)
    return value


def text(value: Any, place: str, len_max: int | None = 4_096) -> str:
    if not isinstance(value, str) or (len_max is not None and len(value) > len_max):
        raise Unfit(f"{place} must be a text of at most {len_max} characters", malformed=True)
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can say
        raise Unfit(f"{place} is not UTF-8 text", malformed=True) from None
    return value


def listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
