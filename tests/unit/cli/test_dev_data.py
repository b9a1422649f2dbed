"""What `penstock dev` may format and what --fresh may remove: nothing that it did not make, nothing that is in use."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli import demo, dev, dev_cluster, dev_data
from penstock.errors import ConfigError, StorageError, UsageError
from penstock.log import clean_shutdown, meta_properties
from penstock.log.checkpoints import HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from penstock.log.disk import FSYNC_FAILED
from penstock.log.names import LEADER_EPOCHS, PARTITION_METADATA, UNFLUSHED_ROLLS
from penstock.metadata import bootstrap
from penstock.raft import election, flushed
from penstock.server.directory_lock import LOCK_FILE, DirectoryLock
from penstock.testing.broker import LocalBroker

HOLD = (
    "import sys; from penstock.server.directory_lock import DirectoryLock; lock = DirectoryLock(sys.argv[1]);"
    "print('held', flush=True); sys.stdin.read()"
)
A_NODES = {
    "meta.properties": "",
    "bootstrap.checkpoint": "",
    "recovery-point-offset-checkpoint": "",
    ".kafka_cleanshutdown": "",
    ".kafka_cleanshutdown.tmp": "",
    ".penstock-fsync-failed": "",
    "clicks-0/00000000000000000000.log": "",
    "clicks-0/00000000000000000042.timeindex.deleted": "",
    "clicks-0/00000000000000000042.log.corrupt": "",
    "clicks-0/leader-epoch-checkpoint": "",
    "clicks-0/partition.metadata": "",
    "clicks-0/unflushed-rolls": "",
    "clicks-0/unflushed-rolls.tmp": "",
    "orders-1.0123456789abcdef0123456789abcdef-stray/00000000000000000000.log": "",
    "__cluster_metadata-0/quorum-state": "",
    "__cluster_metadata-0/00000000000000000017-0000000001.checkpoint": "",
    "__cluster_metadata-0/flushed-offset": "",
}


@pytest.fixture(autouse=True)
def the_logger_as_it_was() -> Iterator[None]:
    """`penstock dev` sets the log up for its process."""
    root = logging.getLogger("penstock")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])


def fill(directory: Path, files: dict[str, str]) -> set[str]:
    """Writes the files; gives what the directory has then."""
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return content(directory)


def content(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@contextmanager
def used_by_another_process(directory: Path) -> Iterator[None]:
    """Another process has the directory's lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.communicate()


def arguments(data: Path, *, fresh: bool = False, brokers: int = 1) -> argparse.Namespace:
    return argparse.Namespace(
        data=str(data), fresh=fresh, brokers=brokers, port=0, metrics_port=0, override=[], json=True, secure=False,
        log_format="text", log_level="WARNING", guardian=False,
    )  # fmt: skip


def test_a_source_tree_is_neither_formatted_nor_emptied(tmp_path: Path) -> None:
    before = fill(tmp_path, {"main.py": "years of work", ".git/HEAD": "ref"})
    for fresh in (False, True):
        for brokers in (1, 3):
            with pytest.raises(ConfigError, match="is not empty and"):
                dev.run(arguments(tmp_path, fresh=fresh, brokers=brokers))
    assert content(tmp_path) == before


def test_fresh_removes_what_a_node_writes_from_a_directory_that_dev_made(tmp_path: Path) -> None:
    data = tmp_path / "data"
    dev_data.mark(str(data))
    fill(data, A_NODES)
    dev_data.empty([str(data)])
    assert content(data) == {dev_data.MARK}
    dev_data.mark(str(data))
    assert content(data) == {dev_data.MARK}


def test_every_file_that_a_node_writes_is_known(tmp_path: Path) -> None:
    of_directories = [
        *(meta_properties.FILE, clean_shutdown.FILE, bootstrap.FILE, FSYNC_FAILED, LOCK_FILE),
        *(RECOVERY_POINT, LOG_START, HIGH_WATERMARK),
    ]
    of_replicas = [LEADER_EPOCHS, PARTITION_METADATA, UNFLUSHED_ROLLS, election.FILE, flushed.FILE]
    fill(tmp_path, dict.fromkeys([*of_directories, *(f"clicks-0/{name}" for name in of_replicas)], ""))
    assert list(dev_data.foreign(str(tmp_path))) == []


