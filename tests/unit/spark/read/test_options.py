"""Options of `format("penstock")`: what is right is understood, what is wrong is named, with what would be right."""

from __future__ import annotations

import pytest
import spark_options_docs

from penstock.client.client import READ_COMMITTED, READ_UNCOMMITTED
from penstock.errors import ConfigError
from penstock.spark.read.option_table import CONSUMER_TUNING, OPTIONS, REFUSED
from penstock.spark.read.options import includes_headers, parse

LEAST = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "clicks"}


def test_the_least_that_is_needed_reads_everything() -> None:
    options = parse(LEAST)
    assert options.subscribe == ("clicks",)
    assert (options.starting, options.ending) == ("earliest", "latest")
    assert options.isolation == READ_UNCOMMITTED
    assert options.fail_on_data_loss
    assert options.late_start_is_error
    assert not options.include_headers
    assert options.timeout_ms == 30_000
    assert (options.read, options.log_dirs) == ("auto", ())


def test_a_stream_begins_at_the_end_unless_told_otherwise() -> None:
    assert parse(LEAST, stream=True).starting == "latest"
    assert parse(LEAST | {"startingOffsets": '{"clicks": {"0": -1}}'}, stream=True).starting == {"clicks": {0: -1}}


def test_how_much_a_microbatch_reads_can_be_said_by_offsets_bytes_and_age() -> None:
    given = {"maxOffsetsPerTrigger": "5000", "maxBytesPerTrigger": "64m", "minOffsetsPerTrigger": "10"}
    options = parse(LEAST | given | {"maxTriggerDelay": "2 min"}, stream=True)
    assert (options.max_offsets, options.max_bytes, options.min_offsets) == (5000, 64 << 20, 10)
    assert options.max_delay_ms == 120_000
    assert parse(LEAST, stream=True).max_delay_ms == 900_000


