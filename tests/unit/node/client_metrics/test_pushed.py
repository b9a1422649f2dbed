"""What clients have pushed, as series: names, labels, bounds, and who has to go."""

from __future__ import annotations

import math
from uuid import UUID

import pytest

from penstock.node.client_metrics.instances import ClientInstance
from penstock.node.client_metrics.otlp import Point, Pushed
from penstock.node.client_metrics.pushed import MEANINGLESS, TOO_MANY, PushedMetrics
from penstock.node.client_metrics.subscriptions import Wanted
from penstock.node.limits import (
    CLIENT_INSTANCE_EXPIRY_MS,
    CLIENT_LABEL_CHARACTERS_MAX,
    METRICS_PARTITIONS_PER_STEP,
)

ALICE = "User:alice"


def client(number: int, client_id: str | None = "orders", interval_ms: int = 1_000) -> ClientInstance:
    known = {
        "client_instance_id": f"id{number}",
        "client_id": client_id,
        "client_software_name": "java",
        "client_software_version": "4",
        "client_source_address": "10.0.0.1",
        "client_source_port": "9",
    }
    return ClientInstance(UUID(int=number), known, Wanted(("*",), interval_ms), 1, number)


def gauge(name: str, value: float = 1.0, **attributes: str) -> Point:
    return Point(name, False, False, value, tuple(attributes.items()))


def counter(name: str, value: float, *, is_delta: bool = True) -> Point:
    return Point(name, True, is_delta, value, ())


def pushed(
    metrics: PushedMetrics, of: ClientInstance, *points: Point, now_ms: int = 0, by: int | None = None, **resource: str
) -> dict[str, list[float]]:
    """What there is after a push, by name."""
    for _ in metrics.take(of, of.connection if by is None else by, ALICE, Pushed(resource, list(points), 0), now_ms):
        pass
    found: dict[str, list[float]] = {}
    for sample in metrics.samples():
        if sample is not None:
            found.setdefault(sample.name, []).append(sample.value)
    found.pop("penstock_client_metrics_client_info", None)
    return found


@pytest.fixture
def metrics() -> PushedMetrics:
    return PushedMetrics(lambda: 100)


@pytest.mark.parametrize(
    ("point", "name"),
    [
        (gauge("org.apache.kafka.producer.request.latency.avg"), "kafka_client_producer_request_latency_avg"),
        (gauge("org.apache.kafka.a-b/c d"), "kafka_client_a_b_c_d"),
        (counter("org.apache.kafka.sent", 1.0), "kafka_client_sent_total"),
        (counter("org.apache.kafka.sent.total", 1.0), "kafka_client_sent_total"),
        (gauge("orders.open"), "kafka_client_application_orders_open"),
        (gauge('\u00e4\n"{'), "kafka_client_application_____"),
    ],
)
def test_names(metrics: PushedMetrics, point: Point, name: str) -> None:
    assert pushed(metrics, client(1), point) == {name: [1.0]}


def test_labels_say_who_it_is_and_no_attribute_does(metrics: PushedMetrics) -> None:
    pushed(
        metrics, client(1), gauge("m", client_id="forged", client_instance_id="forged", **{"node-id": "1", "9": "x"})
    )
    [info, series] = [each for each in metrics.samples() if each is not None]
    assert series.labels == {
        "client_id": "orders",
        "client_instance_id": "id1",
        "client_software_name": "java",
        "client_software_version": "4",
        "node_id": "1",
        "attribute_9": "x",
    }
    assert info.labels["user"] == ALICE


def test_what_a_client_says_of_itself_is_told_once_and_does_not_hide_what_is_seen(metrics: PushedMetrics) -> None:
    pushed(metrics, client(1), gauge("a"), gauge("b"), group_id="g", user="forged", client_id="forged")
    [info] = [each for each in metrics.samples() if each is not None and each.name.endswith("client_info")]
    assert {key: info.labels[key] for key in ("group_id", "user", "client_source_address", "client_id")} == {
        "group_id": "g",
        "user": ALICE,
        "client_source_address": "10.0.0.1",
        "client_id": "orders",
    }


def test_a_long_or_missing_client_id(metrics: PushedMetrics) -> None:
    pushed(metrics, client(1, "x" * 5_000), gauge("m"))
    pushed(metrics, client(2, None), gauge("m"))
    found = [each.labels["client_id"] for each in metrics.samples() if each is not None and each.name.endswith("_m")]
    assert found == ["x" * CLIENT_LABEL_CHARACTERS_MAX, ""]


def test_series_of_one_name_follow_each_other(metrics: PushedMetrics) -> None:
    for number in range(3):
        pushed(metrics, client(number), gauge("a"), gauge("b"), gauge("a", node="1"))
    names = [each.name for each in metrics.samples() if each is not None][3:]
    assert names == ["kafka_client_application_a"] * 6 + ["kafka_client_application_b"] * 3


def test_numbers_without_meaning_are_counted(metrics: PushedMetrics) -> None:
    wrong = [counter("c", -1.0), counter("c", math.nan), counter("c", math.inf), Point("d", False, True, math.nan, ())]
    assert pushed(metrics, client(1), *wrong) == {}
    assert metrics.left_out[MEANINGLESS] == 4
    assert math.isnan(pushed(metrics, client(1), gauge("g", math.nan))["kafka_client_application_g"][0])


def test_a_name_that_two_clients_mean_otherwise_has_no_type(metrics: PushedMetrics) -> None:
    pushed(metrics, client(1), gauge("a.total", 1.0))
    assert pushed(metrics, client(2), counter("a", 2.0)) == {"kafka_client_application_a_total": [1.0, 2.0]}
    kinds = {each.kind for each in metrics.samples() if each is not None and each.name.endswith("_a_total")}
    assert kinds == {"untyped"}


