"""What `penstock disks` concludes, prints and refuses, without a cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import disk_metrics, disks
from penstock.cli.disk_metrics import DirectoryMetrics, UncleanableLog, addresses, read_metrics
from penstock.cli.disk_plan import plan_moves
from penstock.cli.disk_report import CORDONED, FULL, OFFLINE, OK, SLOW, Disk, disks_json, disks_of, print_disks
from penstock.cli.main import main
from penstock.client.cluster import BrokerState, ClusterState, Ongoing
from penstock.client.log_directories import Described, LogDirectoryState, ReplicaInDirectory
from penstock.client.view import PartitionView, View
from penstock.config.values import GiB, MiB
from penstock.errors import ErrorCode, UnreachableError, UsageError
from penstock.node.metrics import GAUGE, Sample
from penstock.server.metrics import PrometheusText

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
URL = "http://n1:9644/metrics"
BROKERS = tuple(BrokerState(id_, f"n{id_}", 9092, None, False) for id_ in (1, 2))
PAGE = """# TYPE penstock_log_directory_full gauge
penstock_log_directory_free_bytes{directory="0",path="/a"} 5
penstock_log_directory_reserve_bytes{directory="0",path="/a"} 268435456
penstock_log_directory_full{directory="0",path="/a"} 1
penstock_log_directory_write_rate_bytes{directory="0",path="/a"} 1.5e3
penstock_log_directory_full{directory="1",path="/with \\"quotes\\" and } in it"} 0
penstock_log_directory_write_rate_bytes{directory="1",path="/n"} NaN
kafka_log_logcleanermanager_uncleanable_partitions_count{logDirectory="/a"} 2
kafka_log_logcleanermanager_uncleanable_bytes{logDirectory="/a"} 7
penstock_log_cleaner_uncleanable_bytes{directory="0",path="/a",topic="t",partition="4",reason="no \\"room\\": {5}\\n"} 7
penstock_log_cleaner_uncleanable_bytes{directory="0",path="/a",topic="t",partition="x",reason="no partition"} 7
penstock_lane_healthy{directory="0"} 0
penstock_lane_healthy{directory="1"} 1
penstock_lane_healthy{directory="2"} 0
"""


def state(
    broker_id: int = 1,
    path: str = "/a",
    free_bytes: int = 50 * GiB,
    *sizes: int,
    total_bytes: int = 100 * GiB,
    cordoned: bool = False,
    first: int = 0,
) -> LogDirectoryState:
    replicas = tuple(ReplicaInDirectory("t", index, size, False) for index, size in enumerate(sizes, first))
    return LogDirectoryState(broker_id, path, ErrorCode.NONE, total_bytes, free_bytes, cordoned, replicas)


def offline(broker_id: int = 1, path: str = "/off") -> LogDirectoryState:
    return LogDirectoryState(broker_id, path, STORAGE_ERROR)


def view(*replicas: tuple[int, ...], moving: Mapping[tuple[str, int], Ongoing] | None = None) -> View:
    partitions = tuple(PartitionView("t", index, each[0], each, each) for index, each in enumerate(replicas))
    return View(ClusterState("id", BROKERS), partitions, 1, moving or {})


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `penstock disks` on what brokers describe; gives exit code, output and errors."""

    def run(described: Described, *words: object, seen: View | None = None) -> tuple[int, str, str]:
        async def answer(*_: object, **__: object) -> Any:
            return described

        async def cluster(*_: object) -> ClusterState:
            return ClusterState("id", BROKERS)

        async def look(*_: object) -> View:
            return seen or view()

        def with_client(_: str, job: Callable[[Any], Awaitable[int]]) -> int:
            async def work() -> int:
                return await job(None)

            return asyncio.run(work())

        monkeypatch.setattr(disks, "with_client", with_client)
        monkeypatch.setattr("penstock.client.cluster.describe_cluster", cluster)
        monkeypatch.setattr("penstock.client.log_directories.describe_log_directories", answer)
        monkeypatch.setattr("penstock.client.view.look", look)
        capsys.readouterr()
        return (main(["disks", *map(str, words)]), *capsys.readouterr())

    return run


