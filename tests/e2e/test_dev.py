"""`penstock dev` and the other commands as processes: ready line, produce, consume, Ctrl-C, pipes that close."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

PENSTOCK = [sys.executable, "-m", "penstock"]
TIMEOUT_S = 30


@contextmanager
def started(*words: str, home: Path, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """A command as a process, ended after the block if it has not ended by itself."""
    process = subprocess.Popen(
        [*PENSTOCK, *words],
        bufsize=0,  # so that select sees all that was not read
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "XDG_DATA_HOME": str(home), "HOME": str(home)},
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def line_of(process: subprocess.Popen[bytes]) -> str:
    """The next line that the process prints."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], TIMEOUT_S)[0]:
        process.kill()
        raise AssertionError("the process printed nothing")
    line = process.stdout.readline().decode()
    if not line:
        process.wait(TIMEOUT_S)
        assert process.stderr is not None
        raise AssertionError(f"the process ended: {process.stderr.read().decode()}")
    return line


def interrupted(process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> tuple[int, str, str]:
    """Sends a signal; gives exit code, the rest of the output, and the errors."""
    process.send_signal(number)
    out, error = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out.decode(), error.decode()


def penstock(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PENSTOCK, *words], input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)


def test_dev_starts_serves_and_leaves_cleanly(tmp_path: Path) -> None:
    words = ("dev", "--json", "--port", "0", "--metrics-port", "0", "--data", str(tmp_path / "data"))
    with started(*words, home=tmp_path) as process:
        ready = json.loads(line_of(process))
        assert ready["data"] == str(tmp_path / "data")
        bootstrap = ready["bootstrap"]
        produced = penstock("produce", "clicks", "--bootstrap", bootstrap, stdin=b"one\ntwo\n")
        assert (produced.returncode, produced.stdout, produced.stderr) == (0, b"", b"")
        with urllib.request.urlopen(ready["metrics"], timeout=TIMEOUT_S) as metrics:
            assert b"kafka_" in metrics.read()
        assert interrupted(process) == (0, "", "")
    with started(*words, home=tmp_path) as process:
        bootstrap = json.loads(line_of(process))["bootstrap"]
        assert penstock("consume", "clicks", "--bootstrap", bootstrap).stdout == b"one\ntwo\n"
        assert interrupted(process, signal.SIGTERM) == (0, "", "")
    with started(*words, "--fresh", home=tmp_path) as process:
        bootstrap = json.loads(line_of(process))["bootstrap"]
        assert penstock("topics", "list", "--bootstrap", bootstrap).stdout == b""
        assert interrupted(process)[0] == 0


def test_a_second_dev_takes_the_next_port_and_directory_and_says_so(tmp_path: Path) -> None:
    with started("dev", home=tmp_path) as first:
        assert re.fullmatch(r"Penstock [\d.]+, one node, ready in \d+\.\d\d s\n", line_of(first))
        greeting = [line_of(first) for _ in range(6)]
        address = greeting[0].split()[1]
        assert greeting[-1] == "Ctrl-C stops it.\n"
        assert "~/penstock/dev   (new; it is kept)" in greeting[2]
        with started("dev", home=tmp_path) as second:
            said = "".join(line_of(second) for _ in range(7))
            assert "another penstock dev has the usual one" in said
            assert "port 9092 is taken" in said
            other = re.search(r"bootstrap +(\S+)", said)
            assert other is not None
            assert other[1] != address
            assert penstock("topics", "create", "clicks", "--bootstrap", other[1]).returncode == 0
            assert penstock("topics", "list", "--bootstrap", address).stdout == b""
            assert interrupted(second) == (0, "\nstopped\n", "")
        assert interrupted(first) == (0, "\nstopped\n", "")


