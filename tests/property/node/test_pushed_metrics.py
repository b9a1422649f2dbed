"""What strangers push: read as google's library reads it, or refused, whatever the bytes are, in bounded steps."""

from __future__ import annotations

import math
from random import Random
from typing import Any
from uuid import UUID

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from support.otlp import classes, counter, gauge, metrics_data

from penstock.config.client_metrics import KNOWN_BY
from penstock.errors import InvalidRecordError
from penstock.node.client_metrics import otlp
from penstock.node.client_metrics.instances import ClientInstance, text_of
from penstock.node.client_metrics.otlp import Pushed, read_pushed
from penstock.node.client_metrics.pushed import PushedMetrics
from penstock.node.client_metrics.subscriptions import Wanted
from penstock.node.limits import CLIENT_METRICS_BYTES_PER_STEP

NAMES = st.text(min_size=1, max_size=30)
VALUES = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
ATTRIBUTES = st.dictionaries(
    st.text(max_size=8), st.one_of(st.text(max_size=8), st.integers(-(2**63), 2**63 - 1), st.booleans()), max_size=4
)
GAUGES = st.builds(lambda name, value, of: gauge(name, value, **of), NAMES, VALUES, ATTRIBUTES)
COUNTERS = st.builds(
    lambda name, value, temporality, of: counter(name, value, temporality, **of),
    NAMES,
    VALUES,
    st.sampled_from((1, 2)),
    ATTRIBUTES,
)
MESSAGES = st.builds(metrics_data, st.lists(st.one_of(GAUGES, COUNTERS), max_size=6))


def read(data: bytes) -> tuple[Pushed, int]:
    """What was read, and in how many steps."""
    steps, reading = 1, read_pushed(data)
    while True:
        try:
            next(reading)
        except StopIteration as ended:
            return ended.value, steps
        steps += 1


def by_google(data: bytes) -> list[tuple[str, float]]:
    """Name and value of each point."""
    found = []
    for resource in classes()["MetricsData"].FromString(data).resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points: Any = metric.gauge.data_points or metric.sum.data_points
                for each in points:
                    found.append((metric.name, each.as_int if each.HasField("as_int") else each.as_double))
    return found


@settings(max_examples=300)
@given(MESSAGES)
def test_points_are_those_that_googles_library_finds(data: bytes) -> None:
    found, _ = read(data)
    assert [(each.name, each.value) for each in found.points] == by_google(data)


@settings(max_examples=500)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read(data)
    except InvalidRecordError:
        return


def mutated(data: bytes, random: Random) -> bytes:
    """A few bytes changed, cut out, or doubled."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(changed) + 1)
        match random.randrange(20):
            case 0:
                changed[at:at] = bytes(random.randrange(256) for _ in range(random.randint(1, 4)))
            case 1:
                del changed[at : at + random.randint(1, 8)]
            case 2:
                changed[at:at] = changed[at : at + random.randint(1, 60)]
            case _ if at < len(changed):
                changed[at] = random.randrange(256)
    return bytes(changed)


def typical(random: Random) -> bytes:
    names = [f"org.apache.kafka.producer.m{number}.avg" for number in range(random.randint(1, 12))]
    kinds = (gauge, counter)
    made = [random.choice(kinds)(name, random.random() * 9, node_id=str(random.randrange(5))) for name in names]
    return metrics_data(made, group_id="g", client_rack="r")


def fuzz(times: int, seed: int) -> tuple[int, int]:
    """How many mutants were read, and how many refused; all that comes of them can be shown."""
    random, metrics, read_ones = Random(seed), PushedMetrics(lambda: 500), 0
    known = dict.fromkeys(KNOWN_BY, "x")
    for number in range(times):
        data = mutated(typical(random), random)
        try:
            found, steps = read(data)
        except InvalidRecordError:
            continue
        assert steps <= 2 + len(data) * 20 // CLIENT_METRICS_BYTES_PER_STEP, "work goes by the bytes"
        read_ones += 1
        instance_id = UUID(int=number % 50 + 1)
        who = {**known, "client_instance_id": text_of(instance_id)}
        instance = ClientInstance(instance_id, who, Wanted(("*",), 100), 1, 1)
        list(metrics.take(instance, number % 60, "User:a", found, number))
        assert len(metrics) <= 500
    names = set()
    for sample in metrics.samples():
        if sample is not None:
            names.add(sample.name)
            assert sample.kind == "gauge" or not math.isnan(sample.value) or sample.kind == "untyped"
    assert all(name.isidentifier() and name.isascii() for name in names)
    return read_ones, times - read_ones


def test_mutated_pushes_are_read_or_refused() -> None:
    read_ones, refused = fuzz(4_000, seed=714)
    assert min(read_ones, refused) > 400


@pytest.mark.long
def test_a_million_mutated_pushes_are_read_or_refused() -> None:
    fuzz(1_000_000, seed=715)


@pytest.mark.parametrize("fault", [IndexError, UnicodeDecodeError("utf-8", b"", 0, 1, "x")])
def test_another_exception_would_be_noticed(monkeypatch: pytest.MonkeyPatch, fault: Any) -> None:
    def broken(data: bytes, start: int, end: int) -> str:
        raise fault

    monkeypatch.setattr(otlp, "text", broken)
    with pytest.raises((IndexError, UnicodeDecodeError)):
        fuzz(10, seed=714)


def test_what_googles_library_refuses_is_seldom_read_here() -> None:
    """Fields that nobody needs are skipped unread, so what is wrong in them goes unseen; what is read is right."""
    random, seen = Random(716), 0
    for _ in range(3_000):
        data = mutated(typical(random), random)
        try:
            by_google(data)
        except DecodeError:
            try:
                read(data)
            except InvalidRecordError:
                continue
            seen += 1
    assert seen < 600
