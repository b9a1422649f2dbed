"""Who may do what: the whole matrix of requesters and calls, and what is told of clusters that one may not see."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from penstock.guardian.core import answering, permitted, roles
from penstock.guardian.core.accounts import Role, Token, User, hash_of, new_token, token_record, user_record
from penstock.guardian.core.alarms.alarm import CONFIRMED, Alarm, alarm_record
from penstock.guardian.core.alarms.finding import DEAD_BROKER
from penstock.guardian.core.answering import RESOURCES
from penstock.guardian.core.calls import Call, Known, Reply
from penstock.guardian.core.records import GuardianRecord, decode_records, encode_records
from penstock.guardian.core.sight import IDENTITY, METADATA, ClusterSight, Sight, registered_twice
from penstock.guardian.core.state import EMPTY, Cluster, GuardianState, cluster_record, replay
from penstock.guardian.core.work.plans import CHECKED, Decision, Plan
from penstock.guardian.core.work.replaying import new_plan_records

CLICKS, VIEWS = UUID(int=1), UUID(int=2)
WALL_MS = 1_000_000
USERS = {
    "nobody": (),
    "viewer@clicks": (Role("viewer", CLICKS),),
    "operator@clicks": (Role("operator", CLICKS),),
    "admin@clicks": (Role("admin", CLICKS),),
    "viewer": (Role("viewer"),),
    "operator": (Role("operator"),),
    "admin": (Role("admin"),),
    "auditor": (Role("auditor"),),
}
"""Users, and their roles."""


class Asked(NamedTuple):
    """A call, and who may make it: one letter for each of USERS.

    `+` may, if nothing else speaks against it, `-` is forbidden, `0` is told of nothing.
    """

    method: str
    path: str
    body: Any
    who: str


MODES = {"modes": {"heal": "advise"}}
NEW = {"name": "new", "bootstrap": ["n:1"]}
ROLES = {"roles": [{"role": "viewer"}]}
MATRIX = (
    #                                          nobody, viewer@, operator@, admin@, viewer, operator, admin, auditor
    Asked("GET", "/v1/clusters", None,                               "-++++++-"),
    Asked("GET", "/v1/clusters/clicks", None,                        "-++++++-"),
    Asked("GET", "/v1/clusters/views", None,                         "-000+++-"),
    Asked("GET", "/v1/clusters/gone", None,                          "-000000-"),
    Asked("POST", "/v1/clusters", NEW,                               "------+-"),
    Asked("PATCH", "/v1/clusters/clicks", MODES,                     "--++-++-"),
    Asked("PATCH", "/v1/clusters/views", MODES,                      "--00-++-"),
    Asked("PATCH", "/v1/clusters/gone", MODES,                       "--00-00-"),
    Asked("DELETE", "/v1/clusters/clicks", None,                     "---+--+-"),
    Asked("DELETE", "/v1/clusters/views", None,                      "---0--+-"),
    Asked("GET", "/v1/audit", None,                                  "------++"),
    Asked("GET", "/v1/users", None,                                  "------+-"),
    Asked("GET", "/v1/users/admin", None,                            "------+-"),
    Asked("POST", "/v1/users", {"name": "new", **ROLES},             "------+-"),
    Asked("PATCH", "/v1/users/viewer", ROLES,                        "------+-"),
    Asked("DELETE", "/v1/users/viewer", None,                        "------+-"),
    Asked("GET", "/v1/tokens", None,                                 "------+-"),
    Asked("POST", "/v1/tokens", {"user": "viewer"},                  "------+-"),
    Asked("DELETE", "/v1/tokens/00000000000000aa", None,             "------+-"),
    Asked("GET", "/v1/plans/1", None,                                "-++++++-"),
    Asked("GET", "/v1/plans/2", None,                                "-000+++-"),
    Asked("GET", "/v1/plans?cluster=views", None,                    "-000+++-"),
    Asked("PATCH", "/v1/plans/1", {"rate_bytes": 1},                 "--++-++-"),
    Asked("PATCH", "/v1/plans/2", {"rate_bytes": 1},                 "--00-++-"),
    Asked("GET", "/v1/moves?plan=2", None,                           "-000+++-"),
    Asked("GET", "/v1/decisions/1", None,                            "-++++++-"),
    Asked("GET", "/v1/decisions/2", None,                            "-000+++-"),
    Asked("GET", "/v1/limits?cluster=views", None,                   "-000+++-"),
    Asked("GET", f"/v1/alarms/{CLICKS}", None,                       "-++++++-"),
    Asked("GET", f"/v1/alarms/{VIEWS}", None,                        "-000+++-"),
    Asked("PATCH", f"/v1/alarms/{CLICKS}", {"acknowledged": True},   "--++-++-"),
    Asked("PATCH", f"/v1/alarms/{VIEWS}", {"acknowledged": True},    "--00-++-"),
    Asked("GET", "/v1/brokers?cluster=clicks", None,                 "-++++++-"),
    Asked("GET", "/v1/brokers?cluster=views", None,                  "-000+++-"),
    Asked("GET", "/v1/disks?cluster=views", None,                    "-000+++-"),
    Asked("GET", "/v1/topics?cluster=views", None,                   "-000+++-"),
)  # fmt: skip
OUTCOMES = {"+": (200, 201, 409), "-": (403,), "0": (404,)}


def state_of(users: dict[str, tuple[Role, ...]]) -> GuardianState:
    records: list[GuardianRecord] = [
        cluster_record(Cluster(CLICKS, "clicks", "kafka", ("a:1",))),
        cluster_record(Cluster(VIEWS, "views", "kafka", ("b:1",))),
        *(user_record(User(name, held)) for name, held in users.items()),
        token_record(Token("00000000000000aa", "viewer", bytes(32), "", 0, WALL_MS + 1)),
    ]
    for cluster_id in (CLICKS, VIEWS):
        alarm = Alarm(cluster_id, cluster_id, DEAD_BROKER, 3, "", CONFIRMED, 0, 0, ("it is dead",))
        plan = Plan(cluster_id.int, cluster_id, "balance", "User:bob", 0, state=CHECKED)
        decision = Decision(plan.id, plan.id, "submit", "User:bob", 0, "submitted")
        records += [alarm_record(alarm), *new_plan_records(plan, decision)]
    return replay(EMPTY, decode_records(encode_records(records)))


def known_of(state: GuardianState) -> Known:
    sight = Sight({CLICKS: ClusterSight(seen_ms={METADATA: 1}), VIEWS: ClusterSight(seen_ms={METADATA: 1})})
    return Known(state, sight, WALL_MS, lambda size: bytes(range(size)))


def asked(known: Known, asked: Asked, user: str, **more: Any) -> Reply:
    call = Call(asked.method, asked.path, json.dumps(asked.body).encode(), UUID(int=99), f"User:{user}", **more)
    if not call.changes:
        return permitted.read(known, call)
    return permitted.decide(known, call, lambda: UUID(int=77)).reply


def holes() -> list[str]:
    """Where the answers differ from the matrix."""
    known = known_of(state_of(USERS))
    return [
        f"{each.method} {each.path} by {user}: {status}"
        for each in MATRIX
        for user, letter in zip(USERS, each.who, strict=True)
        if (status := asked(known, each, user).status) not in OUTCOMES[letter]
    ]


def test_the_matrix() -> None:
    assert holes() == []


@pytest.mark.parametrize(
    ("path", "method", "need", "found"),
    [
        ("/v1/clusters", "PATCH", roles.VIEW, "PATCH /v1/clusters/clicks by viewer@clicks: 200"),
        ("/v1/clusters", "DELETE", roles.MANAGE_ALL, "DELETE /v1/clusters/clicks by admin@clicks: 403"),
        ("/v1/tokens", "POST", roles.MANAGE, "POST /v1/tokens by admin@clicks: 400"),
        ("/v1/audit", "GET", roles.VIEW, "GET /v1/audit by viewer: 200"),
    ],
)
def test_the_matrix_finds_a_hole(
    monkeypatch: pytest.MonkeyPatch, path: str, method: str, need: roles.Need, found: str
) -> None:
    planted = {**roles.RULES, path: {**roles.RULES.get(path, {}), method: need}}
    monkeypatch.setattr(roles, "RULES", planted)
    assert found in holes()


def test_the_matrix_finds_a_view_that_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "restricted", lambda known, cluster_ids, principal: known)
    assert "GET /v1/clusters/views by viewer@clicks: 200" in holes()
    assert "PATCH /v1/clusters/views by operator@clicks: 200" in holes()


def test_the_matrix_has_every_resource_that_is_served() -> None:
    """One that is added is in the table, or for admins alone."""
    for path in RESOURCES:
        assert path in roles.RULES or roles.need_of(path, "GET") == roles.MANAGE_ALL
    assert roles.need_of("/v1/new", "GET") == roles.need_of("/v1/clusters", "PUT") == roles.MANAGE_ALL


def test_whom_the_authorizer_lets_do_everything_needs_no_role() -> None:
    known = known_of(state_of(USERS))
    for each in MATRIX:
        assert asked(known, each, "nobody", is_super=True).status == asked(known, each, "admin").status


def test_lists_and_suggestions_tell_nothing_of_hidden_clusters() -> None:
    known = known_of(state_of(USERS))
    listing = asked(known, MATRIX[0], "viewer@clicks")
    assert [each["name"] for each in listing.body["clusters"]] == ["clicks"]
    hidden, unknown = (
        asked(known, Asked(method, f"/v1/clusters/{name}", MODES, ""), "operator@clicks").body["error"]
        for method, name in (("PATCH", "views"), ("PATCH", "viewz"))
    )
    assert hidden.replace("views", "viewz") == unknown
    assert "did you mean" not in hidden
    assert "did you mean clicks?" in asked(known, Asked("GET", "/v1/clusters/clicky", None, ""), "viewer@clicks").body[
        "error"
    ]  # fmt: skip


def test_a_problem_of_a_cluster_names_no_hidden_one() -> None:
    known = known_of(state_of(USERS))
    known.sight.clusters[CLICKS].failures[IDENTITY] = f"it is cluster XYZ, {registered_twice('views')}: remove one"
    brokers = Asked("GET", "/v1/brokers?cluster=clicks", None, "")
    assert "views" in asked(known, brokers, "viewer").body["failures"][IDENTITY]
    told = asked(known, brokers, "viewer@clicks").body["failures"][IDENTITY]
    assert "views" not in told
    assert told.startswith("it is cluster XYZ, which is registered as ")
    assert "views" in known.sight.clusters[CLICKS].failures[IDENTITY], "what the leader sees itself stays"


@pytest.mark.parametrize("path", ["/v1/clusters/views", "/v1/plans/2", f"/v1/alarms/{VIEWS}"])
def test_a_change_that_is_repeated_tells_nothing_of_what_is_hidden_by_now(path: str) -> None:
    """Whoever had a role for a cluster, and asks again for what she did there, sees it no more."""
    body = {"clusters": MODES, "plans": {"rate_bytes": 1}, "alarms": {"acknowledged": True}}[path.split("/")[2]]
    call = Call("PATCH", path, json.dumps(body).encode(), UUID(int=5), "User:ann")
    before = known_of(state_of({**USERS, "ann": (Role("operator", VIEWS), Role("operator", CLICKS))}))
    change = permitted.decide(before, call, lambda: UUID(int=77))
    assert change.reply.status == 200
    state = replay(before.state, change.records)
    state = replay(state, [user_record(User("ann", (Role("operator", CLICKS),)))])
    again = permitted.decide(replace(before, state=state), call, lambda: UUID(int=77))
    assert not again.records
    told = json.dumps(dict(again.reply.body)).replace(path, "")
    assert not any(word in told for word in ('"b:1"', "heal", "checked", "confirmed")), told


def test_what_is_changed_and_may_only_be_seen_is_forbidden_not_hidden() -> None:
    both = {**USERS, "mixed": (Role("viewer"), Role("operator", CLICKS))}
    known = known_of(state_of(both))
    assert asked(known, Asked("PATCH", "/v1/clusters/clicks", MODES, ""), "mixed").status == 200
    assert asked(known, Asked("PATCH", "/v1/clusters/views", MODES, ""), "mixed").status == 403
    assert asked(known, Asked("PATCH", "/v1/clusters/gone", MODES, ""), "mixed").status == 404


def test_a_restricted_view_has_nothing_else() -> None:
    """Whatever a state holds: parts that say of which cluster they are stay with it, others are left out."""
    state = state_of(USERS)
    known = known_of(state)
    seen = roles.restricted(known, {CLICKS}, "User:ann")
    assert set(seen.state.clusters) == set(seen.sight.clusters) == {CLICKS}
    assert not seen.state.accounts.users
    assert not seen.state.accounts.tokens
    of_no_cluster = {"wall_ms", "new_secret", "knows", "voter_levels"}
    assert {each.name for each in fields(Known)} == {"state", "sight", *of_no_cluster}, (
        "what is new in Known must be restricted, too, in guardian.core.roles"
    )
    assert {each.name for each in fields(Sight)} == {"clusters"}, "what is new in Sight must be restricted, too"
    parts = {"feature_level", "clusters", "commands", "accounts", "alarms", "work"}
    assert {each.name for each in fields(GuardianState)} == parts, "what is new in the state must be restricted, too"


def test_a_change_is_decided_on_everything_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there is room for it hangs on what is hidden, too."""
    seen: list[int] = []
    real = answering.decide

    def noted(known: Known, call: Call, new_id: Any) -> Any:
        seen.append(len(known.state.clusters))
        return real(known, call, new_id)

    monkeypatch.setattr(answering, "decide", noted)
    known = known_of(state_of(USERS))
    assert asked(known, Asked("PATCH", "/v1/clusters/clicks", MODES, ""), "operator@clicks").status == 200
    assert seen == [1, 2]


