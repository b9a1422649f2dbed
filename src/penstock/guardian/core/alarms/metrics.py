"""The alarms as metrics: how many there are of each kind in each state, over all clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from penstock.guardian.core.alarms.alarm import RECOVERED, STATES, SUSPECT
from penstock.guardian.core.alarms.finding import KINDS
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import GuardianState
from penstock.node.metrics import GAUGE, Sample

NAME = "penstock_guardian_alarms"
HELP = "Alarms by kind and state; suspicions only at the leader."


def alarm_samples(state: GuardianState, sight: Sight) -> Iterator[Sample]:
    """All kinds and states, so that a rule of whoever watches finds a zero and not nothing."""
    counts = Counter((each.kind, each.state) for each in state.alarms.by_id.values())
    for cluster_id, seen in sight.clusters.items():
        for kind, broker, path in seen.suspected:
            alarm = state.alarms.by_key.get((cluster_id, kind, broker, path))
            if alarm is None or not alarm.is_open:
                counts[kind, SUSPECT] += 1
    for kind in KINDS:
        for name in STATES:
            if name != RECOVERED:
                yield Sample(NAME, GAUGE, HELP, counts[kind, name], {"kind": kind, "state": name})
