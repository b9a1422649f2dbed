"""Log directories under random load and random faults. Each rule is shown to catch a planted bug."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from penstock.log import operations, recovery, segment_scan
from penstock.log.checkpointing import Checkpointing
from penstock.log.checkpoints import Checkpoint
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import CreateReplicas, SetAside, WritePartitionMetadata
from penstock.log.disk import Buffer, Disk
from penstock.log.file_work import FileWork
from penstock.log.log import Log
from penstock.log.open_logs import OpenLogs
from penstock.log.operations import Write
from penstock.log.producer_state import ProducerState
from penstock.log.replica import Replica, State
from penstock.log.replica_directories import ReplicaDirectories
from penstock.log.space import NoSpace, is_full
from simulator.__main__ import main
from simulator.log.world import LogWorld
from simulator.world.checks import Violation
from simulator.world.disk import SimulatedDisk
from simulator.world.driver import Simulation
from simulator.worlds import WORLDS

SEEDS = range(1, 101)
HUNT_SEEDS = 300
REGRESSIONS = {
    "a new log began where a deleted one did, since a checkpoint had found no room": 43_238,
    "a new log had the records of a deleted one, since its topic id had found no room": 45_972,
    "a reader met an index that was being cut": 2_460,
    "the same, in another log": 5_396,
}


@pytest.mark.parametrize("first", range(1, 101, 20))
def test_what_was_fsynced_survives_and_nothing_else_is_served(first: int) -> None:
    for seed in range(first, first + 20):
        LogWorld(seed).run()


@pytest.mark.parametrize("found", REGRESSIONS)
def test_a_seed_that_once_failed(found: str) -> None:
    LogWorld(REGRESSIONS[found]).run()


def test_the_runs_reach_what_they_are_to_test() -> None:
    """Crashes, recoveries, cut tails, failed directories and reads of a cold disk all happen within the seeds."""
    traces, checks = "", 0
    for seed in range(1, 41):
        world = LogWorld(seed)
        world.run()
        assert world.node.incarnation >= 5
        checks += world.checks
        traces += world.simulation.trace_tail + "".join(map(str, world.node.events))
    assert checks > 2_000
    for happening in (
        "power failure",
        "kill -9",
        "power loss in RecoverLog",
        "cut",
        "lost offsets",
        "Input/output error",
        "No space left",
        "ReadRange",
        "segments, ",
        "moved aside",
    ):
        assert happening in traces, happening


def test_the_same_seed_gives_the_same_trace_under_every_hash_seed() -> None:
    hashes = set()
    for hash_seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "simulator", "--world", "log", "--seeds", "1..6", "--json"]
        hashes.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(hashes) == 1, hashes
    assert len(set(hashes.pop().split())) > 10, "different seeds give different traces"


def test_a_failing_seed_prints_the_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(seed: int) -> Simulation:
        monkeypatch.setattr(LogWorld, "_read", fails)
        return LogWorld(seed).run()

    def fails(world: LogWorld) -> None:
        raise Violation("a rule")

    monkeypatch.setitem(WORLDS, "log", broken)
    assert main(["--world", "log", "--seeds", "5"]) == 1
    printed = capsys.readouterr().out
    assert "seed 5 breaks a rule: a rule" in printed
    assert "python -m simulator --scenario log --seeds 5\n" in printed
    assert "start 1" in printed, "the end of the trace"


@pytest.mark.parametrize("text", ["", "a", "5..4", "1..x", "-3"])
def test_seeds_that_are_none_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([f"--seeds={text}"])
    assert "seed" in capsys.readouterr().err


def broken_rule(seeds: Iterable[int] = range(1, HUNT_SEEDS + 1)) -> str:
    """The rule by which the first seed that finds a planted bug does so; empty if none does."""
    for seed in seeds:
        try:
            LogWorld(seed).run()
        except Violation as violation:
            return str(violation).split(":")[0]
    return ""


def skip_fsync(of: str) -> Callable[[SimulatedDisk, str], None]:
    """An fsync that is forgotten for paths which end so."""
    real = SimulatedDisk.fsync

    def forgetful(disk: SimulatedDisk, path: str) -> None:
        if not path.endswith(of):
            real(disk, path)

    return forgetful


def test_planted_records_are_not_fsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedDisk, "fsync", skip_fsync(".log"))
    assert broken_rule() == "what was fsynced survives"


def test_planted_the_directory_of_a_new_segment_is_not_fsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimulatedDisk.fsync_directory

    def forgetful(disk: SimulatedDisk, path: str) -> None:
        if not path or disk.lost_power:
            real(disk, path)

    monkeypatch.setattr(SimulatedDisk, "fsync_directory", forgetful)
    assert broken_rule() == "what was fsynced survives"


class Forgetful:
    """A disk on which the fsync of directories is forgotten."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def fsync_directory(self, path: str) -> None:
        """Forgotten."""

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)


