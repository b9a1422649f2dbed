"""The job `mirror` where clusters change under it, or are not like each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial

import pytest
from interop.spark.jobs.test_mirror import contents, drop, mirror_of, mirrored, own, publish, set_level

from penstock.client.client import Client
from penstock.errors import PenstockError, RequestError
from penstock.pipelines.jobs import mirror_sending, mirror_topics
from penstock.pipelines.jobs.mirror_progress import PROGRESS, prepare_progress
from penstock.pipelines.jobs.mirror_sending import Times
from penstock.pipelines.jobs.mirror_topics import Choice, Topics
from penstock.records.builder import BatchBuilder
from penstock.testing.broker import LocalBroker


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def test_partitions_are_served_in_the_order_in_which_they_are_asked_for(cluster: LocalBroker) -> None:
    """Else one that always has more, beside an empty one of its topic, keeps those of other topics from their turn."""
    cluster.create_topic("busy", 2)
    cluster.create_topic("calm")

    async def run() -> None:
        async with Client(cluster.bootstrap) as client:
            for topic in ("busy", "calm"):
                builder = BatchBuilder()
                builder.append(0, None, b"x" * 1000, ())
                await client.produce(topic, 0, builder.build())
            order = {("busy", 1): 0, ("calm", 0): 0, ("busy", 0): 0}
            found = await client.fetch(order, max_wait_ms=0, max_bytes=1, partition_max_bytes=1)
            assert {key for key, got in found.items() if len(got.records)} == {("calm", 0)}

    asyncio.run(run())


def test_a_target_that_is_told_names_has_no_records_twice_after_a_topic_was_made_again(cluster: LocalBroker) -> None:
    """Before Produce 13 the new topic takes what was meant for the old one, before the mirror has heard of it."""
    with LocalBroker() as target:
        asyncio.run(set_level(target.bootstrap, 1))
        cluster.create_topic("named", 2)
        publish(cluster, "named", 0, 1)
        mirror = mirror_of(cluster, target, "named")
        assert mirrored(mirror) == 1
        asyncio.run(drop(target, "named"))
        target.create_topic("named", 2)
        publish(cluster, "named", 1, 1)
        with pytest.raises(RequestError, match="topic named was made again at the target"):
            mirrored(mirror)
        assert mirrored(mirror) == 2
        mirror.close()
        for partition in range(2):
            assert contents(target, "named", partition) == contents(cluster, "named", partition)


@pytest.mark.parametrize("known", [True, False])
def test_configs_are_neither_wiped_nor_asked_for_where_they_are_not_known(
    cluster: LocalBroker, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has not heard of a topic yet is not to make the copy one that deletes after a week."""
    name = f"kept-{known}"
    cluster.create_topic(name)
    cluster.create_topic(f"to.{name}", configs={"retention.ms": "-1"})
    asked = mirror_topics.own_configs

    async def answered(client: Client, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        if topics != [name]:
            return await asked(client, topics)
        return {name: {"retention.ms": "-1", "of.another.version": "1"}} if known else {}

    async def run() -> None:
        async with Client(cluster.bootstrap) as source, Client(cluster.bootstrap) as target:
            await prepare_progress(target)
            (pair,) = await Topics(source, target, Choice([name], prefix="to.")).look(configs=True)
            assert pair.to == f"to.{name}"

    monkeypatch.setattr(mirror_topics, "own_configs", answered)
    asyncio.run(run())
    monkeypatch.undo()
    assert asyncio.run(own(cluster, f"to.{name}")) == {"retention.ms": "-1"}


@pytest.mark.parametrize("moves", [True, False])
def test_progress_that_is_deleted_while_the_mirror_runs_is_written_anew(
    cluster: LocalBroker, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is mirrored twice, neither by this mirror nor by one that begins after it; one that had nothing to do in
    between has not noticed."""
    monkeypatch.setattr(mirror_sending, "Times", partial(Times, transaction_timeout_ms=2000))
    name = f"progress-{moves}"
    cluster.create_topic(name, 2, {"retention.ms": "-1"})
    with LocalBroker() as target:
        publish(cluster, name, 0, 20)
        mirror = mirror_of(cluster, target, name)
        assert mirrored(mirror) == 20
        asyncio.run(drop(target, PROGRESS))
        if moves:
            publish(cluster, name, 20, 20)
            with pytest.raises(PenstockError):
                mirrored(mirror)
            assert mirrored(mirror) == 20, "in the same process"
        mirror.close()
        last = mirror_of(cluster, target, name)
        assert mirrored(last) == (0 if moves else 20)
        last.close()
        if moves:
            for partition in range(2):
                assert contents(target, name, partition) == contents(cluster, name, partition)
