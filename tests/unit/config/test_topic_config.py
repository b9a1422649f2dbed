"""Topic configs: overrides over the broker's settings over the defaults, in Kafka's order of synonyms."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.server import Settings
from penstock.config.topic import TOPIC_SETTINGS, TopicConfig
from penstock.errors import ConfigError, ErrorCode

HOUR_MS = 3_600_000


def resolve(overrides: dict[str, str] | None = None, **broker: Any) -> TopicConfig:
    return TopicConfig.resolve(Settings.for_node(**broker), overrides or {})


def test_a_topic_without_overrides_has_what_the_broker_says() -> None:
    config = resolve(log_segment_bytes=1 << 20, message_max_bytes=77, log_cleanup_policy=("compact",))
    assert (config.segment_bytes, config.max_message_bytes, config.cleanup_policy) == (1 << 20, 77, ("compact",))
    assert config.compact
    assert not config.delete


def test_an_override_wins_over_the_broker() -> None:
    config = resolve({"retention.ms": "5", "message.timestamp.type": "LogAppendTime"}, log_retention_ms=9)
    assert config.retention_ms == 5
    assert config.log_append_time


def test_the_finer_unit_wins_and_hours_become_milliseconds() -> None:
    assert resolve(log_retention_hours=2).retention_ms == 2 * HOUR_MS
    assert resolve(log_retention_hours=2, log_retention_minutes=3).retention_ms == 180_000
    assert resolve(log_retention_hours=2, log_retention_minutes=3, log_retention_ms=4).retention_ms == 4
    assert resolve(log_roll_hours=1, log_roll_jitter_hours=1).segment_ms == HOUR_MS
    assert resolve(log_flush_scheduler_interval_ms=5).flush_ms == 5
    assert resolve(log_flush_scheduler_interval_ms=5, log_flush_interval_ms=6).flush_ms == 6


def test_retention_without_limit_is_minus_one_in_every_unit() -> None:
    assert resolve(log_retention_hours=-1).retention_ms == -1


def test_topics_without_overrides_share_one_config() -> None:
    settings = Settings.for_node()
    assert TopicConfig.resolve(settings, {}) is TopicConfig.resolve(settings, {})


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"retention.mss": "5"}, "unknown topic config retention.mss; did you mean retention.ms?"),
        ({"log.retention.ms": "5"}, "unknown topic config log.retention.ms; did you mean retention.ms?"),
        ({"log.retention.hours": "5"}, "unknown topic config log.retention.hours; did you mean retention.ms?"),
        ({"min.insync.replicas": "0"}, 'min.insync.replicas = "0" is too small: it must be at least 1'),
        ({"segment.bytes": "9"}, 'segment.bytes = "9" is too small: it must be at least 1 MiB (1048576)'),
        ({"cleanup.policy": "shred"}, 'cleanup.policy = "shred" is not known: it must be some of compact, delete'),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            "min.compaction.lag.ms = 9 is larger than max.compaction.lag.ms = 8",
        ),
        ({"leader.replication.throttled.replicas": "1"}, "must be * or replicas as partition:broker"),
    ],
)
def test_a_bad_topic_config_is_invalid_config_with_a_sentence(overrides: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        resolve(overrides)
    assert sentence in str(wrong.value)
    assert wrong.value.code is ErrorCode.INVALID_CONFIG


def test_a_compacted_topic_rolls_in_time_for_its_compaction() -> None:
    assert resolve({"cleanup.policy": "compact", "max.compaction.lag.ms": "100"}).max_segment_ms == 100
    assert resolve({"cleanup.policy": "delete", "max.compaction.lag.ms": "100"}).max_segment_ms == 7 * 24 * HOUR_MS


def test_tests_may_have_smaller_segments() -> None:
    assert resolve({"internal.segment.bytes": "100"}).max_segment_bytes == 100
    assert resolve().max_segment_bytes == 1 << 30


def test_every_broker_setting_that_a_topic_config_names_exists() -> None:
    names = {name for setting in TOPIC_SETTINGS.values() for name, _ in setting.broker}
    assert names <= set(Settings.by_name())
