"""Kafka's own check of a compacting broker, LogCompactionTester: it consumes the last that it has produced of each key.

It produces keys several times over, some of them as delete markers, waits, and consumes all that is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.kafka_peer import require_kafka, run_tool
from support.processes import Cluster

pytestmark = [pytest.mark.java, pytest.mark.slow]

TESTER = "org.apache.kafka.tools.LogCompactionTester"
MESSAGES = 200_000
PAUSE_S = 10
TRIES = 3
SETTINGS = {
    "log_cleaner_backoff_ms": 100,
    "log_initial_task_delay_ms": 0,
    "log_cleaner_min_cleanable_ratio": 0.1,
    "log_segment_bytes": 1 << 20,
    "log_cleaner_threads": 2,
    "log_segment_delete_delay_ms": 1000,
    "offsets_topic_replication_factor": 1,
    "offsets_topic_num_partitions": 1,
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    require_kafka()
    with Cluster(tmp_path, 1, **SETTINGS) as cluster:
        yield cluster


@pytest.mark.parametrize("codec", ["zstd", *(pytest.param(each, marks=pytest.mark.long) for each in ("none", "lz4"))])
def test_the_last_value_of_every_key_is_consumed(cluster: Cluster, codec: str) -> None:
    arguments = ["--messages", MESSAGES, "--duplicates", 5, "--percent-deletes", 20, "--topics", 2]
    where = ["--bootstrap-server", cluster.bootstrap]
    for tried in range(TRIES):  # a pause may be too short for a busy machine
        pause_s = PAUSE_S << tried
        said = run_tool(TESTER, *where, *arguments, "--sleep", pause_s, "--compression-type", codec, timeout_s=300)
        counts = re.search(r"(\d+) rows of data produced, (\d+) rows of data consumed", said.stdout)
        assert counts is not None, said.stdout + said.stderr
        produced, consumed = map(int, counts.groups())
        assert produced == 2 * MESSAGES
        if consumed < produced:  # what it consumed was cleaned before
            break
    else:
        pytest.fail(f"nothing was cleaned in {pause_s} s:\n{cluster.log(1)[-4000:]}")
