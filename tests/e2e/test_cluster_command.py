"""`penstock cluster` on three real nodes."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.processes import Cluster, wait_until

from penstock.cli.main import main
from penstock.client.admin import Resource, ResourceType, describe_configs
from penstock.client.client import Client, Partition
from penstock.client.cluster import Ongoing
from penstock.errors import ErrorCode
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

Ask = Callable[..., Any]


@pytest.fixture
def ask(three_nodes: Cluster, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Runs `penstock cluster` with --json; gives what it printed, decoded. It must end with `code`."""

    def run(*words: object, code: int = 0, bootstrap: str = three_nodes.bootstrap) -> Any:
        capsys.readouterr()
        got = main(["cluster", *map(str, words), "--json", "--bootstrap", bootstrap])
        said = capsys.readouterr()
        assert got == code, said
        return json.loads(said.out)

    return run


@pytest.fixture
def say(three_nodes: Cluster, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `penstock cluster` as a person does; gives exit code, output and errors."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["cluster", *map(str, words), "--bootstrap", three_nodes.bootstrap])
        return (code, *capsys.readouterr())

    return run


@contextmanager
def topic(cluster: Cluster, name: str, assignment: str, *configs: str) -> Iterator[str]:
    """A topic for the block."""
    words = [word for config in configs for word in ("--config", config)]
    bootstrap = ("--bootstrap", cluster.bootstrap)
    assert main(["topics", "create", name, "--replica-assignment", assignment, *words, *bootstrap]) == 0
    try:
        yield name
    finally:
        assert main(["topics", "delete", name, *bootstrap]) == 0


def of(described: dict[str, Any], name: str) -> list[list[int]]:
    """Replicas that a plan gives the partitions of a topic."""
    return [change["to"] for change in described["changes"] if change["topic"] == name]


def becomes(seen: Callable[[], Any], expected: object) -> None:
    """Looks until it is so: what the controller has done, the broker that is asked may hear later."""
    last: list[Any] = [None]

    def is_so() -> bool:
        last[0] = seen()
        return bool(last[0] == expected)

    try:
        wait_until(is_so, "the broker that is asked has heard of it")
    except AssertionError:
        assert last[0] == expected
        raise


def leaders(ask: Ask) -> list[int]:
    """How many partitions each broker leads."""
    return [broker["leaders"] for broker in ask("brokers")]


def test_the_cluster_is_described(three_nodes: Cluster, ask: Ask, say: Ask) -> None:
    with topic(three_nodes, "described", "1:2,2:1,2:3"):
        becomes(lambda: [(each["leaders"], each["replicas"]) for each in ask("brokers")], [(1, 2), (2, 3), (0, 1)])
        described = ask("describe")
        assert described["controller"] in described["voters"] == [1, 2, 3]
        assert described["counts"] == {"under_replicated": 0, "at_min_isr": 0, "under_min_isr": 0, "offline": 0}
        brokers = described["brokers"]
        assert [(each["id"], each["rack"], each["fenced"]) for each in brokers] == [
            (1, "a", False), (2, "b", False), (3, "c", False)
        ]  # fmt: skip
        assert [(each["leaders"], each["replicas"]) for each in brokers] == [(1, 2), (2, 3), (0, 1)]
        sizes = [each["size_bytes"] for each in ask("brokers", "--sizes")]
        assert all(size >= 0 for size in sizes)
        code, out, _ = say("describe")
        assert (code, out.splitlines()[0].split()[0]) == (0, "cluster")


def test_the_quorum_is_described(ask: Ask, say: Ask) -> None:
    quorum = ask("quorum")
    assert [voter["id"] for voter in quorum["voters"]] == [1, 2, 3]
    assert quorum["leader"] in (1, 2, 3)
    assert say("quorum")[1].count("voter") == 2


def test_a_reassignment_there_and_back(three_nodes: Cluster, ask: Ask, tmp_path: Path) -> None:
    saved = tmp_path / "before.json"
    with topic(three_nodes, "there", "1,1,1") as name:
        planned = ask("reassign", "--to", "2,3", "--topic", name, "--dry-run")
        assert planned["state"] == "planned"
        assert sorted(of(planned, name)) == [[2], [2], [3]]
        done = ask("reassign", "--to", "2,3", "--topic", name, "--save", saved)
        assert done["state"] == "done"
        assert of(done, name) == of(planned, name)
        becomes(lambda: ask("reassign", "--to", "2,3", "--topic", name, "--dry-run")["changes"], [])
        assert ask("reassign", "--to", "2,3", "--topic", name)["changes"] == []
        assert of(ask("reassign", "--plan", saved), name) == [[1], [1], [1]]
        grown = ask("reassign", "--replication-factor", 3, "--topic", name)
        assert all(sorted(replicas) == [1, 2, 3] for replicas in of(grown, name))
        becomes(lambda: ask("describe")["counts"]["under_replicated"], 0)


def test_a_replica_that_moves_to_another_broker_takes_the_directory_of_its_plan(
    three_nodes: Cluster, ask: Ask, say: Ask, tmp_path: Path
) -> None:
    plan, path = tmp_path / "plan.json", str(three_nodes.path(2) / "data")
    with topic(three_nodes, "into", "1:3") as name:
        entry = {"topic": name, "partition": 0, "replicas": [2, 3], "log_dirs": [path, "any"]}
        plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        done = ask("reassign", "--plan", plan)
        assert (done["state"], of(done, name)) == ("done", [[2, 3]])
        assert done["directory_changes"] == [{"topic": name, "partition": 0, "broker": 2, "from": None, "to": path}]
        becomes(lambda: ask("reassign", "--plan", plan, "--dry-run")["changes"], [])
        assert say("reassign", "--plan", plan)[:2] == (0, "nothing to change\n")
        plan.write_text(json.dumps({"version": 1, "partitions": [{**entry, "log_dirs": ["/nowhere", "any"]}]}))
        code, _, error = say("reassign", "--plan", plan)
        assert (code, f"broker 2 has no log directory /nowhere: it has {path}" in error) == (2, True)


def test_a_person_sees_a_diff_and_a_bar(three_nodes: Cluster, say: Ask) -> None:
    with topic(three_nodes, "seen", "1:2") as name:
        code, out, error = say("reassign", "--to", "2,3", "--topic", name)
        assert code == 0
        assert out.splitlines()[1] == "partitions to change: 1, replicas to copy: 1 (0 B)"
        assert "seen-0  1,2 -> 2,3  +3 -1 preferred leader 2" in out
        assert error.endswith("1 of 1 partitions\n")


def test_a_reassignment_keeps_to_its_throttle_and_takes_it_away(three_nodes: Cluster, say: Ask) -> None:
    with topic(three_nodes, "slow", "1:2") as name:
        assert main(["produce", name, "--bootstrap", three_nodes.bootstrap, "--value", "x" * 900_000]) == 0
        code, out, _ = say("reassign", "--to", "2,3", "--topic", name, "--throttle", "100M")
        assert code == 0
        assert "throttle: 100 MiB/s" in out
        wait_until(lambda: throttles(three_nodes, name) == [], "the broker asked has heard that there is no throttle")
        assert say("reassign", "--to", "1,2", "--topic", name, "--throttle", "1K", "--no-wait")[0] == 0
        wait_until(lambda: throttles(three_nodes, name) != [], "the broker asked has heard of the throttle")
        assert say("reassign", "--cancel", "--topic", name)[0] == 0
        wait_until(lambda: throttles(three_nodes, name) == [], "the broker asked has heard that there is no throttle")


@pytest.mark.parametrize("listed", [False, True], ids=["over", "ends-while-it-is-cancelled"])
def test_cancelling_what_has_just_ended_is_no_error_and_takes_its_throttle_away(
    three_nodes: Cluster, say: Ask, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    with topic(three_nodes, "over", "1:2") as name:
        assert say("reassign", "--to", "2,3", "--topic", name, "--throttle", "100M", "--no-wait")[0] == 0
        wait_until(lambda: "nothing is being moved" in say("reassign", "--watch", "--no-wait")[1], "the move has ended")
        wait_until(lambda: throttles(three_nodes, name) != [], "the broker asked has heard of the throttle")
        if listed:
            monkeypatch.setattr("penstock.client.cluster.list_reassignments", listed_once(name))
        code, out, error = say("reassign", "--cancel", "--topic", name)
        assert (code, error) == (0, "")
        assert out.splitlines()[0] == (f"{name}-0: its move has ended already" if listed else "nothing is being moved")
        wait_until(lambda: throttles(three_nodes, name) == [], "the broker asked has heard that there is no throttle")


def listed_once(topic: str) -> Callable[[Client], Awaitable[dict[Partition, Ongoing]]]:
    """Lists a topic's partition as being moved, but only the first time it is called."""
    moving = {(topic, 0): Ongoing((1, 2, 3), (3,), (1,))}

    async def listing(_: Client) -> dict[Partition, Ongoing]:
        listed = dict(moving)
        moving.clear()
        return listed

    return listing


def throttles(cluster: Cluster, topic: str) -> list[str]:
    """Throttled replicas of a topic."""

    async def ask() -> list[str]:
        async with Client(cluster.bootstrap) as client:
            configs = await describe_configs(client, Resource(ResourceType.TOPIC, topic))
            return [each.value for each in configs if "throttled.replicas" in each.name and each.value]

    return asyncio.run(ask())


def test_what_is_being_moved_is_shown_and_cancelled(three_nodes: Cluster, ask: Ask, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "stuck", "partition": 0, "replicas": [1, 3]}]}))
    with topic(three_nodes, "stuck", "1:2"):
        three_nodes.kill(3)
        try:
            wait_until(lambda: ask("describe")["controller"] is not None, "there is a controller, though it was node 3")
            assert ask("reassign", "--plan", plan, "--no-wait")["state"] == "begun"
            moving = ask("reassign", "--watch", "--no-wait")["moving"]
            assert moving == [{"topic": "stuck", "partition": 0, "replicas": [1, 3, 2], "to": [1, 3]}]
            assert ask("reassign", "--cancel")["cancelled"] == [{"topic": "stuck", "partition": 0}]
            assert ask("reassign", "--watch")["moving"] == []
        finally:
            three_nodes.start(3)
            three_nodes.wait_ready(3)


