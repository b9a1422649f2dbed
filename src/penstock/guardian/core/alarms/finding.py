"""What looks show: a `Finding` is one thing that is wrong, `Verdicts` are all that one detector tells of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.guardian.core.alarms.census import Census
from penstock.guardian.core.limits import GUARDIAN_FRESH_MS
from penstock.guardian.core.sight import METADATA, ClusterSight

DEAD_BROKER, DEAD_DISK, UNDER_REPLICATED, FILLING_DISK, SKEWED_LEADERS = KINDS = (
    "dead-broker",
    "dead-disk",
    "under-replicated",
    "filling-disk",
    "skewed-leaders",
)
"""What can be wrong."""


class Subject(NamedTuple):
    """What an anomaly is about: a broker, or a log directory of it."""

    broker: int
    path: str = ""

    def __str__(self) -> str:
        return f"broker {self.broker} {self.path}".rstrip()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a subject.

    Attributes: `stamp_ms`, when what shows it was seen, wall time; `evidence`, in sentences; `agreed`: another vantage
    point says the same, or none is needed.
    """

    stamp_ms: int
    evidence: tuple[str, ...]
    agreed: bool = True


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What a detector can tell: its findings, and of a subject without one when it was seen to be well, None if that
    is not known.
    """

    findings: Mapping[Subject, Finding]
    well_ms: Callable[[Subject], int | None]


def nothing_known(subject: Subject) -> int | None:
    """Of no subject is it known that it is well."""
    return None


BLIND = Verdicts({}, nothing_known)
"""Nothing was seen lately: neither is anything wrong, nor is anything well."""


class Detector(ABC):
    """Finds one kind of anomaly in what has been seen of one cluster. `kind` is one of KINDS."""

    kind: str

    @abstractmethod
    def look(self, seen: ClusterSight, census: Census, wall_ms: int) -> Verdicts:
        """What is wrong; the same sample may be looked at again and again."""


def counted(count: int, noun: str) -> str:
    """A number of things, for a sentence."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def fresh(stamp_ms: int | None, wall_ms: int) -> bool:
    """Whether something was seen lately. A stamp in the future is of another clock, or of this one before it was set
    back: its age is not known.
    """
    return stamp_ms is not None and 0 <= wall_ms - stamp_ms < GUARDIAN_FRESH_MS


def metadata_ms(seen: ClusterSight, census: Census, wall_ms: int) -> int | None:
    """When the metadata was seen that the census has counted. None: not lately, or not all of it is believed, or it is
    not known whose it is.
    """
    if METADATA in seen.failures or seen.twice or not fresh(census.stamp_ms, wall_ms):
        return None
    return census.stamp_ms
