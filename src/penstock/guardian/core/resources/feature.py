"""`/v1/feature`: the level of the log, and how it is raised when all nodes have been upgraded."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from penstock.guardian.core.calls import (
    BAD_REQUEST,
    CONFLICT,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    OK,
    Call,
    Decided,
    Known,
    Refused,
    Reply,
    Resource,
    body_of,
)
from penstock.guardian.core.described import Operation, shape, whole
from penstock.guardian.core.state import Command
from penstock.protocol.messages.guardian.guardian_level_record import GuardianLevelRecord

PATH = "/v1/feature"
LEVEL = shape(
    "Feature",
    {"level": whole("The feature level of the log."), "knows": whole("The highest that the node knows which answers.")},
)
WANTED = shape("Upgrade", {}, {"level": whole("The level wanted; without it, the highest that every node knows.")})
EXAMPLE = {"level": 2, "knows": 2}


class Feature(Resource):
    """See the module's head."""

    path = PATH
    operations = (
        Operation("GET", "The feature level of the log", LEVEL, example=EXAMPLE),
        Operation("PATCH", "Raise the feature level, once every node knows it", LEVEL, body=WANTED, example=EXAMPLE,
                  body_example={"level": 2}),
    )  # fmt: skip

    def read(self, known: Known, call: Call, name: str) -> Reply:
        check_name(name)
        return answer(known, known.state.feature_level)

    def decide(self, known: Known, call: Call, name: str, new_id: Callable[[], UUID]) -> Decided:
        check_name(name)
        if call.method != "PATCH":
            raise Refused(METHOD_NOT_ALLOWED, f"{call.place} takes no {call.method}")
        wanted = body_of(call, ("level",)).get("level")
        if wanted is None:
            check_all_told(known)
            wanted = min((each for each in known.voter_levels.values() if each is not None), default=known.knows)
            wanted = max(wanted, known.state.feature_level)
        check(known, wanted)
        records = [GuardianLevelRecord(feature_level=wanted)] if wanted > known.state.feature_level else []
        return Decided(records, str(wanted), answer(known, wanted))

    def repeated(self, known: Known, call: Call, made: Command) -> Reply:
        return answer(known, known.state.feature_level)


def answer(known: Known, level: int) -> Reply:
    return Reply(OK, {"level": level, "knows": known.knows})


def check_name(name: str) -> None:
    if name:
        raise Refused(NOT_FOUND, f"{PATH} has no parts")


def check(known: Known, wanted: object) -> None:
    """Raises Refused for a level that the log cannot have now."""
    level = known.state.feature_level
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        raise Refused(BAD_REQUEST, "level must be a whole number")
    if wanted < level:
        raise Refused(CONFLICT, f"the log is at feature level {level}, which is never lowered")
    if wanted == level:
        return
    check_all_told(known)
    old = [node_id for node_id, knows in known.voter_levels.items() if knows is not None and knows < wanted]
    if old:
        highest = min(known.voter_levels[each] or 0 for each in old)
        raise Refused(CONFLICT, f"{nodes(old)} knows feature levels up to {highest}: upgrade it before level {wanted}")


def check_all_told(known: Known) -> None:
    """Raises Refused if a voter has not said what it knows."""
    silent = [node_id for node_id, knows in known.voter_levels.items() if knows is None]
    if silent:
        raise Refused(CONFLICT, f"{nodes(silent)} did not say which feature levels it knows: every node must run")


def nodes(ids: list[int]) -> str:
    """The first of these nodes, for people: one that is put right uncovers the next."""
    return f"node {min(ids)}"
