"""What is asked of Guardian, and what it decides: calls shaped like those of a REST API, over any transport.

| call | meaning |
|---|---|
| `GET /v1/clusters` | all registered clusters |
| `GET /v1/clusters/NAME` | one of them |
| `POST /v1/clusters` | register one |
| `PATCH /v1/clusters/NAME` | set modes of it, by kind of action |
| `DELETE /v1/clusters/NAME` | forget it |
| `GET /v1/audit` | the latest changes, the newest first |

Bodies are JSON; the status is HTTP's. `read` answers from a state. `decide` makes the records of a change and its
answer, and changes nothing: only replaying the records does. A change carries the id of its request. When it is asked
for again, because its answer was lost or its leader was, it is found among those that were made, and not made twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from penstock.config.listeners import split_address
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.guardian.core.limits import (
    GUARDIAN_BODY_MAX_BYTES,
    GUARDIAN_BOOTSTRAP_MAX,
    GUARDIAN_CLUSTERS_MAX,
    GUARDIAN_LABELS_MAX,
    GUARDIAN_TEXT_MAX,
)
from penstock.guardian.core.records import GuardianRecord
from penstock.guardian.core.state import (
    ACTIONS,
    KINDS,
    MODES,
    Cluster,
    Command,
    GuardianState,
    cluster_record,
    command_record,
)
from penstock.log.meta_properties import uuid_text
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.guardian.guardian_remove_cluster_record import GuardianRemoveClusterRecord

OK, CREATED = 200, 201
BAD_REQUEST, FORBIDDEN, NOT_FOUND, METHOD_NOT_ALLOWED, CONFLICT, TOO_LARGE = 400, 403, 404, 405, 409, 413
TOO_MANY, UNAVAILABLE, NO_STORAGE = 429, 503, 507
CLUSTERS, AUDIT = "/v1/clusters", "/v1/audit"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
FIELDS = ("name", "kind", "bootstrap", "idc", "credentials", "labels", "modes")


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `request_id` tells a change from all others; `principal` is who asks."""

    method: str
    path: str
    body: bytes
    request_id: UUID
    principal: str

    @property
    def changes(self) -> bool:
        """Whether it may change anything."""
        return self.method != "GET"

    @property
    def name(self) -> str:
        """What a change is called in the audit."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: a status of HTTP's, and what becomes the JSON body."""

    status: int
    body: Mapping[str, Any]

    @property
    def encoded(self) -> bytes:
        # a refusal may quote half of a surrogate pair, which JSON can say and UTF-8 cannot: "?" stands in for it
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


@dataclass(frozen=True, slots=True)
class Change:
    """The records of a change, none for one that is refused or was made before, and the answer once they count."""

    records: Sequence[GuardianRecord]
    reply: Reply


