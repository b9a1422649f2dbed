"""`/v1/clusters`: the clusters that Guardian looks after, and what it may do in each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from penstock.config.listeners import split_address
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.guardian.core.calls import (
    BAD_REQUEST,
    CONFLICT,
    CREATED,
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
    checked,
    text_of,
)
from penstock.guardian.core.described import (
    REMOVED,
    Operation,
    by_name,
    choice,
    listed,
    or_null,
    shape,
    text,
    whole,
)
from penstock.guardian.core.limits import (
    GUARDIAN_BOOTSTRAP_MAX,
    GUARDIAN_CLUSTERS_MAX,
    GUARDIAN_LABELS_MAX,
    GUARDIAN_TEXT_MAX,
)
from penstock.guardian.core.state import (
    ACTIONS,
    KINDS,
    MODES,
    Cluster,
    Command,
    GuardianState,
    cluster_record,
)
from penstock.guardian.core.work.leaving import leaving_records, left_in
from penstock.log.meta_properties import uuid_text
from penstock.protocol.messages.guardian.guardian_mode_record import GuardianModeRecord
from penstock.protocol.messages.guardian.guardian_remove_cluster_record import GuardianRemoveClusterRecord

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
FIELDS = ("name", "kind", "bootstrap", "idc", "credentials", "labels", "modes")

MODES_SHAPE = by_name(choice("What Guardian may do by itself.", MODES), f"By kind of action: {', '.join(ACTIONS)}.")
NAME_SHAPE = text("For people; letters, digits, dots, dashes and underscores.", maxLength=GUARDIAN_TEXT_MAX)
BOOTSTRAP_SHAPE = listed(text("HOST:PORT"), "Where the cluster is reached.")
CLUSTER = shape(
    "Cluster",
    {
        "name": NAME_SHAPE,
        "id": text("Given by Guardian, never used again."),
        "kind": choice("What it runs.", KINDS),
        "bootstrap": BOOTSTRAP_SHAPE,
        "idc": text("The data centre; empty if it is not told."),
        "credentials": or_null(text("The name under which a node finds how to log in; no secret.")),
        "labels": by_name(text("A value."), "Whatever else is to be known."),
        "modes": MODES_SHAPE,
    },
)
NEW_CLUSTER = shape(
    "NewCluster",
    {"name": NAME_SHAPE, "bootstrap": BOOTSTRAP_SHAPE},
    {each: CLUSTER["properties"][each] for each in ("kind", "idc", "credentials", "labels", "modes")},
)
LEFT = shape(
    "LeftBehind",
    {
        "plans": listed(whole("A plan."), "They have ended now."),
        "moves_under_way": whole("Moves that had begun and not ended."),
        "throttles_left": whole("Configs that Guardian had set."),
        "moves": listed({"type": "object"}, "The first of these moves."),
        "throttles": listed({"type": "object"}, "The first of these configs, each with what was there before."),
    },
)
REMOVED_CLUSTER = shape("RemovedCluster", REMOVED["properties"], {"left": LEFT})
FORCE = ("true", "false")
BY_FORCE = "; if it will never answer again, remove it by force (`--force`), which leaves behind what is there"
NEW_EXAMPLE = {"name": "clicks", "bootstrap": ["10.0.0.7:9092"], "kind": "kafka", "idc": "north"}
EXAMPLE = {
    **NEW_EXAMPLE, "id": "7kUq0a1sQ2mJ9m0m3m1xTg", "credentials": None, "labels": {"team": "web"},
    "modes": {**dict.fromkeys(ACTIONS, MODES[0]), "balance": MODES[1]},
}  # fmt: skip


class Clusters(Resource):
    """See the module's head."""

    path = "/v1/clusters"
    change_queries = MappingProxyType({"DELETE": ("force",)})
    operations = (
        Operation("GET", "All clusters that the requester may see", shape("Clusters", {"clusters": listed(CLUSTER)}),
                  example={"clusters": [EXAMPLE]}),
        Operation("GET", "One cluster", CLUSTER, named=True, example=EXAMPLE),
        Operation("POST", "Register a cluster", CLUSTER, example=EXAMPLE, body=NEW_CLUSTER, body_example=NEW_EXAMPLE),
        Operation("PATCH", "Set modes of a cluster", CLUSTER, named=True, example=EXAMPLE,
                  body=shape("NewModes", {"modes": MODES_SHAPE}), body_example={"modes": {"balance": "advise"}}),
        Operation("DELETE", "Forget a cluster; nothing in it changes", REMOVED_CLUSTER, named=True,
                  example={"removed": "clicks"},
                  query={"force": "`true`: also while plans or throttles are there, which are left behind as they are. "
                                  "For a cluster, or a broker of it, that will never answer again."}),
    )  # fmt: skip

    def read(self, known: Known, call: Call, name: str) -> Reply:
        if name:
            return Reply(OK, shown(cluster_named(known.state, name)))
        return Reply(OK, {"clusters": [shown(each) for each in known.state.clusters.values()]})

    def decide(self, known: Known, call: Call, name: str, new_id: Callable[[], UUID]) -> Decided:
        state = known.state
        if not name and call.method == "POST":
            cluster = new_cluster(state, body_of(call, FIELDS), new_id())
            first_modes = [mode_record(cluster, action, mode) for action, mode in cluster.modes.items()]
            return Decided((cluster_record(cluster), *first_modes), cluster.name, Reply(CREATED, shown(cluster)))
        if not name or call.method not in ("PATCH", "DELETE"):
            raise Refused(METHOD_NOT_ALLOWED, f"{call.place} takes no {call.method}")
        cluster = cluster_named(state, name)
        if call.method == "DELETE":
            return removed(known, call, cluster)
        modes = modes_of(body_of(call, ("modes",)).get("modes", {}))
        if not modes:
            raise Refused(BAD_REQUEST, "modes is empty: nothing would change")
        after = {**shown(cluster), "modes": all_modes({**cluster.modes, **modes})}
        return Decided([mode_record(cluster, *each) for each in modes.items()], cluster.name, Reply(OK, after))

    def repeated(self, known: Known, call: Call, made: Command) -> Reply:
        if call.method == "POST" and text_of(body_of(call, FIELDS), "name") != made.subject:
            raise Refused(CONFLICT, f"the request id was that of cluster {made.subject} before")
        if call.method == "DELETE":
            return Reply(OK, {"removed": made.subject})
        cluster = known.state.named(made.subject)
        return Reply(OK, shown(cluster) if cluster is not None else {"name": made.subject, "removed": True})