@pytest.mark.parametrize(("text", "expected_ms"), [("250", 250), ("250ms", 250), ("3s", 3000), ("1h", 3_600_000)])
def test_a_delay_is_in_milliseconds_or_has_a_unit(text: str, expected_ms: int) -> None:
    given = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": text}
    assert parse(LEAST | given, stream=True).max_delay_ms == expected_ms


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
    assert options.assign == {"clicks": (0, 2), "orders": (1,)}
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
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers = '' must be host:port"),
        ({"kafka.bootstrap.servers": "a:1,b"}, "'b' is not an address"),
        ({"subscribePattern": "c.*"}, "exactly one of assign, subscribe, subscribePattern is needed"),
        ({"subscribe": "clicks,,orders"}, "option subscribe = 'clicks,,orders' has an empty topic name"),
        ({"startingOffsets": "latest"}, "startingOffsets = latest has no meaning in a batch read"),
        ({"endingOffsets": "earliest"}, "endingOffsets = 'earliest' there is nothing before"),
        ({"startingOffsets": '{"clicks": {"0": -1}}'}, "startingOffsets has -1 (latest) for clicks-0"),
        ({"endingOffsets": '{"clicks": {"0": -2}}'}, "-2 for clicks-0: there is nothing before the earliest"),
        ({"startingOffsets": '{"clicks": {"0": -3}}'}, "-3 for clicks-0: an offset is at least 0"),
        ({"startingOffsets": "tomorrow"}, 'must look like {"clicks": {"0": 23, "1": 5}}'),
        ({"startingOffsets": '{"clicks": {"0": 1.5}}'}, "1.5 is not a whole number"),
        ({"startingOffsets": '{"clicks": {"0": true}}'}, "True is not a whole number"),
        ({"startingOffsets": '{"clicks": [1]}'}, "must look like"),
        ({"startingOffsets": '{"clicks": {"-1": 1}}'}, "-1 is no partition"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp = 'yesterday' must be a whole number"),
        ({"startingTimestamp": "-1"}, "startingTimestamp = '-1' must be at least 0"),
        ({"endingOffsetsByTimestamp": "1"}, "endingOffsetsByTimestamp = '1' must look like"),
        ({"endingOffsetsByTimestamp": '{"clicks": {"0": -5}}'}, "has a time before 1970"),
        ({"startingOffsetsByTimestampStrategy": "skip"}, "must be one of error, latest"),
        ({"kafka.isolation.level": "serializable"}, "must be one of read_uncommitted, read_committed"),
        ({"includeHeaders": "yes"}, "includeHeaders = 'yes' must be one of true, false"),
        ({"failOnDataLoss": "1"}, "failOnDataLoss = '1' must be one of true, false"),
        ({"minPartitions": "0"}, "minPartitions = '0' must be at least 1"),
        ({"minPartitions": "few"}, "minPartitions = 'few' must be a whole number"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition = '0' must be at least 1"),
        ({"fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries = '-1' must be at least 0"),
        ({"fetchOffset.retryIntervalMs": "x"}, "fetchOffset.retryIntervalMs = 'x' must be a whole number"),
        ({"kafka.client.id": " "}, "kafka.client.id = ' ' must not be empty"),
        ({"penstock.read": "disk"}, "penstock.read = 'disk' must be one of auto, broker, files"),
        ({"penstock.log.dirs": "logs"}, "penstock.log.dirs = 'logs' must be absolute paths"),
        ({"kafka.foo": "1"}, "unknown option kafka.foo"),
        ({"startingTimestamp": "9", "endingTimestamp": "5"}, "endingTimestamp = 5 is before startingTimestamp = 9"),
        ({"kafka.request.timeout.ms": "0"}, "kafka.request.timeout.ms = '0' must be at least 1"),
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
        ({"assign": "clicks"}, 'must look like {"clicks": [0, 1]}'),
        ({"assign": '{"clicks": ["0"]}'}, "'0' is not a whole number"),
        ({"assign": '{"clicks": []}'}, "chooses no partition"),
        ({"assign": "[1]"}, 'must look like {"clicks": [0, 1]}'),
        ({}, "exactly one of assign, subscribe, subscribePattern is needed, not none"),
    ],
)
def test_a_choice_of_topics_that_is_wrong_is_named(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse({"kafka.bootstrap.servers": "127.0.0.1:9092"} | wrong)
    assert message in str(raised.value)


def test_the_reference_is_as_the_declarations_say() -> None:
    assert spark_options_docs.PAGE.read_text() == spark_options_docs.page(), "run tools/spark_options_docs.py"


ENDS = [name for name, option in OPTIONS.items() if not option.stream]
TRIGGERS = [name for name, option in OPTIONS.items() if not option.batch]


@pytest.mark.parametrize("name", ENDS)
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is for batch reads only"):
        parse(LEAST | {name: "latest"}, stream=True)


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_batch_read_has_no_triggers(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"option {name} is for streams \(readStream\) only"):
        parse(LEAST | {name: "1"})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger = '0' must be at least 1"),
        ({"minOffsetsPerTrigger": "-1"}, "minOffsetsPerTrigger = '-1' must be at least 1"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger = '0' must be a whole number of bytes, at least 1"),
        ({"maxBytesPerTrigger": "64 elephants"}, "maxBytesPerTrigger = '64 elephants' must be a whole number of bytes"),
        ({"maxTriggerDelay": "1h"}, "maxTriggerDelay has no meaning without minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"}, "must be a whole number with a unit of ms, s, m"),
        ({"minOffsetsPerTrigger": "1", "maxTriggerDelay": "1fortnight"}, "must be a whole number with a unit"),
        (
            {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
            "minOffsetsPerTrigger = 10 must not be above maxOffsetsPerTrigger = 5",
        ),
        ({"startingOffsets": '{"clicks": {"0": -3}}'}, "-3 for clicks-0: an offset is at least 0"),
    ],
)
def test_what_is_wrong_in_a_stream_is_named(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(LEAST | wrong, stream=True)
    assert message in str(raised.value)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_had_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is not possible: "):
        parse(LEAST | {name: "x"})


SECRET = "s3cret-canary"
SECURED = {
    "Kafka.Security.Protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="alice" password="{SECRET}";',
    "kafka.ssl.truststore.password": SECRET,
}


def test_tls_and_a_login_have_kafkas_names_and_show_no_secret() -> None:
    options = parse(LEAST | SECURED)
    assert options.security.protocol == "SASL_SSL"
    assert options.security.login is not None
    assert options.security.login.password == SECRET
    assert SECRET not in repr(options)
    assert parse(LEAST).security == parse(LEAST | {"kafka.sasl.kerberos.service.name": "kafka"}).security


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.sasl.mechanism": "GSSAPI"}, "option kafka.sasl.mechanism = GSSAPI is not supported"),
        ({"kafka.ssl.trustore.location": "x"}, "did you mean ssl.truststore.location?"),
        ({"kafka.security.providers": "x"}, "option kafka.security.providers names a Java class"),
        ({"kafka.sasl.jaas.config": SECRET}, "option kafka.sasl.jaas.config is not a JAAS configuration"),
    ],
)
def test_what_is_wrong_about_security_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(LEAST | SECURED | options)
    assert message in str(refused.value)
    assert SECRET not in str(refused.value)


def test_tuning_of_the_java_consumer_is_accepted() -> None:
    assert parse(LEAST | dict.fromkeys(CONSUMER_TUNING, "1")) == parse(LEAST)


def test_headers_can_be_asked_about_before_it_is_known_what_kind_of_read_it_is() -> None:
    assert includes_headers(LEAST | {"includeheaders": "true", "maxOffsetsPerTrigger": "1"})
    assert not includes_headers(LEAST | {"endingOffsets": "latest"})
    with pytest.raises(ConfigError, match="unknown option"):
        includes_headers(LEAST | {"includeHeader": "true"})


def test_options_choose_partitions_by_list_name_or_pattern() -> None:
    where = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
    assigned = parse(where | {"assign": '{"clicks": [1]}'})
    assert (assigned.chooses("clicks", 1), assigned.chooses("clicks", 0)) == (True, False)
    named = parse(where | {"subscribe": "clicks"})
    assert (named.chooses("clicks", 9), named.chooses("clicks-old", 0)) == (True, False)
    matched = parse(where | {"subscribePattern": "c.*"})
    assert (matched.chooses("clicks", 9), matched.chooses("orders", 0)) == (True, False)
