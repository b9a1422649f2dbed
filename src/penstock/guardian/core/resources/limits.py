"""`/v1/limits`: the throttles that Guardian has set, or is about to, with what was there before."""

from __future__ import annotations

from typing import Any

from penstock.guardian.core.calls import NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.resources import operations as described
from penstock.guardian.core.resources.clusters import cluster_named
from penstock.guardian.core.state import GuardianState
from penstock.guardian.core.work.plans import BROKER, Limit


class Limits(Resource):
    """See the module's head."""

    path = "/v1/limits"
    operations = described.LIMITS

    def read(self, known: Known, call: Call, name: str) -> Reply:
        if name:
            raise Refused(NOT_FOUND, f"{self.path} has no parts; ?cluster=NAME has those of one cluster")
        query = call.query(("cluster",))
        cluster = cluster_named(known.state, query["cluster"]) if "cluster" in query else None
        found = [each for each in known.state.work.limits.values() if cluster is None or each.cluster == cluster.id]
        return Reply(OK, {"limits": [shown(known.state, each) for each in found]})


def shown(state: GuardianState, limit: Limit) -> dict[str, Any]:
    """A limit as answers have it."""
    cluster = state.clusters.get(limit.cluster)
    return {
        "cluster": cluster.name if cluster is not None else "",
        limit.kind: limit.name,
        "config": limit.setting,
        "value": limit.newest if limit.kind == BROKER else limit.value,
        "before": limit.before,
        "state": limit.state,
        "wall_ms": limit.wall_ms,
    }
