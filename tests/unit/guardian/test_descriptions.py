"""What resources say of themselves is what they answer: real answers, held against their shapes, both ways."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import jsonschema
import pytest
from support.fake_cluster import FakeCluster
from support.fake_clusters import FakeClusters
from support.plans_at_work import AtWork, reassigning
from support.sights import CLUSTER, START_MS, partition, sight_of

from penstock.guardian.core import answering, roles
from penstock.guardian.core.accounts import Token, User, token_record, user_record
from penstock.guardian.core.alarms.alarm import CONFIRMED, Alarm, alarm_record
from penstock.guardian.core.alarms.finding import DEAD_BROKER
from penstock.guardian.core.calls import Call, Known, Reply
from penstock.guardian.core.sight import Sight, Suspicion
from penstock.guardian.core.state import EMPTY, cluster_record, replay

TOKEN_ID = "00000000000000aa"


def strict(value: Any) -> Any:
    """A shape whose objects have the fields that they say, and no other."""
    if isinstance(value, Mapping):
        inner = {name: strict(each) for name, each in value.items()}
        return {**inner, "additionalProperties": False} if "properties" in inner else inner
    return [strict(each) for each in value] if isinstance(value, list | tuple) else value


def fits(path: str, body: Any, method: str = "GET") -> None:
    """Holds an answer against the shape of its operation."""
    resource, name = answering.resource_at(Call(method, path, b"", UUID(int=0), ""))
    (found,) = [each for each in resource.operations if each.method == method and each.named == bool(name)]
    jsonschema.validate(json.loads(json.dumps(body)), strict(found.answer))


Ask = Callable[[str], Reply]


def seen() -> Ask:
    world = FakeClusters()
    world.add("clicks", topics={"a": [[1, 2], [2, 3]]}, min_insync={"a": "2"})
    world.run(1_000)
    known = Known(world.state, world.seen, world.sampler._wall.at(world.now_ms))
    return lambda path: answering.read(known, Call("GET", path, b"", UUID(int=0), ""))


def at_work() -> Ask:
    cluster = FakeCluster()
    cluster.add("a", [1, 2], [2, 3], [3, 1])
    work = AtWork(cluster)
    work.submit(reassigning(("a", 0, [4, 2]), ("a", 1, [4, 3])), rate_bytes=1_000_000)
    work.run(200)
    assert work.state.work.limits, "throttles are set"
    return lambda path: work.ask("GET", path)


def alarmed() -> Ask:
    alarm = Alarm(UUID(int=1), CLUSTER.id, DEAD_BROKER, 3, "", CONFIRMED, START_MS, START_MS - 9, ("it is dead",))
    sight = sight_of((1, 2), partition(0, 3, 1, leader=1, in_sync=(1,)))
    sight.suspected = {(DEAD_BROKER, 4, ""): Suspicion(START_MS - 5, ("it may be dead",))}
    known = Known(replay(EMPTY, [cluster_record(CLUSTER), alarm_record(alarm)]), Sight({CLUSTER.id: sight}), START_MS)
    return lambda path: answering.read(known, Call("GET", path, b"", UUID(int=0), ""))


def registered() -> Ask:
    work = AtWork(FakeCluster())
    records = [user_record(User("ann", ())), token_record(Token(TOKEN_ID, "ann", bytes(32), "", 0, 9))]
    work.state = work.node.state = replay(work.node.state, records)
    return lambda path: work.ask("GET", path)


WORLDS: tuple[tuple[Callable[[], Ask], tuple[str, ...]], ...] = (
    (
        registered,
        ("clusters", "clusters/clicks", "audit", "users", "users/ann", "tokens", f"tokens/{TOKEN_ID}", "feature"),
    ),
    (seen, tuple(f"{each}?cluster=clicks" for each in ("brokers", "disks", "topics", "topics/a", "model"))),
    (at_work, ("plans", "plans/1", "moves", "moves/1-1", "limits", "decisions", "decisions/1")),
    (alarmed, ("alarms", f"alarms/{UUID(int=1)}")),
)


@pytest.mark.parametrize(("world", "paths"), WORLDS)
def test_answers_have_the_shapes_that_are_described(world: Callable[[], Ask], paths: tuple[str, ...]) -> None:
    ask = world()
    for path in paths:
        reply = ask(f"/v1/{path}")
        assert reply.status == 200, reply.body
        rows = reply.body.get(path.split("?", maxsplit=1)[0])
        assert rows is None or rows, f"{path} is empty, which shows nothing"
        fits(f"/v1/{path}", reply.body)


def test_every_resource_that_is_served_is_described_and_in_the_table() -> None:
    held = {path.partition("?")[0].partition("/")[0] for _, paths in WORLDS for path in paths}
    for path, resource in answering.RESOURCES.items():
        assert resource.operations, f"{path} says nothing of itself"
        assert path in roles.RULES, f"{path} has no line in the table of roles"
        assert path.removeprefix("/v1/") in held, f"no answer of {path} is held against its shape"


def test_a_shape_that_says_too_much_or_too_little_is_found() -> None:
    body = registered()("/v1/users").body
    fits("/v1/users", body)
    with pytest.raises(jsonschema.ValidationError, match="'more' was unexpected"):
        fits("/v1/users", {"users": [{**body["users"][0], "more": 1}]})
    with pytest.raises(jsonschema.ValidationError, match="'roles' is a required property"):
        fits("/v1/users", {"users": [{"name": "ann", "tokens": []}]})
    with pytest.raises(jsonschema.ValidationError):
        fits("/v1/users", {**body, "users": None})
