"""Reads the data points of metrics that a client has pushed: OpenTelemetry's MetricsData, a protobuf message.

The bytes are a stranger's. Of the message's many fields only those are looked at that make a point of a gauge or a
sum; the others are skipped by their length. Nothing here is recursive, what is kept is bounded, and the work is done in
steps whose size goes by the bytes looked at. What is no such message raises InvalidRecordError, whatever it is; but
histograms and summaries, which Kafka's clients do not have, are only counted.

Fields, by their numbers in opentelemetry-proto 1.0: MetricsData (resource_metrics 1), ResourceMetrics (resource 1,
scope_metrics 2), Resource (attributes 1), ScopeMetrics (metrics 2), Metric (name 1, gauge 5, sum 7, histogram 9,
exponential_histogram 10, summary 11), Gauge (data_points 1), Sum (data_points 1, aggregation_temporality 2,
is_monotonic 3), NumberDataPoint (as_double 4, as_int 6, attributes 7, flags 8), KeyValue (key 1, value 2), AnyValue
(string 1, bool 2, int 3, double 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from penstock.errors import InvalidRecordError
from penstock.node.limits import (
    CLIENT_ATTRIBUTE_REMEMBERED_BYTES,
    CLIENT_METRIC_NAME_CHARACTERS_MAX,
    CLIENT_METRICS_BYTES_PER_STEP,
    CLIENT_NAMES_REMEMBERED_MAX,
    CLIENT_POINT_ATTRIBUTES_MAX,
    CLIENT_POINT_BYTES_MAX,
    CLIENT_POINTS_PER_PUSH_MAX,
)
from penstock.node.steps import Stepped

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
DOUBLE, SIGNED = Struct("<d"), Struct("<q")
DELTA = 1
NO_RECORDED_VALUE = 1
FIELD_WORK_BYTES = 16
"""What looking at a field counts for, besides the bytes of one that is read."""


def tag(number: int, wire: int) -> int:
    """How a field of a message begins."""
    return number << 3 | wire


FIRST, SECOND = tag(1, BYTES), tag(2, BYTES)
GAUGE, SUM = tag(5, BYTES), tag(7, BYTES)
OTHER_KINDS = (tag(9, BYTES), tag(10, BYTES), tag(11, BYTES))
TEMPORALITY, MONOTONIC = tag(2, VARINT), tag(3, VARINT)
AS_DOUBLE, AS_INT, ATTRIBUTES, FLAGS = tag(4, FIXED_64), tag(6, FIXED_64), tag(7, BYTES), tag(8, VARINT)
BOOL_VALUE, INT_VALUE, DOUBLE_VALUE = tag(2, VARINT), tag(3, VARINT), tag(4, FIXED_64)

Attributes = tuple[tuple[str, str], ...]
Range = tuple[int, int]
Field = tuple[int, int, int]
"""A field's tag, and where its bytes begin and end; of a VARINT its value, twice."""


class Head(NamedTuple):
    """A metric's name, the tag of what it is (0: nothing), and where that is."""

    name: str
    kind: int
    where: Range


class Point(NamedTuple):
    """One number: of a counter (`is_counter`), by which it grew if it is a `delta`, or what a gauge shows."""

    name: str
    is_counter: bool
    is_delta: bool
    value: float
    attributes: Attributes


class Pushed(NamedTuple):
    """What was read: attributes of the client, points, and how many points were left out, or metrics of other kinds."""

    resource: dict[str, str]
    points: list[Point]
    left_out: int


class Work:
    """Counts the bytes that are looked at: `is_over` when a step has had its share."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = CLIENT_METRICS_BYTES_PER_STEP

    def is_over(self, size_bytes: int = 0) -> bool:
        self._left -= FIELD_WORK_BYTES + size_bytes
        if self._left > 0:
            return False
        self._left = CLIENT_METRICS_BYTES_PER_STEP
        return True


def fields(data: bytes, position: int, end: int) -> Iterator[Field]:
    """The fields of the message in these bytes. Raises InvalidRecordError where they are none."""
    while position < end:
        key, position = varint(data, position, end)
        if key < 8:
            raise InvalidRecordError("a field of number 0")
        wire = key & 7
        if wire == BYTES:
            size, start = varint(data, position, end)
            position = start + size
        elif wire == VARINT:
            value, position = varint(data, position, end)
            yield key, value, value
            continue
        elif wire in (FIXED_64, FIXED_32):
            start = position
            position += 8 if wire == FIXED_64 else 4
        else:
            raise InvalidRecordError(f"a field of wire type {wire}")
        if position > end:
            raise InvalidRecordError("a field that goes on after the end")
        yield key, start, position


def varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """The unsigned number at `position`, and the position after it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
    raise InvalidRecordError("a number that does not end")


def text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode()
    except UnicodeDecodeError:
        raise InvalidRecordError("a text that is not UTF-8") from None


def paced(data: bytes, start: int, end: int, work: Work) -> Iterator[Field | None]:
    """The fields of a message; None where a new step should begin."""
    for field in fields(data, start, end):
        if work.is_over():
            yield None
        yield field


def nested(data: bytes, messages: Iterable[Range | None], key: int, work: Work) -> Iterator[Range | None]:
    """Where the messages are that these messages have in a field; None where a new step should begin."""
    for each in messages:
        if each is None:
            yield None
            continue
        for field in paced(data, *each, work):
            if field is None:
                yield None
            elif field[0] == key:
                yield field[1:]


