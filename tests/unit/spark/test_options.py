"""Options of `format("penstock")`: what is right is understood, what is wrong is named, with what would be right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.client.client import READ_COMMITTED, READ_UNCOMMITTED
from penstock.errors import ConfigError
from penstock.spark.read.options import KNOWN, parse

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "spark-options.md"
LEAST = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "clicks"}


def test_the_least_that_is_needed_reads_everything() -> None:
    options = parse(LEAST)
    assert options.subscribe == ["clicks"]
    assert (options.starting, options.ending) == ("earliest", "latest")
    assert options.isolation == READ_UNCOMMITTED
    assert options.fail_on_data_loss
    assert options.late_start_is_error
    assert not options.include_headers
    assert options.timeout_ms == 30_000


def test_names_are_not_case_sensitive_because_spark_lowers_them() -> None:
    options = parse({name.lower(): value for name, value in LEAST.items()} | {"includeheaders": "TRUE"})
    assert options.include_headers


def test_everything_can_be_said() -> None:
    options = parse(
        {
            "kafka.bootstrap.servers": "a:1,b:2",
            "assign": '{"clicks": [2, 0, 2], "orders": [1]}',
            "startingOffsets": '{"clicks": {"0": 5, "2": -2}, "orders": {"1": 0}}',
            "endingOffsets": '{"clicks": {"0": -1, "2": 9}, "orders": {"1": 3}}',
            "kafka.isolation.level": "read_committed",
            "minPartitions": "8",
            "failOnDataLoss": "false",
            "startingOffsetsByTimestampStrategy": "latest",
        }
    )
    assert options.assign == {"clicks": [0, 2], "orders": [1]}
    assert options.starting == {"clicks": {0: 5, 2: -2}, "orders": {1: 0}}
    assert options.ending == {"clicks": {0: -1, 2: 9}, "orders": {1: 3}}
    assert options.isolation == READ_COMMITTED
    assert options.min_partitions == 8
    assert not options.fail_on_data_loss
    assert not options.late_start_is_error


def test_times_are_for_all_partitions_or_for_each() -> None:
    options = parse({**LEAST, "startingTimestamp": "5", "endingOffsetsByTimestamp": '{"clicks": {"0": 7}}'})
    assert options.starting_ms == 5
    assert options.ending_ms == {"clicks": {0: 7}}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"startingOffset": "earliest"}, "unknown option startingOffset; did you mean startingOffsets?"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        ({"subscribePattern": "c.*"}, "exactly one of assign, subscribe, subscribePattern is needed"),
        ({"subscribe": "clicks,,orders"}, "option subscribe = 'clicks,,orders' has an empty topic name"),
        ({"startingOffsets": "latest"}, "startingOffsets = latest has no meaning in a batch read"),
        ({"endingOffsets": "earliest"}, "endingOffsets = earliest has no meaning in a batch read"),
        ({"startingOffsets": '{"clicks": {"0": -1}}'}, "startingOffsets: -1 for clicks-0 is no offset"),
        ({"endingOffsets": '{"clicks": {"0": -2}}'}, "endingOffsets: -2 for clicks-0 is no offset"),
        ({"startingOffsets": '{"clicks": {"0": -3}}'}, "startingOffsets: -3 for clicks-0 is no offset"),
        ({"startingOffsets": "tomorrow"}, 'startingOffsets must look like {"topic": {"0": 23, "1": 5}}'),
        ({"startingOffsets": '{"clicks": {"0": 1.5}}'}, "1.5 is not a whole number"),
        ({"startingOffsets": '{"clicks": {"0": true}}'}, "True is not a whole number"),
        ({"startingOffsets": '{"clicks": [1]}'}, "startingOffsets must look like"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp = 'yesterday' must be a whole number"),
        ({"startingTimestamp": "-1"}, "startingTimestamp = -1 must be at least 0"),
        ({"endingOffsetsByTimestamp": "1"}, "endingOffsetsByTimestamp must look like"),
        ({"startingOffsetsByTimestampStrategy": "skip"}, "must be one of error, latest"),
        ({"kafka.isolation.level": "serializable"}, "must be one of read_uncommitted, read_committed"),
        ({"includeHeaders": "yes"}, "includeHeaders = 'yes' must be one of true, false"),
        ({"failOnDataLoss": "1"}, "failOnDataLoss = '1' must be one of true, false"),
        ({"minPartitions": "0"}, "minPartitions = 0 must be at least 1"),
        ({"minPartitions": "few"}, "minPartitions = 'few' must be a whole number"),
        ({"kafka.request.timeout.ms": "0"}, "kafka.request.timeout.ms = 0 must be at least 1"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(LEAST | wrong)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"subscribePattern": "("}, "subscribePattern = '(' is no regular expression"),
        ({"assign": "clicks"}, 'assign must look like {"topic": [0, 1]}'),
        ({"assign": '{"clicks": ["0"]}'}, "'0' is not a whole number"),
        ({}, "exactly one of assign, subscribe, subscribePattern is needed, not none"),
    ],
)
def test_a_choice_of_topics_that_is_wrong_is_named(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse({"kafka.bootstrap.servers": "127.0.0.1:9092"} | wrong)
    assert message in str(raised.value)


def test_the_reference_lists_every_option_and_no_other() -> None:
    documented = re.findall(r"^\| `([^`]+)` \|", REFERENCE.read_text(), re.MULTILINE)
    assert documented == list(KNOWN)
