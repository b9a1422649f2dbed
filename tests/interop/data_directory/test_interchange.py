"""Apache Kafka and Penstock take turns on one data directory: what one left the other serves, goes on with, gives back.

Kafka formats with the features that Penstock lacks at level 0.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from interop.data_directory.turns import METADATA, DataDirectory, History
from interop.kafka_peer import require_kafka

pytestmark = pytest.mark.java
THERE_AND_BACK = {"kafka": ("kafka", "penstock", "kafka"), "penstock": ("penstock", "kafka", "penstock")}


@pytest.fixture(scope="module", autouse=True)
def kafka() -> None:
    require_kafka()


def take_turns(shared: DataDirectory, history: History, turns: Sequence[str], stopped_by: signal.Signals) -> None:
    for who in turns:
        with shared.served_by(who, stopped_by):
            history.turn()


def dump_agrees(shared: DataDirectory, history: History) -> None:
    """Kafka's DumpLogSegments finds every record, every index and every snapshot as they should be."""
    records = shared.dump("codecs-0", ".log", "--deep-iteration")
    assert "isvalid: false" not in records
    assert len(re.findall(r"^\| offset:", records, re.M)) == len(history.records["codecs", 0])
    codecs = {codec.lower() for codec in re.findall(r"compresscodec: (\w+)", records)}
    assert codecs == set(history.codecs)
    assert "Mismatches" not in shared.dump("codecs-0", ".index", "--verify-index-only")
    assert "Found" not in shared.dump("codecs-0", ".timeindex", "--verify-index-only")
    metadata = shared.dump(METADATA, ".log", "--cluster-metadata-decoder")
    assert "isvalid: false" not in metadata
    assert '"name":"codecs"' in metadata


@pytest.mark.slow
def test_penstock_serves_what_kafka_left_and_gives_it_back(tmp_path: Path) -> None:
    with DataDirectory(tmp_path, formatted_by="kafka") as shared:
        history = History(shared, codecs=("none", "zstd"))
        take_turns(shared, history, THERE_AND_BACK["kafka"], signal.SIGTERM)
        assert history.turns == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "stopped_by", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL], ids=["stopped", "killed"]
)
@pytest.mark.parametrize("formatted_by", ["kafka", pytest.param("penstock", marks=pytest.mark.long)])
def test_both_take_turns(tmp_path: Path, formatted_by: str, stopped_by: signal.Signals) -> None:
    with DataDirectory(tmp_path, formatted_by=formatted_by) as shared:
        history = History(shared, killed=stopped_by == signal.SIGKILL)
        for _ in range(2):
            take_turns(shared, history, THERE_AND_BACK[formatted_by][:2], stopped_by)
            dump_agrees(shared, history)
        take_turns(shared, history, [formatted_by], stopped_by)
        assert history.turns == 5