def test_a_broker_is_drained_and_comes_back(three_nodes: Cluster, ask: Ask) -> None:
    with topic(three_nodes, "drained", "2:1:3,2:3:1,1:2:3,3:2:1"):
        becomes(lambda: leaders(ask), [1, 2, 1])
        gone = ask("drain", 2)
        assert (gone["leaders"], gone["replicas"], gone["left"]) == (0, 4, 0)
        becomes(lambda: leaders(ask), [2, 0, 2])
        assert ask("undrain", 2)["leaders"] == 1
        assert "no other broker is up" in refusal(three_nodes, "drain", "2", "--replicas")


def test_a_broker_is_emptied_and_filled_again(three_nodes: Cluster, ask: Ask) -> None:
    with topic(three_nodes, "emptied", "2:1,2:3,1:3,3:1"):
        becomes(lambda: leaders(ask), [1, 2, 1])
        gone = ask("drain", 2, "--replicas")
        assert (gone["leaders"], gone["replicas"], gone["left"]) == (0, 0, 0)
        becomes(lambda: leaders(ask)[1], 0)
        back = ask("undrain", 2, "--replicas")
        assert (back["leaders"], back["replicas"]) == (1, 2)


def test_levels_are_shown_and_set(ask: Ask) -> None:
    def level() -> int:
        levels = {each["name"]: int(each["level"]) for each in ask("features")["features"]}
        return levels["eligible.leader.replicas.version"]

    before = level()
    change = [{"name": "eligible.leader.replicas.version", "from": before, "to": 1 - before}]
    planned = ask("features", f"eligible.leader.replicas.version={1 - before}", "--dry-run")
    assert (planned["state"], planned["changes"], level()) == ("possible", change, before)
    assert ask("features", f"eligible.leader.replicas.version={1 - before}")["changes"] == change
    assert level() == 1 - before
    assert ask("features", f"eligible.leader.replicas.version={before}")["state"] == "done"
    assert ask("features", f"eligible.leader.replicas.version={before}")["changes"] == []


