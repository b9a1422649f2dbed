"""What the samples say of the log cleaner: Kafka's names for all logs together, and the logs that cannot be cleaned."""

from __future__ import annotations

import pytest
from support.compacted import MINUTE_MS, SECOND_MS, Compacted
from support.keyed import Keyed
from unit.log_directory.test_log_cleaner import Interrupted, figures
from unit.log_directory.test_log_cleaner_faults import closing
from unit.log_directory.test_log_cleaner_settings import MIB, change

from penstock.log.events import LogCleaned, LogNotCleaned
from penstock.log.limits import CLEANING_AGAIN_MS, CLEANING_HELD_MS
from penstock.log.replica import Replica
from penstock.node import samples
from penstock.node.metrics import Sample
from penstock.node.samples import cleaner_samples

KAFKAS = {
    "logcleaner": {
        *("max_buffer_utilization_percent", "cleaner_recopy_percent", "max_clean_time_secs"),
        *("max_compaction_delay_secs", "deadthreadcount"),
    },
    "logcleanermanager": {
        *("uncleanable_partitions_count", "uncleanable_bytes", "max_dirty_percent", "time_since_last_run_ms"),
    },
}
"""The metrics of `LogCleaner` and `LogCleanerManager` of Apache Kafka 4.3."""


def test_every_metric_of_kafkas_cleaner_is_there() -> None:
    names = figures(Compacted()).keys()
    for kind, expected in KAFKAS.items():
        assert {name.removeprefix(f"{kind}_") for name in names if name.startswith(f"{kind}_")} == expected


def replica_of(topic: Compacted, name: str) -> Replica:
    replica = topic.node.manager.table.find(name, 0)
    assert replica is not None
    return replica


def test_the_dirtiest_of_all_logs_counts_whichever_was_looked_at_last() -> None:
    topic = Compacted(max_compaction_lag_ms=str(MINUTE_MS))
    others = Keyed(topic, "others")
    for number in range(11):
        others.put(b"%d" % number)
    topic.wait(3 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    change(topic, log_cleaner_threads="0")
    topic.append(11)
    topic.wait(3 * MINUTE_MS)
    first = replica_of(topic, "users")
    for _ in range(5):
        others.put(b"key")
    topic.wait(20 * SECOND_MS)
    last = replica_of(topic, "others")
    assert 0 < last.dirty_ratio < 0.6 < first.dirty_ratio == 1
    assert figures(topic)["logcleanermanager_max_dirty_percent"] == 100
    assert figures(topic)["logcleaner_max_compaction_delay_secs"] == max(first.overdue_ms, last.overdue_ms) // 1000 > 60
    topic.node.manager.delete("users", 0, topic.simulation.now_ms)
    assert figures(topic)["logcleanermanager_max_dirty_percent"] == round(100 * last.dirty_ratio)


def test_figures_of_the_last_pass() -> None:
    topic = Interrupted()
    change(topic, log_cleaner_dedupe_buffer_size=str(2 * MIB), log_cleaner_io_buffer_load_factor="0.0001")
    topic.append(11)
    topic.until_a_pass()
    topic.wait(7 * SECOND_MS)
    topic.go_on()
    found = figures(topic)
    assert 7 <= found["logcleaner_max_clean_time_secs"] < 60
    assert found["logcleaner_max_buffer_utilization_percent"] == round(100 * 3 / 8), "three keys of eight"


def test_a_thread_is_dead_while_its_directory_does_not_answer() -> None:
    topic = closing()
    lanes = topic.node._lanes
    run, held = lanes.run, list[object]()
    lanes.run = held.extend  # type: ignore[method-assign]
    topic.node.drain()
    assert held
    assert figures(topic)["logcleaner_deadthreadcount"] == 0
    topic.wait(CLEANING_HELD_MS)
    topic.node.manager.deadlines.seen(topic.simulation.now_ms)
    assert figures(topic)["logcleaner_deadthreadcount"] == 1
    lanes.run = run  # type: ignore[method-assign]
    run(held)  # type: ignore[arg-type]
    topic.wait(SECOND_MS)
    assert len(topic.events(LogCleaned)) == 1
    assert figures(topic)["logcleaner_deadthreadcount"] == 0


def test_no_thread_is_dead_because_a_pass_takes_long() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    topic.wait(10 * CLEANING_HELD_MS)
    topic.node.manager.deadlines.seen(topic.simulation.now_ms)
    assert figures(topic)["logcleaner_deadthreadcount"] == 0


def uncleanable(topic: Compacted) -> list[Sample]:
    name = "penstock_log_cleaner_uncleanable_bytes"
    return [each for each in cleaner_samples(topic.node.manager) if each is not None and each.name == name]


def without_room(*topics: str) -> Compacted:
    """Logs that could not be cleaned."""
    topic = Compacted()
    for name in topics:
        keyed = Keyed(topic, name)
        for _ in range(11):
            keyed.put(b"key")
    topic.disk.capacity_bytes = sum(len(topic.disk.content(path)) for path in topic.disk.paths()) + 1_000
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogNotCleaned)) == len(topics)
    return topic


def test_a_log_that_cannot_be_cleaned_is_named_with_the_reason_until_it_is() -> None:
    topic = without_room("users")
    (sample,) = uncleanable(topic)
    assert sample.value > 10_000
    (event,) = topic.events(LogNotCleaned)
    reason = sample.labels.pop("reason")
    assert reason in str(event)
    assert "bytes are free" in reason
    assert sample.labels == {"directory": "0", "path": "/data/0", "topic": "users", "partition": "0"}
    topic.disk.capacity_bytes = None
    topic.wait(CLEANING_AGAIN_MS + MINUTE_MS)
    assert uncleanable(topic) == []


def test_a_topic_that_is_deleted_is_uncleanable_no_more() -> None:
    topic = without_room("users", "others")
    topic.node.manager.delete("users", 0, topic.simulation.now_ms)
    assert [sample.labels["topic"] for sample in uncleanable(topic)] == ["others"]
    assert figures(topic)["logcleanermanager_uncleanable_partitions_count"] == 1


def test_a_topic_that_is_not_compacted_any_more_is_uncleanable_no_more() -> None:
    topic = without_room("users")
    topic.configure(cleanup_policy="delete")
    topic.node.manager.config_changed("users")
    topic.node.drain()
    topic.wait(MINUTE_MS)
    assert uncleanable(topic) == []
    assert figures(topic)["logcleanermanager_uncleanable_partitions_count"] == 0


def test_so_many_logs_are_named_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = without_room("users", "others", "more")
    cleaner = topic.node.manager.cleaner
    for replica in cleaner.uncleanable:
        cleaner.uncleanable[replica] = "x" * 10_000
    assert [len(sample.labels["reason"]) for sample in uncleanable(topic)] == [300] * 3
    monkeypatch.setattr(samples, "METRICS_UNCLEANABLE_LOGS_MAX", 2)
    assert len(uncleanable(topic)) == 2
    assert figures(topic)["logcleanermanager_uncleanable_partitions_count"] == 3
