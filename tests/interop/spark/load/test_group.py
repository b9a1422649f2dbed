"""A load's group: its lag is what the table lacks, in our commands and in Kafka's, and it never stops a load."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from interop.kafka_peer import KafkaPeer
from interop.spark.load.support import PARTITIONS, caught_up, options, publish
from interop.tools.toolbox import CONSUMER_GROUPS, Toolbox

from penstock.cli.main import main
from penstock.errors import PenstockError
from penstock.spark.lake.records import LakeConflictError
from penstock.spark.limits import GROUP_COMMIT_INTERVAL_MS
from penstock.spark.load.load import Load, LoadOptions
from penstock.testing.broker import LocalBroker


@pytest.fixture(scope="module", params=["penstock", pytest.param("kafka", marks=[pytest.mark.java, pytest.mark.slow])])
def broker(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A running broker."""
    with LocalBroker() if request.param == "penstock" else KafkaPeer() as broker:
        yield broker


@pytest.fixture
def topic(broker: Any, request: pytest.FixtureRequest) -> str:
    name = request.node.name[-80:].replace("[", ".").replace("]", "")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(30)
    return name


def described(broker: Any, group: str, capsys: pytest.CaptureFixture[str]) -> dict[int, tuple[int, int]]:
    """Committed offset and lag of each partition, as `penstock groups describe` has them."""
    capsys.readouterr()
    assert main(["groups", "describe", group, "--bootstrap", broker.bootstrap, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    [group_told] = told if isinstance(told, list) else [told]
    return {each["partition"]: (each["committed_offset"], each["lag"]) for each in group_told["partitions"]}


def test_the_lag_is_what_the_table_lacks(
    broker: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(broker, topic, 200, partitions=2)
    with Load(None, options(broker, topic, tmp_path / "clicks")) as load:
        caught_up(load)
        assert described(broker, "test-clicks", capsys) == {0: (100, 0), 1: (100, 0), 2: (0, 0)}
        publish(broker, topic, 60, partitions=2)
        assert described(broker, "test-clicks", capsys) == {0: (100, 30), 1: (100, 30), 2: (0, 0)}
        caught_up(load)
    assert described(broker, "test-clicks", capsys) == {0: (130, 0), 1: (130, 0), 2: (0, 0)}, "the last job too"
    publish(broker, topic, 9)
    assert described(broker, "test-clicks", capsys) == {0: (130, 3), 1: (130, 3), 2: (0, 3)}, "while no load runs"


@pytest.mark.java
def test_kafkas_own_tool_shows_it(broker: Any, topic: str, tmp_path: Path) -> None:
    publish(broker, topic, 200, partitions=2)
    with Load(None, options(broker, topic, tmp_path, group=topic)) as load:
        caught_up(load)
    publish(broker, topic, 8, partitions=2)
    with Toolbox() as tools:
        shown = tools.run(CONSUMER_GROUPS, broker.bootstrap, "--describe", "--group", topic)
    assert shown.status == 0, shown.error
    rows = [line.split()[:6] for line in shown.out.splitlines() if line.startswith(topic)]
    assert rows == [
        [topic, topic, "0", "100", "104", "4"],
        [topic, topic, "1", "100", "104", "4"],
        [topic, topic, "2", "0", "0", "0"],
    ]


def test_what_a_crash_kept_from_the_group_is_committed_when_the_load_comes_back(
    broker: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(broker, topic, 300)
    with Load(None, options(broker, topic, tmp_path, group="")) as crashed:
        caught_up(crashed)
    with Load(None, options(broker, topic, tmp_path, group=topic)) as load:
        assert load.run_job() is None, "nothing is new"
        assert described(broker, topic, capsys) == {0: (100, 0), 1: (100, 0), 2: (100, 0)}


def test_the_group_is_never_ahead_of_the_table(
    broker: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(broker, topic, 30)
    with Load(None, options(broker, topic, tmp_path, group=topic)) as load:
        caught_up(load)
    publish(broker, topic, 30)

    def full(*_: Any, **__: Any) -> int:
        raise OSError("the disk is full")

    with Load(None, options(broker, topic, tmp_path, group=topic)) as load:
        load.lake.commit = full  # type: ignore[method-assign]
        with pytest.raises(PenstockError, match="the disk is full"):
            load.run_job()
    assert described(broker, topic, capsys) == dict.fromkeys(range(PARTITIONS), (10, 10))


def test_of_two_copies_only_the_one_that_goes_on_commits(
    broker: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Load(None, options(broker, topic, tmp_path, group=topic))
    for _ in range(2):  # the second job's offsets wait for the next commit
        publish(broker, topic, 30)
        caught_up(copy)
    publish(broker, topic, 30)
    check = copy._check_same_logs

    def overtaken(*arguments: Any) -> None:
        check(*arguments)
        with Load(None, options(broker, topic, tmp_path, group=topic)) as other:
            caught_up(other)

    copy._check_same_logs = overtaken  # type: ignore[method-assign, assignment]
    with copy, pytest.raises(LakeConflictError):
        copy.run_job()
    assert described(broker, topic, capsys) == dict.fromkeys(range(PARTITIONS), (30, 0))


def test_a_load_that_goes_on_commits_while_it_waits(
    broker: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stop, now = threading.Event(), [1]
    publish(broker, topic, 3)
    with Load(None, options(broker, topic, tmp_path, group=topic)) as load:
        assert load._group is not None
        load._group.clock = lambda: now[0]
        load.run_job()
        publish(broker, topic, 3)
        load.run_job()
        assert described(broker, topic, capsys)[0] == (1, 1), "at most one commit an interval"
        now[0] += GROUP_COMMIT_INTERVAL_MS
        wait = load._brokers.wait_for_more

        async def wait_once(*arguments: Any) -> bool:
            stop.set()
            return await wait(*arguments, timeout_ms=1)

        load._brokers.wait_for_more = wait_once  # type: ignore[method-assign, assignment]
        load.wait(stop)
        assert described(broker, topic, capsys)[0] == (2, 0)


def test_a_reload_moves_no_group(broker: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(broker, topic, 30)
    with Load(None, options(broker, topic, tmp_path, group=topic, starting=-1)) as load:
        assert load.run_job() is None
    publish(broker, topic, 3)
    with Load(None, options(broker, topic, tmp_path, group=topic, until_ms=1 << 48)) as reload:
        caught_up(reload)
    assert described(broker, topic, capsys)[0] == (10, 1)


def test_a_group_that_consumers_use_is_a_warning_and_no_failed_load(
    broker: Any, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(broker, topic, 30)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        assert consumer.poll(30) is not None
        with Load(None, options(broker, topic, tmp_path, group=topic)) as load:
            assert caught_up(load) == 1
    finally:
        consumer.close()
    assert f"group {topic}: offsets are not committed" in caplog.text
    assert "consumers are members of it; a pipeline needs a group of its own" in caplog.text


def test_a_pattern_of_topics_leaves_kafkas_own_out(broker: Any, topic: str, tmp_path: Path) -> None:
    publish(broker, topic, 3)
    with Load(None, options(broker, topic, tmp_path / "first", group=topic)) as load:
        caught_up(load)  # the offsets topic is there from now on
    everything = LoadOptions(broker.bootstrap, [], str(tmp_path / "all"), "test", topic_pattern=".*", group="")
    with Load(None, everything) as load:
        caught_up(load)
        topics = {progress.topic for progress in load.lake.progress()}
    assert topic in topics
    assert not any(name.startswith("__") for name in topics)
