"""Under-replication that is stuck: replicas on living brokers stay out of sync, and come no nearer.

What a reassignment is about to fill is left out, and so is what belongs to a dead broker or was in a dead directory. A
replica whose distance from its leader shrinks between two looks is on its way and not stuck; where that distance is not
told, only time speaks.
"""

from __future__ import annotations

from penstock.guardian.core.alarms.census import Census
from penstock.guardian.core.alarms.finding import (
    BLIND,
    UNDER_REPLICATED,
    Detector,
    Finding,
    Subject,
    Verdicts,
    counted,
    metadata_ms,
)
from penstock.guardian.core.sight import ClusterSight

NAMED = 3
"""Partitions that the evidence names; of the others the number is said."""
UNKNOWN = -1


class UnderReplication(Detector):
    """See the module's head. It remembers how far each replica was behind at the last two looks."""

    kind = UNDER_REPLICATED

    def __init__(self) -> None:
        self._stamp_ms: int | None = None
        self._lags: dict[tuple[str, int, int], int] = {}
        self._stuck: dict[int, list[tuple[str, int]]] = {}

    def look(self, seen: ClusterSight, census: Census, wall_ms: int) -> Verdicts:
        stamp_ms = metadata_ms(seen, census, wall_ms)
        if stamp_ms is None:
            return BLIND
        if stamp_ms != self._stamp_ms:
            self._compare(seen, census)
            self._stamp_ms = stamp_ms
        findings = {}
        for broker, stuck in sorted(self._stuck.items()):
            names = ", ".join(f"{topic}-{index}" for topic, index in stuck[:NAMED])
            more = f" and {len(stuck) - NAMED} more" if len(stuck) > NAMED else ""
            told = f"broker {broker} lives, and has {counted(census.behind[broker].count, 'replica')} out of sync"
            findings[Subject(broker)] = Finding(stamp_ms, (told, f"no nearer than at the look before: {names}{more}"))
        return Verdicts(findings, lambda subject: stamp_ms)

    def _compare(self, seen: ClusterSight, census: Census) -> None:
        """Which replicas are as far behind as at the last look, or farther."""
        lags: dict[tuple[str, int, int], int] = {}
        stuck: dict[int, list[tuple[str, int]]] = {}
        with_dead_disks = {disk.broker for disk in seen.disks.values() if disk.error}
        for broker, behind in census.behind.items():
            for topic, index in behind.named:
                place = topic, index, broker
                told = seen.replicas.get(place)
                if told is None and broker in with_dead_disks:
                    continue
                lag = lags[place] = UNKNOWN if told is None else told.lag
                before = self._lags.get(place)
                if before is not None and (UNKNOWN in (lag, before) or lag >= before):
                    stuck.setdefault(broker, []).append((topic, index))
        self._lags, self._stuck = lags, stuck
