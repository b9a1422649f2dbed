"""What subscriptions come to for one client, and the id of that, which is Kafka's."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.config import linear_regex
from penstock.metadata.image import ConfigResource
from penstock.node.client_metrics.subscriptions import Subscriptions, Wanted, in_java_order, spread, table_of, uuid_hash

WHO = {"client_id": "orders", "client_software_name": "java"}


def subscriptions(**of: dict[str, str]) -> Subscriptions:
    found = Subscriptions()
    found.configure({(ConfigResource.CLIENT_METRICS, name): configs for name, configs in of.items()})
    return found


def test_several_subscriptions_are_one_for_a_client() -> None:
    found = subscriptions(
        a={"metrics": "x,y", "interval.ms": "5000"},
        b={"metrics": "y,z", "interval.ms": "4000", "match": "client_id=orders"},
        c={"metrics": "other", "interval.ms": "100", "match": "client_id=order"},
    ).of(WHO)
    assert (sorted(found.metrics), found.push_interval_ms) == (["x", "y", "z"], 4_000)


def test_all_metrics_are_a_star_whatever_else_is_named() -> None:
    assert subscriptions(a={"metrics": "x"}, b={"metrics": "y,*"}).of(WHO).metrics == ("*",)


def test_a_subscription_without_metrics_changes_how_often_only() -> None:
    assert subscriptions(a={"interval.ms": "100"}).of(WHO) == Wanted((), 100)


def test_what_a_broker_does_not_understand_is_about_nobody() -> None:
    found = subscriptions(a={"metrics": "x", "interval.ms": "1"}, b={"metrics": "y", "match": "client_id=(?=a)"})
    assert (found.of(WHO).metrics, len(found)) == ((), 0)


def test_without_re2_only_subscriptions_for_all_clients_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_regex, "re2", lambda: None)
    assert subscriptions(a={"metrics": "x"}, b={"metrics": "y", "match": "client_id=.*"}).of(WHO).metrics == ("x",)


def test_more_than_a_broker_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.client_metrics.subscriptions.CLIENT_METRICS_SUBSCRIPTIONS_MAX", 2)
    found = subscriptions(c={"metrics": "c"}, a={"metrics": "a"}, b={"metrics": "b"})
    assert sorted(found.of(WHO).metrics) == ["a", "b"]


def test_the_version_rises_with_changes_of_subscriptions_only() -> None:
    found = subscriptions(a={"metrics": "x"})
    assert found.version == 1
    found.configure({(ConfigResource.TOPIC, "a"): {"retention.ms": "1"}})
    assert found.version == 1
    found.configure({(ConfigResource.CLIENT_METRICS, "a"): {}})
    assert (found.version, len(found)) == (2, 0)


@pytest.mark.parametrize(("text", "hashed"), [("", 0), ("*", 42), ("Aa", 2112), ("BB", 2112), ("\U0001f600", 1772899)])
def test_strings_have_javas_hash(text: str, hashed: int) -> None:
    assert spread(text) == hashed ^ hashed >> 16


def test_ids_have_kafkas_hash() -> None:
    assert uuid_hash(UUID(int=0)) == 0
    assert uuid_hash(UUID(int=1 << 64 | 2)) == 3
    assert uuid_hash(UUID(int=1 << 96)) == 1


@pytest.mark.parametrize(("size", "table"), [(0, 16), (12, 16), (13, 32), (24, 32), (25, 64)])
def test_tables_grow_as_javas(size: int, table: int) -> None:
    assert table_of(size) == table


def test_texts_in_one_place_of_a_table_stay_in_their_order() -> None:
    assert in_java_order(["BB", "Aa", "a"], 16) == in_java_order(["a", "BB", "Aa"], 16)


def test_clients_that_match_the_same_share_what_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.client_metrics.subscriptions.CLIENT_WANTED_REMEMBERED_MAX", 2, raising=False)
    found = subscriptions(a={"metrics": "x,y", "match": "client_id=or.*"}, b={"metrics": "z", "match": "client_id=.*s"})
    first = found.of(WHO)
    assert found.of({"client_id": "orbits"}) is first
    assert [sorted(found.of({"client_id": each}).metrics) for each in ("or", "s", "", "ors")] == [
        ["x", "y"],
        ["z"],
        [],
        ["x", "y", "z"],
    ]
    found.configure({(ConfigResource.CLIENT_METRICS, "b"): {"metrics": "new"}})
    assert sorted(found.of(WHO).metrics) == ["new", "x", "y"]