Say = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("disk", "health"),
    [
        (Disk(state()), OK),
        (Disk(state(cordoned=True)), CORDONED),
        (Disk(state(free_bytes=0)), FULL),
        (Disk(state(), DirectoryMetrics(full=True)), FULL),
        (Disk(state(cordoned=True), DirectoryMetrics(full=True)), FULL),
        (Disk(state(), DirectoryMetrics(full=False, slow=True)), SLOW),
        (Disk(state(cordoned=True), DirectoryMetrics(full=False, slow=True)), SLOW),
        (Disk(state(), DirectoryMetrics(full=True, slow=True)), FULL),
        (Disk(offline(), DirectoryMetrics(full=False, slow=True)), OFFLINE),
        (Disk(state(), DirectoryMetrics(full=False, slow=False)), OK),
        (Disk(state(free_bytes=0), DirectoryMetrics(full=False)), OK),
        (Disk(state(free_bytes=-1, total_bytes=-1)), OK),
        (Disk(offline()), OFFLINE),
    ],
)
def test_the_health_of_a_directory(disk: Disk, health: str) -> None:
    assert disk.health == health


def test_the_table_has_use_and_the_largest_replicas(say: Say) -> None:
    code, out, error = say({1: (state(1, "/a", 25 * GiB, MiB, 3 * MiB, 2 * MiB),), 2: (offline(2),)}, "--top", 2)
    assert code == 1
    assert [line.split() for line in out.splitlines()] == [
        ["BROKER", "DIRECTORY", "HEALTH", "REPLICAS", "LOGS", "USED", "FREE", "TOTAL"],
        ["1", "/a", "ok", "3", "6.0", "MiB", "75%", "25.0", "GiB", "100", "GiB"],
        ["2", "/off", "offline", "-", "-", "-", "-", "-"],
        [],
        ["BROKER", "DIRECTORY", "LARGEST", "SIZE"],
        ["1", "/a", "t-1", "3.0", "MiB"],
        ["1", "/a", "t-2", "2.0", "MiB"],
    ]
    assert error.startswith("no reserve, rate, full, slow and uncleanable from broker 1, 2: --metrics ")


def test_a_broker_that_does_not_answer_is_named_and_is_no_success(say: Say) -> None:
    code, out, error = say({1: (state(),), 2: UnreachableError("nobody listens on n2:9092")})
    assert (code, len(out.splitlines())) == (1, 2)
    assert "broker 2 does not tell of its directories: nobody listens on n2:9092\n" in error
    told = json.loads(say({1: (state(),), 2: UnreachableError("gone")}, "--json")[1])
    assert told["unreachable"] == [{"broker": 2, "error": "gone"}]


def test_what_an_old_broker_does_not_tell_is_left_open(say: Say) -> None:
    old = state(1, "/a", -1, MiB, total_bytes=-1)
    code, out, _ = say({1: (old,)})
    assert (code, out.splitlines()[1].split()) == (0, ["1", "/a", "ok", "1", "1.0", "MiB", "-", "-", "-"])
    [told] = json.loads(say({1: (old,)}, "--json")[1])["directories"]
    assert (told["total_bytes"], told["free_bytes"], told["used_bytes"]) == (None, None, None)
    assert told["replica_bytes"] == MiB


