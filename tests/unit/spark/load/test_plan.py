"""What one job of a load takes on, planned from the table and from what the brokers say they have."""

from __future__ import annotations

from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.client.client import EpochEnd
from penstock.client.epochs import cut_at
from penstock.records.run import SeenEpoch
from penstock.spark.lake.folding import Folded
from penstock.spark.lake.records import DIVERGED, Claim, Gap, TopicPartition
from penstock.spark.load.plan import (
    ClaimError,
    Extent,
    Plan,
    Span,
    diverged_from,
    holes,
    live_span,
    live_start,
    reload_name,
    share_out,
)
from penstock.spark.read.plan import DataLossError

TOPIC_ID = UUID(int=1)


def of(partition: int) -> TopicPartition:
    return TopicPartition("clicks", TOPIC_ID, partition)


def span(first: int, last: int, start: int, *, known: bool = True, loss: bool = False) -> Span | None:
    return live_span(of(0), Extent(first, last), start, known=known, fail_on_data_loss=not loss)


def plan(*spans: tuple[int, int], limit: int = 1_000_000) -> Plan:
    return share_out({of(i): Span(first, first, last) for i, (first, last) in enumerate(spans)}, limit)


def sizes(made: Plan) -> list[int]:
    return [each.size for each in made.ranges]


def test_a_job_takes_all_that_the_brokers_have() -> None:
    made = plan((0, 10), (5, 20))
    assert [(each.partition, each.start, each.end) for each in made.ranges] == [(0, 0, 10), (1, 5, 20)]
    assert made.starts == {of(0): 0, of(1): 5}
    assert made.ends == {of(0): 10, of(1): 20}
    assert made.lag == 0


def test_a_partition_with_nothing_new_is_left_out() -> None:
    assert span(0, 10, 10) is None
    assert span(0, 20, 15) == Span(15, 15, 20)


def test_a_bounded_job_takes_the_same_part_of_every_partition() -> None:
    made = plan((0, 1000), (0, 3000), limit=400)
    assert sizes(made) == [100, 300]
    assert made.lag == 3600


def test_a_bounded_job_gets_every_partition_on() -> None:
    assert sizes(plan((0, 1), (0, 1_000_000), limit=10)) == [1, 9]


def test_offsets_that_retention_took_are_an_error_or_a_gap() -> None:
    with pytest.raises(DataLossError, match="the table ends at 3, the brokers have 5 to 10"):
        span(5, 10, 3)
    found = span(5, 10, 3, loss=True)
    assert found == Span(3, 5, 10)
    made = share_out({of(0): found}, 100)
    assert made.gaps == [Gap(of(0), 3, 5, "deleted")]
    assert (made.starts, sizes(made)) == ({of(0): 3}, [5])


def test_all_of_it_deleted_moves_the_end_without_a_record() -> None:
    found = span(10, 10, 3, loss=True)
    assert found is not None
    made = share_out({of(0): found}, 100)
    assert (made.ends, made.ranges, made.gaps) == ({of(0): 10}, [], [Gap(of(0), 3, 10, "deleted")])


def test_a_log_that_ends_before_the_table_is_an_error_even_so() -> None:
    with pytest.raises(DataLossError, match="the table ends at 30, the brokers have 0 to 10"):
        span(0, 10, 30, loss=True)


def test_a_live_load_begins_behind_what_reloads_brought_and_never_beside_another() -> None:
    assert live_start(of(0), 5, []) == 5
    assert live_start(of(0), 5, [Claim("load/reload-1", 2, 40), Claim("load/reload-2", 50, 60)]) == 60
    with pytest.raises(ClaimError, match="clicks-0 is loaded into this table by pipeline 'other' already"):
        live_start(of(0), 5, [Claim("other", 100, 200)])


@pytest.mark.parametrize(
    ("wanted", "claims", "found"),
    [
        ((0, 100), [], [(0, 100)]),
        ((0, 100), [Claim("load", 40, 60)], [(0, 40)]),
        ((50, 100), [Claim("load", 40, 60)], []),
        ((0, 100), [Claim("load/reload-1", 40, 60)], [(0, 40), (60, 100)]),
        ((45, 55), [Claim("load/reload-1", 40, 60)], []),
        ((0, 100), [Claim("load/reload-1", 10, 20), Claim("load/reload-2", 20, 30), Claim("load", 70, 90)],
         [(0, 10), (30, 70)]),
        ((15, 100), [Claim("load/reload-1", 10, 20), Claim("load", 20, 20)], []),
    ],
)  # fmt: skip
def test_a_reload_fills_what_nobody_claimed_and_what_comes_before_the_live_load(
    wanted: tuple[int, int], claims: list[Claim], found: list[tuple[int, int]]
) -> None:
    assert holes(wanted, claims) == found


def test_a_reload_goes_on_with_the_claim_that_it_began() -> None:
    claims = [Claim("load", 500, 900), Claim("load/reload-1", 0, 100), Claim("load/reload-2", 200, 300)]
    assert reload_name("load", 100, claims) == "load/reload-1"
    assert reload_name("load", 300, claims) == "load/reload-2"
    assert reload_name("load", 400, claims) == "load/reload-3"
    assert reload_name("load", 400, []) == "load/reload-1"


@pytest.mark.parametrize(
    ("answer", "first", "at"),
    [
        (EpochEnd(5, 100), 0, None),  # the leader has the epoch up to there
        (EpochEnd(5, 130), 0, None),  # and beyond
        (EpochEnd(5, 90), 0, 90),  # the epoch went on otherwise
        (EpochEnd(3, 60), 0, 60),  # the leader was elected without it
        (EpochEnd(4, 100), 0, None),  # its batches were compacted away, and the leader never knew it
        (EpochEnd(-1, -1), 20, 20),  # nobody knows of so late an epoch: nor where the histories part
        (EpochEnd(-1, -1), 100, None),  # but then nothing is left to be compared
    ],
)
def test_a_log_is_another_one_from_where_the_epoch_ends_in_it(answer: EpochEnd, first: int, at: int | None) -> None:
    assert cut_at(SeenEpoch(5, 100), answer, first) == at


def test_a_divergence_is_told_once_and_again_when_it_grows() -> None:
    folded = Folded(10, 100, last_epoch=SeenEpoch(5, 100))
    assert diverged_from(folded, Extent(0, 100), None) is None
    assert diverged_from(folded, Extent(0, 120), 80) == 80
    assert diverged_from(folded, Extent(0, 120), 0) == 10, "before its start the table has nothing"
    recorded = Folded(10, 100, diverged=[(80, 100)])
    assert diverged_from(recorded, Extent(0, 85), None) is None
    assert diverged_from(recorded, Extent(0, 70), None) == 70
    later = Folded(10, 140, last_epoch=SeenEpoch(6, 140), diverged=[(80, 100)])
    assert diverged_from(later, Extent(0, 140), 90) == 90


def test_without_an_epoch_a_log_that_ends_before_the_table_was_cut() -> None:
    assert diverged_from(Folded(0, 100), Extent(0, 80), None) == 80
    assert diverged_from(Folded(0, 100, last_epoch=SeenEpoch(5, 100)), Extent(0, 80), None) is None, "its leader is new"


def test_a_divergence_is_recorded_also_when_nothing_is_to_be_read() -> None:
    made = Plan()
    made.note_divergence(of(0), 80, 100)
    assert made.gaps == [Gap(of(0), 80, 100, DIVERGED)]
    assert (made.starts, made.ends, made.diverges(of(0)), made.diverges(of(1))) == (
        {of(0): 100},
        {of(0): 100},
        True,
        False,
    )