def removed(known: Known, call: Call, cluster: Cluster) -> Decided:
    """A cluster is forgotten; by force also while something of Guardian's is there. Raises Refused."""
    force = call.query(("force",)).get("force", FORCE[1])
    if force not in FORCE:
        raise Refused(BAD_REQUEST, f"force must be {' or '.join(FORCE)}")
    removal = GuardianRemoveClusterRecord(cluster_id=cluster.id)
    if force == FORCE[1]:
        check_idle(known.state, cluster)
        return Decided((removal,), cluster.name, Reply(OK, {"removed": cluster.name}))
    left = left_in(known.state, cluster)
    leaving = leaving_records(known.state, cluster, left, call.principal, known.wall_ms)
    return Decided((*leaving, removal), cluster.name, Reply(OK, {"removed": cluster.name, "left": left}))


def check_idle(state: GuardianState, cluster: Cluster) -> None:
    """Whether a cluster may be forgotten: nothing of Guardian's is under way or left there. Raises Refused."""
    plan = next((each for each in state.work.plans.values() if each.cluster == cluster.id and not each.ended), None)
    if plan is not None:
        raise Refused(CONFLICT, f"plan {plan.id} for {cluster.name} has not ended: cancel it first{BY_FORCE}")
    limits = state.work.limits_of(cluster.id)
    if limits:
        where = f"{limits[0].kind} {limits[0].name}"
        left = f"a throttle of {where} in {cluster.name} is still to be taken away"
        raise Refused(CONFLICT, f"{left}: wait for that{BY_FORCE}")


def mode_record(cluster: Cluster, action: str, mode: str) -> GuardianModeRecord:
    return GuardianModeRecord(cluster_id=cluster.id, action=action, mode=mode)


def cluster_named(state: GuardianState, name: str) -> Cluster:
    """The cluster of this name. Raises Refused."""
    cluster = state.named(name)
    if cluster is None:
        names = [each.name for each in state.clusters.values()]
        raise Refused(NOT_FOUND, f"no cluster {name[:GUARDIAN_TEXT_MAX]} is registered{did_you_mean(name, names)}")
    return cluster


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
