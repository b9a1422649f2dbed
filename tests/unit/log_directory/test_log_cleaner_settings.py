"""The settings of the log cleaner, changed while the node runs: what the next pass gets, and what no value may stop."""

from __future__ import annotations

import pytest
from support.compacted import MINUTE_MS, SECOND_MS, SETTINGS, Compacted
from support.keyed import Keyed
from unit.log_directory.test_log_cleaner import Interrupted

from penstock.config.server import Settings
from penstock.log.compaction.log_cleaner import LogCleaner
from penstock.log.compaction.task import RunPass
from penstock.log.events import LogCleaned, LogNotCleaned
from penstock.log.limits import CLEANING_AGAIN_MS, CLEANING_CHUNK_MAX_BYTES, CLEANING_CHUNK_MIN_BYTES

MIB = 1 << 20


def change(topic: Compacted, **dynamic: str) -> None:
    """Dynamic configs of the cluster, as they come from the metadata log."""
    configs = {name.replace("_", "."): value for name, value in dynamic.items()}
    topic.node.manager.settings_changed(SETTINGS.with_dynamic(configs, {}))


def next_pass(topic: Interrupted) -> RunPass:
    """What the next pass is told, which then ends."""
    topic.append(5)
    topic.until_a_pass()
    (operation,) = topic.passes
    topic.go_on()
    topic.wait(MINUTE_MS)
    return operation.pass_task


def test_each_pass_hashes_with_a_key_of_its_own() -> None:
    """Whoever learns one cannot make keys that count as the same in the next pass."""
    topic = Interrupted()
    keys = {next_pass(topic).hash_key for _ in range(3)}
    assert len(keys) == 3
    assert all(len(key) == 16 for key in keys)


@pytest.mark.parametrize("load_factor", ["NaN", "Infinity", "-Infinity", "0", "-1", "1.5"])
def test_a_load_factor_that_makes_no_sense_stops_nothing(load_factor: str) -> None:
    topic = Compacted()
    change(topic, log_cleaner_io_buffer_load_factor=load_factor)
    topic.append(11)
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    assert not topic.events(LogNotCleaned)
    topic.reads_the_latest()


def test_a_bug_before_a_pass_costs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Compacted()
    bugs: list[str] = []
    cleaner = topic.node.manager.cleaner
    monkeypatch.setattr(cleaner, "_bug", lambda what, error: bugs.append(f"{what}: {error}"))
    plan = LogCleaner._plan

    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(LogCleaner, "_plan", broken)
    topic.append(11)
    topic.wait(MINUTE_MS)
    assert bugs == ["the beginning of a pass over users-0: planted"]
    assert list(cleaner.uncleanable.values()) == ["a bug: ZeroDivisionError('planted')"]
    assert not cleaner._running
    monkeypatch.setattr(LogCleaner, "_plan", plan)
    topic.wait(CLEANING_AGAIN_MS)
    assert len(topic.events(LogCleaned)) == 1
    assert not cleaner.uncleanable


def test_the_next_pass_has_the_buffer_and_the_load_factor_as_they_are_then() -> None:
    topic = Interrupted()
    assert (task := next_pass(topic)).buffer_bytes == 128 * MIB
    assert task.load_factor == 0.9
    change(topic, log_cleaner_dedupe_buffer_size=str(8 * MIB), log_cleaner_io_buffer_load_factor="0.25")
    assert (task := next_pass(topic)).buffer_bytes == 8 * MIB
    assert task.load_factor == 0.25
    change(topic)
    assert next_pass(topic).buffer_bytes == 128 * MIB
    assert len(topic.events(LogCleaned)) == 3


def test_with_room_for_a_few_keys_passes_follow_each_other() -> None:
    topic = Compacted()
    change(topic, log_cleaner_dedupe_buffer_size="100")
    topic.append(12)
    topic.wait(5 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) > 1
    assert not topic.events(LogNotCleaned)
    topic.reads_the_latest()
    assert len(topic.read()) < 12


