"""Bad requests about client metrics: configs of subscriptions, and pushes.

Each push is of an instance of its own, which the broker has not heard of and for which there is no subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from uuid import NAMESPACE_OID, UUID, uuid5

from interop.bad_input.admin_cases import altered, changed, described
from interop.bad_input.case import Case, of
from interop.clients.valid_requests import CLIENT_METRICS
from support.otlp import gauge, metrics_data

from penstock.node.client_metrics.subscriptions import DEFAULT_INTERVAL_MS, Wanted
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from penstock.protocol.messages.push_telemetry_request import PushTelemetryRequest
from penstock.records.compression import Codec, Contexts, compress

MAX_BYTES = 1 << 20
CONFIGS: Mapping[str, tuple[str, str]] = {
    "an unknown name": ("metric", "a"),
    "an interval that is too short": ("interval.ms", "99"),
    "an interval that is too long": ("interval.ms", "3600001"),
    "an interval in words": ("interval.ms", "soon"),
    "an empty metric": ("metrics", "a,,b"),
    "metrics twice": ("metrics", "a,a"),
    "a match without an expression": ("match", "client_id="),
    "a match of an unknown thing": ("match", "user=a"),
    "a match that is no expression": ("match", "client_id=("),
    "a match with two expressions": ("match", "client_id=a=b"),
}
GOOD = metrics_data([gauge("org.apache.kafka.producer.request.latency.avg", 1.0)])
METRICS: Mapping[str, bytes] = {
    "that end too soon": GOOD[:-1],
    "that go on": GOOD + b"\x0a",
    "of field number 0": b"\x02\x00",
    "of an unknown wire type": b"\x0f",
    "of a long number": b"\x08" + b"\xff" * 11,
    "with a name that is not UTF-8": GOOD.replace(b"apache", b"ap\xff\xfehe"),
}


def client_metrics_cases() -> Iterator[Case]:
    yield from configs_cases()
    yield from pushes()
    get = of(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS)
    yield get("by the id of the metadata topic", lambda world, version: asked(UUID(int=1)))


def configs_cases() -> Iterator[Case]:
    alter, incremental = of(ApiKey.ALTER_CONFIGS), of(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    for name, (key, value) in CONFIGS.items():
        yield alter(f"subscription, {name}", lambda _, version, c=(key, value): altered(CLIENT_METRICS, "s", c))  # type: ignore[misc]
        yield incremental(
            f"subscription, {name}",
            lambda _, version, c=(key, 0, value): changed(CLIENT_METRICS, "s", c),  # type: ignore[misc]
        )
    for operation in (2, 3):
        yield incremental(
            f"subscription, operation {operation} on its metrics",
            lambda _, version, c=("metrics", operation, "a"): changed(CLIENT_METRICS, "s", c),  # type: ignore[misc]
        )
    yield incremental("subscription without a name", lambda _, v: changed(CLIENT_METRICS, "", ("metrics", 0, "a")))
    yield incremental("subscription of nothing", lambda _, v: changed(CLIENT_METRICS, "s", ("metrics", 1, None)))
    describe = of(ApiKey.DESCRIBE_CONFIGS)
    yield describe("subscription without a name", lambda _, v: described(CLIENT_METRICS, ""))
    yield describe("subscription that is none", lambda _, v: described(CLIENT_METRICS, "none"))


def asked(instance_id: UUID) -> GetTelemetrySubscriptionsRequest:
    return GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)


def pushes() -> Iterator[Case]:
    for name, make in push_requests().items():
        yield of(ApiKey.PUSH_TELEMETRY)(name, lambda world, version, m=make: m())  # type: ignore[misc]


def push_requests() -> dict[str, Callable[[], PushTelemetryRequest]]:
    """By what is wrong."""

    def pushed(what: str, metrics: bytes = GOOD, codec: int = 0, **fields: object) -> None:
        own = uuid5(NAMESPACE_OID, what)
        known = Wanted((), DEFAULT_INTERVAL_MS).subscription_id(own)
        given = {"client_instance_id": own, "subscription_id": known, "compression_type": codec, **fields}
        found[what] = lambda: PushTelemetryRequest(metrics=metrics, **given)

    found: dict[str, Callable[[], PushTelemetryRequest]] = {}
    pushed("by nobody", client_instance_id=UUID(int=0))
    pushed("by the id of the metadata topic", client_instance_id=UUID(int=1))
    pushed("of another subscription", subscription_id=77)
    pushed("of another subscription, larger than allowed", bytes(MAX_BYTES + 1), subscription_id=77)
    for codec in (5, 127, -1):
        pushed(f"compressed in way {codec}", codec=codec)
        pushed(f"compressed in way {codec}, larger than allowed", bytes(MAX_BYTES + 1), codec)
    pushed("larger than allowed", bytes(MAX_BYTES + 1))
    for name, metrics in METRICS.items():
        for each in Codec:
            pushed(f"metrics {name}, {each.kafka_name}", compress(each, metrics, Contexts()), each)
    for each in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        pushed(f"not what {each.kafka_name} makes", GOOD, each)
        pushed(f"much {each.kafka_name} of nothing", compress(each, bytes(2 * MAX_BYTES), Contexts()), each)
        pushed(f"cut {each.kafka_name}", compress(each, GOOD, Contexts())[:-5], each)
    return found