def test_dev_says_in_one_line_why_it_cannot_start(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = str(taken.getsockname()[1])
        done = penstock("dev", "--port", port, "--data", str(tmp_path), "--metrics-port", "0")
    assert done.returncode == 1
    assert done.stderr.decode() == f"error: port {port} is taken: choose another --port, or 0 for any free one\n"
    done = penstock("dev", "--port", "0", "--data", str(tmp_path), "--override", "log.segment.byte=1")
    assert done.returncode == 1
    assert b"did you mean log.segment.bytes?" in done.stderr


def test_a_reader_that_closes_its_pipe_and_ctrl_c_are_quiet(tmp_path: Path) -> None:
    words = ("dev", "--json", "--port", "0", "--metrics-port", "0", "--data", str(tmp_path / "data"))
    with started(*words, home=tmp_path) as broker:
        bootstrap = json.loads(line_of(broker))["bootstrap"]
        lines = b"".join(b"%d\n" % number for number in range(200_000))
        assert penstock("produce", "clicks", "--bootstrap", bootstrap, stdin=lines).returncode == 0
        with started("consume", "clicks", "--bootstrap", bootstrap, home=tmp_path) as reader:
            assert line_of(reader) == "0\n"
            assert reader.stdout is not None
            reader.stdout.close()
            assert reader.stderr is not None
            assert reader.stderr.read() == b""
            assert reader.wait(TIMEOUT_S) == 141
        waiting = started("produce", "clicks", "--bootstrap", bootstrap, home=tmp_path, stdin=subprocess.PIPE)
        with waiting as writer:  # its input stays open: Ctrl-C ends it all the same
            assert writer.stdin is not None
            writer.stdin.write(b"last\n")
            last = ("consume", "clicks", "--follow", "--offset", "200000", "--max", "1", "--bootstrap", bootstrap)
            assert penstock(*last).stdout == b"last\n"
            assert interrupted(writer) == (130, "", "")
        follow = ("consume", "clicks", "--follow", "--offset", "200000", "--bootstrap", bootstrap)
        with started(*follow, home=tmp_path) as reader:
            assert line_of(reader) == "last\n"
            assert interrupted(reader) == (130, "", "")
        assert interrupted(broker)[0] == 0


def test_server_start_runs_what_storage_format_made(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\nnum.network.threads=3\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:0\nlog.dirs={tmp_path}/data\n"
    )
    refused = penstock("server", "start", str(file))
    assert refused.returncode == 1
    assert b"penstock storage format makes and formats it" in refused.stderr
    assert b"Traceback" not in refused.stderr
    identity = penstock("storage", "random-uuid").stdout.decode().strip()
    assert penstock("storage", "format", "-t", identity, "-c", str(file), "--standalone").returncode == 0
    with notified(tmp_path / "notify") as notifications:
        os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        try:
            with started("server", "start", str(file), "--log-format", "json", home=tmp_path) as node:
                assert notifications.recv(100) == b"READY=1"
                code, _, error = interrupted(node, signal.SIGTERM)
                assert notifications.recv(100) == b"STOPPING=1"
        finally:
            del os.environ["NOTIFY_SOCKET"]
    assert code == 0
    events = [json.loads(line) for line in error.splitlines()]
    said = [event["event"] for event in events]
    assert {"listening", "ready", "stopped"} <= set(said)
    assert [event["names"] for event in events if "ignored" in event["event"]] == ["num.network.threads"]


@contextmanager
def notified(path: Path) -> Iterator[socket.socket]:
    """Where a service manager would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        listening.settimeout(TIMEOUT_S)
        yield listening


def test_dev_is_ready_for_less_than_four_tenths_of_a_second_of_work(tmp_path: Path) -> None:
    """CPU time, the start of the interpreter included: on an idle machine that is the time until the ready line."""
    words = ("dev", "--json", "--port", "0", "--metrics-port", "0", "--data", str(tmp_path / "data"))
    seconds = []
    for _ in range(3):
        with started(*words, home=tmp_path) as process:
            line_of(process)
            times = psutil.Process(process.pid).cpu_times()
            seconds.append(times.user + times.system)
            interrupted(process)
    assert min(seconds) < 0.4, seconds
