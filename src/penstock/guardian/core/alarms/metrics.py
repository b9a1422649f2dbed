"""Metrics: how many alarms there are of each kind in each state, over all clusters; and how the canaries do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from penstock.guardian.core.alarms.alarm import RECOVERED, STATES, SUSPECT
from penstock.guardian.core.alarms.finding import KINDS
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.state import GuardianState
from penstock.node.metrics import COUNTER, GAUGE, Sample

NAME = "penstock_guardian_alarms"
HELP = "Alarms by kind and state; suspicions only at the leader."


LATENCY = "penstock_guardian_canary_seconds"
FAILURES = "penstock_guardian_canary_failures_total"


def canary_samples(state: GuardianState, sight: Sight) -> Iterator[Sample]:
    """How long brokers take from a write to its being read, and how often that has failed; at the leader."""
    named = [(state.clusters[each].name, seen) for each, seen in sight.clusters.items() if each in state.clusters]
    what = "From a write to its being read at a broker, over the last measurements."
    for name, seen in named:
        for broker, canary in sorted(seen.canaries.items()):
            for quantile in (0.5, 0.99):
                latency_ms = canary.quantile_ms(quantile)
                if latency_ms is not None:
                    labels = {"cluster": name, "broker": str(broker), "quantile": str(quantile)}
                    yield Sample(LATENCY, GAUGE, what, latency_ms / 1000, labels)
    for name, seen in named:
        for broker, canary in sorted(seen.canaries.items()):
            labels = {"cluster": name, "broker": str(broker)}
            yield Sample(FAILURES, COUNTER, "Measurements of a broker that have failed.", canary.failures, labels)


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
