"""`penstock log verify` and `log index` on the directory of a real broker: written to, killed, and recovered."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Producer
from e2e.cluster.history import QUIET, create_topic
from support.processes import Cluster, wait_until

from penstock.cli.main import main

Capture = pytest.CaptureFixture[str]
TOPICS = ("clicks", "profiles")
INDEXES = (".index", ".timeindex")


def verified(data: Path, capsys: Capture) -> tuple[int, list[Any]]:
    """Exit code and problems."""
    capsys.readouterr()
    code = main(["log", "verify", "--json", str(data)])
    said = json.loads(capsys.readouterr().out)
    return code, [(log["directory"], each) for log in said for each in log["findings"] if each["severity"] == "problem"]


def write(bootstrap: str, ended: Event, count: list[int]) -> None:
    """Small batches to both topics, few keys, until it is told to end."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, **QUIET})
    while not ended.is_set():
        for topic in TOPICS:
            producer.produce(topic, b"x" * 300, b"%d" % (count[0] % 7))
        count[0] += 1
        producer.flush(10)


def indexes(data: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(data)): path.read_bytes()
        for topic in TOPICS
        for path in sorted((data / f"{topic}-0").iterdir())
        if path.suffix in INDEXES
    }


@pytest.mark.slow
def test_logs_of_a_broker_are_sound_at_all_times_and_their_indexes_can_be_made_anew(
    tmp_path: Path, capsys: Capture
) -> None:
    settings = {"log_cleaner_backoff_ms": 100, "log_initial_task_delay_ms": 0, "log_segment_delete_delay_ms": 100}
    with Cluster(tmp_path, 1, log_roll_ms=300, log_index_interval_bytes=1000, **settings) as cluster:
        data = cluster.path(1) / "data"
        create_topic(cluster.bootstrap, "clicks", 1, 1)
        create_topic(cluster.bootstrap, "profiles", 1, 1)
        configs = ["--add", "cleanup.policy=compact", "--add", "min.cleanable.dirty.ratio=0.01"]
        assert main(["configs", "alter", "--bootstrap", cluster.bootstrap, "--name", "profiles", *configs]) == 0
        ended, count = Event(), [0]
        writer = Thread(target=write, args=(cluster.bootstrap, ended, count))
        writer.start()
        try:
            wait_until(lambda: count[0] > 100, "records are written")
            for _ in range(3):
                assert verified(data, capsys) == (0, [])
            wait_until(lambda: "profiles-0: cleaned" in cluster.log(1), "the cleaner has been there")
            wait_until(lambda: len(list((data / "clicks-0").glob("*.log"))) > 3, "there are some segments")
            assert verified(data, capsys) == (0, [])
            assert main(["log", "index", str(data / "clicks-0")]) == 1
            assert "is in use by another process" in capsys.readouterr().err
            cluster.kill(1)
        finally:
            ended.set()
            writer.join()
        assert verified(data, capsys) == (0, []), "after it was killed"

        for name in indexes(data):  # of the compacted topic too: it may have been killed in the middle of a swap
            (data / name).unlink()
        copy = shutil.copytree(data, tmp_path / "copy")
        clicks = copy / "clicks-0"
        assert main(["log", "index", "--index-interval-bytes", "1000", str(clicks)]) == 0
        assert verified(clicks, capsys) == (0, [])
        made = indexes(copy)
        cluster.start(1)
        cluster.wait_ready(1)
        cluster.stop(1)
        recovered = indexes(data)
        assert len(made) > 4
        assert {name: made[name] for name in recovered if name in made} == {
            name: content for name, content in recovered.items() if name in made
        }
        assert recovered.keys() & made.keys()
        assert verified(data, capsys) == (0, []), "after a recovery and a clean stop"