def test_leaderships_that_nobody_can_take_are_said(three_nodes: Cluster, ask: Ask) -> None:
    with topic(three_nodes, "alone", "2"):
        becomes(lambda: leaders(ask), [0, 1, 0])
        assert ask("drain", 2, code=1)["left"] == 1


def test_a_node_that_hangs_does_not_hold_up_those_after_it(
    three_nodes: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("penstock.client.client.HURRY_MS", 50)
    defaults = {**(Client.__init__.__kwdefaults__ or {}), "timeout_ms": 3_600_000}
    monkeypatch.setattr(Client.__init__, "__kwdefaults__", defaults)  # who waits for the hanging one waits for ever
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        bootstrap = f"127.0.0.1:{hanging.getsockname()[1]},{three_nodes.bootstrap}"
        assert main(["cluster", "quorum", "--bootstrap", bootstrap]) == 0
    capsys.readouterr()


def refusal(cluster: Cluster, *words: str) -> str:
    """The error that a command ends with, in one line."""
    import contextlib
    import io

    error = io.StringIO()
    with contextlib.redirect_stderr(error):
        assert main(["cluster", *words, "--bootstrap", cluster.bootstrap]) in (1, 2)
    assert error.getvalue().startswith("error: ")
    assert error.getvalue().count("\n") == 1
    return error.getvalue()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("drain 7", "there is no broker 7: the cluster has 1,2,3"),
        ("undrain 7", "there is no broker 7"),
        ("unregister 7", "there is no broker 7"),
        ("features nothing=1", "there is no feature nothing"),
        ("features metadata.version=25", "Refusing to perform the requested downgrade"),
        ("unregister 2", "broker 2 is up: drain and stop it first"),
        ("reassign --to 1,7", "there is no broker 7"),
        ("reassign --to 1 --topic nowhere", "there is no such topic"),
        ("reassign --plan /nowhere.json", "/nowhere.json: No such file or directory"),
        ("elect preferred nowhere", "there is no such topic"),
        ("rolling-restart --command restart", "--command must name the node: {id} or {host}"),
        ("rolling-restart --nodes 7 --command {id}", "there is no node 7"),
    ],
)
def test_a_refusal_is_one_line(three_nodes: Cluster, words: str, said: str) -> None:
    assert said in refusal(three_nodes, *words.split())