def read_pushed(data: bytes) -> Stepped[Pushed]:
    """Reads a MetricsData in steps. Raises InvalidRecordError."""
    work, everything = Work(), ((0, len(data)),)
    resource: dict[str, str] = {}
    resources = nested(data, nested(data, everything, FIRST, work), FIRST, work)
    for found in nested(data, resources, FIRST, work):
        if found is None or work.is_over(found[1] - found[0]):
            yield None
        if found is not None and len(resource) < CLIENT_POINT_ATTRIBUTES_MAX:
            resource.update(attribute(data, *found))
    points: list[Point] = []
    left_out = 0
    scopes = nested(data, nested(data, everything, FIRST, work), SECOND, work)
    for found in nested(data, scopes, SECOND, work):
        if found is None:
            yield None
        else:
            left_out += yield from read_metric(data, *found, points, work)
    return Pushed(resource, points, left_out)


def read_metric(data: bytes, start: int, end: int, points: list[Point], work: Work) -> Stepped[int]:
    """Appends a metric's points. Returns how many were left out; a metric of another kind counts as one."""
    head = yield from read_head(data, start, end, work)
    if head.kind not in (GAUGE, SUM):
        return 1 if head.kind else 0
    is_counter, is_delta = (yield from read_sum(data, *head.where, work)) if head.kind == SUM else (False, False)
    left_out = 0
    for found in nested(data, (head.where,), FIRST, work):
        if found is None or work.is_over(found[1] - found[0]):
            yield None
        if found is None:
            continue
        point = read_point(data, *found, head.name, is_counter=is_counter, is_delta=is_delta)
        if point is None or len(points) >= CLIENT_POINTS_PER_PUSH_MAX:
            left_out += 1
        else:
            points.append(point)
    return left_out


def read_head(data: bytes, start: int, end: int, work: Work) -> Stepped[Head]:
    """What a metric is called and what it is, wherever in the metric that stands."""
    name, kind, where = "", 0, (0, 0)
    for field in paced(data, start, end, work):
        if field is None:
            yield None
            continue
        key, a, b = field
        if key == FIRST:
            name = text(data, a, b)
        elif key in (GAUGE, SUM, *OTHER_KINDS):
            kind, where = key, (a, b)
    return Head(name, kind, where)


def read_sum(data: bytes, start: int, end: int, work: Work) -> Stepped[tuple[bool, bool]]:
    """Whether a sum only grows, and whether its numbers say by how much."""
    is_counter = is_delta = False
    for field in paced(data, start, end, work):
        if field is None:
            yield None
        elif field[0] == MONOTONIC:
            is_counter = bool(field[1])
        elif field[0] == TEMPORALITY:
            is_delta = field[1] == DELTA
    return is_counter, is_delta


def read_point(data: bytes, start: int, end: int, name: str, *, is_counter: bool, is_delta: bool) -> Point | None:
    """A NumberDataPoint; None for one without a value, or with a name that is too long."""
    if end - start > CLIENT_POINT_BYTES_MAX:
        raise InvalidRecordError(f"a data point of more than {CLIENT_POINT_BYTES_MAX} bytes")
    value: float | None = None
    attributes: dict[str, str] = {}
    for key, a, b in fields(data, start, end):
        if key == AS_DOUBLE:
            (value,) = DOUBLE.unpack_from(data, a)
        elif key == AS_INT:
            (value,) = SIGNED.unpack_from(data, a)
        elif key == ATTRIBUTES:
            attributes.update(attribute(data, a, b))
        elif key == FLAGS and a & NO_RECORDED_VALUE:
            return None
    texts = [name, *attributes, *attributes.values()]
    if value is None or not name or max(map(len, texts)) > CLIENT_METRIC_NAME_CHARACTERS_MAX:
        return None
    kept = tuple(sorted(attributes.items())[:CLIENT_POINT_ATTRIBUTES_MAX])
    return Point(name, is_counter, is_delta, value, kept)


def attribute(data: bytes, start: int, end: int) -> Attributes:
    """A KeyValue, if the value is a text, a number or a truth; else nothing."""
    if end - start > CLIENT_POINT_BYTES_MAX:
        raise InvalidRecordError(f"an attribute of more than {CLIENT_POINT_BYTES_MAX} bytes")
    return (key_value if end - start > CLIENT_ATTRIBUTE_REMEMBERED_BYTES else remembered_key_value)(data[start:end])


def key_value(data: bytes) -> Attributes:
    key, value = "", None
    for each, a, b in fields(data, 0, len(data)):
        if each == FIRST:
            key = text(data, a, b)
        elif each == SECOND:
            value = attribute_value(data, a, b)
    return () if value is None else ((key, value),)


remembered_key_value = lru_cache(CLIENT_NAMES_REMEMBERED_MAX)(key_value)
"""The points of a push have the same few attributes again and again, and so have the next push and other clients."""


def attribute_value(data: bytes, start: int, end: int) -> str | None:
    """An AnyValue as a text; None for a list or bytes."""
    found = None
    for key, a, b in fields(data, start, end):
        if key == FIRST:
            found = text(data, a, b)
        elif key == BOOL_VALUE:
            found = "true" if a else "false"
        elif key == INT_VALUE:
            found = str(a - (1 << 64) if a >> 63 else a)
        elif key == DOUBLE_VALUE:
            found = f"{DOUBLE.unpack_from(data, a)[0]:g}"
        else:
            found = None if key & 7 == BYTES else found
    return found
