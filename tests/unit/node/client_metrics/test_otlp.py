"""The reader of what clients push: what it finds, and what it refuses, in steps of bounded work."""

from __future__ import annotations

import pytest
from support.otlp import CUMULATIVE, classes, counter, gauge, key_value, metrics_data, point

from penstock.errors import InvalidRecordError
from penstock.node.client_metrics.otlp import Point, Pushed, read_pushed
from penstock.node.limits import (
    CLIENT_METRIC_NAME_CHARACTERS_MAX,
    CLIENT_POINT_ATTRIBUTES_MAX,
    CLIENT_POINT_BYTES_MAX,
    CLIENT_POINTS_PER_PUSH_MAX,
)


def read(data: bytes) -> Pushed:
    return steps_of(data)[0]


def steps_of(data: bytes) -> tuple[Pushed, int]:
    """What comes of it, and in how many steps."""
    steps, reading = 0, read_pushed(data)
    while True:
        try:
            next(reading)
        except StopIteration as ended:
            return ended.value, steps + 1
        steps += 1


def test_gauges_and_sums_are_found_with_their_attributes() -> None:
    data = metrics_data(
        [
            gauge("latency.avg", 1.5, node_id="1", topic="clicks"),
            gauge("queue", -3),
            counter("sent", 2.0),
            counter("made", 7, CUMULATIVE, partition=4, open=True, share=0.5),
        ],
        group_id="g",
        client_rack="r1",
    )
    assert read(data) == Pushed(
        {"group_id": "g", "client_rack": "r1"},
        [
            Point("latency.avg", False, False, 1.5, (("node_id", "1"), ("topic", "clicks"))),
            Point("queue", False, False, -3, ()),
            Point("sent", True, True, 2.0, ()),
            Point("made", True, False, 7, (("open", "true"), ("partition", "4"), ("share", "0.5"))),
        ],
        0,
    )


def test_nothing_is_a_message_without_points() -> None:
    assert read(b"") == Pushed({}, [], 0)


def test_a_histogram_is_counted_and_an_empty_metric_is_not() -> None:
    made = classes()["Metric"](name="h", histogram=classes()["Gauge"](data_points=[point(1.0)]))
    assert read(metrics_data([made, classes()["Metric"](name="n")])).left_out == 1


def test_a_point_without_a_value_or_a_name_or_with_a_long_one_is_left_out() -> None:
    long = "x" * (CLIENT_METRIC_NAME_CHARACTERS_MAX + 1)
    empty = classes()["Metric"](name="e", gauge=classes()["Gauge"](data_points=[classes()["NumberDataPoint"]()]))
    absent = gauge("absent", 1.0)
    absent.gauge.data_points[0].flags = 1
    data = metrics_data([empty, absent, gauge("", 1.0), gauge(long, 1.0), gauge("a", 1.0, b=long), gauge("ok", 2.0)])
    found = read(data)
    assert [each.name for each in found.points] == ["ok"]
    assert found.left_out == 5


def test_an_attribute_that_is_bytes_is_left_out_and_so_are_too_many() -> None:
    assert read(metrics_data([gauge("a", 1.0, b=b"x", c="y")])).points[0].attributes == (("c", "y"),)
    many = {f"a{number:02}": "v" for number in range(CLIENT_POINT_ATTRIBUTES_MAX + 5)}
    found = read(metrics_data([gauge("a", 1.0, **many)], **many))
    assert [key for key, _ in found.points[0].attributes] == list(many)[:CLIENT_POINT_ATTRIBUTES_MAX]
    assert len(found.resource) == CLIENT_POINT_ATTRIBUTES_MAX


def test_too_many_points_are_counted() -> None:
    points = [point(float(number)) for number in range(CLIENT_POINTS_PER_PUSH_MAX + 3)]
    metric = classes()["Metric"](name="m", gauge=classes()["Gauge"](data_points=points))
    found, steps = steps_of(metrics_data([metric]))
    assert (len(found.points), found.left_out) == (CLIENT_POINTS_PER_PUSH_MAX, 3)
    assert steps > 20, "others have their turn meanwhile"


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0a\x01\x0a",
        b"\x02\x00",
        b"\x0b\x00\x0c",
        b"\x0e\x00",
        b"\xff" * 11,
        b"\x08" + b"\x80" * 10 + b"\x01",
        b"\x09abc",
        b"\x0d\x00\x00",
        metrics_data([gauge("abc", 1.0)]).replace(b"abc", b"a\xffc"),
        metrics_data([gauge("a", 1.0, key="abc")]).replace(b"abc", b"\xc0\xafc"),
        metrics_data([gauge("a", 1.0, key="v" * CLIENT_POINT_BYTES_MAX)]),
        metrics_data([], key="v" * CLIENT_POINT_BYTES_MAX),
    ],
    ids=lambda data: data[:12].hex(),
)
def test_what_is_no_such_message_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read(data)


@pytest.mark.parametrize("inner", [b"\x0a\x00" * 60_000, b"\x12\x00" * 60_000, b"\x10\x00" * 60_000])
def test_many_fields_of_nothing_take_many_steps(inner: bytes) -> None:
    size = len(inner)
    head = b"\x0a" + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    for data in (inner, head + inner):
        assert steps_of(data)[1] > 100


def test_the_last_of_two_kinds_counts() -> None:
    both = gauge("m", 1.0).SerializeToString() + counter("m", 2.0).SerializeToString()
    metric = classes()["Metric"].FromString(both)
    assert {field.name for field, _ in metric.ListFields()} == {"name", "gauge", "sum"}
    assert [each.is_counter for each in read(metrics_data([metric])).points] == [True]


def test_attributes_that_come_twice_have_the_last_value() -> None:
    metric = gauge("m", 1.0)
    metric.gauge.data_points[0].attributes.extend([key_value("k", "a"), key_value("k", "b")])
    assert read(metrics_data([metric])).points[0].attributes == (("k", "b"),)
