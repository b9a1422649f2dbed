"""`/v1/decisions`: what was decided, by whom, from what, the newest first; `?plan=ID` about one plan."""

from __future__ import annotations

import json
from typing import Any

from penstock.guardian.core.calls import NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.limits import GUARDIAN_TEXT_MAX
from penstock.guardian.core.work.plans import Decision


class Decisions(Resource):
    """See the module's head."""

    path = "/v1/decisions"

    def read(self, known: Known, call: Call, name: str) -> Reply:
        decisions = known.state.work.decisions
        if name:
            found = decisions.get(int(name)) if name.isascii() and name.isdecimal() and len(name) < 19 else None
            if found is None:
                raise Refused(NOT_FOUND, f"there is no decision {name[:GUARDIAN_TEXT_MAX]}")
            return Reply(OK, shown(found))
        plan = call.query(("plan",)).get("plan")
        told = [shown(each) for each in reversed(list(decisions.values())) if plan in (None, str(each.plan))]
        return Reply(OK, {"decisions": told})


def shown(decision: Decision) -> dict[str, Any]:
    """A decision as answers have it."""
    return {
        "id": decision.id,
        "plan": decision.plan,
        "kind": decision.kind,
        "principal": decision.principal,
        "wall_ms": decision.wall_ms,
        "text": decision.text,
        "detail": json.loads(decision.detail) if decision.detail else {},
    }