def test_elections(three_nodes: Cluster, ask: Ask, say: Ask) -> None:
    with topic(three_nodes, "led", "1:2"), topic(three_nodes, "lost", "1"):
        three_nodes.kill(1)
        try:
            wait_until(lambda: ask("describe")["counts"]["offline"] == 1, "the dead broker is noticed")
            assert ask("elect", "unclean", "led", "--yes") == {"elected": [], "errors": []}
            _, _, error = say("elect", "unclean", "lost")
            assert "--yes says that this is meant (lost-0)" in error
            refused = ask("elect", "unclean", "lost", "--yes", code=1)["errors"]
            assert [each["error"] for each in refused] == ["ELIGIBLE_LEADERS_NOT_AVAILABLE"]
        finally:
            three_nodes.start(1)
            three_nodes.wait_ready(1)
        wait_until(lambda: ask("describe")["counts"]["under_replicated"] == 0, "all is in sync")
        elected = ask("elect", "preferred", "led:0")["elected"]
        assert [(each["topic"], each["was"]) for each in elected] == [("led", 2)]
        becomes(lambda: say("elect", "preferred")[1], "no partition needs an election\n")


@pytest.mark.long
def test_a_cluster_without_its_quorum_is_still_described(three_nodes: Cluster, ask: Ask) -> None:
    """By what the broker that is left remembers, and by who answers."""
    with topic(three_nodes, "remembered", "1:2:3"):
        one = f"127.0.0.1:{three_nodes.ports[1]}"
        becomes(lambda: ask("describe", bootstrap=one)["partitions"], 1)  # the broker that will be left
        for node_id in (2, 3):
            three_nodes.kill(node_id)
        try:
            wait_until(lambda: ask("describe")["controller"] is None, "a controller that is left alone gives up")
            described = ask("describe")
            assert described["reassignments"] is None
            assert [broker["silent"] for broker in described["brokers"]] == [False, True, True]
            assert described["partitions"] == 1
            for words in (("quorum",), ("drain", "1"), ("reassign", "--to", "1,2"), ("elect", "preferred")):
                assert "the cluster has no active controller" in refusal(three_nodes, *words)
        finally:
            for node_id in (2, 3):
                three_nodes.start(node_id)
            three_nodes.wait_ready(2, 3)
        wait_until(lambda: ask("describe")["counts"]["under_replicated"] == 0, "all is in sync")