def test_fresh_removes_nothing_from_a_directory_that_storage_format_made(tmp_path: Path) -> None:
    before = fill(tmp_path, A_NODES)
    dev_data.mark(str(tmp_path))
    with pytest.raises(ConfigError, match="was not made by penstock dev: --fresh removes nothing there"):
        dev.run(arguments(tmp_path, fresh=True))
    assert content(tmp_path) - {".lock"} == before


@pytest.mark.parametrize(
    "name",
    [
        "main.py",
        "src/main.py",
        "backup-2024/thesis.txt",
        "clicks-0/notes.txt",
        "clicks-0/more/00000000000000000000.log",
    ],
)
def test_fresh_removes_nothing_from_a_directory_that_has_what_no_node_writes(tmp_path: Path, name: str) -> None:
    dev_data.mark(str(tmp_path))
    before = fill(tmp_path, {**A_NODES, name: "years of work"})
    with pytest.raises(ConfigError, match="has what no broker writes: --fresh removes nothing there"):
        dev_data.empty([str(tmp_path)])
    assert content(tmp_path) == before


def test_fresh_does_not_follow_links(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    dev_data.mark(str(data))
    fill(elsewhere, {"00000000000000000000.log": ""})
    (data / "clicks-0").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="clicks-0"):
        dev_data.empty([str(data)])
    assert content(elsewhere) == {"00000000000000000000.log"}


def test_what_comes_into_a_directory_while_it_is_emptied_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dev_data.mark(str(tmp_path))
    fill(tmp_path, A_NODES)
    late = {"main.py": "work", "clicks-0/notes.txt": "work"}
    check_ours = dev_data.check_ours

    def check_then_fill(path: str) -> None:
        check_ours(path)
        fill(tmp_path, late)

    monkeypatch.setattr(dev_data, "check_ours", check_then_fill)
    with pytest.raises(ConfigError, match="clicks-0 has what no broker writes, which came while it was emptied"):
        dev_data.empty([str(tmp_path)])
    assert late.keys() | {"meta.properties"} <= content(tmp_path)


@pytest.mark.parametrize("fresh", [False, True])
def test_what_comes_into_a_new_directory_before_it_is_held_is_not_settled_among(
    fresh: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "check_unused", lambda path: fill(tmp_path, {"main.py": "work"}))
    with pytest.raises(ConfigError, match="is not empty and not the data directory of a node"):
        dev.run(arguments(tmp_path, fresh=fresh))
    assert content(tmp_path) - {".lock"} == {"main.py"}