class Refused(Exception):
    """A call that asks for what cannot be."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.reply = refusal(status, message)


def refusal(status: int, message: str) -> Reply:
    """The answer to what is not done, in a sentence."""
    return Reply(status, {"error": message})


def read(state: GuardianState, call: Call) -> Reply:
    """The answer to a call that changes nothing."""
    if call.path == CLUSTERS:
        return Reply(OK, {"clusters": [shown(each) for each in state.clusters.values()]})
    if call.path == AUDIT:
        return Reply(OK, {"changes": [told(each) for each in reversed(list(state.commands.values()))]})
    try:
        return Reply(OK, shown(cluster_at(state, call.path)))
    except Refused as error:
        return error.reply


def decide(state: GuardianState, call: Call, *, new_id: Callable[[], UUID], wall_ms: int) -> Change:
    """What a change comes to in a state: its records, and its answer. `new_id` makes the id of a new cluster."""
    made = state.commands.get(call.request_id)
    try:
        if made is not None:
            return Change((), repeated(state, call, made))
        records, subject, reply = decided(state, call, new_id)
    except Refused as error:
        return Change((), error.reply)
    command = Command(call.request_id, call.principal, wall_ms, call.name, subject)
    return Change((command_record(command), *records), reply)


def decided(
    state: GuardianState, call: Call, new_id: Callable[[], UUID]
) -> tuple[Sequence[GuardianRecord], str, Reply]:
    """The records, the subject and the answer of a change that is new. Raises Refused."""
    if not call.request_id.int:
        raise Refused(BAD_REQUEST, "a change needs an id of its request, by which a repeated one is known")
    if call.path == CLUSTERS and call.method == "POST":
        cluster = new_cluster(state, body_of(call), new_id())
        first_modes = [mode_record(cluster, action, mode) for action, mode in cluster.modes.items()]
        return (cluster_record(cluster), *first_modes), cluster.name, Reply(CREATED, shown(cluster))
    if call.method not in ("PATCH", "DELETE") or call.path in (CLUSTERS, AUDIT):
        raise Refused(METHOD_NOT_ALLOWED, f"{call.path} takes no {call.method}")
    cluster = cluster_at(state, call.path)
    if call.method == "DELETE":
        return (GuardianRemoveClusterRecord(cluster_id=cluster.id),), cluster.name, Reply(OK, {"removed": cluster.name})
    modes = modes_of(body_of(call, ("modes",)).get("modes", {}))
    if not modes:
        raise Refused(BAD_REQUEST, "modes is empty: nothing would change")
    after = {**shown(cluster), "modes": all_modes({**cluster.modes, **modes})}
    return [mode_record(cluster, *each) for each in modes.items()], cluster.name, Reply(OK, after)


def repeated(state: GuardianState, call: Call, made: Command) -> Reply:
    """The answer to a change that was made before: what has become of it."""
    if made.command != call.name:
        raise Refused(CONFLICT, f"the request id was that of {made.command} before")
    if call.method == "POST" and text_of(body_of(call), "name") != made.subject:
        raise Refused(CONFLICT, f"the request id was that of cluster {made.subject} before")
    cluster = state.named(made.subject)
    if call.method == "DELETE":
        return Reply(OK, {"removed": made.subject})
    return Reply(OK, shown(cluster) if cluster is not None else {"name": made.subject, "removed": True})


def mode_record(cluster: Cluster, action: str, mode: str) -> GuardianModeRecord:
    return GuardianModeRecord(cluster_id=cluster.id, action=action, mode=mode)


def cluster_at(state: GuardianState, path: str) -> Cluster:
    """The cluster that a path names. Raises Refused."""
    prefix, slash, name = path.rpartition("/")
    if prefix != CLUSTERS or not slash or not name:
        raise Refused(NOT_FOUND, f"there is no {path[:GUARDIAN_TEXT_MAX]}{did_you_mean(path, (CLUSTERS, AUDIT))}")
    cluster = state.named(name)
    if cluster is None:
        names = [each.name for each in state.clusters.values()]
        raise Refused(NOT_FOUND, f"no cluster {name[:GUARDIAN_TEXT_MAX]} is registered{did_you_mean(name, names)}")
    return cluster


def body_of(call: Call, fields: Sequence[str] = FIELDS) -> Mapping[str, Any]:
    """The JSON object of a call, of these fields alone. Raises Refused."""
    if len(call.body) > GUARDIAN_BODY_MAX_BYTES:
        raise Refused(TOO_LARGE, f"the body has {len(call.body)} bytes: at most {GUARDIAN_BODY_MAX_BYTES}")
    try:
        body = json.loads(call.body)
    except (ValueError, RecursionError):
        raise Refused(BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Refused(BAD_REQUEST, "the body must be a JSON object")
    for each in body:
        if each not in fields:
            raise Refused(BAD_REQUEST, f"unknown field {each[:GUARDIAN_TEXT_MAX]}{did_you_mean(each, fields)}")
    return body


def new_cluster(state: GuardianState, body: Mapping[str, Any], cluster_id: UUID) -> Cluster:
    """The cluster that is to be registered. Raises Refused."""
    name = text_of(body, "name")
    if not NAME.fullmatch(name):
        raise Refused(BAD_REQUEST, f"name: {name!r} must be letters, digits, dots, dashes and underscores")
    if state.named(name) is not None:
        raise Refused(CONFLICT, f"cluster {name} is registered already")
    if len(state.clusters) >= GUARDIAN_CLUSTERS_MAX:
        raise Refused(CONFLICT, f"{GUARDIAN_CLUSTERS_MAX} clusters are registered: remove one first")
    kind = text_of(body, "kind", "kafka")
    if kind not in KINDS:
        raise Refused(BAD_REQUEST, f"kind: {kind} must be one of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
    bootstrap = bootstrap_of(body.get("bootstrap"))
    for other in state.clusters.values():
        shared = next((each for each in bootstrap if each in other.bootstrap), None)
        if shared is not None:
            raise Refused(CONFLICT, f"bootstrap: {shared} is registered as cluster {other.name}")
    credentials = text_of(body, "credentials") if body.get("credentials") is not None else None
    return Cluster(
        cluster_id,
        name,
        kind,
        bootstrap,
        idc=text_of(body, "idc", ""),
        credentials=credentials,
        labels=labels_of(body.get("labels", {})),
        modes=modes_of(body.get("modes", {})),
    )


def text_of(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A text of a body. Raises Refused."""
    value = body.get(name, default)
    if value is None:
        raise Refused(BAD_REQUEST, f"{name} is missing")
    return checked(value, name)


