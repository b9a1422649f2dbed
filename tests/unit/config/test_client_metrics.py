"""Configs of client metrics subscriptions: what they may be, and with which error they may not."""

from __future__ import annotations

import pytest

from penstock.config import linear_regex
from penstock.config.client_metrics import KNOWN_BY, MATCH_CHARACTERS_MAX, ClientMetricsConfigs
from penstock.config.describe import describe_client_metrics
from penstock.config.setting import Source
from penstock.errors import ConfigError, ErrorCode, RequestError


def test_nothing_is_given() -> None:
    found = ClientMetricsConfigs.resolve({})
    assert (found.metrics, found.interval_ms, found.match, found.patterns()) == ((), 300_000, (), {})


def test_every_name_of_what_clients_are_known_by() -> None:
    found = ClientMetricsConfigs.resolve({"match": ", ".join(f" {name} = a.* " for name in KNOWN_BY)})
    assert list(found.patterns()) == list(KNOWN_BY)
    assert all(pattern.fullmatch("abc") and not pattern.fullmatch("cab") for pattern in found.patterns().values())


@pytest.mark.parametrize(
    "element",
    ["10", "=", "client_id", "client_id=", "=x", "client_id=a=b", "who=x", "client_id=(", "client_id=a(?=b)", "a,a=b"],
)
def test_elements_that_match_nothing_are_refused_by_name(element: str) -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern: "):
        ClientMetricsConfigs.resolve({"match": element})


def test_of_two_about_the_same_the_last_counts() -> None:
    found = ClientMetricsConfigs.resolve({"match": "client_id=a,client_id=b="}).patterns()
    assert found["client_id"].fullmatch("b")


@pytest.mark.parametrize("regex", ["x" * (MATCH_CHARACTERS_MAX + 1), "((x{100}){100}){100}"])
def test_large_expressions_are_refused(regex: str) -> None:
    with pytest.raises(ConfigError):
        ClientMetricsConfigs.resolve({"match": f"client_id={regex}"})


def test_without_re2_a_match_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_regex, "re2", lambda: None)
    with pytest.raises(ConfigError, match="google-re2 is not installed"):
        ClientMetricsConfigs.resolve({"match": "client_id=a"})
    assert ClientMetricsConfigs.resolve({"metrics": "*"}).metrics == ("*",)


@pytest.mark.parametrize("interval", ["99", "-1", "3600001"])
def test_intervals_have_bounds(interval: str) -> None:
    with pytest.raises(RequestError, match="interval must be between 100 and 3600000") as refused:
        ClientMetricsConfigs.resolve({"interval.ms": interval})
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_unknown_name_comes_before_a_wrong_value() -> None:
    with pytest.raises(RequestError, match="Unknown client metrics configuration: interval"):
        ClientMetricsConfigs.resolve({"interval.ms": "x", "interval": "1"})


@pytest.mark.parametrize("configs", [{"interval.ms": "soon"}, {"metrics": "a,,b"}, {"metrics": "a,"}])
def test_values_that_are_none(configs: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=" = "):
        ClientMetricsConfigs.resolve(configs)


def test_what_is_named_twice_counts_once() -> None:
    assert ClientMetricsConfigs.resolve({"metrics": "a, b,a"}).metrics == ("a", "b")


def test_described_with_where_each_comes_from() -> None:
    given = describe_client_metrics({"metrics": "a, b"})
    assert [(each.name, each.value, each.source, len(each.synonyms)) for each in given] == [
        ("metrics", "a,b", Source.CLIENT_METRICS_CONFIG, 1),
        ("interval.ms", "300000", Source.DEFAULT_CONFIG, 0),
        ("match", "", Source.DEFAULT_CONFIG, 0),
    ]
    assert [each.name for each in describe_client_metrics({}, ["match"])] == ["match"]