def test_an_id_of_what_is_hidden_is_not_given_again() -> None:
    seen = roles.restricted(known_of(state_of(USERS)), {CLICKS}, "User:ann").state.work
    assert (list(seen.plans), list(seen.decisions)) == ([1], [1])
    assert (seen.next_plan, seen.next_decision) == (3, 3)


@pytest.fixture
def with_token() -> tuple[Known, Token]:
    text = new_token(bytes(8), bytes(32))
    token = Token(bytes(8).hex(), "viewer", hash_of(text), "", 0, WALL_MS + 1)
    state = replay(state_of(USERS), [token_record(token)])
    assert state.accounts.logged_in(text, WALL_MS) == token
    return known_of(state), token


def test_a_token_has_the_roles_of_its_user_until_it_expires_or_is_revoked(with_token: tuple[Known, Token]) -> None:
    known, token = with_token
    listing = MATRIX[0]
    assert asked(known, listing, "viewer", token_id=token.id).status == 200
    assert asked(known, listing, "admin", token_id=token.id).status == 401, "it is another's"
    assert asked(replace(known, wall_ms=WALL_MS + 1), listing, "viewer", token_id=token.id).status == 401
    assert asked(known, listing, "viewer", token_id="0" * 15 + "1").status == 401
    assert asked(known, Asked("POST", "/v1/clusters", NEW, ""), "viewer", token_id=token.id).status == 403


def test_a_request_id_of_somebody_else_is_refused() -> None:
    known = known_of(state_of(USERS))
    call = Call("PATCH", "/v1/clusters/clicks", json.dumps(MODES).encode(), UUID(int=5), "User:operator")
    change = permitted.decide(known, call, lambda: UUID(int=77))
    after = replace(known, state=replay(known.state, change.records))
    assert permitted.decide(after, call, lambda: UUID(int=77)).reply.status == 200
    other = replace(call, principal="User:operator@clicks")
    assert permitted.decide(after, other, lambda: UUID(int=77)).reply.status == 409
