"""OpenTelemetry's metrics as messages of google's own library, from a schema written here: what clients push.

data = metrics_data([gauge("org.apache.kafka.producer.request.latency.avg", 1.5, node_id="1")])
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from support.protobuf import field, message

Field = FieldDescriptorProto
TEXT, NUMBER, BOOL, DOUBLE = Field.TYPE_STRING, Field.TYPE_INT64, Field.TYPE_BOOL, Field.TYPE_DOUBLE
MESSAGE, FIXED, SIGNED = Field.TYPE_MESSAGE, Field.TYPE_FIXED64, Field.TYPE_SFIXED64
DELTA, CUMULATIVE = 1, 2
PACKAGE = "otlp"


def part(number: int, name: str, of: str, *, repeated: bool = False) -> Any:
    return field(number, name, MESSAGE, of=f"{PACKAGE}.{of}", repeated=repeated)


@cache
def classes() -> dict[str, Any]:
    """The message classes by name."""
    messages = (
        message("MetricsData", part(1, "resource_metrics", "ResourceMetrics", repeated=True)),
        message(
            "ResourceMetrics",
            part(1, "resource", "Resource"),
            part(2, "scope_metrics", "ScopeMetrics", repeated=True),
            field(3, "schema_url", TEXT),
        ),
        message("Resource", part(1, "attributes", "KeyValue", repeated=True)),
        message("ScopeMetrics", part(2, "metrics", "Metric", repeated=True), field(3, "schema_url", TEXT)),
        message(
            "Metric",
            field(1, "name", TEXT),
            field(2, "description", TEXT),
            field(3, "unit", TEXT),
            part(5, "gauge", "Gauge"),
            part(7, "sum", "Sum"),
            part(9, "histogram", "Gauge"),
        ),
        message("Gauge", part(1, "data_points", "NumberDataPoint", repeated=True)),
        message(
            "Sum",
            part(1, "data_points", "NumberDataPoint", repeated=True),
            field(2, "aggregation_temporality", NUMBER),
            field(3, "is_monotonic", BOOL),
        ),
        message(
            "NumberDataPoint",
            field(2, "start_time_unix_nano", FIXED),
            field(3, "time_unix_nano", FIXED),
            field(4, "as_double", DOUBLE, optional=True),
            field(6, "as_int", SIGNED, optional=True),
            part(7, "attributes", "KeyValue", repeated=True),
            field(8, "flags", NUMBER),
        ),
        message("KeyValue", field(1, "key", TEXT), part(2, "value", "AnyValue")),
        message(
            "AnyValue",
            field(1, "string_value", TEXT, optional=True),
            field(2, "bool_value", BOOL, optional=True),
            field(3, "int_value", NUMBER, optional=True),
            field(4, "double_value", DOUBLE, optional=True),
            field(7, "bytes_value", Field.TYPE_BYTES, optional=True),
        ),
    )
    file = FileDescriptorProto(name="otlp.proto", package=PACKAGE, syntax="proto3", message_type=messages)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [each.name for each in messages]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in names}


def key_value(key: str, value: object) -> Any:
    kinds = {bool: "bool_value", int: "int_value", float: "double_value", bytes: "bytes_value"}
    made = classes()["AnyValue"](**{kinds.get(type(value), "string_value"): value})
    return classes()["KeyValue"](key=key, value=made)


def point(value: float, /, **attributes: object) -> Any:
    number = {"as_int": value} if isinstance(value, int) else {"as_double": value}
    pairs = [key_value(key, each) for key, each in attributes.items()]
    return classes()["NumberDataPoint"](time_unix_nano=1, attributes=pairs, **number)


def gauge(name: str, value: float, /, **attributes: object) -> Any:
    return classes()["Metric"](name=name, gauge=classes()["Gauge"](data_points=[point(value, **attributes)]))


def counter(name: str, value: float, temporality: int = DELTA, /, **attributes: object) -> Any:
    points = [point(value, **attributes)]
    made = classes()["Sum"](data_points=points, aggregation_temporality=temporality, is_monotonic=True)
    return classes()["Metric"](name=name, sum=made)


def metrics_data(metrics: Iterable[Any], **resource: object) -> bytes:
    """The bytes of a MetricsData, and attributes of the client."""
    pairs = [key_value(key, each) for key, each in resource.items()]
    made = classes()["ResourceMetrics"](
        resource=classes()["Resource"](attributes=pairs), scope_metrics=[classes()["ScopeMetrics"](metrics=metrics)]
    )
    data: bytes = classes()["MetricsData"](resource_metrics=[made]).SerializeToString()
    return data