def checked(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > GUARDIAN_TEXT_MAX:
        raise Refused(BAD_REQUEST, f"{name} must be a text of at most {GUARDIAN_TEXT_MAX} characters")
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can say
        raise Refused(BAD_REQUEST, f"{name} is not UTF-8 text") from None
    return value


def bootstrap_of(value: Any) -> tuple[str, ...]:
    """The bootstrap servers of a body. Raises Refused."""
    if not isinstance(value, list) or not 0 < len(value) <= GUARDIAN_BOOTSTRAP_MAX:
        raise Refused(BAD_REQUEST, f"bootstrap must be a list of 1 to {GUARDIAN_BOOTSTRAP_MAX} servers, HOST:PORT each")
    servers = [checked(each, "bootstrap") for each in value]
    for server in servers:
        try:
            host, port = split_address(server, "bootstrap", "10.0.0.7:9092")
        except ConfigError as error:
            raise Refused(BAD_REQUEST, str(error)) from None
        if not host or not port:
            raise Refused(BAD_REQUEST, f'bootstrap: "{server}" must name a host and a port, like 10.0.0.7:9092')
    return tuple(dict.fromkeys(servers))


def labels_of(value: Any) -> Mapping[str, str]:
    """The labels of a body. Raises Refused."""
    if not isinstance(value, dict) or len(value) > GUARDIAN_LABELS_MAX:
        raise Refused(BAD_REQUEST, f"labels must be an object of at most {GUARDIAN_LABELS_MAX} texts")
    labels = {checked(name, "a label"): checked(text, f"label {name}") for name, text in value.items()}
    return MappingProxyType(labels)


def modes_of(value: Any) -> Mapping[str, str]:
    """The modes of a body, by kind of action; `all` stands for every kind. Raises Refused."""
    if not isinstance(value, dict):
        raise Refused(BAD_REQUEST, f"modes must be an object: a mode for kinds of action ({', '.join(ACTIONS)})")
    modes: dict[str, str] = {}
    for action, mode in value.items():
        if action not in (*ACTIONS, "all"):
            near = did_you_mean(action, (*ACTIONS, "all"))
            raise Refused(BAD_REQUEST, f"modes: {action[:GUARDIAN_TEXT_MAX]} is no kind of action{near}")
        if mode not in MODES:
            raise Refused(BAD_REQUEST, f"modes: that of {action} must be one of {', '.join(MODES)}")
        for each in ACTIONS if action == "all" else (action,):
            modes[each] = mode
    return MappingProxyType(modes)


def all_modes(modes: Mapping[str, str]) -> dict[str, str]:
    """The mode of every kind of action."""
    return {action: modes.get(action, MODES[0]) for action in ACTIONS}


def shown(cluster: Cluster) -> dict[str, Any]:
    """A cluster as answers have it."""
    return {
        "name": cluster.name,
        "id": uuid_text(cluster.id),
        "kind": cluster.kind,
        "bootstrap": list(cluster.bootstrap),
        "idc": cluster.idc,
        "credentials": cluster.credentials,
        "labels": dict(cluster.labels),
        "modes": all_modes(cluster.modes),
    }


def told(command: Command) -> dict[str, Any]:
    """A change as answers have it."""
    return {
        "request_id": str(command.request_id),
        "principal": command.principal,
        "wall_ms": command.wall_ms,
        "command": command.command,
        "subject": command.subject,
    }
