"""The model of a registered cluster: what is seen becomes tables, and what is not known is estimated and said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.fake_clusters import DISK_BYTES, FakeClusters

from penstock.errors import ConfigError, ConfigErrors
from penstock.guardian.core import answering, calls
from penstock.guardian.core.calls import Call, Known
from penstock.guardian.core.limits import GUARDIAN_ROWS_PER_ANSWER
from penstock.guardian.core.resources import model as model_resource
from penstock.guardian.model.reading import Read, model_of, read_model
from penstock.guardian.model.sighted import CPU_RATE, Capacities, Sighted
from penstock.guardian.model.writing import write_tables
from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import BYTES, CPU, NET_IN, NET_OUT, PEAK
from penstock.guardian.plan.rules import Rules
from penstock.guardian.plan.verifier import verify
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

TOPICS = {"a": [[1, 2], [2, 3]], "b": [[3, 1]]}
RATE = 5_000
SAID = Capacities(cpu_cores=4, network_rate=1e8, disk_rate=1e8)


def watched(looks: int = 80, brokers: int = 3, topics: dict[str, list[list[int]]] | None = None) -> FakeClusters:
    world = FakeClusters()
    cluster = world.add("clicks", brokers=brokers, topics=topics or TOPICS)
    for number in range(looks):
        cluster.sizes["a", 0] = 100 + number * RATE * 10
        world.run(10_000)
    return world


def ask(world: FakeClusters, query: str = "cluster=clicks", status: int = calls.OK) -> Any:
    call = Call("GET", f"/v1/model?{query}", b"", UUID(int=0), "User:ann")
    reply = answering.read(Known(world.state, world.seen, 0), call)
    assert reply.status == status, reply.body
    return json.loads(reply.encoded)


def pages(world: FakeClusters) -> Iterator[Any]:
    after = ""
    while True:
        page = ask(world, f"cluster=clicks{after}")
        yield page
        if page["next"] is None:
            return
        after = f"&after={page['next']}"


def modelled(world: FakeClusters, said: Capacities = SAID) -> Read:
    return model_of(Sighted(pages(world)).tables(said))


def test_a_model_is_what_was_seen() -> None:
    world = watched()
    model = modelled(world).model
    assert model.topics == ("a", "b")
    assert model.brokers.ids.tolist() == [1, 2, 3]
    assert model.brokers.rack_names == ("r0", "r1")
    assert model.brokers.rack.tolist() == [1, 0, 1]
    assert model.disks.bytes_capacity.tolist() == [DISK_BYTES] * 3
    assert model.brokers.ids[model.broker].tolist() == [1, 2, 2, 3, 3, 1]
    assert model.leader.tolist() == [0, 2, 4]
    load = model.load()
    assert load[0, NET_IN] == pytest.approx(RATE, rel=0.01)
    assert load[0, NET_OUT] == pytest.approx(2 * RATE, rel=0.01)
    assert load[0, CPU] == pytest.approx(3 * RATE / CPU_RATE, rel=0.01)
    assert load[1, [NET_IN, NET_OUT]].tolist() == pytest.approx([RATE, 0], rel=0.01)
    assert load[0, PEAK + NET_IN] == pytest.approx(RATE, rel=0.01)
    assert load[2:, NET_IN].tolist() == [0, 0, 0, 0]
    assert model.leading[1, NET_OUT] == pytest.approx(2 * RATE, rel=0.01), "what it would cost as the leader"
    assert load[2, BYTES] == 100
    said = " ".join(model.estimates)
    assert "windows of 5 minutes" in said
    assert "Kafka tells none of them" in said
    assert "cores" not in said, "they were given"


def test_pages_are_small_and_nothing_is_lost_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = modelled(watched(3)).model.digest()
    monkeypatch.setattr(model_resource, "GUARDIAN_ROWS_PER_ANSWER", 2)
    world = watched(3)
    assert [sum(map(len, page["topics"].values())) for page in pages(world)] == [2, 1]
    assert modelled(world).model.digest() == whole
    monkeypatch.setattr(model_resource, "GUARDIAN_ROWS_PER_ANSWER", 1)
    assert modelled(world).model.digest() == whole


def test_the_largest_page_stays_below_a_megabyte() -> None:
    topics = {
        f"topic-with-a-long-name-{number}": [[1, 2, 3]] * 500 for number in range(GUARDIAN_ROWS_PER_ANSWER // 500)
    }
    world = watched(2, topics=topics)
    assert len(json.dumps(ask(world))) < 500_000


def test_brokers_that_are_gone_new_or_silent() -> None:
    world = watched(3, brokers=4)
    cluster = world.clusters[world.names["clicks"]]
    cluster.brokers.remove(3)
    cluster.topics["c"] = [[9, 1]]
    cluster.lies[DescribeLogDirsRequest, 2] = lambda answer: None
    world.run(20_000)
    read = modelled(world)
    brokers = read.model.brokers
    assert brokers.ids.tolist() == [1, 2, 3, 4, 9]
    assert brokers.alive.tolist() == [True, True, False, True, False]
    assert brokers.new.tolist() == [False, False, False, True, False]
    assert read.model.disks.alive.tolist() == [True, True, False, True, False]
    said = " ".join(read.model.estimates)
    assert "1 replicas lie where no broker has told" in said
    assert "1 replicas have told no size" in said
    assert "1 directories have told no size, the first is not known of broker 9" in said


def test_a_cluster_whose_brokers_tell_no_sizes_of_disks_needs_them() -> None:
    world = watched(3)
    for broker in (1, 2, 3):
        for disk in [each for each in world.sight("clicks").disks.values() if each.broker == broker]:
            world.sight("clicks").disks[broker, disk.path] = type(disk)(broker, disk.path)
    with pytest.raises(ConfigError, match="broker 1 of cluster clicks does not tell how large /data/0 is: say it with"):
        modelled(world)
    given = modelled(world, Capacities(disk_bytes=5e9)).model
    assert given.disks.bytes_capacity.tolist() == [5e9] * 3


def test_capacities_come_from_options_then_labels_then_assumptions() -> None:
    labels = {"cpu.cores": "16", "disk.bytes.per.second": "3e8"}
    found = Capacities(cpu_cores=2).or_of_labels(labels)
    assert (found.cpu_cores, found.disk_rate, found.network_rate) == (2, 3e8, None)
    model = modelled(watched(3), Capacities()).model
    said = " ".join(model.estimates)
    for what in ("each broker has 8 cores", "--network-rate", "--disk-rate says"):
        assert what in said
    with pytest.raises(ConfigError, match=r"label cpu\.cores=many must be a number above 0"):
        Capacities().or_of_labels({"cpu.cores": "many"})
    with pytest.raises(ConfigError, match=r"label cpu\.cores=nan must be"):
        Capacities().or_of_labels({"cpu.cores": "nan"})


def test_what_cannot_be_a_model_is_refused() -> None:
    world = FakeClusters()
    world.add("clicks")
    ask(world, status=calls.UNAVAILABLE)
    world.run(100)
    with pytest.raises(ConfigError, match="no partitions"):
        modelled(world)
    assert "after must be" in ask(world, "cluster=clicks&after=x", calls.BAD_REQUEST)["error"]
    world.add("again", kafka_id="id-clicks")
    world.run(11_000)
    assert "registered as clicks already" in ask(world, "cluster=again", calls.CONFLICT)["error"]


def test_partitions_without_a_leader_and_those_that_move_are_said() -> None:
    world = watched(2)
    cluster = world.clusters[world.names["clicks"]]
    cluster.brokers.clear()
    cluster.brokers += [1, 2]
    cluster.topics["a"] = [[3], [2, 3]]
    cluster.changing["a", 1] = ([3], [])
    world.run(11_000)
    model = modelled(world).model
    assert model.leader.tolist() == [0, 1, 4]
    assert "1 partitions have no leader: their preferred one is taken to lead" in model.estimates
    assert "1 partitions are being moved: they are taken as they are now" in model.estimates


def test_files_keep_what_was_estimated(tmp_path: Path) -> None:
    world = watched(3)
    tables = Sighted(pages(world)).tables(SAID)
    write_tables(tables, tmp_path)
    read = read_model(tmp_path)
    assert read.unused == ()
    assert read.model.digest() == modelled(world).model.digest()
    assert read.model.estimates == modelled(world).model.estimates
    assert pq.read_table(tmp_path / "brokers.parquet")["host"].to_pylist() == ["b1", "b2", "b3"]
    pq.write_table(
        tables["replicas"].replace_schema_metadata({b"penstock.estimates": b"7"}), tmp_path / "replicas.parquet"
    )
    with pytest.raises((ConfigError, ConfigErrors), match="must be a JSON list of sentences"):
        read_model(tmp_path)


def test_a_plan_is_made_of_it() -> None:
    world = watched(3, brokers=4, topics={"a": [[1, 2]] * 12})
    model = modelled(world).model
    found = plan(model, Rules(), 1)
    assert verify(model, Rules(), found) == []
    assert {move["to"]["broker"] for move in found["moves"]} & {3, 4}
    assert found["estimates"]
    assert np.isfinite(model.load()).all()
