"""Answers calls: finds the resource that a path means, and has it read or decide.

| call | meaning |
|---|---|
| `GET /v1/clusters` | all registered clusters |
| `GET /v1/clusters/NAME` | one of them |
| `POST /v1/clusters` | register one |
| `PATCH /v1/clusters/NAME` | set modes of it, by kind of action |
| `DELETE /v1/clusters/NAME` | forget it |
| `GET /v1/audit` | the latest changes, the newest first |
| `GET /v1/brokers?cluster=NAME` | the brokers of a cluster, as the leader sees them; so `/v1/disks`, `/v1/topics` |
| `GET /v1/topics/TOPIC?cluster=NAME` | the partitions of a topic |
| `GET /v1/model?cluster=NAME` | what a model of a cluster is made of |
| `GET /v1/alarms?cluster=NAME&state=STATE&kind=KIND` | what is or was wrong with clusters, and what looks wrong |
| `GET /v1/alarms/ID` | one of them, with the plan that would heal it |
| `PATCH /v1/alarms/ID` | acknowledge it, or have it healed |
| `GET /v1/feature`, `PATCH /v1/feature` | the feature level of the log; raise it when all nodes know a higher one |
| `/v1/plans`, `/v1/moves`, `/v1/limits`, `/v1/decisions` | see the modules of these names in `resources` |
| `/v1/users`, `/v1/tokens` | who may do what, see `resources.users` |

`read` answers from what is known, to whoever asks: `guardian.core.permitted` comes before. `decide` makes the records
of a change and its answer, and changes nothing: only replaying the records does. A change carries the id of its
request. When it is asked for again, because its answer was lost or its leader was, it is found among those that were
made, and not made twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from penstock.config.nearest import did_you_mean
from penstock.guardian.core.calls import (
    BAD_REQUEST,
    CONFLICT,
    NOT_FOUND,
    Call,
    Known,
    Refused,
    Reply,
    Resource,
)
from penstock.guardian.core.limits import GUARDIAN_PATH_MAX, GUARDIAN_TEXT_MAX
from penstock.guardian.core.records import GuardianRecord
from penstock.guardian.core.resources.alarms import AlarmList
from penstock.guardian.core.resources.audit import Audit
from penstock.guardian.core.resources.brokers import Brokers
from penstock.guardian.core.resources.clusters import Clusters
from penstock.guardian.core.resources.decisions import Decisions
from penstock.guardian.core.resources.disks import Disks
from penstock.guardian.core.resources.feature import Feature
from penstock.guardian.core.resources.limits import Limits
from penstock.guardian.core.resources.model import ModelOfCluster
from penstock.guardian.core.resources.moves import Moves
from penstock.guardian.core.resources.plans import Plans
from penstock.guardian.core.resources.topics import Topics
from penstock.guardian.core.resources.users import Tokens, Users
from penstock.guardian.core.state import Command, command_record

RESOURCES: dict[str, Resource] = {
    each.path: each
    for each in (
        *(Clusters(), Audit(), Users(), Tokens(), Feature(), Brokers(), Disks(), Topics(), ModelOfCluster()),
        *(Plans(), Moves(), Limits(), Decisions(), AlarmList()),
    )
}


@dataclass(frozen=True, slots=True)
class Change:
    """The records of a change, none for one that is refused or was made before, and the answer once they count."""

    records: Sequence[GuardianRecord]
    reply: Reply


def resource_at(call: Call) -> tuple[Resource, str]:
    """The resource that a call is about, and the name that it gives. Raises Refused."""
    if len(call.path) > GUARDIAN_PATH_MAX:
        raise Refused(NOT_FOUND, f"the path has {len(call.path)} characters: at most {GUARDIAN_PATH_MAX}")
    place = call.place
    if place in RESOURCES:
        return RESOURCES[place], ""
    path, _, name = place.rpartition("/")
    if path not in RESOURCES or not name:
        raise Refused(NOT_FOUND, f"there is no {place[:GUARDIAN_TEXT_MAX]}{did_you_mean(place, list(RESOURCES))}")
    return RESOURCES[path], name


def is_live(call: Call) -> bool:
    """Whether only the leader can answer a call that changes nothing."""
    try:
        return resource_at(call)[0].live
    except Refused:
        return False


def read(known: Known, call: Call) -> Reply:
    """The answer to a call that changes nothing."""
    try:
        resource, name = resource_at(call)
        return resource.read(known, call, name)
    except Refused as error:
        return error.reply


def body_hash(call: Call) -> bytes:
    """What tells the body of a call from others."""
    return hashlib.sha256(call.body).digest()


def decide(known: Known, call: Call, new_id: Callable[[], UUID]) -> Change:
    """What a change comes to: its records, and its answer. `new_id` makes an id that nothing else has."""
    made = known.state.commands.get(call.request_id)
    try:
        resource, name = resource_at(call)
        if made is not None:
            if made.command != call.name:
                raise Refused(CONFLICT, f"the request id was that of {made.command} before")
            reply = resource.repeated(known, call, made)
            if made.body_sha256 != body_hash(call):
                raise Refused(CONFLICT, f"the request id was that of a {made.command} with another body before")
            return Change((), reply)
        # a name that has a question mark in it would be cut there
        call.query(resource.change_queries.get(call.method, ()))
        if not call.request_id.int:
            raise Refused(BAD_REQUEST, "a change needs an id of its request, by which a repeated one is known")
        decided = resource.decide(known, call, name, new_id)
    except Refused as error:
        return Change((), error.reply)
    command = Command(call.request_id, call.principal, known.wall_ms, call.name, decided.subject, body_hash(call))
    return Change((command_record(command), *decided.records), decided.reply)
