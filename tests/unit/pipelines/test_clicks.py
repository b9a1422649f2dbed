"""The clickstream is the same for a seed, distributed as promised, and its ground truth is what is in it."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs penstock[kernels]")

import pyarrow as pa

from penstock.pipelines.generate.batches import Batches
from penstock.pipelines.generate.clicks import PAGE, TIME, Clicks, Mix, curve
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec

START_MS = 1_800_000_000_000
FIELDS = {"time_ms", "client", "country", "agent", "user", "page", "referrer", "action", "status"}


def values(mix: Mix, seconds: int) -> tuple[Clicks, list[bytes], list[bytes]]:
    """The stream, and its keys and values of so many seconds."""
    clicks = Clicks(mix, START_MS)
    keys: list[bytes] = []
    found: list[bytes] = []
    for rows in itertools.islice(clicks.seconds(), seconds):
        some = clicks.encode(rows)
        keys += some[0].cast("binary").to_pylist()
        found += some[1].cast("binary").to_pylist()
    return clicks, keys, found


@pytest.fixture(scope="module")
def stream() -> tuple[Clicks, list[dict[str, Any]]]:
    """Ten minutes and a half with everything in it."""
    clicks, keys, found = values(Mix(rate=50, seed=4, users=5_000), 630)
    events = [json.loads(value) for value in found]
    assert [event["client"].encode() for event in events] == keys
    return clicks, events


def test_equal_seeds_make_equal_streams_and_others_do_not() -> None:
    mix = Mix(rate=200, seed=1, users=500)
    first, again, other = (values(m, 20)[1:] for m in (mix, mix, Mix(rate=200, seed=2, users=500)))
    assert first == again
    assert first != other


def test_a_stream_does_not_depend_on_when_it_begins_but_for_its_times() -> None:
    mix = Mix(rate=100, seed=1, users=500)
    here, later = Clicks(mix, START_MS), Clicks(mix, START_MS + 86_400_000)  # the same time of day
    for one, other in itertools.islice(zip(here.seconds(), later.seconds(), strict=True), 20):
        assert np.array_equal(one[:, TIME] + 86_400_000, other[:, TIME])
        assert np.array_equal(one[:, PAGE], other[:, PAGE])


def test_every_value_has_the_fields_of_an_access_log_and_nothing_that_tells_on_crawlers(
    stream: tuple[Clicks, list[dict[str, Any]]],
) -> None:
    assert all(event.keys() == FIELDS for event in stream[1])


def test_events_are_in_order_and_each_second_has_its_own(stream: tuple[Clicks, list[dict[str, Any]]]) -> None:
    times = [event["time_ms"] for event in stream[1]]
    assert times == sorted(times)
    assert START_MS <= times[0] < times[-1] < START_MS + 630_000


def test_pages_are_as_popular_as_zipf_says() -> None:
    clicks = Clicks(Mix(rate=2_000, seed=3, crawlers=0), START_MS)
    pages = np.concatenate([rows[:, PAGE] for rows in itertools.islice(clicks.seconds(), 30)])
    (_, first), (_, fourth) = (Counter(pages.tolist()).most_common(5)[at] for at in (0, 4))
    assert 0.05 < first / len(pages) < 0.25
    assert 2 < first / fourth < 12  # 5 to the 1.1 is 5.9


def test_the_rate_follows_the_day() -> None:
    evening, morning = 19 * 3600, 7 * 3600
    assert curve(evening) == pytest.approx(1.6)
    assert curve(morning) == pytest.approx(0.4)
    counts = []
    for hour in (evening, morning):
        clicks = Clicks(Mix(rate=500, seed=3, crawlers=0), START_MS // 86_400_000 * 86_400_000 + hour * 1000)
        counts.append(sum(len(rows) for rows in itertools.islice(clicks.seconds(), 30)) / 30)
    assert counts == pytest.approx([800, 200], rel=0.15)


def test_people_come_in_sessions(stream: tuple[Clicks, list[dict[str, Any]]]) -> None:
    clicks, events = stream
    planted = {each.client for each in clicks.truth()}
    people = [event for event in events if event["client"] not in planted]
    inside = sum(str(event["referrer"]).startswith("https://shop.example") for event in people)
    assert 0.6 < inside / len(people) < 0.85
    by_user = Counter(event["user"] for event in people if event["user"])
    assert 2 < np.mean(list(by_user.values())) < 12


def test_the_truth_is_what_the_stream_has(stream: tuple[Clicks, list[dict[str, Any]]]) -> None:
    clicks, events = stream
    truth = clicks.truth()
    assert {each.kind for each in truth} == {"scraper", "regular", "distributed", "login"}
    seen = Counter(event["client"] for event in events)
    for each in truth:
        times = [event["time_ms"] for event in events if event["client"] == each.client]
        agents = {event["agent"] for event in events if event["client"] == each.client}
        assert (each.requests, each.first_ms, each.last_ms) == (seen[each.client], min(times), max(times))
        assert agents == {each.agent}
    crawlers = {each.client for each in truth}
    assert len(crawlers) == len(truth)
    people = set(clicks.population.clients[: clicks.population.users])
    assert not crawlers & people


def test_without_crawlers_there_is_no_truth() -> None:
    clicks, _, found = values(Mix(rate=20, seed=4, users=100, crawlers=0), 30)
    assert found
    assert clicks.truth() == []


def test_the_share_of_malformed_values_is_as_asked() -> None:
    _, _, found = values(Mix(rate=500, seed=4, users=100, crawlers=0, malformed=0.1), 20)
    broken = sum(not value.endswith(b"}") for value in found)
    assert broken / len(found) == pytest.approx(0.1, abs=0.02)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 900), st.binary(max_size=70), st.binary(max_size=400)), min_size=1, max_size=150),
    st.sampled_from([Codec.NONE, Codec.LZ4]),
)
def test_a_batch_from_columns_is_the_builders_byte_for_byte(
    records: list[tuple[int, bytes, bytes]], codec: Codec
) -> None:
    records.sort(key=lambda record: record[0])
    builder = BatchBuilder(codec=codec)
    for delta, key, value in records:
        builder.append(START_MS + delta, key, value)
    times = np.array([START_MS + delta for delta, _, _ in records])
    keys, found = (pa.array([record[at] for record in records], pa.binary()) for at in (1, 2))
    assert Batches(codec).build(times, keys, found) == builder.build()
