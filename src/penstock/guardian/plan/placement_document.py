"""A placement as JSON, checked: what `kafka-topics` takes, what `kafka-reassign-partitions` reads, and figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.guardian.plan.applied import Places
from penstock.guardian.plan.form import BROKER_COLUMNS
from penstock.guardian.plan.model import PEAK, Array, Model
from penstock.guardian.plan.placement import Wanted, existing, extended, place
from penstock.guardian.plan.recomputed import extremes, in_shares, standing_of, used
from penstock.guardian.plan.rules import Rules
from penstock.guardian.plan.verifier import broken, off_place


def placement_plan(model: Model, rules: Rules, wanted: Wanted) -> dict[str, Any]:
    """Places the partitions of a topic, and says what comes of it. Raises NoPlace."""
    placement = place(model, rules, wanted)
    after = extended(model, wanted, placement)
    ids, disks = model.brokers.ids, model.disks
    new = [
        {
            "topic": wanted.topic,
            "partition": number,
            "replicas": ids[disks.broker[list(chosen)]].tolist(),
            "log_dirs": [disks.dirs[d] for d in chosen],
        }
        for number, chosen in zip(placement.numbers, placement.disks, strict=True)
    ]
    old = {(each.rule, each.place) for each in broken(model, rules, standing_places(model))}
    now = [each for each in broken(after, rules, standing_places(after)) if (each.rule, each.place) not in old]
    return {
        "topic": wanted.topic,
        "partitions": wanted.partitions,
        "replication_factor": wanted.factor,
        "rate": wanted.rate,
        "replica_assignment": ",".join(
            ":".join(map(str, replicas)) for replicas in (*present(model, wanted), *(each["replicas"] for each in new))
        ),
        "reassignment": {"version": 1, "partitions": new},
        "before": spread(model, rules),
        "after": spread(after, rules),
        "violations": [{"rule": each.rule, "place": each.place, "text": each.text} for each in now],
        "estimates": list(after.estimates),
    }


def standing_places(model: Model) -> Places:
    """Where everything of a model is."""
    return Places(model.broker, model.disk, model.leader)


def present(model: Model, wanted: Wanted) -> list[list[int]]:
    """The replicas of the partitions that there are; `kafka-topics --alter` wants them told, too."""
    ids = model.brokers.ids
    return [
        ids[model.broker[model.first[p] : model.first[p + 1]]].tolist() for p in existing(model, wanted.topic).tolist()
    ]


def spread(model: Model, rules: Rules) -> dict[str, list[float] | None]:
    """The least and the most that brokers have of each resource, in shares."""
    nothing = np.zeros((len(model.brokers.ids), PEAK))
    places = standing_places(model)
    standing = standing_of(model, rules, off_place(model, rules, places), nothing)
    table = in_shares(used(model, model.load(), places).brokers, standing.broker_shares)
    return {name: plain(extremes(table[:, k])) for k, name in enumerate(BROKER_COLUMNS)}


def plain(ends: Array) -> list[float] | None:
    return None if np.isnan(ends).any() else [round(float(each), 4) for each in ends]