def test_the_next_pass_reads_and_writes_in_pieces_of_half_its_share_of_the_buffer() -> None:
    topic = Interrupted()
    assert next_pass(topic).work.chunk_bytes == 512 * 1024 // 2
    for size_bytes, chunk_bytes in (
        (6 * MIB, 3 * MIB),
        (0, CLEANING_CHUNK_MIN_BYTES),
        (2**31 - 1, CLEANING_CHUNK_MAX_BYTES),
    ):
        change(topic, log_cleaner_io_buffer_size=str(size_bytes))
        assert next_pass(topic).work.chunk_bytes == chunk_bytes


def test_threads_share_the_buffers() -> None:
    """Two logs at the same time, each with half of what there is; with a third thread, later passes have a third."""
    topic = Interrupted(settings=Settings.for_node(1, log_cleaner_threads=2))
    others = Keyed(topic, "others")
    for _ in range(11):
        others.put(b"key")
    topic.append(11)
    topic.wait(MINUTE_MS)
    tasks = {each.pass_task.work.name: each.pass_task for each in topic.passes}
    assert set(tasks) == {"users-0", "others-0"}
    for task in tasks.values():
        assert task.buffer_bytes == 64 * MIB
        assert task.work.chunk_bytes == 512 * 1024 // 2 // 2
    topic.go_on()
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 2
    change(topic, log_cleaner_threads="3")
    assert next_pass(topic).buffer_bytes == 128 * MIB // 3


@pytest.mark.parametrize(("dirtier", "cleaner"), [("users", "others"), ("others", "users")])
def test_with_one_thread_the_dirtier_log_comes_first(dirtier: str, cleaner: str) -> None:
    topic = Compacted(min_cleanable_dirty_ratio="0")
    logs = {name: Keyed(topic, name) for name in ("users", "others")}
    for log in logs.values():
        for number in range(11):
            log.put(b"%d" % number)
    topic.wait(3 * MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 2
    change(topic, log_cleaner_threads="0")
    for name, count in ((cleaner, 5), (dirtier, 15), (cleaner, 2)):
        for number in range(count):
            logs[name].put(b"%d" % number)
    topic.wait(MINUTE_MS)
    change(topic)
    topic.wait(3 * MINUTE_MS)
    assert [event.log for event in topic.events(LogCleaned)][2:] == [f"{dirtier}-0", f"{cleaner}-0"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("overdue", "dirtier"), [("users", "others"), ("others", "users")])
def test_a_log_that_is_overdue_comes_before_one_that_is_dirtier(overdue: str, dirtier: str) -> None:
    topic = Compacted(min_cleanable_dirty_ratio="0")
    logs = {name: Keyed(topic, name) for name in ("users", "others")}
    for log in logs.values():
        for number in range(11):
            log.put(b"%d" % number)
    topic.wait(3 * MINUTE_MS)
    change(topic, log_cleaner_threads="0")
    configs = topic.node.topic_configs
    topic.configure(min_cleanable_dirty_ratio="0", max_compaction_lag_ms=str(MINUTE_MS))
    configs["users"], configs[overdue] = configs["others"], configs["users"]
    for name, count in ((overdue, 5), (dirtier, 15)):
        for number in range(count):
            logs[name].put(b"%d" % number)
    topic.wait(3 * MINUTE_MS)
    for name in logs:
        topic.node.manager.config_changed(name)
    topic.wait(MINUTE_MS)
    change(topic)
    topic.wait(3 * MINUTE_MS)
    assert [event.log for event in topic.events(LogCleaned)][2:] == [f"{overdue}-0", f"{dirtier}-0"]  # type: ignore[attr-defined]


def test_no_threads_is_a_switch_that_lets_the_pass_under_way_end() -> None:
    topic = Interrupted()
    topic.append(11)
    topic.until_a_pass()
    change(topic, log_cleaner_threads="0")
    topic.go_on()
    topic.wait(MINUTE_MS)
    assert len(topic.events(LogCleaned)) == 1
    topic.append(11)
    topic.wait(5 * MINUTE_MS)
    assert not topic.passes
    change(topic)
    topic.wait(MINUTE_MS)
    topic.go_on()
    topic.wait(SECOND_MS)
    assert len(topic.events(LogCleaned)) == 2