def test_configs_are_changed_of_each_broker_by_itself(three_nodes: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    for node_id in map(str, three_nodes.roles):
        one = ("--entity", "brokers", "--name", node_id, "--bootstrap", three_nodes.bootstrap)
        assert main(["configs", "alter", *one, "--add", "log.cleaner.threads=2"]) == 0
        assert main(["configs", "alter", *one, "--delete", "log.cleaner.threads"]) == 0
    refused = ErrorCode.INVALID_REQUEST
    assert asyncio.run(answers_about_broker_2(three_nodes.bootstrap)) == {1: refused, 2: ErrorCode.NONE, 3: refused}


async def answers_about_broker_2(bootstrap: str) -> dict[int, int]:
    """What each broker says when it is to change the configs of broker 2, which may be the controller or not."""
    wanted = AlterConfigsResource(resource_type=4, resource_name="2", configs=[])
    codes = {}
    async with Client(bootstrap) as client:
        await client.refresh([])
        for node_id in client.brokers:
            answer = await client.send(IncrementalAlterConfigsRequest(resources=[wanted]), node_id=node_id)
            codes[node_id] = answer.responses[0].error_code
    return codes


@contextmanager
def restarter(cluster: Cluster, directory: Path) -> Iterator[str]:
    """A command that has this process restart a node: it leaves a file, and waits until the file is gone."""
    done = threading.Event()

    def serve() -> None:
        while not done.is_set():
            for node_id in cluster.roles:
                wish = directory / f"restart-{node_id}"
                if wish.exists():
                    cluster.stop(node_id)
                    cluster.start(node_id)
                    wish.unlink()
            done.wait(0.02)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        wish = directory / "restart-{id}"
        yield f"touch {wish}; while [ -e {wish} ]; do sleep 0.02; done"
    finally:
        done.set()
        thread.join()


@pytest.mark.slow
def test_all_nodes_are_restarted_one_by_one(three_nodes: Cluster, ask: Ask, tmp_path: Path) -> None:
    with topic(three_nodes, "kept", "1:2:3,2:3:1,3:1:2"), restarter(three_nodes, tmp_path) as command:
        last = ask("quorum")["leader"]
        before = {node_id: process.pid for node_id, process in three_nodes.processes.items()}
        done = ask("rolling-restart", "--command", command, "--timeout", 60)
        assert [step["node"] for step in done["nodes"]] == [*sorted({1, 2, 3} - {last}), last]
        assert all(three_nodes.processes[node_id].pid != before[node_id] for node_id in before)
        all_well = {"under_replicated": 0, "at_min_isr": 0, "under_min_isr": 0, "offline": 0}
        becomes(lambda: ask("describe")["counts"], all_well)
        becomes(lambda: leaders(ask), [1, 1, 1])


def test_a_restart_that_is_none_stops_it(three_nodes: Cluster, tmp_path: Path) -> None:
    assert "node 1: the command ended with 3" in refusal(
        three_nodes, "rolling-restart", "--nodes", "1,2", "--command", "exit 3 {id}"
    )
    assert "node 1 has not restarted" in refusal(
        three_nodes, "rolling-restart", "--nodes", "1,2", "--command", "true {id}", "--timeout", "1"
    )


def test_a_restart_that_takes_a_topic_away_is_not_done_unasked(three_nodes: Cluster, ask: Ask) -> None:
    with topic(three_nodes, "single", "1"):
        words = ("rolling-restart", "--command", "false {id}")
        assert "topics with a single replica are away with its node: single" in refusal(three_nodes, *words)
        assert ask(*words, "--dry-run")["objections"] == ["topics with a single replica are away with its node: single"]