def test_the_client_that_pushed_least_recently_goes(metrics: PushedMetrics) -> None:
    metrics = PushedMetrics(lambda: 4)
    for number in (1, 2):
        pushed(metrics, client(number), gauge("a", float(number)), gauge("b"))
    pushed(metrics, client(1), gauge("a", 1.5))
    assert pushed(metrics, client(3), gauge("a", 3.0))["kafka_client_application_a"] == [1.5, 3.0]
    assert (len(metrics), metrics.left_out[TOO_MANY]) == (3, 0)


def test_a_family_that_goes_to_make_room_comes_again() -> None:
    metrics = PushedMetrics(lambda: 1)
    pushed(metrics, client(1), gauge("a", 1.0))
    assert pushed(metrics, client(2), gauge("a", 2.0)) == {"kafka_client_application_a": [2.0]}
    assert pushed(metrics, client(2), gauge("a", 2.5), gauge("b")) == {"kafka_client_application_a": [2.5]}
    assert metrics.left_out[TOO_MANY] == 1


def test_nothing_is_kept_where_nothing_may_be() -> None:
    metrics = PushedMetrics(lambda: 0)
    assert pushed(metrics, client(1), gauge("a")) == {}
    assert metrics.left_out[TOO_MANY] == 1


def test_a_client_that_goes_while_its_push_is_taken_in_is_left_alone(metrics: PushedMetrics) -> None:
    points = [gauge(f"m{number}") for number in range(500)]
    metrics = PushedMetrics(lambda: 300)
    taking = metrics.take(client(1), 1, ALICE, Pushed({}, points, 0), 0)
    next(taking)
    pushed(metrics, client(2), *points[:250])
    list(taking)
    assert len(metrics) == 250


def test_a_connection_has_the_series_of_one_client_whatever_ids_come_by_it(metrics: PushedMetrics) -> None:
    pushed(metrics, client(1), gauge("a", 1.0))
    for number in range(2, 50):
        pushed(metrics, client(number), gauge("a", float(number)), by=2)
    assert pushed(metrics, client(50), gauge("b"), by=2)["kafka_client_application_a"] == [1.0]
    assert len(metrics) == 2


def test_a_client_may_come_by_another_connection(metrics: PushedMetrics) -> None:
    pushed(metrics, client(1), gauge("a", 1.0), by=1)
    pushed(metrics, client(1), gauge("b", 1.0), by=2)
    found = pushed(metrics, client(2), gauge("a", 2.0), by=1)
    assert found["kafka_client_application_a"] == [1.0, 2.0], "the first connection is not its own any more"
    assert pushed(metrics, client(3), gauge("a", 3.0), by=2)["kafka_client_application_a"] == [2.0, 3.0]
    metrics.expire(CLIENT_INSTANCE_EXPIRY_MS)
    assert metrics.empty


def test_what_was_pushed_goes_after_three_intervals(metrics: PushedMetrics) -> None:
    pushed(metrics, client(1, interval_ms=100_000), gauge("a"), now_ms=0)
    pushed(metrics, client(2), gauge("a"), now_ms=0)
    metrics.expire(CLIENT_INSTANCE_EXPIRY_MS - 1)
    assert len(metrics) == 2
    metrics.expire(CLIENT_INSTANCE_EXPIRY_MS)
    assert len(metrics) == 1
    metrics.expire(300_000)
    assert metrics.empty
    assert list(metrics.samples()) == []


def test_a_client_without_a_series_is_not_kept(metrics: PushedMetrics) -> None:
    for number in range(1, 50):
        pushed(metrics, client(number), counter("c", -1.0))
        pushed(metrics, client(number + 100))
    assert metrics.empty
    assert list(metrics.samples()) == []


def test_a_client_whose_push_is_given_up_before_it_has_a_series_is_not_kept(metrics: PushedMetrics) -> None:
    taking = metrics.take(client(1), 1, ALICE, Pushed({}, [counter("c", -1.0)] * 500, 0), 0)
    next(taking)
    taking.close()
    assert metrics.empty


def test_many_clients_are_told_of_in_steps() -> None:
    metrics, count = PushedMetrics(lambda: 10_000), 3 * METRICS_PARTITIONS_PER_STEP
    for number in range(1, count + 1):
        list(metrics.take(client(number), number, ALICE, Pushed({}, [gauge("m")], 0), 0))
    steps, longest, samples = 0, 0, 0
    for sample in metrics.samples():
        samples = samples + 1 if sample is not None else 0
        steps, longest = steps + (sample is None), max(longest, samples)
    assert steps >= 5
    assert longest <= METRICS_PARTITIONS_PER_STEP


def test_what_a_client_says_of_itself_is_short_and_so_is_what_it_calls_that(metrics: PushedMetrics) -> None:
    pushed(metrics, client(1), gauge("m"), **{"k" * 7_000: "v" * 7_000})
    [info] = [each for each in metrics.samples() if each is not None and each.name.endswith("client_info")]
    assert max(map(len, [*info.labels, *info.labels.values()])) == CLIENT_LABEL_CHARACTERS_MAX
    assert "v" * CLIENT_LABEL_CHARACTERS_MAX in info.labels.values()


def test_an_empty_attribute_makes_no_second_series(metrics: PushedMetrics) -> None:
    found = pushed(metrics, client(1), gauge("m", 1.0), gauge("m", 2.0, topic=""), gauge("m", 3.0, topic="t"))
    assert found == {"kafka_client_application_m": [2.0, 3.0]}
