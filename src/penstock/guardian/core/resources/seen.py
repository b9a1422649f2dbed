"""What all answers about a cluster share that are made from what the leader sees: which cluster, how old, what failed.

Rows come in pages: an answer has `next`, which is the `after` of the call for the next page, and null on the last one.
An age is null for what was never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from penstock.guardian.core.calls import BAD_REQUEST, UNAVAILABLE, Call, Known, Refused
from penstock.guardian.core.limits import GUARDIAN_ROWS_PER_ANSWER
from penstock.guardian.core.resources.clusters import cluster_named
from penstock.guardian.core.sight import DISKS, METADATA, OFFSETS, REASSIGNMENTS, SETTINGS, ClusterSight
from penstock.guardian.core.state import Cluster

PARTS = (METADATA, REASSIGNMENTS, DISKS, SETTINGS, OFFSETS)


class Asked:
    """The cluster that a call is about, and what is seen of it. Raises Refused.

    Attributes: `cluster`; `seen`; `after`, where the page begins, "" for the first; `wall_ms`.
    """

    def __init__(self, known: Known, call: Call) -> None:
        query = call.query(("cluster", "after"))
        if "cluster" not in query:
            raise Refused(BAD_REQUEST, f"{call.place} is about one cluster: add ?cluster=NAME")
        self.cluster: Cluster = cluster_named(known.state, query["cluster"])
        self.after = query.get("after", "")
        self.wall_ms = known.wall_ms
        seen = known.sight.clusters.get(self.cluster.id)
        if seen is None or not (seen.seen_ms or seen.failures):
            raise Refused(UNAVAILABLE, f"cluster {self.cluster.name} has not been looked at yet: ask again soon")
        self.seen: ClusterSight = seen

    def age_ms(self, part: str) -> int | None:
        """How long ago a part was seen; None: never."""
        seen_ms = self.seen.seen_ms.get(part)
        return None if seen_ms is None else max(0, self.wall_ms - seen_ms)

    def head(self) -> dict[str, Any]:
        """What stands in every answer."""
        return {
            "cluster": self.cluster.name,
            "kind": self.cluster.kind,
            "kafka_id": self.seen.kafka_id or None,
            "age_ms": {part: self.age_ms(part) for part in PARTS},
            "failures": dict(self.seen.failures),
        }

    def page(self, names: Sequence[str], rows: Callable[[Iterable[str]], list[Any]]) -> dict[str, Any]:
        """One page: of names in order, those that come after `after`, and the rows that are made of them."""
        left = [name for name in names if name > self.after] if self.after else names
        shown = list(islice(left, GUARDIAN_ROWS_PER_ANSWER))
        more = len(left) > len(shown)
        return {"rows": rows(shown), "next": shown[-1] if more else None}
