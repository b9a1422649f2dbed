"""Recovery of one log after an unclean stop: scan from the recovery point, check every CRC, rebuild what is derived.

Kafka's LogLoader, in the order of its passes: leftovers of deletions and cleanings go; interrupted swaps are finished;
every segment from the recovery point on is scanned batch by batch, its indexes, the producer state and the leader
epochs rebuilt. The first bad batch ends the log: a torn tail is cut; where valid batches follow the bad one, what is
cut is first moved aside (`<segment>.log.corrupt`), and the report names the offsets lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.config.topic import TopicConfig
from penstock.log.disk import Disk


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [first, end)."""

    first: int
    end: int


@dataclass(slots=True)
class RecoveryReport:
    """What a recovery found and did.

    `lost` are offsets that were in the files in valid batches and are no longer served; `kept_aside` the files that
    hold their bytes (paths within the log directory). `cut_bytes` counts all that was cut, torn tails too.
    """

    name: str
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    scanned_segments: int = 0
    scanned_bytes: int = 0
    cut_bytes: int = 0
    lost: list[OffsetRange] = field(default_factory=list)
    kept_aside: list[str] = field(default_factory=list)


def recover_log(
    disk: Disk,
    name: str,
    config: TopicConfig,
    *,
    recovery_point: int,
    log_start_offset: int,
    now_ms: int,
    producer_expiration_ms: int,
) -> RecoveryReport:
    """Makes the files of a log good after an unclean stop, on a blocking disk; `Log.open` opens it afterwards.

    Runs in a lane or a worker process; touches only files within the log's own directory, so it can be repeated
    whenever it was interrupted. Everything it leaves is fsynced. Raises OSError as the disk does.
    """
    raise NotImplementedError
