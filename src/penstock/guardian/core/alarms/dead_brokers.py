"""Dead brokers: replicas are assigned to them, and their cluster does not count them among the living.

The cluster's metadata is the word of its controller. That alone is not believed: Guardian also calls the broker itself,
where it has once been told its address, or else asks a second broker (`vantage`). Until that has told something, the
broker's canary may: it wrote to it just before, or could not reach it. A broker that answers Guardian is not
dead, whatever its controller says: it may be cut off from it, or just coming back.
"""

from __future__ import annotations

from penstock.guardian.core.alarms.census import Census
from penstock.guardian.core.alarms.finding import (
    BLIND,
    DEAD_BROKER,
    Detector,
    Finding,
    Subject,
    Verdicts,
    counted,
    fresh,
    metadata_ms,
)
from penstock.guardian.core.alarms.silence import proves_death
from penstock.guardian.core.sight import ClusterSight


class DeadBrokers(Detector):
    """See the module's head."""

    kind = DEAD_BROKER

    def look(self, seen: ClusterSight, census: Census, wall_ms: int) -> Verdicts:
        stamp_ms = metadata_ms(seen, census, wall_ms)
        if stamp_ms is None:
            return BLIND
        findings = {}
        for broker, assigned in sorted(census.missing.items()):
            said, agreed = other_view(seen, broker, wall_ms)
            living = counted(len(census.brokers), "living broker")
            told = f"the cluster's metadata does not name broker {broker} among {living}"
            holds = f"it is to have {counted(assigned.count, 'replica')}"
            findings[Subject(broker)] = Finding(stamp_ms, (told, holds, said), agreed)
        return Verdicts(findings, lambda subject: stamp_ms)


def other_view(seen: ClusterSight, broker: int, wall_ms: int) -> tuple[str, bool]:
    """What another vantage point says of a broker, in a sentence, and whether it says that it is dead."""
    contact = seen.contacts.get(broker)
    if contact is None or not fresh(contact.wall_ms, wall_ms):
        return view_of_canary(seen, broker, wall_ms)
    if contact.alive is None:
        return f"no other vantage point can tell: {contact.said}", False
    return contact.said, not contact.alive


def view_of_canary(seen: ClusterSight, broker: int, wall_ms: int) -> tuple[str, bool]:
    """What the last measurement of a broker says of it."""
    canary = seen.canaries.get(broker)
    if canary is None or not fresh(canary.failed_ms, wall_ms) or canary.read_ms >= canary.failed_ms:
        return "no other vantage point has told yet", False
    return f"the canary of broker {broker} fails: {canary.failure}", proves_death(canary.failure)
