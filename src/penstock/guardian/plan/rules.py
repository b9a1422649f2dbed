"""What a plan must keep to, and what it aims at. Named by ids and topics; `plan.state` turns them into arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

SAME_BROKER = "one replica of a partition on a broker"
HOSTS = "hosts"
RACKS = "racks"
CPU_CAPACITY = "capacity.cpu"
NET_IN_CAPACITY = "capacity.net_in"
NET_OUT_CAPACITY = "capacity.net_out"
RATE_CAPACITY = "capacity.disk_rate"
BYTES_CAPACITY = "capacity.bytes"
REPLICAS_MAX = "replicas_per_broker_max"
CORDONED = "cordoned"
PINNED = "pinned"
EXCLUDED = "excluded"
IN_FLIGHT = "in_flight"
LEADERS_MIN = "leaders_per_broker_min"
ALIVE = "dead brokers and disks"
DRAINED = "drained"
MOVED = "moved"
POLICY = "policy"

NO_COPY = "no living replica"
"""What stands against moving a partition all of whose replicas are dead; no rule that anybody sets."""

FORBIDDERS = (
    SAME_BROKER,
    HOSTS,
    RACKS,
    CPU_CAPACITY,
    NET_IN_CAPACITY,
    NET_OUT_CAPACITY,
    RATE_CAPACITY,
    BYTES_CAPACITY,
    REPLICAS_MAX,
    CORDONED,
    PINNED,
    EXCLUDED,
    IN_FLIGHT,
    LEADERS_MIN,
    ALIVE,
    DRAINED,
    MOVED,
    POLICY,
)
"""The rules that may forbid a move; the number of each is its bit in a mask."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The share of each capacity that the sum of 95th percentiles may reach."""

    cpu: float = 0.7
    net: float = 0.8
    disk_rate: float = 0.8
    bytes: float = 0.8


@dataclass(frozen=True, slots=True)
class Goals:
    """What a plan aims at.

    Attributes:
        within: how far from its share a broker or disk may be without any need to act, as a fraction.
        bytes_price: what it must be worth to move as many bytes as an average broker holds, in the squared relative
            distance of one broker from its share by one resource.
        topic_price: what a replica too many of one topic on a broker costs, in average replicas to move.
    """

    within: float = 0.1
    bytes_price: float = 0.02
    topic_price: float = 1.0


@dataclass(frozen=True, slots=True)
class Flight:
    """A partition that is being moved: where its replicas are to be, brokers in their order."""

    topic: str
    partition: int
    replicas: Sequence[int]


@dataclass(frozen=True, slots=True)
class Moved:
    """A replica that has moved lately: its partition, and the broker where it is now."""

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A partition that a policy keeps as it is."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one plan.

    Attributes:
        capacity, goals: shares of capacities, and what is aimed at.
        racks, hosts: whether replicas are to be spread over racks and hosts.
        replicas_per_broker_max: None: any number.
        excluded_topics, excluded_brokers: nothing of them moves, and nothing moves to those brokers.
        pinned: brokers by topic; its replicas may be on no others.
        cordoned: brokers that take no replicas. drained: brokers that all replicas are to leave.
        leaders_per_broker_min: by topic, how many of its leaders each broker is to have at least.
        in_flight: partitions that are being moved; they are left alone, and where they go room is kept for them.
        kept: partitions nothing of which changes, since a policy does not allow it.
        moved: replicas that have moved lately; they stay on their disks, unless they lie where nothing may stay.
    """

    capacity: Capacity = field(default_factory=Capacity)
    goals: Goals = field(default_factory=Goals)
    racks: bool = True
    hosts: bool = True
    replicas_per_broker_max: int | None = None
    excluded_topics: Sequence[str] = ()
    excluded_brokers: Sequence[int] = ()
    pinned: Mapping[str, Sequence[int]] = field(default_factory=dict)
    cordoned: Sequence[int] = ()
    drained: Sequence[int] = ()
    leaders_per_broker_min: Mapping[str, int] = field(default_factory=dict)
    in_flight: Sequence[Flight] = ()
    moved: Sequence[Moved] = ()
    kept: Sequence[Kept] = ()

    def document(self) -> dict[str, Any]:
        """The rules as JSON has them."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found

    def text(self) -> str:
        """The same as one line, in which equal rules are equal texts."""
        return json.dumps(asdict(self), sort_keys=True)
