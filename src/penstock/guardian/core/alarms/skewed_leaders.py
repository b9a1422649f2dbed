"""Skewed leaders: a broker leads too few of the partitions that prefer it, although its replicas are in sync.

The threshold is that of Kafka's own check (`leader.imbalance.per.broker.percentage`, 10 %).
"""

from __future__ import annotations

from penstock.guardian.core.alarms.census import Census
from penstock.guardian.core.alarms.finding import (
    BLIND,
    SKEWED_LEADERS,
    Detector,
    Finding,
    Subject,
    Verdicts,
    counted,
    metadata_ms,
)
from penstock.guardian.core.sight import ClusterSight

SHARE = 0.1
"""Of the partitions that prefer a broker, how many may be led by another although the broker could lead them."""


class SkewedLeaders(Detector):
    """See the module's head."""

    kind = SKEWED_LEADERS

    def look(self, seen: ClusterSight, census: Census, wall_ms: int) -> Verdicts:
        stamp_ms = metadata_ms(seen, census, wall_ms)
        if stamp_ms is None:
            return BLIND
        findings = {}
        for broker, away in sorted(census.away.items()):
            preferred = census.preferred[broker]
            if away.count > preferred * SHARE:
                told = f"broker {broker} is the preferred leader of {counted(preferred, 'partition')}"
                led = f"others lead {away.count} of these, although broker {broker} is in sync"
                findings[Subject(broker)] = Finding(stamp_ms, (told, led))
        return Verdicts(findings, lambda subject: stamp_ms)
