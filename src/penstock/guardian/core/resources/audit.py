"""`/v1/audit`: the latest changes, the newest first."""

from __future__ import annotations

from typing import Any

from penstock.guardian.core.calls import NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.described import Operation, listed, shape, text, whole
from penstock.guardian.core.state import Command

CHANGE = shape(
    "Change",
    {
        "request_id": text("The id of the request.", format="uuid"),
        "principal": text("Who asked."),
        "wall_ms": whole("When, by the leader's clock."),
        "command": text("The method and the path."),
        "subject": text("What it was about."),
    },
)
EXAMPLE = {
    "request_id": "0b5ee3a4-5f0c-4d0f-9a3e-2d3f5a1c7e11", "principal": "User:ann", "wall_ms": 1_780_000_000_000,
    "command": "PATCH /v1/clusters/clicks", "subject": "clicks",
}  # fmt: skip


class Audit(Resource):
    """See the module's head."""

    path = "/v1/audit"
    operations = (
        Operation("GET", "The latest changes, the newest first", shape("Audit", {"changes": listed(CHANGE)}),
                  example={"changes": [EXAMPLE]}),
    )  # fmt: skip

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
