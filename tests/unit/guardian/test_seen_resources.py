"""What is answered from what the leader sees: brokers, disks, topics of a cluster, with ages and failures."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.fake_clusters import DISK_BYTES, FakeClusters

from penstock.guardian.core import answering, calls
from penstock.guardian.core.calls import Call, Known
from penstock.guardian.core.resources import seen
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

TOPICS = {"a": [[1, 2], [2, 3]], "b": [[3, 1]]}


def world_of(topics: dict[str, list[list[int]]]) -> FakeClusters:
    world = FakeClusters()
    world.add("clicks", topics=topics, min_insync={"a": "2"}, changing={("a", 1): ([1], [3])})
    return world


def ask(world: FakeClusters, path: str, status: int = calls.OK) -> Any:
    call = Call("GET", path, b"", UUID(int=0), "User:ann")
    assert answering.is_live(call)
    reply = answering.read(Known(world.state, world.seen, world.sampler._wall.at(world.now_ms)), call)
    assert reply.status == status, reply.body
    return reply.body


def test_brokers_with_ages_and_failures() -> None:
    world = world_of(TOPICS)
    cluster = world.clusters[world.names["clicks"]]
    world.run(100)
    cluster.brokers.remove(3)
    cluster.lies[DescribeLogDirsRequest, 2] = lambda answer: "it broke"
    world.run(12_000)
    body = ask(world, "/v1/brokers?cluster=clicks")
    assert (body["cluster"], body["kind"], body["kafka_id"]) == ("clicks", "kafka", "id-clicks")
    assert 0 < body["age_ms"]["metadata"] < 2_500
    assert 10_000 < body["age_ms"]["disks"] < 13_000, "one broker has not answered"
    assert body["failures"] == {"disks of broker 2": "it broke"}
    assert body["summary"] == {
        "brokers": 2, "brokers_gone": 1, "disks": 3, "disks_failed": 0, "topics": 2, "partitions": 3, "replicas": 6,
        "under_replicated": 2, "below_min_insync": 1, "without_leader": 0, "bytes": 600,
    }  # fmt: skip
    rows = {each["id"]: each for each in body["brokers"]}
    assert (rows[1]["host"], rows[1]["rack"], rows[1]["replicas"], rows[1]["leaders"]) == ("b1", "r1", 2, 2)
    assert (rows[1]["controller"], rows[2]["controller"]) == (True, False)
    assert (rows[3]["alive"], rows[3]["host"], rows[3]["bytes"]) == (False, None, 200)
    assert rows[2]["disks_age_ms"] > 10_000 > rows[1]["disks_age_ms"]


def test_disks_and_topics_and_partitions() -> None:
    world = world_of(TOPICS)
    world.run(100)
    disks = ask(world, "/v1/disks?cluster=clicks")
    assert [each["broker"] for each in disks["disks"]] == [1, 2, 3]
    first = disks["disks"][0]
    assert (first["path"], first["capacity_bytes"], first["usable_bytes"]) == ("/data/0", DISK_BYTES, DISK_BYTES // 2)
    assert (first["replicas"], first["bytes"], first["error"]) == (2, 200, None)
    topics = {each["name"]: each for each in ask(world, "/v1/topics?cluster=clicks")["topics"]}
    assert (topics["a"]["partitions"], topics["a"]["min_insync_replicas"], topics["a"]["moving"]) == (2, 2, 1)
    assert topics["a"]["bytes"] == 400
    rows = ask(world, "/v1/topics/a?cluster=clicks")["rows"]
    assert rows[1] == {
        "partition": 1, "leader": 2, "leader_epoch": 1, "replicas": [2, 3], "in_sync": [2, 3], "adding": [1],
        "removing": [3], "bytes": {"2": 100, "3": 100},
    }  # fmt: skip


def test_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "GUARDIAN_ROWS_PER_ANSWER", 2)
    world = world_of({f"t{number}": [[1, 2, 3]] * 3 for number in range(5)})
    world.run(100)
    for path, part, count in (("topics", "topics", 5), ("disks", "disks", 3), ("topics/t1", "rows", 3)):
        rows: list[Any] = []
        after = ""
        for _ in range(4):
            body = ask(world, f"/v1/{path}?cluster=clicks{after}")
            assert len(body[part]) <= 2
            rows += body[part]
            if body["next"] is None:
                break
            after = f"&after={body['next']}"
        assert len(rows) == count
        assert len({str(each) for each in rows}) == count


def test_what_is_asked_wrongly_or_too_early_is_refused() -> None:
    world = world_of(TOPICS)
    assert "add ?cluster=NAME" in ask(world, "/v1/brokers", calls.BAD_REQUEST)["error"]
    assert "unknown query clutser" in ask(world, "/v1/disks?clutser=clicks", calls.BAD_REQUEST)["error"]
    assert "no cluster clcks" in ask(world, "/v1/topics?cluster=clcks", calls.NOT_FOUND)["error"]
    assert "has not been looked at yet" in ask(world, "/v1/brokers?cluster=clicks", calls.UNAVAILABLE)["error"]
    world.run(100)
    assert "has no topic c" in ask(world, "/v1/topics/c?cluster=clicks", calls.NOT_FOUND)["error"]
    assert "has no parts" in ask(world, "/v1/brokers/1?cluster=clicks", calls.NOT_FOUND)["error"]
    assert "has no parts" in ask(world, "/v1/disks/1?cluster=clicks", calls.NOT_FOUND)["error"]