def test_no_other_process_gets_between_the_formatting_and_the_start(tmp_path: Path) -> None:
    with dev_data.held([str(tmp_path)], for_a_node=True):
        pass
    other = [sys.executable, "-c", HOLD, str(tmp_path)]
    assert subprocess.run(other, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 1
    lock = DirectoryLock(str(tmp_path))
    assert subprocess.run(other, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 1
    lock.release()
    assert subprocess.run(other, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def test_an_empty_name_is_not_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for brokers in (1, 3):
        wanted = arguments(tmp_path, brokers=brokers)
        wanted.data = ""
        with pytest.raises(UsageError, match="--data is empty"):
            dev.run(wanted)
    assert content(tmp_path) == set()


def test_nothing_is_removed_while_another_process_uses_it(tmp_path: Path) -> None:
    dev_data.mark(str(tmp_path))
    fill(tmp_path, A_NODES)
    with used_by_another_process(tmp_path):
        before = content(tmp_path)
        with pytest.raises(StorageError, match="is in use by another process: nothing was changed"):
            dev.run(arguments(tmp_path, fresh=True))
        assert content(tmp_path) == before


@pytest.mark.parametrize("used", ["", "node-2/data"])
def test_nothing_of_a_cluster_is_changed_while_another_process_uses_any_of_it(tmp_path: Path, used: str) -> None:
    dev_data.mark(str(tmp_path))
    for node_id in (1, 2, 3):
        log = tmp_path / f"node-{node_id}" / "data"
        dev_data.mark(str(log))
        fill(log, A_NODES)
    with used_by_another_process(tmp_path / used):
        before = content(tmp_path) - {".lock"}
        for fresh in (False, True):
            with pytest.raises(StorageError, match="is in use by another process: nothing was changed"):
                dev.run(arguments(tmp_path, fresh=fresh, brokers=3))
        assert {name for name in content(tmp_path) if not name.endswith(".lock")} == {
            name for name in before if not name.endswith(".lock")
        }


def test_one_nodes_foreign_file_keeps_the_whole_cluster(tmp_path: Path) -> None:
    dev_data.mark(str(tmp_path))
    for node_id in (1, 2):
        log = tmp_path / f"node-{node_id}" / "data"
        dev_data.mark(str(log))
        fill(log, A_NODES if node_id == 1 else {**A_NODES, "main.py": ""})
    before = content(tmp_path)
    with pytest.raises(ConfigError, match=r"move main\.py away first"):
        dev_cluster.make_room(str(tmp_path), 2, fresh=True)
    assert before <= content(tmp_path)


def test_a_nodes_directory_in_a_cluster_that_has_other_files_is_not_formatted(tmp_path: Path) -> None:
    dev_data.mark(str(tmp_path))
    before = fill(tmp_path, {"node-2/data/main.py": "work"})
    for fresh in (False, True):
        with pytest.raises(ConfigError, match="node-2/data is not empty and not the data directory of a node"):
            dev_cluster.make_room(str(tmp_path), 3, fresh=fresh)
    assert content(tmp_path) == before | {dev_data.MARK}


def test_a_cluster_that_was_formatted_in_part_says_what_to_do(tmp_path: Path) -> None:
    dev_data.mark(str(tmp_path))
    for node_id in (1, 2, 3):
        dev_data.mark(str(tmp_path / f"node-{node_id}" / "data"))
    fill(tmp_path / "node-1" / "data", A_NODES)
    with pytest.raises(ConfigError, match=r"has only a part of a cluster: node 1\n .* --fresh to begin again"):
        dev_cluster.make_room(str(tmp_path), 3, fresh=False)
    dev_cluster.make_room(str(tmp_path), 3, fresh=True)
    fill(tmp_path / "node-1" / "data", A_NODES)
    fill(tmp_path / "node-2" / "data", A_NODES)
    with pytest.raises(ConfigError, match="has a cluster of 2 nodes: give --brokers 2"):
        dev_cluster.make_room(str(tmp_path), 3, fresh=False)


def test_one_node_does_not_settle_in_a_clusters_directory_nor_the_other_way_round(tmp_path: Path) -> None:
    cluster, node = tmp_path / "cluster", tmp_path / "node"
    fill(cluster / "node-1" / "data", A_NODES)
    with pytest.raises(ConfigError, match="is the data directory of a cluster: choose another --data"):
        dev.run(arguments(cluster))
    fill(cluster / "node-2" / "data", A_NODES)
    with pytest.raises(ConfigError, match="is the data directory of a cluster: give --brokers 2, or choose another"):
        dev.run(arguments(cluster))
    fill(node, A_NODES)
    with pytest.raises(ConfigError, match="is the data directory of one node"):
        dev.run(arguments(node, brokers=3))


def test_the_demo_removes_only_what_a_demo_made_and_nobody_uses(tmp_path: Path) -> None:
    fill(tmp_path, dict.fromkeys(demo.MADE - {"lake"}, "") | {"lake/clicks/part-0.parquet": ""})
    before = fill(tmp_path, {"notebook.ipynb": "an afternoon of work"})
    with pytest.raises(ConfigError, match=r"has what no demo made: notebook\.ipynb"), demo.room(tmp_path):
        raise AssertionError
    assert content(tmp_path) == before
    (tmp_path / "notebook.ipynb").unlink()
    with used_by_another_process(tmp_path):
        with pytest.raises(StorageError, match="is in use"), demo.room(tmp_path):
            raise AssertionError
        assert before - {"notebook.ipynb"} <= content(tmp_path)
    with demo.room(tmp_path):
        assert content(tmp_path) == {demo.MARK, ".lock"}


def test_the_brokers_of_tests_do_not_settle_among_other_files(tmp_path: Path) -> None:
    before = fill(tmp_path, {"backup-2024/thesis.txt": "years of work"})
    with pytest.raises(ConfigError, match="is not empty and not the data directory of a node"):
        LocalBroker(data_dir=tmp_path).start()
    assert content(tmp_path) == before
