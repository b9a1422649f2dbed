"""Apache Kafka and Penstock take turns on one data directory under living groups: each knows what the other wrote."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from interop.data_directory.groups import EMPTY, LIVING, PARTITIONS, GroupHistory
from interop.data_directory.turns import DataDirectory
from interop.kafka_peer import require_kafka

pytestmark = pytest.mark.java
GROUP_TOPIC = "__consumer_offsets"


@pytest.fixture(scope="module", autouse=True)
def kafka() -> None:
    require_kafka()


@pytest.fixture
def histories() -> Iterator[list[GroupHistory]]:
    """Histories whose members are closed at the end."""
    made: list[GroupHistory] = []
    yield made
    for history in made:
        history.close()


def take_turns(shared: DataDirectory, history: GroupHistory, turns: Sequence[str], stopped_by: signal.Signals) -> None:
    for who in turns:
        with shared.served_by(who, stopped_by):
            history.turn()


def dump_agrees(shared: DataDirectory) -> None:
    """Kafka's DumpLogSegments understands every record of the coordinators."""
    found = shared.dump(f"{GROUP_TOPIC}-*", ".log", "--deep-iteration", "--offsets-decoder")
    assert "isvalid: false" not in found
    assert "Could not decode" not in found
    keys = set(re.findall(r'key: \{"type":"?(\w+)"?', found))
    assert keys >= {"1", "2", "3", "5", "6", "7", "8"}, keys


@pytest.mark.slow
def test_groups_go_on_from_kafka_to_penstock_and_back(tmp_path: Path, histories: list[GroupHistory]) -> None:
    with DataDirectory(tmp_path, formatted_by="kafka") as shared:
        histories.append(history := GroupHistory(shared))
        take_turns(shared, history, ("kafka", "penstock", "kafka"), signal.SIGTERM)
        assert history.turns == 3
        assert set(history.states) >= {*LIVING.values(), *EMPTY[4:]}
        assert {len(history.offsets[group]) for group in LIVING.values()} == {PARTITIONS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "stopped_by", [pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGKILL], ids=["stopped", "killed"]
)
@pytest.mark.parametrize("formatted_by", [pytest.param("kafka", marks=pytest.mark.long), "penstock"])
def test_groups_take_turns(
    tmp_path: Path, formatted_by: str, stopped_by: signal.Signals, histories: list[GroupHistory]
) -> None:
    other = {"kafka": "penstock", "penstock": "kafka"}[formatted_by]
    with DataDirectory(tmp_path, formatted_by=formatted_by) as shared:
        histories.append(history := GroupHistory(shared))
        take_turns(shared, history, (formatted_by, other) * 2, stopped_by)
        dump_agrees(shared)
        assert history.turns == 4