def test_metrics_add_reserve_rate_and_uncleanable(
    say: Say, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(disk_metrics, "read_metrics", lambda url, context: disk_metrics.parse(PAGE))
    code, out, error = say({1: (state(),)}, "--metrics", "http://{host}:9644/metrics", "--top", 0)
    assert (code, error) == (1, "")
    assert out.splitlines()[1].split()[-7:] == ["256", "MiB", "1.5", "KiB", "2", "(7", "B)"]
    assert out.splitlines()[1].split()[2] == FULL
    print_disks([Disk(state(), DirectoryMetrics()), Disk(state(2))], 0)
    assert [line.split()[-3:] for line in capsys.readouterr().out.splitlines()[1:]] == [["-", "-", "-"]] * 2


def test_metrics_that_cannot_be_had_are_left_out_and_said(say: Say) -> None:
    code, out, error = say({1: (state(),)}, "--metrics", "1=http://127.0.0.1:1/metrics")
    assert (code, len(out.splitlines())) == (0, 2)
    assert error.startswith("broker 1: no metrics from http://127.0.0.1:1/metrics: ")


def test_samples_are_read_by_path() -> None:
    log = UncleanableLog("t", 4, 7, 'no "room": {5}\n')
    assert disk_metrics.parse(PAGE) == {
        "/a": DirectoryMetrics(256 * MiB, 1500, True, 2, 7, (log,), slow=True),
        '/with "quotes" and } in it': DirectoryMetrics(full=False, slow=False),
    }
    assert disk_metrics.parse("") == {}


def test_which_logs_cannot_be_cleaned_is_told_with_the_reason(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_metrics, "read_metrics", lambda url, context: disk_metrics.parse(PAGE))
    asked = ("--metrics", "http://{host}:9644/metrics", "--top", 0)
    _, out, _ = say({1: (state(),)}, *asked)
    assert out.splitlines()[2:] == [
        "",
        "BROKER  DIRECTORY  UNCLEANABLE  SIZE  WHY",
        '     1  /a         t-4           7 B  no "room": {5}\\n',
        "and 1 more on broker 1 in /a",
    ]
    [told] = json.loads(say({1: (state(),)}, *asked, "--json")[1])["directories"]
    log = {"topic": "t", "partition": 4, "size_bytes": 7, "reason": 'no "room": {5}\n'}
    assert told["uncleanable_logs"] == [log]
    assert json.loads(say({1: (state(),)}, "--json")[1])["directories"][0]["uncleanable_logs"] is None


def test_the_page_of_a_broker_is_read_as_it_writes_it() -> None:
    """The labels, their order and what is escaped, as they come from the samples of a node."""
    text = PrometheusText()
    path, reason = 'd"}\\ 1', 'a "bug": \\ {}\n'
    labels = {"directory": "0", "path": path}
    text.add(Sample("penstock_log_directory_full", GAUGE, "", 0, labels))
    named = {**labels, "topic": "t", "partition": "0", "reason": reason}
    text.add(Sample("penstock_log_cleaner_uncleanable_bytes", GAUGE, "", 5, named))
    text.add(Sample("penstock_lane_healthy", GAUGE, "", 0, {"directory": "0"}))
    log = UncleanableLog("t", 0, 5, reason)
    found = DirectoryMetrics(full=False, uncleanable_logs=(log,), slow=True)
    assert disk_metrics.parse(text.take().decode()) == {path: found}


def test_an_address_of_metrics_is_for_one_broker_or_says_how_they_differ() -> None:
    assert addresses(["http://{host}:96{id}0"], BROKERS) == {1: "http://n1:9610", 2: "http://n2:9620"}
    assert addresses(["2=http://m:1", "http://{host}:9"], BROKERS) == {2: "http://m:1", 1: "http://n1:9"}
    assert addresses([URL], BROKERS[:1]) == {1: URL}
    for option, said in ((URL, "of which broker"), ("n1:9644", "it must be http://"), (f"7={URL}", "no broker 7")):
        with pytest.raises(UsageError, match=said):
            addresses([option], BROKERS)


def test_a_page_that_is_not_one_is_said() -> None:
    with pytest.raises(UnreachableError, match="no metrics from http://a b/"):
        read_metrics("http://a b/")


def test_the_plan_is_written_and_told(say: Say, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    described: Described = {1: (state(1, "/a", GiB, 2 * GiB, MiB), state(1, "/b"))}
    code, out, _ = say(described, "--plan", file, "--moves", 1, seen=view((1,), (1,)))
    assert code == 0
    assert "t-0 (2.0 GiB) on broker 1: /a -> /b\n1 replica to move (2.0 GiB)\nwritten to " in out
    entry = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/b"]}
    assert json.loads(file.read_text()) == {"version": 1, "partitions": [entry]}
    assert say(described, "--plan", file, seen=view((1,), (1,)))[0] == 1, "a file that is there is not overwritten"
    assert json.loads(file.read_text())["partitions"] == [entry]


def test_a_plan_on_stdout_is_alone_there(say: Say) -> None:
    described: Described = {1: (state(1, "/a", GiB, 2 * GiB),), 2: (state(2, "/a"),)}
    code, out, error = say(described, "--plan", "-", seen=view((1,)))
    assert code == 0
    assert json.loads(out)["partitions"] == [{"topic": "t", "partition": 0, "replicas": [2]}]
    assert "t-0 (2.0 GiB): broker 1 /a -> broker 2 /a\n" in error


def test_no_plan_is_written_when_there_is_nothing_to_move(say: Say, tmp_path: Path) -> None:
    code, _, error = say({1: (state(),)}, "--plan", tmp_path / "plan.json")
    assert (code, list(tmp_path.iterdir())) == (0, [])
    assert "nothing to move" in error


def test_nothing_moves_to_or_from_what_must_stay() -> None:
    full = state(1, "/a", GiB, 2 * GiB, 2 * GiB, 2 * GiB)
    others = [state(2, "/cordoned", 60 * GiB, cordoned=True), state(2, "/full", 70 * GiB), state(2, "/b", 40 * GiB)]
    metrics = {2: {"/full": DirectoryMetrics(full=True), "/slow": DirectoryMetrics(slow=True)}}
    coming = LogDirectoryState(
        2, "/b", ErrorCode.NONE, 100 * GiB, 40 * GiB, False, (ReplicaInDirectory("t", 2, 0, True),)
    )
    found = disks_of({1: (full,), 2: (*others[:2], state(2, "/slow", 80 * GiB), coming, offline(2))}, metrics)
    moving = {("t", 1): Ongoing((1, 2), (1,), (2,))}
    plan = plan_moves(found, view((1,), (1,), (1,), moving=moving), 10)
    assert [(each.partition, each.target) for each in plan.moves] == [(("t", 0), (2, "/b"))]


def test_bytes_of_replicas_are_evened_out_where_the_free_space_is_not_told(say: Say) -> None:
    old = state(1, "/a", -1, 3 * MiB, 3 * MiB, total_bytes=-1)
    code, out, error = say({1: (old,), 2: (state(2, "/a"),)}, "--plan", "-", seen=view((1,), (1,)))
    assert code == 0
    assert [each["partition"] for each in json.loads(out)["partitions"]] == [0]
    assert "evens out the bytes of replicas instead" in error


def test_equal_directories_of_one_host_are_taken_for_one_disk() -> None:
    shared = [state(2, "/a", 50 * GiB), state(2, "/b", 50 * GiB + MiB)]
    described: Described = {1: (state(1, "/a", 0, 20 * GiB, 20 * GiB, total_bytes=90 * GiB),), 2: tuple(shared)}
    assert len(plan_moves(disks_of(described, {}), view((1,), (1,)), 10).moves) == 1
    described[2] = (shared[0], state(2, "/b", 51 * GiB))
    assert len(plan_moves(disks_of(described, {}), view((1,), (1,)), 10).moves) == 2


def test_unknown_figures_are_null_in_json() -> None:
    [told] = disks_json([Disk(offline())], {}, 3)["directories"]
    assert told["health"] == OFFLINE
    assert {told[name] for name in ("total_bytes", "free_bytes", "replicas", "reserve_bytes", "uncleanable")} == {None}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--top", "-1"), "--top -1: it must be from 0"),
        (("--moves", "0"), "--moves 0: it must be from 1"),
        (("--json", "--plan", "-"), "would both write to the standard output"),
    ],
)
def test_what_does_not_go_is_said(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["disks", *words]) == 2
    assert said in capsys.readouterr().err
