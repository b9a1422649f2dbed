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

import pytest

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


def greeting_of(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """The lines of a greeting, the last included."""
    while (line := line_of(process)) != "Ctrl-C stops it.\n":
        yield line


@pytest.mark.slow
def test_a_second_dev_takes_the_next_port_and_directory_and_says_so(tmp_path: Path) -> None:
    with started("dev", home=tmp_path) as first:
        assert re.fullmatch(r"Penstock [\d.]+, one node, ready in \d+\.\d\d s\n", line_of(first))
        greeting = "".join(greeting_of(first))
        address = greeting.split()[1]
        assert "~/penstock/dev   (new; it is kept)" in greeting
        with started("dev", home=tmp_path) as second:
            said = "".join(greeting_of(second))
            assert max(len(line) for line in said.splitlines() if "  data  " not in line) <= 80
            assert "another penstock dev has the usual one" in said
            assert "port 9092 is taken" in said
            other = re.search(r"bootstrap +(\S+)", said)
            assert other is not None
            assert other[1] != address
            assert penstock("topics", "create", "clicks", "--bootstrap", other[1]).returncode == 0
            assert penstock("topics", "list", "--bootstrap", address).stdout == b""
            assert interrupted(second) == (0, "\nstopped\n", "")
        assert interrupted(first) == (0, "\nstopped\n", "")


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert b"run `penstock storage format` first" in refused.stderr
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


@pytest.mark.slow
def test_a_container_runs_with_settings_from_the_environment_and_again_on_its_volume(tmp_path: Path) -> None:
    image_file = Path(__file__).resolve().parents[2] / "packaging" / "container.properties"
    listeners = "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0"
    environment = {
        "KAFKA_LISTENERS": f"{listeners},CONTROLLER://127.0.0.1:0",
        "KAFKA_ADVERTISED_LISTENERS": listeners,
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "127.0.0.1:0",
        "KAFKA_PENSTOCK_METRICS_LISTENER": "127.0.0.1:0",
        "KAFKA_LOG_DIRS": str(tmp_path / "volume"),
        "KAFKA_HEAP_OPTS": "-Xmx1g",
    }
    for seen in (b"", b"one\n"):
        command = [*PENSTOCK, "server", "container", str(image_file), "--log-format", "json"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **environment}) as node:
            try:
                addresses = dict(said_until_running(node))
                assert penstock("consume", "t", "--bootstrap", addresses["INTERNAL"]).stdout == seen
                produced = penstock("produce", "t", "--bootstrap", addresses["PLAINTEXT"], stdin=b"one\n")
                assert produced.returncode == 0, produced.stderr
                node.terminate()
                assert node.stderr is not None
                assert b'"event": "stopped"' in node.stderr.read()
                assert node.wait(TIMEOUT_S) == 0
            finally:
                node.kill()


def said_until_running(node: subprocess.Popen[bytes]) -> Iterator[tuple[str, str]]:
    """The listeners and their addresses, up to the line that a node serves, worded as Apache Kafka words it."""
    assert node.stderr is not None
    for line in node.stderr:
        event = json.loads(line)
        if event["event"] == "listening":
            yield event["listener"], event["address"]
        if "Transitioning from RECOVERY to RUNNING" in event["event"]:
            return
    raise AssertionError("the node ended")


@contextmanager
def notified(path: Path) -> Iterator[socket.socket]:
    """Where a service manager would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        listening.settimeout(TIMEOUT_S)
        yield listening


def test_a_secure_dev_is_used_with_the_file_that_it_makes_also_after_a_restart(tmp_path: Path) -> None:
    words = ("dev", "--secure", "--port", "0", "--metrics-port", "0", "--data", str(tmp_path / "dätä"), "--json")
    for turn in range(2):
        with started(*words, home=tmp_path) as process:
            ready = json.loads(line_of(process))
            assert ready["command_config"] == str(tmp_path / "dätä.secure" / "client.properties")
            at = ("--bootstrap", ready["bootstrap"], "--command-config", ready["command_config"])
            produced = penstock("produce", "clicks", *at, stdin=b"hello\n")
            assert produced.returncode == 0, produced.stderr
            consumed = penstock("consume", "clicks", "--group", f"g{turn}", *at)
            assert consumed.stdout.split() == [b"hello"] * (turn + 1), consumed.stderr
            refused = penstock("topics", "list", "--bootstrap", ready["bootstrap"])
            assert refused.returncode == 1
            assert b"security.protocol must be as the listener's is" in refused.stderr
            assert interrupted(process)[0] == 0
    secrets = tmp_path / "dätä.secure"
    assert {oct(path.stat().st_mode & 0o777) for path in secrets.iterdir()} == {"0o600"}
    assert oct(secrets.stat().st_mode & 0o777) == "0o700"


def test_dev_starts_without_what_only_other_commands_need(tmp_path: Path) -> None:
    """What its start costs is mostly what it imports (`bench/start.py` measures it)."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr))\n"
        "from penstock.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    words = ("dev", "--json", "--port", "0", "--metrics-port", "0", "--data", str(tmp_path / "data"))
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    with process:
        line_of(process)
        code, _, error = interrupted(process)
    assert code == 0
    imported = set(error.split())
    assert "penstock" in imported
    assert not imported & {"confluent_kafka", "duckdb", "numba", "numpy", "pandas", "pyarrow", "pyspark", "pytest"}
