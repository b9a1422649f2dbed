"""`/v1/audit`: the latest changes, the newest first."""

from __future__ import annotations

from typing import Any

from penstock.guardian.core.calls import NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.state import Command


class Audit(Resource):
    """See the module's head."""

    path = "/v1/audit"

    def read(self, known: Known, call: Call, name: str) -> Reply:
        if name:
            raise Refused(NOT_FOUND, f"{self.path} has no parts")
        return Reply(OK, {"changes": [told(each) for each in reversed(list(known.state.commands.values()))]})


def told(command: Command) -> dict[str, Any]:
    """A change as answers have it."""
    return {
        "request_id": str(command.request_id),
        "principal": command.principal,
        "wall_ms": command.wall_ms,
        "command": command.command,
        "subject": command.subject,
    }
