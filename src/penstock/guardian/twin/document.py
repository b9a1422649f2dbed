"""What came of a plan in the twin, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.guardian.limits import TWIN_OVER_SHOWN
from penstock.guardian.plan.model import Array, Model, place_text
from penstock.guardian.twin.simulation import Outcome


def outcome_document(model: Model, plan: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    """How long it takes, what is used most meanwhile, what has no room, and when moves end; times in seconds."""
    moves = plan["moves"]
    ended = outcome.ends[~np.isnan(outcome.ends)]
    never = [
        {"id": moves[at]["id"], "topic": moves[at]["topic"], "partition": moves[at]["partition"]}
        for at in np.flatnonzero(np.isnan(outcome.ends)).tolist()
    ]
    peaks = {
        kind: {"place": place_of(model, kind, peak.link), "used": round(peak.fraction, 4), "seconds": peak.seconds}
        for kind, peak in outcome.peaks.items()
    }
    first, most, _ = outcome.full
    d = int(np.argmax(most))
    return {
        "moves": len(moves),
        "bytes": float(outcome.copied.sum()),
        "seconds": outcome.seconds,
        "finish": {
            "min": float(ended.min()) if len(ended) else None,
            "median": float(np.median(ended)) if len(ended) else None,
            "max": float(ended.max()) if len(ended) else None,
        },
        "never": never,
        "peaks": {**peaks, "bytes": {"place": place_text(model, d), "used": round(float(most[d]), 4)}},
        "over": {
            "before": over(model, outcome.begin, first),
            "meanwhile_bytes": over(model, np.zeros(len(outcome.begin)), most),
            "after": over(model, outcome.end, outcome.full[2]),
        },
    }


def place_of(model: Model, kind: str, index: int) -> str | None:
    """The disk or broker of a link."""
    if index < 0:
        return None
    return place_text(model, index) if kind == "disk_rate" else f"broker {model.brokers.ids[index]}"


def over(model: Model, links: Array, full: Array) -> dict[str, Any]:
    """What is used beyond its capacity, the worst first, and how many there are."""
    disks, brokers = len(model.disks.broker), len(model.brokers.ids)
    found = []
    for kind, part in (
        ("disk_rate", links[:disks]),
        ("net_in", links[disks : disks + brokers]),
        ("net_out", links[disks + brokers :]),
        ("bytes", full),
    ):
        for index in np.flatnonzero(part > 1 + 1e-9).tolist():
            where = "disk_rate" if kind == "bytes" else kind
            found.append(
                {"resource": kind, "place": place_of(model, where, index), "used": round(float(part[index]), 4)}
            )
    found.sort(key=lambda each: -float(str(each["used"])))
    return {"count": len(found), "worst": found[:TWIN_OVER_SHOWN]}
