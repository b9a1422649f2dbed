"""A node as a process: it ends, and says why, when it has lost what it cannot go on without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import errno, os, sys, time
from random import Random

from penstock.config.server import Settings
from penstock.metadata.topics import create_topics
from penstock.protocol.messages.create_topics_request import CreatableTopic
from penstock.server.directories import format_storage
from penstock.server.process import run

logs, metadata, broken = sys.argv[1:]
settings = Settings.for_node(
    log_dirs=(logs,),
    metadata_log_dir=metadata,
    listeners=("PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:0"),
    log_flush_interval_messages=1,
)
format_storage(settings, None, Random(1), 0)


def breaks(*arguments):
    raise OSError(errno.EIO, os.strerror(errno.EIO), broken)


def lose(server):
    for directory in server._directories.all:
        if directory.path == broken:
            disk = directory.blocking_disk
            disk.write = disk.fsync = disk.make_directory = disk.replace_all = breaks
    node = server.broker
    wanted = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
    records = create_topics(node.controller.state, wanted).records
    node.controller.append(records, lambda now_ms: None, lambda code, now_ms: None, server.shell.now_ms)
    server.shell.kick()


sys.exit(run(settings, on_ready=lose))
"""


def lose(tmp_path: Path, broken: str) -> subprocess.CompletedProcess[str]:
    """Runs a node of which one directory breaks once it serves."""
    paths = [str(tmp_path / name) for name in ("logs", "metadata", broken)]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_process_ends_and_says_why_when_the_metadata_directory_is_lost(tmp_path: Path) -> None:
    ended = lose(tmp_path, "metadata")
    assert ended.returncode == 1, ended.stderr
    said = [line for line in ended.stderr.splitlines() if "the node cannot go on" in line]
    assert len(said) == 1, ended.stderr
    assert "Input/output error" in said[0]
    assert str(tmp_path / "metadata") in said[0]
    assert "Traceback" not in ended.stderr


def test_the_process_ends_when_its_last_log_directory_is_lost(tmp_path: Path) -> None:
    ended = lose(tmp_path, "logs")
    assert ended.returncode == 1, ended.stderr
    assert "the node cannot go on" in ended.stderr