def test_planted_the_directory_of_a_new_replica_is_not_fsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    real = CreateReplicas.run
    monkeypatch.setattr(CreateReplicas, "run", lambda self, disk: real(self, Forgetful(disk)))
    assert broken_rule() == "what was fsynced survives"


def test_planted_a_torn_tail_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "check_crc", lambda *_: None)
    assert broken_rule() in {"an offset keeps its value", "the next sequence is taken"}


def test_planted_logs_are_not_recovered_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    real = LogDirectory.load

    def always_clean(directory: LogDirectory, report: object) -> object:
        found = real(directory, report)  # type: ignore[arg-type]
        directory.clean_epoch = 1
        return found

    monkeypatch.setattr(LogDirectory, "load", always_clean)
    assert broken_rule() in {"an offset keeps its value", "what was fsynced survives"}


def test_planted_a_roll_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that has the names of new files on the medium before the content of older ones."""
    write = SimulatedDisk.write

    def write_names_early(disk: SimulatedDisk, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        write(disk, path, position, chunks)
        if not chunks:
            disk.fsync_directory(path.rpartition("/")[0])

    monkeypatch.setattr(SimulatedDisk, "write", write_names_early)
    LogWorld(1).run()
    monkeypatch.setattr(recovery, "read_rolls", lambda *_: frozenset())
    holes = {"nothing is served that was not written", "what is there is served", "producers are remembered"}
    assert broken_rule() in holes


def test_planted_what_an_fsync_failed_to_write_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery.Recovery, "_write_again", lambda *_: None)
    assert broken_rule() in {"what was fsynced survives", "an offset keeps its value"}


def test_planted_a_round_of_fsyncs_leaves_a_file_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedDisk, "fsync_data", lambda *_: ())
    assert broken_rule() in {"what was fsynced survives", "offsets are given in order"}


def test_planted_a_round_of_fsyncs_lets_count_what_was_written_during_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = FileWork.release

    def all_that_is_held(files: FileWork, end_offset: int, wall_ms: int, now_ms: int) -> Write | None:
        held_to = files.writes[files.held - 1].end_offset if files.held else end_offset
        return real(files, held_to, wall_ms, now_ms)

    monkeypatch.setattr(FileWork, "release", all_that_is_held)
    assert broken_rule() in {"what was fsynced survives", "what is there is served", "offsets are given in order"}


def test_planted_a_round_of_fsyncs_leaves_new_names_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimulatedDisk.fsync_data
    monkeypatch.setattr(SimulatedDisk, "fsync_data", lambda disk, paths, _: real(disk, paths))
    assert broken_rule() == "what was fsynced survives"


def test_planted_recovery_forgets_the_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "recover_producers", lambda *_, **__: None)
    assert broken_rule() == "producers are remembered"


def test_planted_a_clean_stop_forgets_the_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "duplicate_of", lambda *_: None)
    assert broken_rule() == "producers are remembered"


def test_planted_the_mark_of_a_clean_stop_is_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogDirectory, "unmark", lambda _: None)
    assert broken_rule() == "an offset keeps its value"


def test_planted_the_recovery_point_runs_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Checkpoint.set
    monkeypatch.setattr(Checkpoint, "set", lambda self, partition, offset: real(self, partition, offset + 20))
    assert broken_rule() == "nothing is served that was not written"


def test_planted_what_found_no_room_is_not_cut_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def left(error: OSError, *_: object) -> None:
        if is_full(error):
            raise NoSpace(error.errno, error.strerror)

    monkeypatch.setattr(operations, "put_back", left)
    assert broken_rule()


def test_planted_a_new_replica_finds_the_checkpoints_of_an_older_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkpointing, "forget", lambda *_: None)
    assert broken_rule() in {"offsets are given in order", "durable is what was written"}


def test_planted_a_log_takes_records_though_its_topic_id_found_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(logs: OpenLogs, replica: Replica, log: Log, now_ms: int) -> None:
        log.topic_id = replica.topic_id
        logs._outbox.emit(WritePartitionMetadata(replica, logs._outbox), no_room=lambda *_: None)
        logs._now_open(replica, log, now_ms)

    monkeypatch.setattr(OpenLogs, "_tie_to_topic", at_once)
    assert broken_rule([45_972]) == "nothing is served that was not written"


@pytest.mark.slow
def test_planted_a_deleted_replica_leaves_without_waiting_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    make, set_aside = SetAside.__init__, ReplicaDirectories.set_aside

    def in_another_order(operation: SetAside, *arguments: Any, **more: Any) -> None:
        make(operation, *arguments, **more)
        operation.order = "another"

    def at_once(directories: ReplicaDirectories, replica: Replica, suffix: str) -> None:
        replica.state = State.CLOSED
        set_aside(directories, replica, suffix)

    monkeypatch.setattr(SetAside, "__init__", in_another_order)
    monkeypatch.setattr(ReplicaDirectories, "set_aside", at_once)
    assert broken_rule() == "a directory fails only by a fault of the disk"
