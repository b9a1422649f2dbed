"""Compacted topics in simulated clusters: seeds keep every rule. Planted faults are in `cluster.test_mutations`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from penstock.log.disk import Disk
from penstock.log.segment_copies import PlaceSegment
from simulator.compacted.scenarios import COMPACTED_SCENARIOS
from simulator.compacted.world import CompactedWorld

SEEDS = (1_000,)
"""One each: more are run by `make simulate`."""
MORE_SEEDS = range(1_001, 1_040)


@pytest.fixture(autouse=True)
def collected_between_tests() -> Iterator[None]:
    """A world is one large cycle: it is collected when it is over, and not while it runs."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", COMPACTED_SCENARIOS)
def test_compacted_topics_keep_every_rule(name: str, seed: int) -> None:
    CompactedWorld(seed, COMPACTED_SCENARIOS[name]).run()


def test_a_batch_stays_that_is_the_last_of_its_producer_once_a_later_one_is_truncated() -> None:
    CompactedWorld(5_023, COMPACTED_SCENARIOS["compacted"]).run()


@pytest.mark.long
@pytest.mark.parametrize("seed", MORE_SEEDS)
@pytest.mark.parametrize("name", COMPACTED_SCENARIOS)
def test_compacted_topics_keep_every_rule_for_long(name: str, seed: int) -> None:
    CompactedWorld(seed, COMPACTED_SCENARIOS[name]).run()


def test_logs_are_cleaned_and_read_and_batches_repeated_while_it_lasts() -> None:
    world = CompactedWorld(4, COMPACTED_SCENARIOS["compacted"])
    world.run()
    assert world.passes > 30
    assert sum(reader.laps for reader in world.keyed_readers) > 5
    assert sum(producer.unheard for producer in world.keyed_producers) > 5
    assert world.gone > 100


def test_closed_segments_and_cleaned_ones_among_them_are_copied_as_files(monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[str] = []
    run = PlaceSegment.run

    def place(operation: PlaceSegment, disk: Disk) -> None:
        run(operation, disk)
        placed.append(operation.name)

    monkeypatch.setattr(PlaceSegment, "run", place)
    world = CompactedWorld(4, COMPACTED_SCENARIOS["compacted-moves"])
    world.run()
    assert sum(name.startswith(("profiles", "sessions")) for name in placed) > 3
    assert sum(name.startswith(("clicks", "orders")) for name in placed) > 5
    assert world.passes > 10
